"""What is recorded takes the memory of what was freed: no passes of the garbage collector for it."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from calling import needs_entry

import staticflow as sf
from staticflow.eager.fast.forms import fast_forms
from staticflow.eager.memory import Memory
from staticflow.eager.mode import EAGER
from staticflow.eager.saved import SavedType
from staticflow.eager.vertex import Output, PerElementEntry, TapeEntry
from staticflow.runtime.free_lists import Row
from staticflow.runtime.free_objects import MOST

pytestmark = needs_entry

CHAINS: dict[str, Callable[[sf.Tensor, sf.Tensor], sf.Tensor]] = {
    "products": lambda y, w: y * w,
    "numbers": lambda y, w: y * 1.5,
    "kept results": lambda y, w: y.tanh(),
    "shadows": lambda y, w: (y + w[0]).sum(0, keepdim=True) + w,
    "views": lambda y, w: y.view(2, 8).view(16),
}
LENGTH = 600


def recorded(step: Callable[[sf.Tensor, sf.Tensor], sf.Tensor], length: int = LENGTH) -> sf.Tensor:
    y, w = sf.ones(16, requires_grad=True), sf.ones(16)
    for _ in range(length):
        y = step(y, w)
    return y


@pytest.fixture
def passes() -> Iterator[list[int]]:
    """The generations that the collector has walked."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def count_from_zero(passes: list[int]) -> None:
    """Forget the passes so far, and how near the next one was: what others allocate, threads of the
    test runner too, would else bring it about now and then."""
    gc.collect(0)
    del passes[:]


@pytest.mark.parametrize("walked", [False, True], ids=["recorded", "with backward"])
@pytest.mark.parametrize("name", CHAINS)
def test_what_is_recorded_again_costs_no_pass(name: str, walked: bool, passes: list[int]) -> None:
    last = recorded(CHAINS[name])
    for _ in range(3):
        count_from_zero(passes)
        last = recorded(CHAINS[name])
        if walked:
            last.sum().backward()
    assert not passes and last.grad_fn is not None


def test_native_code_that_is_made_again_takes_none_away(passes: list[int]) -> None:
    recorded(CHAINS["products"], 2)  # by what was made first
    fast_forms([], (), (), sf.Tensor, EAGER.general, EAGER.finish, [], {})
    for _ in range(3):
        count_from_zero(passes)
        last = recorded(CHAINS["products"])
    assert not passes and last.grad_fn is not None


def test_objects_of_a_recorded_operation() -> None:
    """The collector knows two for each, the entry and its edges, and has counted none."""
    for _ in range(3):  # what a process makes once is made by then
        recorded(CHAINS["products"], 100)
    gc.disable()
    try:
        before, known = gc.get_count()[0], len(gc.get_objects())
        y = recorded(CHAINS["products"], 100)
        known = len(gc.get_objects()) - known
        assert gc.get_count()[0] - before < 10 and 200 <= known < 210
        y = sf.ones(3, requires_grad=True).tanh()  # keeps its result
        assert y.grad_fn.result[1] is y._memory and not gc.is_tracked(y._memory)
        assert gc.is_tracked(y.grad_fn)
    finally:
        gc.enable()


def test_what_is_longer_than_before_is_counted(passes: list[int]) -> None:
    recorded(CHAINS["products"], 3 * MOST)
    assert passes


def test_not_all_is_kept() -> None:
    recorded(CHAINS["products"], 2 * MOST)
    blocks = sys.getallocatedblocks()
    y = recorded(CHAINS["products"], 6 * MOST)
    grown = sys.getallocatedblocks() - blocks
    assert grown > 6 * MOST
    del y
    assert sys.getallocatedblocks() - blocks < MOST


def test_nothing_of_the_one_before_is_left() -> None:
    w = sf.ones(3, requires_grad=True)
    y = w * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 100)
    freed = weakref.ref(y.grad_fn)
    address = id(y.grad_fn)
    del y
    assert freed() is None
    z = w * sf.ones(3)
    assert id(z.grad_fn) == address and freed() is None
    assert z.grad_fn.hooks is None and weakref.ref(z.grad_fn)() is z.grad_fn
    z.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [1, 1, 1]


def test_the_classes_are_not_held() -> None:
    classes = (TapeEntry, PerElementEntry, Output, Memory, SavedType, Row)
    for step in CHAINS.values():
        recorded(step, 100)
    gc.collect()  # cycles that tests before left, whose objects hold their classes
    before = [sys.getrefcount(c) for c in classes]
    for step in CHAINS.values():
        recorded(step, 1000).sum().backward()
    assert [sys.getrefcount(c) for c in classes] == before


def test_derived_classes_have_their_own_memory() -> None:
    class Derived(TapeEntry):
        __slots__ = ("more",)

    for _ in range(3):
        entry = object.__new__(Derived)
        assert not hasattr(entry, "more") and not hasattr(entry, "op")
        entry.more = entry.op = entry.hooks = []
    assert not hasattr(object.__new__(TapeEntry), "op")


def test_rows_are_tuples() -> None:
    w = sf.ones(3, requires_grad=True)
    entries = [(w * w).grad_fn, sf.where(w > 0, w, 0.0).grad_fn, sf.cat([w] * 9).grad_fn]
    assert [len(e.edges) for e in entries] == [2, 3, 9]
    assert all(isinstance(e.edges, tuple) for e in entries)
    assert Row((1, 2)) == (1, 2) and Row(()) == () and Row(range(9))[8] == 8


class Named(sf.Tensor):
    pass


class Keeps(sf.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return ct


def by_hook(x: sf.Tensor) -> Any:
    y = x * 2
    held = (y * x).exp()
    y.register_hook(lambda g: g if held.shape else None)
    return y


def by_hook_of_a_leaf(x: sf.Tensor) -> Any:
    held = (x * x).exp()
    x.register_hook(lambda g: g if held.shape else None)
    return x


def by_gradient(x: sf.Tensor) -> Any:
    (x * x).exp().sum().backward(create_graph=True)
    return x.grad


def by_attribute(x: sf.Tensor) -> Any:
    leaf = Named(x.detach()).requires_grad_()
    leaf.result = (leaf * x).exp()
    return leaf


def by_context(x: sf.Tensor) -> Any:
    y = Keeps.apply(x * x)
    y.grad_fn.ctx.result = y.exp()
    return y


def by_packing(x: sf.Tensor) -> Any:
    made: list[Any] = []
    with sf.autograd.graph.saved_tensors_hooks(lambda t: (made, t), lambda p: p[1]):
        y = (x * x).exp()
    made.append(y)
    return y


@pytest.mark.parametrize(
    "close", [by_hook, by_hook_of_a_leaf, by_gradient, by_attribute, by_context, by_packing]
)
def test_cycles_are_collected(close: Callable[[sf.Tensor], Any]) -> None:
    """Of the user's making, through objects that are new and through those used again."""
    for _ in range(3):
        y = close(sf.ones(3, requires_grad=True))
        seen = weakref.ref(y)
        del y
        gc.collect()
        assert seen() is None


def test_cycles_are_counted(passes: list[int]) -> None:
    """So that they do not wait for a collector that hears nothing of them."""
    alive = []
    for _ in range(3 * MOST // 100):
        y = recorded(CHAINS["products"], 100)
        y.register_hook(lambda g, held=y: g)
        alive.append(weakref.ref(y))
    assert passes and sum(a() is not None for a in alive) < len(alive)
