"""What an imported module takes, and whether a call gives it that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.view import of_size
from staticflow.ops.declaring.foreign import how_to_wrap, kind_of
from staticflow.ops.declaring.required import require_at_least, require_equal

__all__ = ["Input", "OpenSize", "check_input", "open_size"]


class OpenSize(NamedTuple):
    """A size that is open, ``times * size + plus`` of the ``size`` that PyTorch calls ``name``."""

    text: str
    name: str
    times: int
    plus: int

    def __str__(self) -> str:
        return self.text


class Input(NamedTuple):
    """What an input of an exported program must be: a tensor of ``dtype`` and ``shape``, or the
    ``value`` itself."""

    name: str
    dtype: Any
    shape: tuple[int | OpenSize, ...] | None
    value: Any


def open_size(size: Any) -> OpenSize:
    """A size of PyTorch's that is open: a multiple of another and a number, or by a name of its
    own."""
    expression = size.node.expr
    names = list(expression.free_symbols)
    if len(names) == 1:
        plus = expression.subs(names[0], 0)
        times = expression.subs(names[0], 1) - plus
        if times > 0 and expression == times * names[0] + plus:
            return OpenSize(str(size), str(names[0]), int(times), int(plus))
    return OpenSize(str(size), str(size), 1, 0)


def check_input(
    kind: str, value: Any, wanted: Input, sizes: dict[str, Any],
    bounds: Mapping[str, tuple[int, float]],
) -> Any:  # fmt: skip
    """``value`` if it is what the program was exported for; ``sizes`` are the open ones so far."""
    at = f"at {format_locs(here())}"
    if wanted.shape is None:
        if value is wanted.value or value == wanted.value:
            return value
        raise ArgumentError(
            f"{kind}: {wanted.name} is {value!r}, and the module was exported with "
            f"{wanted.value!r}; import it anew for another, {at}"
        )
    if not hasattr(value, "__sf_mode__"):
        raise DTypeError(
            f"{kind}: {wanted.name!r} must be a tensor, not {kind_of(value)}; "
            f"{how_to_wrap(value)}, {at}"
        )
    if value.dtype is not wanted.dtype:
        raise DTypeError(
            f"{kind}: {wanted.name} is {value.dtype.name}, and the module was exported for "
            f"{wanted.dtype.name}, {at}"
        )
    return _of_shape(kind, value, wanted, sizes, bounds)


def _of_shape(
    kind: str, value: Any, wanted: Input, sizes: dict[str, Any],
    bounds: Mapping[str, tuple[int, float]],
) -> Any:  # fmt: skip
    """``value``, of the shape that ``wanted`` says; where only a call can tell whether an open size
    is such, the program does."""
    said = wanted.shape or ()
    text = ", ".join(map(str, said))
    limits = "".join(f", {n} from {low} to {high}" for n, (low, high) in bounds.items())
    exported = f"exported for [{text}]{limits}; open sizes are named by dynamic_shapes="
    shape = tuple(value.shape)
    is_other = len(shape) != len(said)
    for dim, (size, own) in enumerate(zip(shape, said, strict=False)):
        wanted_size: Any = own
        low, high = 0, math.inf
        if isinstance(own, OpenSize):
            known = sizes.setdefault(own.name, (size - own.plus) // own.times)
            wanted_size = known * own.times + own.plus
            low, high = bounds.get(own.name, (low, high))
            low = low * own.times + own.plus
            high = high * own.times + own.plus
        if isinstance(size, int) and isinstance(wanted_size, int):
            is_other |= size != wanted_size or not low <= size <= high
            continue
        what = f"{kind}: dim {dim} of {wanted.name}, {exported}"
        value = of_size(require_equal(value, size, wanted_size, what), dim, wanted_size)
        value = require_at_least(value, size, low, what)
        value = value if high == math.inf else require_at_least(value, int(high), size, what)
    if is_other:
        raise ShapeError(
            f"{kind}: {wanted.name} is of shape [{', '.join(map(str, shape))}], and the module was "
            f"{exported}, at {format_locs(here())}"
        )
    return value
