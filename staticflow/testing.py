"""Comparisons for tests, with PyTorch's tolerances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.tensor import Tensor
from staticflow.errors import DTypeError, NestingError
from staticflow.graph.dtypes import (
    BY_NUMPY,
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    promote,
)
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.switch import as_bool
from staticflow.pytree import DEEPEST

__all__ = ["assert_close"]

_TOLERANCES: dict[DType, tuple[float, float]] = {
    float16: (1e-3, 1e-5), bfloat16: (1.6e-2, 1e-5), float32: (1.3e-6, 1e-5),
    float64: (1e-7, 1e-7),
}  # fmt: skip
"""The relative and the absolute difference that are allowed; other dtypes must be equal."""


@dataclass(frozen=True)
class _Checks:
    """What two leaves must have in common, and how far their elements may be apart."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    dtype: bool
    device: bool
    stride: bool


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise `AssertionError` unless ``actual`` is close to ``expected``: tensors, arrays, numbers,
    or lists, tuples and mappings of them.

    Elements may differ by ``atol + rtol * |expected|``; the default follows from the dtype, and is
    0 where it is no float. Shapes must be equal; dtypes unless ``check_dtype`` is False; of two
    tensors the devices unless ``check_device`` is False, and the strides if ``check_stride``. With
    ``allow_subclasses=False`` both must be of one class. ``check_layout`` finds all tensors alike,
    as all are dense. ``msg`` is said instead of what differs, or makes of that what is said.

    >>> import staticflow as sf
    >>> assert_close(sf.tensor([1.0]), sf.tensor([1.0 + 1e-7]))
    """
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not (tolerance is None or isinstance(tolerance, int | float | np.number)):
            raise DTypeError(
                f"assert_close: {name!r} must be a number, not {type(tolerance).__name__}, "
                f"at {format_locs(here())}"
            )
    switches = {
        "equal_nan": equal_nan, "check_dtype": check_dtype, "check_device": check_device,
        "check_stride": check_stride, "allow_subclasses": allow_subclasses,
        "check_layout": check_layout,
    }  # fmt: skip
    *options, allows, _ = [as_bool(f"assert_close: {name!r}", v) for name, v in switches.items()]
    checks = _Checks(rtol, atol, *options)
    if not allows and type(actual) is not type(expected):
        kinds = f"{type(actual).__name__} and {type(expected).__name__}"
        raise AssertionError(_message_of(msg, f"The classes are {kinds}."))
    try:
        wrong = _difference(actual, expected, checks)
    except (TypeError, ValueError, KeyError) as error:
        given = f"{type(actual).__name__} and {type(expected).__name__}"
        raise DTypeError(
            f"assert_close: {given} cannot be compared: {error}, at {format_locs(here())}"
        ) from error
    if wrong:
        raise AssertionError(_message_of(msg, wrong))


def _message_of(msg: str | Callable[[str], str] | None, wrong: str) -> str:
    return msg(wrong) if callable(msg) else msg or wrong


def _difference(actual: Any, expected: Any, checks: _Checks, where: str = "") -> str:
    """What differs, in words; nothing if they are close."""
    if where.count(" at [") > DEEPEST:
        raise NestingError(
            f"assert_close: more than {DEEPEST} containers are in each other; compare their leaves "
            f"in one list, at {format_locs(here())}"
        )
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return f"The keys{where} are {sorted(actual)} and {sorted(expected)}."
        pairs = [(repr(k), v, expected[k]) for k, v in actual.items()]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The lengths{where} are {len(actual)} and {len(expected)}."
        both = zip(actual, expected, strict=True)
        pairs = [(str(i), a, e) for i, (a, e) in enumerate(both)]
    else:
        return _of_leaves(actual, expected, checks, where)
    found = (_difference(a, e, checks, f"{where} at [{k}]") for k, a, e in pairs)
    return next(filter(None, found), "")


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _array(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x.detach().cpu().numpy() if isinstance(x, Tensor) else x)


def _of_leaves(actual: Any, expected: Any, checks: _Checks, where: str) -> str:
    if isinstance(actual, Tensor) and isinstance(expected, Tensor):
        if checks.device and actual.device != expected.device:
            return f"The devices{where} are {actual.device} and {expected.device}."
        if checks.stride and actual.shape == expected.shape:
            strides = list(actual.stride()), list(expected.stride())
            if strides[0] != strides[1]:
                return f"The strides{where} are {strides[0]} and {strides[1]}."
    a, e = _array(actual), _array(expected)
    if a.shape != e.shape:
        return f"The shapes{where} are {list(a.shape)} and {list(e.shape)}."
    dtypes = BY_NUMPY[a.dtype], BY_NUMPY[e.dtype]
    if checks.dtype and dtypes[0] is not dtypes[1]:
        return f"The dtypes{where} are {dtypes[0].name} and {dtypes[1].name}."
    relative, absolute = _TOLERANCES.get(promote(dtypes), (0.0, 0.0))
    relative = relative if checks.rtol is None else checks.rtol
    absolute = absolute if checks.atol is None else checks.atol
    wide_a, wide_e = a.astype(np.float64), e.astype(np.float64)
    if relative == absolute == 0.0 and a.dtype == e.dtype:  # integers of 64 bits are more exact
        close = (a == e) | (checks.equal_nan & np.isnan(wide_a) & np.isnan(wide_e))
    else:
        close = np.isclose(wide_a, wide_e, relative, absolute, equal_nan=checks.equal_nan)
    if close.all():
        return ""
    with np.errstate(all="ignore"):
        gap = np.where(close, 0.0, np.abs(wide_a - wide_e))
        part = np.where(close, 0.0, gap / np.abs(wide_e))
    lines = [f"Mismatched elements{where}: {(~close).sum()} of {close.size}"]
    for name, found, allowed in (("absolute", gap, absolute), ("relative", part, relative)):
        at = np.unravel_index(np.argmax(found), found.shape)
        place = f" at index {tuple(map(int, at))}" if found.ndim else ""
        lines.append(
            f"Greatest {name} difference: {found[at]:.6g}{place} (up to {allowed} allowed)"
        )
    return "\n".join(lines)
