"""Eager operations on what nobody would give them, and where nobody would call them: they compute,
or raise an error of Python, and leave the thread as it was."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from interruptions import Interrupt, interrupted_at

import staticflow as sf
from staticflow.eager import in_place
from staticflow.errors import AutogradError
from staticflow.ops.declaring.thread import State, thread
from staticflow.runtime.once import compiling

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, y: x * y,
    "with a number": lambda x, y: 1.0 - x,
    "function": lambda x, y: x.exp(),
    "view": lambda x, y: x.t(),
    "view of a view": lambda x, y: x.t().reshape(9),
    "sum": lambda x, y: x.sum(),
    "subscript": lambda x, y: x[0:1],
    "several": lambda x, y: sf.cat([x, y]),
    "layer": lambda x, y: sf.nn.functional.linear(x, y),
    "in place": lambda x, y: x.clone().add_(y),
    "two results": lambda x, y: x.max(0),
    "matrices": lambda x, y: x @ y,
    "backward": lambda x, y: (x.t() * y).sum().backward(),
    "text": lambda x, y: repr(x),
    "copy": lambda x, y: copy.copy(x),
    "pickle": lambda x, y: pickle.loads(pickle.dumps(x)),
}
KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: sf.ones(3, 3),
    "leaf": lambda: sf.ones(3, 3, requires_grad=True),
    "recorded": lambda: sf.ones(3, 3, requires_grad=True) * 2.0,
    "view": lambda: (sf.ones(3, 3, requires_grad=True) * 2.0).t(),
}


def attempt(op: Callable[[Any, Any], Any], x: Any, y: Any) -> None:
    """The operation computes, or raises an error that is no fault of native code."""
    try:
        op(x, y)
    except SystemError:
        raise
    except Exception:
        pass


def try_all(x: Any, y: Any) -> None:
    for op in OPS.values():
        attempt(op, x, y)


SLOTS = ("_data", "_grad", "_hooks", "_memory", "_vertex", "_view")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slot", SLOTS)
def test_slots_that_were_deleted(slot: str, kind: str) -> None:
    for op in OPS.values():
        for first in (True, False):
            x, y = KINDS[kind](), sf.ones(3, 3, requires_grad=True)
            delattr(x, slot)
            attempt(op, *((x, y) if first else (y, x)))


@pytest.mark.parametrize("slot", ["_base", "before", "seen", "step", "recorded"])
def test_slots_of_views_that_were_deleted(slot: str) -> None:
    x = KINDS["view"]()
    delattr(x._view, slot)
    try_all(x, sf.ones(3, 3))


def test_a_tensor_that_was_never_made() -> None:
    x = sf.Tensor.__new__(sf.Tensor)
    try_all(x, sf.ones(3, 3))
    assert (sf.Tensor.__new__(sf.Tensor) * 2.0).shape == (0,)


class Derived(sf.Tensor):
    pass


class Slotted(sf.Tensor):
    __slots__ = ("more",)


class Same(sf.Tensor):
    __slots__ = ()


class Raising(sf.Tensor):
    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


@pytest.mark.parametrize("cls", [Derived, Slotted, Same, Raising])
def test_subclasses(cls: type[sf.Tensor]) -> None:
    for grad in (False, True):
        x, plain = cls([[1.0, 2.0, 3.0]] * 3), sf.ones(3, 3, requires_grad=True)
        x.requires_grad_(grad)
        try_all(x, plain)
        try_all(plain, x)
        assert (x * 2.0 + plain).tolist() == [[3.0, 5.0, 7.0]] * 3


def test_a_class_that_is_assigned() -> None:
    x = sf.ones(3, 3)
    x.__class__ = Same
    try_all(x, x)
    assert (x * 2.0).sum().item() == 18.0
    with pytest.raises(TypeError):
        x.__class__ = Derived


class Int(int):
    pass


class Float(float):
    def __float__(self) -> float:
        raise ZeroDivisionError


class Array(np.ndarray):
    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError


class Unknown:
    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


STRANGE = (
    Int(3), Float(2.5), 10**400, 2**63, float("nan"), np.float32(2), np.ones((3, 3)).view(Array),
    np.ma.ones((3, 3)), Unknown(), "text", None, [1.0, 2.0, 3.0], {}, object, sf.Tensor,
)  # fmt: skip


@pytest.mark.parametrize("i", range(len(STRANGE)))
def test_operands_that_are_no_tensors(i: int) -> None:
    for x in (sf.ones(3, 3), sf.ones(3, 3, requires_grad=True)):
        try_all(x, STRANGE[i])
        try_all(STRANGE[i], x)


@pytest.mark.parametrize(
    "data",
    [np.ones((3, 3)).view(Array), 5, None, np.ones((3, 3), ">f4"), np.ones((3, 3), object)],
    ids=["subclass", "number", "none", "swapped", "objects"],
)
def test_data_that_was_replaced(data: Any) -> None:
    x = sf.ones(3, 3)
    x._data = data
    try_all(x, sf.ones(3, 3))
    try_all(sf.ones(3, 3), x)


# -- from where nobody calls ----------------------------------------------------------------------


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
def test_from_functions_that_trace(install: Callable[[Any], None]) -> None:
    inside = False

    def look(frame: Any, event: str, arg: Any) -> Any:
        nonlocal inside
        if not inside:
            inside = True
            (sf.ones(2, requires_grad=True) * 2.0).sum()
            inside = False
        return look

    def refuse(frame: Any, event: str, arg: Any) -> Any:
        raise KeyError("trace")

    x = sf.ones(3, 3, requires_grad=True)
    before = sys.gettrace(), sys.getprofile()
    try:
        install(look)
        try_all(x, x)
        for op in OPS.values():
            try:
                install(refuse)
                op(x, x)
            except KeyError:
                pass
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    assert (x * x).sum().item() == 9.0


class Computing(sf.Tensor):
    def __del__(self) -> None:
        (self.t() * sf.ones(3, 3, requires_grad=True)).sum().backward()


def test_from_finalizers_at_every_allocation() -> None:
    """Also of objects that the garbage collector frees in the midst of an operation."""
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(3):
            x = Computing([[1.0, 2.0, 3.0]] * 3)
            cycle: list[Any] = [x]
            cycle.append(cycle)
            y = x * 2.0
            del x, cycle
            try_all(y, sf.ones(3, 3, requires_grad=True))
    finally:
        gc.set_threshold(*before)
    assert y.sum().item() == 36.0


def test_where_recursion_is_too_deep() -> None:
    x = sf.ones(3, 3, requires_grad=True)

    def deep(op: Callable[[Any, Any], Any]) -> None:
        try:
            deep(op)
        except RecursionError:
            op(x, x)
            raise

    for op in OPS.values():
        with pytest.raises(RecursionError):
            deep(op)
    assert thread.state.usual and thread.state.recording


# -- interrupted ----------------------------------------------------------------------------------


def switches() -> list[Any]:
    apart = {"context", "run", "last_backward"}
    own = [getattr(thread.state, s) for s in State.__slots__ if s not in apart]
    return [*own, compiling._is_owned()]


def train() -> Any:
    p = sf.ones(3, 3, requires_grad=True)
    (sf.ones(3, 3).mul_(2.0) @ p).relu().sum().backward()
    sf.optim.SGD([p], lr=0.1).step()
    return p.tolist()


def differentiate() -> Any:
    w = sf.ones(2, requires_grad=True)
    slope = sf.grad((w * w * w).sum(), w, create_graph=True)
    return sf.grad(slope.sum(), w).tolist()


def of_views() -> Any:
    y = sf.ones(3, 3, requires_grad=True) * 1.0
    y[0].mul_(2.0)
    y[1:].t().add_(1.0)
    return y.tolist()


sizes = itertools.count(1000)


def anew() -> Any:
    """Of a shape that was never met, so that the functions of shapes are asked."""
    x = sf.ones(2, next(sizes))
    return [x.sum(0).numel() - x.shape[1], sf.cat([x, x]).shape[0]]


WORK: dict[str, Callable[[], Any]] = {
    "train": train,
    "differentiate": differentiate,
    "views": of_views,
    "anew": anew,
    "random": lambda: sf.rand(3, generator=sf.Generator().manual_seed(1)).tolist(),
}


@pytest.mark.parametrize("name", WORK)
def test_an_interrupt_leaves_the_thread_as_it_was(name: str) -> None:
    """At whatever point it comes: what was recorded, for one, still is afterwards."""
    work = WORK[name]
    work()
    good, before = work(), switches()
    number = 0
    while where := interrupted_at(number := number + 1, work):
        assert switches() == before, where
        if number % 16 == 0:
            assert work() == good, where
    assert number > 20


CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "cast": ("copy_into", lambda x: x.copy_(sf.ones(x.shape, dtype="float64"))),
    "recorded": ("copy_into", lambda x: x.copy_(sf.ones(x.shape, requires_grad=True))),
    "large": ("overwrite", lambda x: x.add_(1, alpha=2)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_interrupt_leaves_no_change_that_is_not_counted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else backward would compute with what was saved and then changed."""
    inner, change = CHANGES[name]
    write = getattr(in_place, inner)

    def interrupted(*args: Any) -> None:
        write(*args)
        raise Interrupt

    x = sf.zeros(2**19 if name == "large" else 4)
    version = x._version
    monkeypatch.setattr(in_place, inner, interrupted)
    with pytest.raises(Interrupt):
        change(x)
    assert x.any() and x._version == version + 1


def test_an_interrupt_before_a_history_is_taken_finds_the_change_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = sf.ones(4, requires_grad=True)
    x = w * 1
    y = x * x

    def interrupted(*_: Any) -> None:
        raise Interrupt

    monkeypatch.setattr(in_place, "_take_history", interrupted)
    with pytest.raises(Interrupt):
        x.copy_(w * 2)
    assert x._version == 1
    with pytest.raises(AutogradError, match="changed"):
        y.sum().backward()


def test_a_change_that_is_refused_is_not_counted() -> None:
    x = sf.zeros(4)
    with pytest.raises(IndexError):
        x[7] = 1.0
    assert x._version == 0
