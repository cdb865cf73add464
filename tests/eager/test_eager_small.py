"""Everyday operations on small arrays run without a frame of Python once their kind was met."""

from __future__ import annotations

import functools
import gc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calling import ESTABLISHED, frames

import staticflow as sf
from staticflow.eager import choose
from staticflow.errors import ArgumentError, IndexRangeError, ShapeError
from staticflow.ops.elementwise.maths import pow


def operands() -> dict[str, Any]:
    n = np.random.default_rng(0).uniform(0.1, 0.9, (4, 5)).astype(np.float32)
    return {
        "x": sf.from_numpy(n), "y": sf.from_numpy(n[::-1].copy()), "i": sf.tensor([2, 0]),
        "at": sf.tensor([[0, 3, 1, 1, 2]]), "mask": sf.from_numpy(n > 0.5),
        "square": sf.from_numpy(n[:, :4].copy()), "whole": sf.from_numpy(n.round(1)).long() + 1,
    }  # fmt: skip


CALLS: dict[str, Callable[[dict[str, Any]], Any]] = {
    # in place, by what functions give
    "clamp_": lambda t: t["x"].clamp_(0.2, 0.8),
    "relu_": lambda t: t["x"].relu_(),
    "lerp_": lambda t: t["x"].lerp_(t["y"], 0.5),
    "masked_fill_": lambda t: t["x"].masked_fill_(t["mask"], 0.0),
    "index_fill_": lambda t: t["x"].index_fill_(0, t["i"], 0.5),
    "scatter_add_": lambda t: t["x"].scatter_add_(0, t["at"], t["y"]),
    # draws
    "rand": lambda t: sf.rand(4, 5),
    "randn_like": lambda t: sf.randn_like(t["x"]),
    "randint": lambda t: sf.randint(10, (3,)),
    "uniform_": lambda t: t["x"].uniform_(),
    "normal_": lambda t: t["x"].normal_(0.0, 2.0),
    # kernels of the same bits, and of what NumPy is slow at
    "sigmoid": lambda t: t["x"].sigmoid(),
    "std": lambda t: t["x"].std(1),
    "cumsum": lambda t: t["x"].cumsum(1),
    "remainder": lambda t: t["x"] % 0.3,
    "amax": lambda t: t["x"].amax(1),
    "max": lambda t: t["x"].max(1),
    "sort": lambda t: t["x"].sort(1),
    "index": lambda t: t["x"][t["i"], t["i"]],
    "scatter": lambda t: t["x"].scatter(0, t["at"], t["y"]),
    "power": lambda t: t["x"] ** t["y"],
    # promoted
    "exp of integers": lambda t: t["whole"].exp(),
    "beside integers": lambda t: t["x"] + t["whole"],
    "integers beside": lambda t: t["whole"] * t["x"],
    "beside bools": lambda t: t["x"] * t["mask"],
    "quotient": lambda t: t["whole"] / 3,
    "of a number": lambda t: 3 / t["whole"],
    "comparison": lambda t: t["whole"] < t["x"],
    # one function of NumPy
    "sum": lambda t: t["x"].sum(1),
    "trace": lambda t: t["square"].trace(),
    "double": lambda t: t["x"].double(),
    "to": lambda t: t["x"].to("cpu"),
}  # fmt: skip


WRAPPERS = {
    "by_shape.<locals>.call", "refuses_foreign.<locals>.called", "Op.__call__",
    "<lambda>",  # what makes a named tuple
}  # fmt: skip
"""What a call may still go through: what functions are called by."""


@pytest.mark.parametrize("name", CALLS)
def test_runs_natively(name: str) -> None:
    t, call = operands(), CALLS[name]
    for _ in range(ESTABLISHED):
        call(t)
    found = frames(lambda: call(t))
    assert len(found) <= 2 and set(found) <= WRAPPERS


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "turned": lambda a: a.T.copy().T,
    "every other": lambda a: np.repeat(a, 2, 1)[:, ::2],
    "part": lambda a: np.pad(a, ((0, 1), (0, 3)))[: len(a), : a.shape[1]],
}  # fmt: skip
ROWS = sf.tensor([2, 0])
OTHERWISE: dict[str, Callable[[Any], Any]] = {
    "reciprocal": lambda x: x.reciprocal(),
    "nan_to_num": lambda x: x.nan_to_num(0.5),
    "lerp": lambda x: x.lerp(x, 0.5),
    "clamp": lambda x: x.clamp(0.2, 0.8),
    "remainder": lambda x: x % 0.3,
    "number first": lambda x: 0.3 % x,
    "tril": lambda x: x.tril(),
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(1),
    "cumsum": lambda x: x.cumsum(0),
    "any": lambda x: (x > 0.5).any(0),
    "index_select": lambda x: x.index_select(0, ROWS),
}  # fmt: skip
"""What a kernel computes once it comes often, with numbers or without."""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OTHERWISE)
def test_runs_natively_however_arrays_lie(name: str, layout: str) -> None:
    """The kernel is given what lies in another order as a view, and else a copy, by native code."""
    call = OTHERWISE[name]
    for shape in ((4, 5), (5, 40)):
        a = np.random.default_rng(0).uniform(0.1, 0.9, shape).astype(np.float32)
        x, straight = sf.from_numpy(LAYOUTS[layout](a)), sf.from_numpy(a)
        assert not x.is_contiguous()
        first = call(x)
        for _ in range(ESTABLISHED):
            call(x)
        found = frames(functools.partial(call, x))
        assert len(found) <= 2 and set(found) <= WRAPPERS
        for y, before, wanted in zip(*map(_results, (call(x), first, call(straight))), strict=True):
            assert y.numpy().strides == before.numpy().strides
            assert y.numpy().tobytes() == before.numpy().tobytes() == wanted.numpy().tobytes()


