"""What the tests of calling share."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.config import config
from staticflow.eager.fast.recall import OFTEN
from staticflow.runtime.object_layout import has_known_layout
from staticflow.runtime.turn import updating

__all__ = [
    "ESTABLISHED", "call_path", "doubled", "f32", "frames", "huge_output", "needs_entry", "taken",
]  # fmt: skip

ESTABLISHED = 2 * OFTEN
"""Calls after which one of a kind that comes often goes its final way. A few more than `OFTEN` are
not enough for that: another kind in the same slots puts off when a kind is learned, by chance."""

needs_entry = pytest.mark.skipif(not has_known_layout(), reason="no native entry here")


@pytest.fixture(params=[True, False], ids=["native", "portable"])
def call_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Both ways of calling a program; True where the native entry is in use."""
    monkeypatch.setattr(config, "fast_call", request.param)
    yield request.param and has_known_layout()
    assert updating._held.value == 0


def f32(*shape: int, start: float = 1.0) -> np.ndarray:
    """1, 2, 3, ... in an array."""
    return (np.arange(np.prod(shape, dtype=int), dtype=np.float32) + start).reshape(shape)


def taken(program: Any, *args: Any) -> bool:
    """Whether the native entry itself gives a result."""
    return isinstance(program._executable.fast(*args), np.ndarray | tuple)


def doubled(shape: tuple[Any, ...] = (None, 3), dtype: Any = "float32") -> Any:
    x = sf.placeholder(shape, dtype, name="x")
    return sf.compile([x], x + x)


def huge_output(several: bool) -> Any:
    """A program whose arguments have no elements, and whose result has as many as one likes."""
    x, y = sf.placeholder((None, 0), name="x"), sf.placeholder((0, None), name="y")
    return sf.compile([x, y], (sf.constant(2.0), x @ y) if several else x @ y)


def frames(call: Callable[[], Any]) -> list[str]:
    """The functions that are called in a frame of Python, but ``call``."""
    found: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            found.append(frame.f_code.co_qualname)

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # a collection calls what others have put in gc.callbacks, as hypothesis does
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return found[2:]
