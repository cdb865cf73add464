from __future__ import annotations
from staticflow.codegen import math_exp, math_log, math_trig, math_arc, math_erf
from staticflow.codegen.builder import Builder

__all__ = ["Scalars"]


class Scalars(Builder):
    """dev"""


for mod in (math_exp, math_log, math_trig, math_arc, math_erf):
    for n in mod.__all__:
        callable(getattr(mod, n)) and setattr(Scalars, n, getattr(mod, n))
