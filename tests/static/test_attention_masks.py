"""Attention under masks that hide every key from some queries, whose weights are then set to 0: what
is a number as it was written is the same number in every program, and so are its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

ROWS, KEYS, WIDTH = 9, 10, 3


def _seen(of_keys: bool) -> Any:
    """Nothing for every third query; of the others, the earlier keys alone if ``of_keys``."""
    queries = sf.arange(ROWS)[:, None]
    some = queries % 3 > 0
    return some & (queries >= sf.arange(KEYS)) if of_keys else some


HIDING: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda s, seen: sf.where(seen, s, -math.inf),
    "masked_fill": lambda s, seen: s.masked_fill(~seen, -math.inf),
    "bias": lambda s, seen: s + sf.where(seen, 0.0, -math.inf).to(s.dtype),
    "a large number": lambda s, seen: sf.where(seen, s, -1e9),
}

DROPPING: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda w, seen: sf.where(seen, w, 0.0),
    "masked_fill": lambda w, seen: w.masked_fill(~seen, 0.0),
    "twice": lambda w, seen: sf.where(seen, w * 0.5, 0.0).masked_fill(~seen[:, :1], 0.0),
    "nothing": lambda w, seen: w,
}

WAYS: tuple[dict[str, Any], ...] = (
    {}, {"numerics": "exact"}, {"passes": ["-attention"]}, {"stabilize": False},
)  # fmt: skip


def _of_all_drops(hide: Any, of_keys: bool) -> Callable[..., list[Any]]:
    def fn(q: Any, k: Any, v: Any) -> list[Any]:
        seen = _seen(of_keys)
        return [drop(hide(q @ k.mT, seen).softmax(-1), seen) @ v for drop in DROPPING.values()]

    return fn


@pytest.mark.parametrize("of_keys", [False, True])
@pytest.mark.parametrize("name", HIDING)
def test_rows_that_see_nothing_and_are_dropped(name: str, of_keys: bool) -> None:
    fn, rng = _of_all_drops(HIDING[name], of_keys), np.random.default_rng(0)
    arrays = [rng.standard_normal((n, WIDTH)) for n in (ROWS, KEYS, KEYS)]
    wanted: list[Any] = []
    for i in range(len(DROPPING)):
        tensors = [sf.tensor(a, requires_grad=True) for a in arrays]
        out = fn(*tensors)[i]
        (out**2).sum().backward()
        wanted += [out.detach(), *(t.grad for t in tensors)]
    for way in WAYS:
        symbols = [
            sf.placeholder(a.shape, dtype=sf.float64, name=n)
            for n, a in zip("qkv", arrays, strict=True)
        ]
        outs = fn(*symbols)
        results = [x for out in outs for x in (out, *sf.grad((out**2).sum(), symbols))]
        program = sf.compile(symbols, results, **way)
        for i, (found, want) in enumerate(zip(program(*arrays), wanted, strict=True)):
            number = ~np.isnan(want)
            what = f"result {i % 4} of {list(DROPPING)[i // 4]}, {way}"
            np.testing.assert_allclose(found[number], want[number], 1e-9, 1e-12, err_msg=what)


BESIDE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda q, k, c: q @ k.mT + c,
    "sub": lambda q, k, c: q @ k.mT * 0.5 - c,
    "addmm": lambda q, k, c: sf.addmm(c, q, k.mT, beta=0.5),
    "largest": lambda q, k, c: (q @ k.mT) - sf.amax(q @ k.mT, -1, keepdim=True),
}


@pytest.mark.parametrize("least", [-2.0, -math.inf])
@pytest.mark.parametrize("name", BESIDE)
def test_what_is_added_for_all_keys_alike(name: str, least: float) -> None:
    """A softmax does not change by it, but where it is -inf; and it has a gradient, of 0."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, WIDTH)) for n in (ROWS, KEYS, KEYS)]
    arrays.append(np.linspace(-1, 1, ROWS)[:, None])
    arrays[-1][2] = least

    def fn(q: Any, k: Any, v: Any, c: Any) -> list[Any]:
        out = sf.softmax(BESIDE[name](q, k, c), -1) @ v
        loss = (out[:2] ** 2).sum() + (out[3:] ** 2).sum()
        slopes = sf.grad(loss, [q, k, v, c], allow_unused=name == "largest")
        return [out, *(t for t in slopes if t is not None)]

    tensors = [sf.tensor(a, requires_grad=True) for a in arrays]
    wanted = [t.detach().numpy() for t in fn(*tensors)]
    symbols = [
        sf.placeholder(a.shape, dtype=sf.float64, name=n)
        for n, a in zip("qkvc", arrays, strict=True)
    ]
    found = sf.compile(symbols, fn(*symbols))(*arrays)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b, 1e-9, 1e-12)


SHIFTED: dict[str, Callable[[Any, Any], Any]] = {
    "filled": lambda s, seen: sf.where(seen, s + 2.0, -0.5),
    "filled, less the largest": lambda s, seen: (
        (s - sf.amax(s, -1, keepdim=True)).masked_fill(~seen, -0.5)
    ),
    "bounded": lambda s, seen: (s + 0.5).tanh(),
    "times what is not the same for all keys": lambda s, seen: (s - 0.5) * seen.to(s.dtype),
    "scaled, then filled": lambda s, seen: sf.where(seen, (s + 2.0) * 0.5, -0.5),
    "of a product with something added": lambda s, seen: sf.where(
        seen, sf.addmm(sf.tensor(2.0, dtype=sf.float64), s, sf.eye(KEYS, dtype=sf.float64)), -0.5
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHIFTED)
def test_what_all_scores_are_shifted_by_counts_where_not_all_are_changed_alike(name: str) -> None:
    """What is added to all scores of a query, which a softmax does not see, was left out where some
    of them were filled with a number afterwards, too."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, WIDTH)) for n in (ROWS, KEYS, KEYS)]

    def fn(q: Any, k: Any, v: Any) -> list[Any]:
        out = SHIFTED[name](q @ k.mT, _seen(True)).softmax(-1) @ v
        return [out, *sf.grad((out**2).sum(), [q, k, v])]

    wanted = fn(*(sf.tensor(a, requires_grad=True) for a in arrays))
    symbols = [
        sf.placeholder(a.shape, dtype=sf.float64, name=n)
        for n, a in zip("qkv", arrays, strict=True)
    ]
    for found, want in zip(sf.compile(symbols, fn(*symbols))(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), want.detach().numpy(), 1e-9, 1e-12)
