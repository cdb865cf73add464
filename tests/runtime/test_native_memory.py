"""Native code holds what it works on while Python, or NumPy, runs, and looks again afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stress_pool import SLOT_VALUES, slots_of

import staticflow as sf
from staticflow.eager.random import default_generator
from staticflow.ops.declaring.thread import thread
from staticflow.runtime.free_objects import MOST

# -- other memory, in the midst of a call ---------------------------------------------------------


class Meddler:
    """An int that gives a tensor other memory when it is asked, whose own is taken by a stranger."""

    def __init__(self, x: sf.Tensor) -> None:
        self.x, self.strangers = x, list[sf.Tensor]()

    def __index__(self) -> int:
        self.x.data = sf.tensor([4.0, 5.0, 6.0])
        self.strangers += [sf.ones(3) for _ in range(3)]
        assert all(s._version == 0 for s in self.strangers[-3:])
        return 0


METHODS: dict[str, Callable[[sf.Tensor, Any], Any]] = {
    "cumsum_": lambda x, i: x.cumsum_(i),
    "cumprod_": lambda x, i: x.cumprod_(i),
    "index_fill_": lambda x, i: x.index_fill_(i, sf.tensor([0]), 1.0),
    "index_add_": lambda x, i: x.index_add_(i, sf.tensor([0]), sf.ones(1)),
    "scatter_": lambda x, i: x.scatter_(i, sf.tensor([0]), 1.0),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_change_is_counted_where_it_was_made(name: str) -> None:
    x = sf.tensor([1.0, 2.0, 3.0])
    first = x._data
    x.add_(0.0)
    meddler = Meddler(x)
    out = METHODS[name](x, meddler)
    assert meddler.strangers and all(s._version == 0 for s in meddler.strangers)
    if out is x:
        assert x._version == 1 and first.tolist() == [1.0, 2.0, 3.0]
    expected = METHODS[name](sf.tensor([4.0, 5.0, 6.0] if out is x else [1.0, 2.0, 3.0]), 0)
    assert out.tolist() == expected.tolist()


def struck(strike: Callable[[], Any], work: Callable[[], Any]) -> Any:
    """What ``work`` gives while ``strike`` is called wherever the garbage collector may run."""

    def called(phase: str, info: Any) -> None:
        if phase == "stop":
            strike()

    before = gc.get_threshold()
    gc.callbacks.append(called)
    gc.set_threshold(1)
    try:
        return work()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(called)


def test_views_of_a_plan_lie_in_the_array_that_is_there() -> None:
    def part_of(x: sf.Tensor) -> Any:
        return x.unbind()

    for _ in range(3):
        part_of(sf.ones(40, 1000))
    small = sf.full((40, 1), 2.0)
    for skipped in range(6):
        x, left = sf.ones(40, 1000), [skipped]

        def shrink(x: sf.Tensor = x, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                x.data = small

        for part in struck(shrink, lambda x=x: part_of(x)):
            assert part.tolist() in ([1.0] * 1000, [2.0])


def test_a_value_that_is_kept_is_the_one_that_was_computed_with() -> None:
    """Where the tensor is on another array by then, a change of the first one goes unseen."""
    for skipped in range(12):
        x, w = sf.tensor([2.0, 3.0]), sf.tensor([1.0, 1.0], requires_grad=True)
        alias, left = x.detach(), [skipped]

        def give(x: sf.Tensor = x, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                x.data = sf.tensor([7.0, 7.0])

        y = struck(give, lambda x=x, w=w: x * w)
        computed = y.tolist()
        alias.mul_(10.0)
        try:
            y.sum().backward()
        except sf.errors.AutogradError:
            continue
        assert w.grad is not None and w.grad.tolist() == computed


def test_a_result_is_there_until_the_tape_has_kept_it() -> None:
    """Its tensor, which the garbage collector knows, may be put on another array meanwhile. It runs
    only where memory is asked for: what was freed before, and would be taken, is held."""
    small = sf.ones(1).requires_grad_()
    held = [small.exp() for _ in range(MOST)]
    x = sf.ones(1000).requires_grad_()
    strangers: list[Any] = []

    def exchange() -> None:
        for o in gc.get_objects():
            if type(o) is sf.Tensor and o._vertex is None:
                o._data = np.zeros(1000, np.float32)
                strangers.extend(np.full(1000, 7.0, np.float32) for _ in range(3))

    gc.freeze()  # all that is there before
    results = struck(exchange, lambda: [x.exp() for _ in range(30)])
    gc.unfreeze()
    assert strangers and held
    for y in results:
        x.grad = None
        y.backward(sf.ones(1000))
        assert x.grad is not None and np.allclose(x.grad, np.e)


@pytest.mark.parametrize("state", [np.zeros(1, np.int64), np.zeros(0), np.zeros(2, ">i8"), 5, None])
def test_the_state_of_a_generator_that_is_none(state: Any) -> None:
    """A draw that is remembered counts on where there is a count, and nowhere else."""
    for _ in range(4):
        sf.rand(3)
    tensor = default_generator.state
    default_generator.state._data, before = state, tensor._data
    drawn = []
    attempt(lambda: drawn.append(sf.rand(3)))
    tensor._data = before
    assert drawn == [] or state.tolist() == [0, 1]


class Thief(int):
    """A version of a memory that, when it is counted on, takes the array of the draw that is being
    made, whose place a stranger takes."""

    mine, sevens = np.array([1, 2]), np.array([7, 7])
    stranger = sevens

    def __add__(self, other: Any) -> int:
        tensors = [t for t in gc.get_objects() if type(t) is sf.Tensor and hasattr(t, "_data")]
        for tensor in tensors:
            if is_state(tensor._data) and tensor is not default_generator.state:
                tensor._data = self.mine
                Thief.stranger = self.sevens.copy()
        return int(self) + int(other)


def is_state(data: Any) -> bool:
    return isinstance(data, np.ndarray) and data.dtype == np.int64 and data.shape == (2,)


def test_a_draw_whose_array_is_taken_while_it_is_counted() -> None:
    for _ in range(4):
        sf.rand(3)
    memory = default_generator.state._own_memory()
    memory.version = Thief(memory.version)
    sf.rand(3)
    memory.version = int(memory.version)
    assert Thief.stranger is not Thief.sevens and Thief.stranger.tolist() == [7, 7]


def test_an_example_that_somebody_watches() -> None:
    """Tensors are made like another one, whose weak references are its own."""
    import weakref

    (sf.ones(3) * 2.0).sum()
    gc.unfreeze()  # what an import has hidden from who asks for all objects
    watched = [weakref.ref(o) for o in gc.get_objects() if type(o) is sf.Tensor]
    made = [(sf.ones(3) * 2.0)[1:] for _ in range(10)]
    assert all(weakref.getweakrefcount(x) == 0 for x in made)
    del made
    assert watched


def test_an_interrupt_is_not_lost_where_a_history_is_looked_for() -> None:
    class Interrupted(sf.Tensor):
        def _current_vertex(self) -> Any:
            self.name = self.name or ""
            if not self.name:
                self.name = "asked"
                raise KeyboardInterrupt
            return None

    x = Interrupted([[1.0, 2.0]])
    part = x.t()
    assert isinstance(part, sf.Tensor)
    y = Interrupted([[1.0, 2.0]])
    y._view = part._view
    with pytest.raises(KeyboardInterrupt):
        y.max(0)


# -- slots that hold what has no place there ------------------------------------------------------

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, y: x * y,
    "sum": lambda x, y: x.sum(),
    "view": lambda x, y: x.t(),
    "view of a view": lambda x, y: x.t().reshape(9)[2:],
    "several": lambda x, y: sf.cat([x, y]),
    "in place": lambda x, y: x.add_(y),
    "with a number": lambda x, y: x.mul_(2.0),
    "renewed": lambda x, y: x.clamp_(0.0, 1.0),
    "cumulative": lambda x, y: x.cumsum_(0),
    "drawn": lambda x, y: x.uniform_(),
    "copied": lambda x, y: x.copy_(y),
    "two results": lambda x, y: x.max(0),
    "matrices": lambda x, y: x @ y,
    "parts": lambda x, y: x.unbind(),
    "backward": lambda x, y: (x.t() * y).sum().backward(),
    "text": lambda x, y: repr(x),
}


def plain() -> Any:
    return sf.ones(3, 3)


def recorded() -> Any:
    return sf.ones(3, 3, requires_grad=True) * 2.0


def viewed() -> Any:
    return recorded().t()


def with_memory() -> Any:
    return plain().add_(1.0)


PLACES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "tensor": (plain, lambda x: x),
    "leaf": (lambda: sf.ones(3, 3, requires_grad=True), lambda x: x),
    "recorded": (recorded, lambda x: x),
    "viewed": (viewed, lambda x: x),
    "memory": (with_memory, lambda x: x._memory),
    "memory of a view": (viewed, lambda x: x._memory),
    "view": (viewed, lambda x: x._view),
    "view of a leaf": (lambda: sf.ones(3, 3).t(), lambda x: x._view),
    "base": (viewed, lambda x: x._view._base),
    "entry": (recorded, lambda x: x._vertex),
    "output": (lambda: recorded().max(0)[0].expand(3, 3), lambda x: x._vertex.edges[0]),
}
NOTHING = object()


def attempt(call: Callable[[], Any]) -> None:
    try:
        call()
    except SystemError:
        raise
    except Exception:
        pass


@pytest.mark.parametrize("place", PLACES)
def test_slots_hold_what_has_no_place_there(place: str) -> None:
    """Each slot, of each kind of object, holds each value, or nothing, in each call."""
    make, find = PLACES[place]
    for slot in slots_of(find(make())):
        for value in (NOTHING, *SLOT_VALUES):
            for call in CALLS.values():
                for first in (True, False):
                    x, other = make(), plain()
                    thing = find(x)
                    try:
                        delattr(thing, slot) if value is NOTHING else setattr(thing, slot, value)
                    except (AttributeError, TypeError, ValueError, sf.errors.StaticflowError):
                        continue
                    attempt(lambda call=call, a=(x, other): call(*a if first else a[::-1]))  # noqa: B023
    assert (sf.ones(3) * 2.0).tolist() == [2.0] * 3


@pytest.mark.parametrize("slot", ["context", "run", "usual", "recording", "noted", "saved_hooks"])
def test_slots_of_a_thread(slot: str) -> None:
    before = getattr(thread.state, slot)
    for value in (NOTHING, 5, None, "text", [1]):
        for call in CALLS.values():
            x, y = recorded(), plain()
            try:
                if value is NOTHING:
                    delattr(thread.state, slot)
                else:
                    setattr(thread.state, slot, value)
                attempt(lambda call=call, x=x, y=y: call(x, y))
            finally:
                setattr(thread.state, slot, before)
    assert (sf.ones(3) * 2.0).tolist() == [2.0] * 3


def test_functions_of_ops_that_are_called_wrongly() -> None:
    for function in (sf.ones(1)._current_vertex, *[*sf.Tensor.__sf_mode__.prepare().values()][:40]):
        for given in ((), (5,), (None, None, None), ([], {}), ((), 5)):
            attempt(lambda function=function, given=given: function(*given))
        attempt(lambda function=function: function(args=(), attrs={}))


# -- many arguments -------------------------------------------------------------------------------

MANY = """
import os, sys, threading
import staticflow as sf
from staticflow.ops import OPS

