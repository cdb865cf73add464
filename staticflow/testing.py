"""Comparisons for tests, with PyTorch's tolerances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
from staticflow.pytree import DEEPEST

__all__ = ["assert_close"]

_TOLERANCES: dict[DType, tuple[float, float]] = {
    float16: (1e-3, 1e-5), bfloat16: (1.6e-2, 1e-5), float32: (1.3e-6, 1e-5),
    float64: (1e-7, 1e-7),
}  # fmt: skip
"""The relative and the absolute difference that are allowed; other dtypes must be equal."""


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_dtype: bool = True,
    msg: str | None = None,
) -> None:
    """Raise `AssertionError` unless ``actual`` is close to ``expected``: tensors, arrays, numbers,
    or lists, tuples and mappings of them.

    Elements may differ by ``atol + rtol * |expected|``; the default follows from the dtype. Shapes
    must be equal, and dtypes unless ``check_dtype`` is False. ``msg`` is said instead.

    >>> import staticflow as sf
    >>> assert_close(sf.tensor([1.0]), sf.tensor([1.0 + 1e-7]))
    """
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not (tolerance is None or isinstance(tolerance, int | float | np.number)):
            raise DTypeError(
                f"assert_close: {name!r} must be a number, not {type(tolerance).__name__}, "
                f"at {format_locs(here())}"
            )
    try:
        wrong = _difference(actual, expected, rtol, atol, bool(equal_nan), bool(check_dtype))
    except (TypeError, ValueError, KeyError) as error:
        given = f"{type(actual).__name__} and {type(expected).__name__}"
        raise DTypeError(
            f"assert_close: {given} cannot be compared: {error}, at {format_locs(here())}"
        ) from error
    if wrong:
        raise AssertionError(msg or wrong)


def _difference(
    actual: Any,
    expected: Any,
    rtol: float | None,
    atol: float | None,
    nan: bool,
    check_dtype: bool,
    where: str = "",
) -> str:
    """What differs, in words; nothing if they are close."""
    options = rtol, atol, nan, check_dtype
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
        return _of_tensors(_array(actual), _array(expected), *options, where)
    found = (_difference(a, e, *options, f"{where} at [{k}]") for k, a, e in pairs)
    return next(filter(None, found), "")


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _array(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x.detach().cpu().numpy() if isinstance(x, Tensor) else x)


def _of_tensors(
    a: Any, e: Any, rtol: float | None, atol: float | None, nan: bool, check_dtype: bool, where: str
) -> str:
    if a.shape != e.shape:
        return f"The shapes{where} are {list(a.shape)} and {list(e.shape)}."
    dtypes = BY_NUMPY[a.dtype], BY_NUMPY[e.dtype]
    if check_dtype and dtypes[0] is not dtypes[1]:
        return f"The dtypes{where} are {dtypes[0].name} and {dtypes[1].name}."
    relative, absolute = _TOLERANCES.get(promote(dtypes), (0.0, 0.0))
    relative = relative if rtol is None else rtol
    absolute = absolute if atol is None else atol
    wide_a, wide_e = a.astype(np.float64), e.astype(np.float64)
    close = np.isclose(wide_a, wide_e, relative, absolute, equal_nan=nan)
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
