"""Numbers in loops and branches: every kind, at every place, beside every dtype, is the same tensor
eagerly, compiled, under ``jit`` and inside another loop; or all of them refuse it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slices import daily

import staticflow as sf
from staticflow.errors import StaticflowError

NUMBERS: dict[str, Any] = {
    "bool": True,
    "int": 2,
    "negative": -1,
    "float": 2.5,
    "complex": 1j,
    "float32 scalar": np.float32(2.5),
    "float64 scalar": np.float64(2.5),
    "int64 scalar": np.int64(2),
    "bool scalar": np.bool_(True),
    "int32 array": np.array(2, np.int32),
    "float64 array": np.array(2.5),
    "array of one dim": np.array([2.5], np.float32),
    "text": "2",
}

PARTNERS = ("bool", "uint8", "int64", "float16", "float32", "float64")

# of a number v, a 0-d tensor x, and True
PLACES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "scan init": lambda v, x, t: sf.scan(lambda c, r: (c, r), v, x.reshape(1))[0],
    "scan init that meets x": lambda v, x, t: sf.scan(
        lambda c, r: (c * r, None), v, x.reshape(1)
    )[0],
    "scan carry": lambda v, x, t: sf.scan(lambda c, r: (v, None), x, x.reshape(1))[0],
    "scan y": lambda v, x, t: sf.scan(lambda c, r: (c, v), x, x.expand(3))[1],
    "scan y in a tree": lambda v, x, t: sf.scan(lambda c, r: (c, {"y": (v, r)}), x, x.expand(2))[1],
    "scan y that until sees": lambda v, x, t: sf.scan(
        lambda c, r: (c, v), x, x.expand(3), until=lambda c, y: y == y
    )[1][0],
    "scan y of no step": lambda v, x, t: sf.scan(lambda c, r: (c, v), x, x.expand(0))[1],
    "scan xs": lambda v, x, t: sf.scan(lambda c, r: (c, r), x, v)[1],
    "scan captured": lambda v, x, t: sf.scan(lambda c, r: (c, r * v), x, x.expand(2))[1],
    "ys_init": lambda v, x, t: sf.scan(
        lambda c, r, past: (c, past[0]), (), x.expand(2), taps={"ys": (1,)}, ys_init=v
    )[1],
    "lagged y": lambda v, x, t: sf.scan(
        lambda c, r, past: (c, v), (), x.expand(2), taps={"ys": (1,)}, ys_init=x.expand(1)
    )[1],
    "checkpointed carry": lambda v, x, t: sf.scan(
        lambda c, r: (v, None), x, x.expand(4), checkpoint=2
    )[0],
    "while init": lambda v, x, t: sf.while_loop(
        lambda i, c: i < 2, lambda i, c: (i + 1, c), (0, v)
    )[1],
    "while carry": lambda v, x, t: sf.while_loop(
        lambda i, c: i < 2, lambda i, c: (i + 1, v), (x.to("int64") * 0, x)
    )[1],
    "while counter": lambda v, x, t: sf.while_loop(
        lambda i, c: i < v, lambda i, c: (i + 1, c), (x.to("int64") * 0, x)
    )[0],
    "fori init": lambda v, x, t: sf.fori_loop(0, 2, lambda i, c: c, (v, x))[0],
    "fori carry": lambda v, x, t: sf.fori_loop(0, 2, lambda i, c: v, x),
    "map": lambda v, x, t: sf.map(lambda r: v, x.expand(2)),
    "map xs": lambda v, x, t: sf.map(lambda r: r * x, v),
    "true branch": lambda v, x, t: sf.cond(t, lambda: v, lambda: x),
    "false branch": lambda v, x, t: sf.cond(t, lambda: x, lambda: v),
    "branch not taken": lambda v, x, t: sf.cond(~t, lambda: v, lambda: x),
    "branches": lambda v, x, t: sf.cond(t, lambda: v, lambda: 3),
    "branches the other way": lambda v, x, t: sf.cond(~t, lambda: 1.5, lambda: v),
    "branch in a tree": lambda v, x, t: sf.cond(t, lambda: {"a": (v, x)}, lambda: {"a": (x, v)}),
    "operand of a branch": lambda v, x, t: sf.cond(t, lambda a: x * a, lambda a: x + a, v),
    "associative_scan": lambda v, x, t: sf.associative_scan(lambda a, b: v, x.expand(2)),
}  # fmt: skip


def outcome(run: Callable[[], Any]) -> Any:
    """The leaves that a run gives, with dtypes and shapes; or that it was refused."""
    try:
        leaves, tree = sf.pytree.flatten(run())
    except StaticflowError:
        return "refused"
    for leaf in leaves:
        assert isinstance(leaf, sf.Tensor), f"a {type(leaf).__name__} came out"
    return str(tree), [(v.dtype.name, v.shape, v.tolist()) for v in leaves]


def compiled(place: Any, v: Any, x: Any, t: Any) -> Any:
    a, b = sf.placeholder((), x.dtype, name="x"), sf.placeholder((), "bool", name="t")
    return sf.compile([a, b], place(v, a, b))(x, t)


def in_a_loop(place: Any, v: Any, x: Any, t: Any) -> Any:
    rows = sf.map(lambda row: place(v, *row), (x.reshape(1), t.reshape(1)))
    return sf.pytree.map_tree(lambda y: y[0], rows)


MODES: dict[str, Callable[..., Any]] = {
    "compile": compiled,
    "jit": lambda place, v, x, t: sf.jit(lambda x, t: place(v, x, t))(x, t),
    "in a loop": in_a_loop,
    "in a compiled loop": lambda place, v, x, t: sf.jit(
        lambda x, t: in_a_loop(place, v, x, t)
    )(x, t),
}  # fmt: skip

CASES = list(itertools.product(NUMBERS, PLACES, PARTNERS))


def check(number: str, place: str, dtype: str) -> None:
    v, fn = NUMBERS[number], PLACES[place]
    x, t = sf.tensor(1, dtype=dtype), sf.tensor(True)
    wanted = outcome(lambda: fn(v, x, t))
    for mode, run in MODES.items():
        found = outcome(lambda run=run: run(fn, v, x, t))
        assert found == wanted, f"{mode}: {found}, eagerly {wanted}"


@pytest.mark.parametrize(("number", "place", "dtype"), daily(CASES, 40, "numbers in loops"))
def test_numbers(number: str, place: str, dtype: str) -> None:
    check(number, place, dtype)


@pytest.mark.campaign
@pytest.mark.parametrize(("number", "place", "dtype"), CASES)
def test_all_numbers(number: str, place: str, dtype: str) -> None:
    check(number, place, dtype)
