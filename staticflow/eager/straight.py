"""Second derivatives of straight pieces: zeros that are on the tape.

The cotangent of `relu` and its kin knows of the argument only on which piece it lies, so nothing
leads from it back to the argument. PyTorch records it as a function of both all the same, so that
what is differentiated twice (a penalty on gradients) gives zeros to the parameters before.
"""

from __future__ import annotations

from typing import Any

from staticflow.graph.op import Op
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.declaring.declare import per_arg

__all__ = ["straight_op"]


def _never_run(*_: Any, **__: Any) -> Any:
    raise AssertionError("what the tape alone has is not computed")


straight_op = Op(
    name="straight",
    doc="``ct``, with a derivative of 0 by ``x``, which has its shape.",
    infer=lambda facts, ct, x: ct,
    reference=_never_run,
    vjp=per_arg(lambda ct, out, given, x: ct, lambda ct, out, given, x: zeros_like(ct)),
    grad_name="StraightBackward0",
)
