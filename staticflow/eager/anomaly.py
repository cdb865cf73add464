"""Anomaly detection: backward says which operation gave the first NaN, and where it was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import AutogradError
from staticflow.graph.locs import format_locs
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import thread

__all__ = ["check_nan", "detect_anomaly", "is_anomaly_enabled", "set_detect_anomaly"]


def check_nan(vertex: Any, cts: Sequence[Any]) -> None:
    """Raise `AutogradError` if one of the cotangents that ``vertex`` gave has a NaN."""
    for i, ct in enumerate(cts):
        if hasattr(ct, "_data") and bool((ct._data != ct._data).any()):  # not by result's number
            raise AutogradError(
                f"Function '{vertex.name()}' returned nan values in its {i}th output: the gradient "
                f"of its argument {i}, {ct.dtype.name}{list(ct.shape)}, has a NaN; the operation "
                f"was recorded at {format_locs(vertex.locs)}"
            )


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on in this thread, be it without a look for NaN."""
    return thread.state.anomaly is not False


def _state(what: str, mode: bool, check_nan: bool) -> bool | None:
    """What a thread has: whether backward looks for NaN, None where detection is on without it."""
    looks = as_bool(f"{what}: 'check_nan'", check_nan)
    return mode and (looks or None)


class set_detect_anomaly:
    """Let backward look for NaN, or not, from the call on or for a ``with`` block. Without
    ``check_nan`` it does not look, and detection changes nothing else."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        wanted = as_bool("set_detect_anomaly: 'mode'", mode)
        self._wanted = _state("set_detect_anomaly", wanted, check_nan)
        self._before: tuple[Any, ...] = thread.state.anomaly, ()
        self._is_entered = False
        thread.state.anomaly = self._wanted

    def __enter__(self) -> None:
        if self._is_entered:  # a block again: the first began with the call
            self._before = thread.state.anomaly, self._before
            thread.state.anomaly = self._wanted
        self._is_entered = True

    def __exit__(self, *_: object) -> None:
        thread.state.anomaly, self._before = self._before


class detect_anomaly:
    """A ``with`` block in which backward stops at the first operation whose gradient has a NaN,
    with an `AutogradError` that names it and the line that recorded it. It costs time. Without
    ``check_nan`` backward does not look.

    >>> import staticflow as sf
    >>> x = sf.zeros(1, requires_grad=True)
    >>> with detect_anomaly():
    ...     (x.sqrt() * 0).backward()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    staticflow.errors.AutogradError: Function 'SqrtBackward0' returned nan values ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._wanted = _state("detect_anomaly", True, check_nan)
        self._before: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        self._before = thread.state.anomaly, self._before
        thread.state.anomaly = self._wanted

    def __exit__(self, *_: object) -> None:
        thread.state.anomaly, self._before = self._before
