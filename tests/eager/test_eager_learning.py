"""What is learnt of a call is true of its kind, whatever another thread does to the tensor
meanwhile: here the line of a number gives it other data, and a later one its own again."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from slices import daily

import staticflow as sf
from staticflow.graph.locs import is_inside

sf.ones(1).neg()  # from then on the methods are native

CALLS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "t": (lambda x: x.t(), lambda a: a.T),
    "rows": (lambda x: x[1:], lambda a: a[1:]),
    "column": (lambda x: x[..., :1], lambda a: a[..., :1]),
    "unbind": (lambda x: x.unbind()[-1], lambda a: a[-1]),
    "flat": (lambda x: x.view(-1), lambda a: a.reshape(-1)),
    "expand": (lambda x: x.expand(2, *x.shape), lambda a: np.stack([a, a])),
    "mean": (lambda x: x.mean(), lambda a: a.mean()),
    "cat": (lambda x: sf.cat([x, x]), lambda a: np.concatenate([a, a])),
    "draw": (lambda x: sf.rand_like(x) >= 0.0, lambda a: np.ones(a.shape)),
}
"""Calls that come to views, to a draw, to numbers that follow from the sizes, and the same in NumPy."""

OTHERS: tuple[Callable[[int], Any], ...] = (
    lambda n: sf.ones(3), lambda n: sf.ones(9, 90), lambda n: sf.ones(n, 4).t(),
)  # fmt: skip
"""Data of another rank, of other sizes, and of other strides."""

LINES = 400
"""More than run as one of these calls is learnt."""

BACK = 1, 2, 5, 10_000
"""So many lines later comes the data of one's own again."""

_widths = count(50)


class Exchange:
    """Gives a tensor ``other`` data as that line of the package begins, and its own at another."""

    def __init__(self, x: sf.Tensor, other: Any, line: int, back: int) -> None:
        self.x, self.line = x, 0
        self.deeds = {line: other, line + back: x.data}

    def trace(self, frame: Any, event: str, arg: Any) -> Any:
        if not is_inside(frame.f_code.co_filename):
            return None
        if event == "line":
            self.line += 1
            if self.line in self.deeds:
                sys.settrace(None)
                self.x.data = self.deeds[self.line]
                sys.settrace(self.trace)
        return self.trace


def lies_inside(a: Any) -> bool:
    """Whether the elements of an array are in the memory of the one that owns them."""
    owner = a if a.base is None else a.base
    (first, last), (low, high) = (np.lib.array_utils.byte_bounds(b) for b in (a, owner))
    return bool(low <= first <= last <= high)


def learn(call: Callable[[Any], Any], x: sf.Tensor, exchange: Exchange) -> bool:
    """Call so often that the kind of the call is learnt, with an exchange of the data; whether there
    were so many lines."""
    call(sf.ones(x.shape))
    before = sys.gettrace()
    sys.settrace(exchange.trace)
    try:
        with contextlib.suppress(Exception):  # of sizes that do not fit, this one time
            call(x)
    finally:
        sys.settrace(before)
    return exchange.line >= min(exchange.deeds)


def check(name: str, line: int) -> None:
    """Calls of a kind that was learnt so are right."""
    call, in_numpy = CALLS[name]
    for other in OTHERS:
        for back in BACK:
            width = next(_widths)
            x = sf.ones(4, width)
            if not learn(call, x, Exchange(x, other(width), line, back)):
                return
            y = sf.arange(4.0 * width).view(4, width).clone()
            out, expected = call(y).numpy(), in_numpy(y.numpy())
            assert lies_inside(out), (name, line, back)
            assert out.shape == expected.shape, (name, line, back)
            np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_data_are_exchanged_as_a_call_is_learnt(name: str) -> None:
    for line in daily(range(1, LINES), 25, name):
        check(name, line)


@pytest.mark.campaign
@pytest.mark.parametrize("name", CALLS)
def test_data_are_exchanged_at_every_line(name: str) -> None:
    for line in range(1, LINES):
        check(name, line)


def test_a_view_beyond_its_array_is_not_remembered() -> None:
    """What one array has around it another has not."""
    whole = sf.arange(100.0)
    for part in (whole[40:43], whole[50:53], whole[60:63]):
        assert part.as_strided((9,), (1,), 30).tolist() == [*range(30, 39)]
    alone = sf.ones(3)
    with pytest.raises(sf.errors.StaticflowError):
        alone.as_strided((9,), (1,), 30)
