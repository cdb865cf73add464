"""A size may come from a value: what a graph makes of a symbolic integer, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import DTypeError, ShapeError

X = np.arange(6.0)
W = np.array([2.0, -1.0, 0.5])


def stored(x: Any, k: Any) -> Any:
    x[k : k + 2] = 9.0
    x[:k] += 1
    return x


SIZED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "arange": (lambda k, x: sf.arange(k), lambda k, x: np.arange(k)),
    "arange two": (lambda k, x: sf.arange(-k, k), lambda k, x: np.arange(-k, k)),
    "arange down": (lambda k, x: sf.arange(k, -3, -2), lambda k, x: np.arange(k, -3, -2)),
    "arange by": (lambda k, x: sf.arange(0, 10, k + 1), lambda k, x: np.arange(0, 10, k + 1)),
    "arange float": (lambda k, x: sf.arange(k * 0.75), lambda k, x: np.arange(k * 0.75)),
    "zeros": (lambda k, x: sf.zeros(k, 2), lambda k, x: np.zeros((k, 2))),
    "ones": (lambda k, x: sf.ones((2, k)), lambda k, x: np.ones((2, k))),
    "full": (lambda k, x: sf.full((k,), 7), lambda k, x: np.full(k, 7)),
    "new_full": (lambda k, x: x.new_full((k, k), 3), lambda k, x: np.full((k, k), 3.0)),
    "eye": (lambda k, x: sf.eye(k, k + 1), lambda k, x: np.eye(k, k + 1)),
    "rand": (lambda k, x: sf.rand(k, 2) * 0, lambda k, x: np.zeros((k, 2))),
    "randperm": (lambda k, x: sf.randperm(k).sort().values, lambda k, x: np.arange(k)),
    "expand": (lambda k, x: x.expand(k, -1), lambda k, x: np.broadcast_to(x, (k, 6))),
    "repeat": (lambda k, x: x.repeat(k), lambda k, x: np.tile(x, k)),
    "narrow": (lambda k, x: x.narrow(0, k, 2), lambda k, x: x[k : k + 2]),
    "narrow to": (lambda k, x: x.narrow(0, 1, k), lambda k, x: x[1 : 1 + k]),
    "first": (lambda k, x: x[:k], lambda k, x: x[:k]),
    "rest": (lambda k, x: x[k:], lambda k, x: x[k:]),
    "last": (lambda k, x: x[-k - 1 :], lambda k, x: x[-k - 1 :]),
    "but the last": (lambda k, x: x[: -k - 1], lambda k, x: x[: -k - 1]),
    "between": (lambda k, x: x[k : 2 * k + 1], lambda k, x: x[k : 2 * k + 1]),
    "turned round": (lambda k, x: x[k + 1 : k], lambda k, x: x[k + 1 : k]),
    "steps": (lambda k, x: x[k::2], lambda k, x: x[k::2]),
    "far": (lambda k, x: x[k + 10 :], lambda k, x: x[k + 10 :]),
    "rows": (lambda k, x: x.reshape(k + 1, -1)[:, 0], lambda k, x: x.reshape(k + 1, -1)[:, 0]),
    "scan": (
        lambda k, x: sf.scan(lambda c, _: (c * 2, c), x[1], length=k)[1],
        lambda k, x: 2.0 ** np.arange(k),
    ),
    "repeat_interleave": (
        lambda k, x: x.repeat_interleave(sf.arange(6) * k // 2),
        lambda k, x: np.repeat(x, np.arange(6) * k // 2),
    ),
    "bincount": (
        lambda k, x: sf.bincount(sf.arange(6) * k // 2),
        lambda k, x: np.bincount(np.arange(6) * k // 2),
    ),
    "one_hot": (
        lambda k, x: sf.one_hot(sf.arange(6) * k // 2).sum(0),
        lambda k, x: np.bincount(np.arange(6) * k // 2),
    ),
    "a mask": (lambda k, x: x[x < k], lambda k, x: x[x < k]),
    "stored": (lambda k, x: stored(x + 0, k), lambda k, x: stored(x + 0, k)),
    "one size": (lambda k, x: sf.arange(k) * sf.ones(k), lambda k, x: np.arange(k) * 1.0),
    "another": (lambda k, x: sf.zeros(k) + sf.ones(k * 1), lambda k, x: np.ones(k)),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZED)
def test_as_numpy(name: str) -> None:
    made, want = SIZED[name]
    k = sf.placeholder((), "int64", name="k")
    x = sf.placeholder((None,), "float64", name="x")
    f = sf.compile([k, x], made(k, x))
    for value in (0, 1, 2):
        got = f(value, X)
        np.testing.assert_allclose(got, want(value, X), rtol=1e-6)
        eager = made(sf.tensor(value), sf.tensor(X))
        assert (got.dtype, got.tolist()) == (eager.dtype, eager.tolist())
    assert f.compile_count == 1


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_any_integer_is_a_size(dtype: str) -> None:
    k = sf.placeholder((), dtype, name="k")
    assert sf.compile([k], sf.zeros(k))(3).shape == (3,)
    assert sf.zeros(sf.tensor(3, dtype=dtype)).shape == sf.arange(sf.tensor(3, dtype=dtype)).shape


@pytest.mark.parametrize("wrong", [((), "float32"), ((), "bool"), ((3,), "int64")], ids=str)
def test_what_is_no_size(wrong: Any) -> None:
    with pytest.raises(DTypeError, match=r"a size is .* it must be an integer"):
        sf.zeros(sf.placeholder(*wrong, name="k"))


@pytest.mark.parametrize("value", [-1, 2**62, -(2**62)])
def test_a_number_that_is_no_size(value: int) -> None:
    k = sf.placeholder((), "int64", name="k")
    f = sf.compile([k], sf.ones(k))
    with pytest.raises(ShapeError, match=rf"a size .*test_sizes_from_values.*it is {value};"):
        f(value)
    assert f(2).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("end", "step", "size"), [(-5, 1, -5), (-1, 2, -1), (3, 0, -1), (7, -2, -3)]
)
def test_a_step_that_leads_away_is_told_by_its_number(end: int, step: int, size: int) -> None:
    k, s = (sf.placeholder((), "int64", name=n) for n in "ks")
    f = sf.compile([k, s], sf.arange(0, k, s))
    with pytest.raises(ShapeError, match=rf"a size .*it is {size};"):
        f(end, step)
    assert f(7, 2).tolist() == [0, 2, 4, 6] and f(-7, -2).tolist() == [0, -2, -4, -6]


@pytest.mark.parametrize(
    "made", [lambda k: sf.zeros(k * 256), lambda k: sf.ones(k, k), lambda k: sf.eye(k, k * 8)],
    ids=["one", "two", "scaled"],
)  # fmt: skip
def test_more_than_there_is_room_for(made: Callable[..., Any]) -> None:
    k = sf.placeholder((), "int64", name="k")
    f = sf.compile([k], made(k))
    with pytest.raises(MemoryError, match=r"no memory for .*test_sizes_from_values"):
        f(2**32)
    assert f(0).numel() == 0


def test_a_branch_that_is_not_taken_asks_for_no_size() -> None:
    k = sf.placeholder((), "int64", name="k")
    f = sf.compile([k], sf.cond(k < 0, lambda: sf.ones(-k).sum(), lambda: sf.ones(k).sum() * 2))
    assert [f(v).item() for v in (-3, 0, 4)] == [3, 0, 8]


def in_a_loop(k: Any, w: Any) -> Any:
    """Sizes that differ from iteration to iteration."""

    def iteration(i: Any, c: Any) -> Any:
        ramp = sf.arange(i + 1).to(sf.float64)
        return c * 0.5 + (ramp * c + w[0]).sum() + w[:i].sum() * c

    return sf.fori_loop(0, k, iteration, w[1])


def in_a_branch(k: Any, w: Any) -> Any:
    return sf.cond(k > 1, lambda: (sf.ones(k, dtype=w.dtype) * w[0]).prod(), lambda: w[k:].sum())


def in_a_scan(k: Any, w: Any) -> Any:
    def step(c: Any, n: Any) -> Any:
        part = w[:n] * c
        return c + (part * part).sum(), part.sum()

    last, ys = sf.scan(step, w[2], sf.arange(3) * k)
    return last * ys.sum()


def iterations(k: Any, w: Any) -> Any:
    last, ys = sf.scan(lambda c, _: ((c * w[0]).sin(), c * w[1]), w[2], length=k)
    return last + (ys * ys).sum() + w.expand(k, 3).sum()


def inside_and_outside(k: Any, w: Any) -> Any:
    """One value is one size where a region asks for what was asked for around it."""

    def step(c: Any, x: Any) -> Any:
        return c * sf.ones(k, dtype=w.dtype) + x, sf.arange(k).sum() * x

    last, ys = sf.scan(step, w[0].expand(k), w)
    return last.sum() + ys.sum() + w.expand(k, 3).sum()


def inside_and_after(k: Any, w: Any) -> Any:
    last, _ = sf.scan(lambda c, x: (c * sf.ones(k, dtype=w.dtype).sum() + x, None), w[1], w)
    return last * w.expand(k, 3).sum()


@pytest.mark.parametrize(
    "of", [in_a_loop, in_a_branch, in_a_scan, iterations, inside_and_outside, inside_and_after]
)
@pytest.mark.parametrize("value", [0, 1, 3])
def test_gradients(of: Callable[..., Any], value: int) -> None:
    k = sf.placeholder((), "int64", name="k")
    w = sf.placeholder((3,), "float64", name="w")
    y = of(k, w)
    (first,) = sf.grad(y, [w])
    (second,) = sf.grad((first * first).sum(), [w], allow_unused=True)
    second = sf.zeros_like(w) if second is None else second
    f = sf.compile([k, w], [y, first, second])
    at = sf.tensor(W, requires_grad=True)
    want = of(sf.tensor(value), at)
    (d,) = sf.grad(want, [at], create_graph=True)
    (dd,) = sf.grad((d * d).sum(), [at], allow_unused=True) if d.requires_grad else (None,)
    dd = sf.zeros(3) if dd is None else dd
    for got, expected in zip(f(value, W), (want, d, dd), strict=True):
        np.testing.assert_allclose(got, expected.detach(), rtol=1e-10, atol=1e-12)