x = sf.ones(1)
many = [x] * 100_000
calls = [
    lambda: sf.cat(many), lambda: sf.stack(many), lambda: sf.cat(*many), lambda: x.add_(*many),
    lambda: x.clamp_(*many), lambda: x.sum(*many), lambda: x.view(*many), lambda: x.add(*many),
    lambda: x.permute(*many), lambda: sf.rand(*many), lambda: sf.meshgrid(*many),
    lambda: sf.cartesian_prod(*many), lambda: sf.broadcast_tensors(*many), lambda: x.where(*many),
    lambda: sf.cat(**{f"k{i}": x for i in range(50_000)}), lambda: x[(0,) * 100_000],
    lambda: sf.hstack(many), lambda: x.__radd__(*many), lambda: x[[0] * 100_000],
    lambda: sf.Tensor.__sf_mode__.prepare()[OPS["cat"]](tuple(many), {}),
    lambda: x[nested(slice)], lambda: x[nested(lambda i: (i,))], lambda: sf.cat(nested(list_of)),
    lambda: sf.tensor(nested(list_of)), lambda: x.sum(nested(list_of)),
]

def list_of(item):
    return [item]

def nested(wrap, item=0):
    # from 3.12 on CPython's own `repr` of what is so deep overflows a stack of less than 8 MiB
    for _ in range(20_000 if sys.version_info < (3, 12) else 400):
        item = wrap(item)
    kept.append(item)  # CPython frees slices in slices by recursion
    return item

def run():
    for call in calls:
        try:
            call()
        except Exception:
            pass
    print("survived", flush=True)
    os._exit(0)

kept = []
threading.stack_size(1 << 19)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def test_many_arguments_do_not_overflow_the_stack() -> None:
    said = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (0, "survived\n"), said.stderr[-2000:]