def _results(out: Any) -> tuple[Any, ...]:
    return tuple(out) if isinstance(out, tuple) else (out,)


def test_two_numbers_of_a_call_are_remembered_both() -> None:
    """Wherever they lie: what remembers them has few places."""
    x, numbers = sf.tensor([1.0, 2.0]), [0.25, 3.5]

    def call() -> None:
        x.normal_(*numbers)

    for _ in range(ESTABLISHED):
        call()
    for numbers[1] in np.arange(5.5, 1500.5).tolist():
        for _ in range(ESTABLISHED // 20):
            call()
        assert not frames(call)


@pytest.mark.parametrize("name", CALLS)
def test_gives_the_same_numbers_then_as_at_first(name: str) -> None:
    found = []
    for count in (0, ESTABLISHED):
        call = CALLS[name]
        for _ in range(count):
            call(operands())
        sf.manual_seed(3)
        out = call(operands())
        outs = out if isinstance(out, tuple) else (out,)
        found.append([(type(out), o.dtype, o.numpy().tobytes()) for o in outs])
    assert found[0] == found[1]


def test_several_results_are_recorded() -> None:
    x = sf.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
    for _ in range(ESTABLISHED):
        values, places = x.sort(1)
    assert places.tolist() == [[1, 2, 0]] and values.grad_fn is not None
    (values * sf.tensor([[1.0, 10.0, 100.0]])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[100, 1, 10]]
    with sf.no_grad():
        assert x.sort(1)[0].grad_fn is None


def test_draws_go_on_where_the_last_one_stopped() -> None:
    def drawn() -> list[Any]:
        sf.manual_seed(11)
        return [sf.rand(2, 3).tolist() for _ in range(6)] + [sf.randn(4).tolist()]

    first = drawn()
    assert first == drawn() and len({str(d) for d in first}) == 7
    x, wanted = sf.zeros(3), []
    for _ in range(5):
        sf.manual_seed(5)
        wanted.append(x.uniform_(2, 4).tolist())
    assert wanted == [wanted[0]] * 5 and all(2 <= v < 4 for v in wanted[0])
    with pytest.raises(ArgumentError, match=r"uniform_.*test_eager_small\.py"):
        x.uniform_(4, 2)


def test_in_place_errors_are_those_of_the_general_way() -> None:
    x = sf.zeros(2, 3)
    for _ in range(4):
        with pytest.raises(IndexRangeError):
            x.index_fill_(0, sf.tensor([5]), 1.0)
        with pytest.raises(ShapeError):
            x.lerp_(sf.ones(3, 2, 3), 0.5)
    assert x.tolist() == [[0, 0, 0]] * 2 and x._version == 0


def test_a_tensor_that_is_turned_in_place_stays_alone() -> None:
    x = sf.arange(6.0).reshape(2, 3).clone()
    for _ in range(7):
        x.t_()
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]] and x._base is None and x._version == 7


def test_index_tensors_together_are_stored_by() -> None:
    x, i, j = sf.zeros(3, 3), sf.tensor([0, -1]), sf.tensor([1, 2])
    x[i, j] = 5.0
    x[i, i] = sf.tensor([1.0, 2.0])
    assert x.tolist() == [[1, 5, 0], [0, 0, 0], [0, 0, 2]]
    with pytest.raises(IndexRangeError):
        x[i, sf.tensor([0, 7])] = 1.0
    x.requires_grad_()
    y = x * 2
    y[i, j] = 0.0
    assert sf.grad(y.sum(), x).tolist() == [[2, 0, 2], [2, 2, 2], [2, 2, 0]]


def test_powers_that_are_roots_and_cubes_are_kernels() -> None:
    numbers = [-math.inf, -0.0, 0.0, 2.25, math.inf]
    for exponent in (0.5, 3):
        found = choose.compute_of(pow, False)(np, np.array(numbers), exponent)
        wanted = [math.pow(v, exponent) for v in numbers]
        assert list(map(str, found.tolist())) == list(map(str, wanted))  # 0.0 is not -0.0


def test_frames_of_the_garbage_collector_are_not_counted() -> None:
    def note(phase: str, info: dict[str, int]) -> None:
        pass

    def call() -> None:
        made: list[Any] = []
        for _ in range(50):
            made += [[]]

    threshold = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        assert frames(call) == frames(lambda: None)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(note)
