"""Updated tensors that lie in memory in every way: what has one place for several elements is
refused, and all else takes its new value, as an eager change in place would give it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import AutogradError, ShapeError
from staticflow.runtime.overlaps import find_sharing, overlaps_itself, share_elements

WINDOWS = np.lib.stride_tricks.as_strided

OVERLAPPING: dict[str, Callable[[], Any]] = {
    "expanded": lambda: sf.ones(1).expand(3),
    "expanded rows": lambda: sf.ones(1, 3).expand(2, 3),
    "expanded columns": lambda: sf.ones(2, 1).expand(2, 3),
    "a stepped view of it": lambda: sf.ones(2, 1).expand(2, 6)[:, ::2],
    "windows": lambda: sf.zeros(6).as_strided((4, 3), (1, 1)),
    "windows that slide by two": lambda: sf.zeros(9).as_strided((4, 3), (2, 1)),
    "a diagonal of windows": lambda: sf.zeros(13).as_strided((3, 4), (3, 2)),
}

APART: dict[str, Callable[[], Any]] = {
    "stepped": lambda: sf.zeros(6)[::2],
    "transposed": lambda: sf.zeros(2, 3).t(),
    "cropped": lambda: sf.zeros(4, 4)[1:3, 1:],
    "flipped by NumPy": lambda: sf.from_numpy(np.zeros(5, np.float32)[::-1]),
    "a diagonal": lambda: sf.zeros(3, 3).diagonal(),
    "expanded to one": lambda: sf.zeros(1, 3).expand(1, 3),
    "empty": lambda: sf.zeros(1, 0).expand(3, 0),
    "one element": lambda: sf.zeros(1).expand(1),
    "in turns": lambda: sf.zeros(8).as_strided((2, 3), (3, 2)),
}


def added(v: Any) -> Any:
    """A step that adds its input to ``v``."""
    x = sf.placeholder(tuple(v.shape), name="x")
    return sf.compile([x], None, updates={v: sf.symbol(v) + x})


@pytest.mark.parametrize("name", OVERLAPPING)
def test_what_overlaps_itself_is_refused(name: str) -> None:
    v = OVERLAPPING[name]()
    v.name = "v"
    with pytest.raises(ShapeError) as caught:
        added(v)
    said = str(caught.value)
    assert "compile: the updates have v, f32" in said and f"strides {list(v.stride())}" in said
    assert "update t.clone()" in said and __file__ in said
    assert overlaps_itself(v.numpy())


@pytest.mark.parametrize("name", APART)
def test_what_does_not_is_updated(name: str) -> None:
    v, eager = APART[name](), APART[name]()
    rng = np.random.default_rng(1)
    step = added(v)
    for _ in range(3):
        x = rng.standard_normal(v.shape).astype(np.float32)
        step(x)
        eager += sf.from_numpy(x)
    assert v.tolist() == eager.tolist()
    if v._base is not None:
        assert v._base.tolist() == eager._base.tolist()


def test_it_is_refused_of_a_tensor_that_is_given_such_memory_later() -> None:
    v = sf.zeros(3)
    step = added(v)
    step(np.ones(3, np.float32))
    v.data = sf.ones(1).expand(3)
    with pytest.raises(ShapeError, match="lie in one place of memory; give a clone"):
        step(np.ones(3, np.float32))


def test_two_that_share_elements_are_refused() -> None:
    whole = sf.zeros(4)
    x = sf.placeholder((), name="x")
    for one, other in ((whole[1:], whole[:3]), (whole, whole.detach()), (whole[::2], whole[2:])):
        updates = {t: sf.symbol(t) + x for t in (one, other)}
        with pytest.raises(ShapeError, match=r"updates have .* and .*, which have elements in one"):
            sf.compile([x], None, updates=updates)


def test_two_that_take_turns_are_updated() -> None:
    whole = sf.zeros(6)
    even, odd = whole[::2], whole[1::2]
    x = sf.placeholder((), name="x")
    step = sf.compile([x], None, updates={even: sf.symbol(even) + x, odd: sf.symbol(odd) - x})
    step(1.0)
    step(2.0)
    assert whole.tolist() == [3, -3] * 3


def test_what_shares_memory_and_is_read_has_its_value_before_the_call() -> None:
    whole = sf.tensor([1.0, 2.0, 3.0, 4.0])
    part, window = whole[1:3], whole.as_strided((3, 2), (1, 1))
    x = sf.placeholder((4,), name="x")
    seen = [sf.symbol(part) * 2, sf.symbol(window).sum(0)]
    step = sf.compile([x], seen, updates={whole: sf.symbol(whole) + x})
    for _ in range(3):
        before = whole.clone()
        twice, sums = step(np.arange(4, dtype=np.float32))
        assert twice.tolist() == (before[1:3] * 2).tolist()
        assert sums.tolist() == [before[:3].sum().item(), before[1:].sum().item()]
        assert whole.tolist() == (before + sf.arange(4)).tolist()


def test_what_has_a_history_is_refused() -> None:
    w = sf.ones(3, requires_grad=True)
    y = w * 2
    x = sf.placeholder((3,), name="x")
    for t in (y, y[:3], y.view(3)):
        with pytest.raises(AutogradError) as caught:
            sf.compile([x], None, updates={t: t + x})
        assert "was computed by MulBackward0" in str(caught.value)
        assert "update t.detach()" in str(caught.value) and __file__ in str(caught.value)
    kept = y.detach()
    step = sf.compile([x], None, updates={kept: sf.symbol(kept) + x})
    step(np.ones(3, np.float32))
    step(np.ones(3, np.float32))
    assert y.tolist() == [4.0, 4.0, 4.0]


def test_a_view_of_a_leaf_is_updated_as_the_leaf_is() -> None:
    w = sf.ones(2, 3, requires_grad=True)
    row = w[0]
    x = sf.placeholder((3,), name="x")
    step = sf.compile([x], None, updates={row: row + x})
    step(np.ones(3, np.float32))
    step(np.ones(3, np.float32))
    assert w.tolist() == [[3.0, 3.0, 3.0], [1.0, 1.0, 1.0]]
    (row * w[1]).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]]


@pytest.mark.parametrize("seed", range(200))
def test_whether_elements_overlap_is_found_by_counting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory = np.zeros(4096, np.uint8)
    ndim = int(rng.integers(0, 4))
    shape = [int(n) for n in rng.integers(0, 5, ndim)]
    strides = [int(s) for s in rng.integers(-12, 13, ndim)]
    a = WINDOWS(memory[2000:2004].view(np.float32), shape, strides).squeeze()
    places = [
        sum(int(i) * s for i, s in zip(at, a.strides, strict=True)) for at in np.ndindex(a.shape)
    ]
    taken = [p + b for p in places for b in range(4)]
    assert overlaps_itself(a) == (len({*taken}) < len(taken))


def test_which_arrays_share_is_found_among_many() -> None:
    whole = np.zeros((8, 8), np.float32)
    parts = [*whole[:, ::2].T, *whole[:, 1::2].T, np.zeros(3), whole[:0]]
    assert find_sharing(parts) is None
    assert find_sharing([*parts, whole[3, 2:3]]) == (1, len(parts))
    assert share_elements(whole[::2], whole[2]) and not share_elements(whole[::2], whole[1])
