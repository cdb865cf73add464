"""Powers by numbers that are computed otherwise than by logarithms: by multiplications, quotients
and roots, as one kernel each."""

from __future__ import annotations

from math import inf
from typing import Any

from staticflow.graph.op import Op
from staticflow.ops.declaring.declare import elementwise
from staticflow.ops.elementwise.maths import pow, reciprocal

__all__ = ["power_by"]


def _product(n: int) -> Op:
    """``x ** n`` by multiplications."""
    return elementwise(
        f"power{n}", f"``x ** {n}``.", lambda xp, x: pow.reference(xp, x, n),
        lambda k, x: k.pow_int(x, n),
    )  # fmt: skip


_ROOT = elementwise(  # the square root but at -inf and -0.0
    "root", "``x ** 0.5``.", lambda xp, x: pow.reference(xp, x, 0.5),
    lambda k, x: k.select(k.compare("eq", x, -inf), inf, k.apply("abs", k.apply("sqrt", x))),
)  # fmt: skip
_INVERSE_ROOT = elementwise(  # the inverse square root but at -inf and -0.0
    "inverse_root", "``x ** -0.5``.", lambda xp, x: pow.reference(xp, x, -0.5),
    lambda k, x: k.select(k.compare("eq", x, -inf), 0.0, k.abs(k.rsqrt(x))),
)  # fmt: skip
_POWERS: dict[float, Op] = {
    -2: _product(-2), -1: reciprocal, -0.5: _INVERSE_ROOT, 0.5: _ROOT, 2: _product(2),
    3: _product(3), 4: _product(4),
}  # fmt: skip


def power_by(y: Any, dtype: Any) -> Op | None:
    """The op of one tensor of a floating ``dtype``, of NumPy, that gives its power by the number
    ``y``; None if only `pow` does, or if ``y`` is no number."""
    if not isinstance(y, int | float) or dtype.kind in "biu":
        return None
    return _POWERS.get(y)
