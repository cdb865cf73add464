"""Trigonometric and hyperbolic functions and their inverses. Integers become float32 first."""

from __future__ import annotations

from math import pi

from staticflow.graph.op import Op
from staticflow.ops.declaring.declare import elementwise, real_function
from staticflow.ops.elementwise.maths import rsqrt

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "deg2rad", "rad2deg",
    "sin", "sinh", "tan", "tanh",
]  # fmt: skip

sin = real_function(
    "sin", "The sine of ``x`` in radians.",
    "sin", lambda ct, out, x: ct * cos(x),
)  # fmt: skip
cos: Op = real_function(
    "cos", "The cosine of ``x`` in radians.",
    "cos", lambda ct, out, x: -ct * sin(x),
)  # fmt: skip
tan = real_function(
    "tan", "The tangent of ``x`` in radians.",
    "tan", lambda ct, out, x: ct * (out * out + 1),
)  # fmt: skip
tanh = real_function(
    "tanh", "The hyperbolic tangent.",
    "tanh", lambda ct, out, x: ct * (1 - out * out),
)  # fmt: skip
asin = real_function(
    "asin", "The arc sine; NaN outside [-1, 1].",
    "arcsin", lambda ct, out, x: ct * rsqrt(1 - x * x),
)  # fmt: skip
acos = real_function(
    "acos", "The arc cosine; NaN outside [-1, 1].",
    "arccos", lambda ct, out, x: -ct * rsqrt(1 - x * x),
)  # fmt: skip
atan = real_function(
    "atan", "The arc tangent.",
    "arctan", lambda ct, out, x: ct / (x * x + 1),
)  # fmt: skip
sinh = real_function(
    "sinh", "The hyperbolic sine.",
    "sinh", lambda ct, out, x: ct * cosh(x),
)  # fmt: skip
cosh: Op = real_function(
    "cosh", "The hyperbolic cosine.",
    "cosh", lambda ct, out, x: ct * sinh(x),
)  # fmt: skip
asinh = real_function(
    "asinh", "The inverse hyperbolic sine.",
    "arcsinh", lambda ct, out, x: ct * rsqrt(x * x + 1),
)  # fmt: skip
acosh = real_function(
    "acosh", "The inverse hyperbolic cosine; NaN below 1.",
    "arccosh", lambda ct, out, x: ct * (rsqrt(x - 1) * rsqrt(x + 1)),
)  # fmt: skip
atanh = real_function(
    "atanh", "The inverse hyperbolic tangent; NaN outside [-1, 1].",
    "arctanh", lambda ct, out, x: ct / (1 - x * x),
)  # fmt: skip

atan2 = elementwise(
    "atan2", "The angle of the point (``x``, ``y``) in radians, from -pi to pi.",
    "arctan2",
    lambda k, y, x: k.atan2(y, x),
    # 0 at the origin, where there is no angle, as in PyTorch
    (lambda ct, out, y, x: ct * (x / (x * x + y * y + (x * x + y * y == 0))),
     lambda ct, out, y, x: -ct * (y / (x * x + y * y + (x * x + y * y == 0)))),
    kinds="f", promote="float",
)  # fmt: skip


def _scale_op(name: str, doc: str, factor: float) -> Op:
    return elementwise(
        name, doc,
        lambda xp, x: x * x.dtype.type(factor),
        lambda k, x: k.mul(x, factor),
        (lambda ct, out, x: ct * factor,),
        kinds="f", promote="float", grad_name=f"{name.title()}Backward0",
    )  # fmt: skip


deg2rad = _scale_op("deg2rad", "Degrees as radians.", pi / 180)
rad2deg = _scale_op("rad2deg", "Radians as degrees.", 180 / pi)
