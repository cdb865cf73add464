"""Further names of functions, those that PyTorch also has."""

from __future__ import annotations

from staticflow.ops.basics import arithmetic
from staticflow.ops.elementwise import maths, trig, variants

__all__ = [
    "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "clip",
    "divide", "fix", "greater", "greater_equal", "less", "less_equal", "multiply", "negative",
    "not_equal", "sgn", "subtract", "true_divide",
]  # fmt: skip

arccos, arccosh, arcsin, arcsinh = trig.acos, trig.acosh, trig.asin, trig.asinh
arctan, arctan2, arctanh = trig.atan, trig.atan2, trig.atanh
subtract, multiply, divide, true_divide = variants.sub, arithmetic.mul, variants.div, variants.div
absolute, negative, sgn, fix = maths.abs, arithmetic.neg, maths.sign, maths.trunc
less, less_equal, not_equal = arithmetic.lt, arithmetic.le, arithmetic.ne
greater, greater_equal, clip = arithmetic.gt, arithmetic.ge, arithmetic.clamp
