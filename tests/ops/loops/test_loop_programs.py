"""Programs that mix the forms of loops with each other and with the rest of the library: value,
gradients and gradients of gradients, compiled, against the eager run and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

rng = np.random.default_rng(0)
W, X = rng.normal(size=3), rng.normal(size=(4, 3))
ROWS = rng.normal(size=(5, 2, 3))
K = np.asarray(3)


def step(w: Any) -> Callable[[Any, Any], Any]:
    return lambda c, x: ((c * w + x).sin(), c)


def early(w: Any, x: Any, **how: Any) -> Any:
    return sf.scan(step(w), w, x, until=lambda c, y: c.sum() > 0.8, **how)


def both(last: Any, ys: Any) -> Any:
    return last.sum() + (ys * ys).sum()


def in_place(w: Any, x: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        d = c.clone()
        d[0] = x[1] * c[1]
        d += w
        return d, d * 1

    return sf.scan(body, w, x)[1].sum()


def until_inside_until(w: Any, x: Any) -> Any:
    def body(c: Any, q: Any) -> Any:
        last, ys = sf.scan(
            lambda d, p: ((d * p + q).sin(), d), c, x, until=lambda d, y: d.sum() > 1
        )
        return last, ys.sum(0)

    return sf.scan(body, w, x, until=lambda c, y: c.sum() < -1)[1].sum()


def while_of_while(w: Any, k: Any) -> Any:
    def body(i: Any, c: Any) -> Any:
        inner = sf.while_loop(lambda j, d: j < i, lambda j, d: (j + 1, d * w + 0.1), (i * 0, c))
        return i + 1, inner[1]

    return sf.while_loop(lambda i, c: i < k, body, (k * 0, w))[1].sum()


def carries_of_all_kinds(w: Any, x: Any) -> Any:
    def body(c: Any, q: Any) -> Any:
        h, odd, n = c["h"], *c["more"]
        return {"h": h * w + q, "more": (~odd, n + 1)}, (h * odd.to(sf.float64), {"n": n})

    start = {"h": w, "more": (sf.tensor(True), sf.tensor(0, dtype="int32"))}
    last, (hs, counted) = sf.scan(body, start, x)
    return last["h"].sum() + (hs * counted["n"].reshape(-1, 1)).sum()


def maps_and_branches(w: Any, x: Any) -> Any:
    def row(q: Any) -> Any:
        return sf.cond(q.sum() > 0, lambda: (q * w).sum(), lambda: q[q < 0].prod() * w[0])

    return sf.map(row, x).sum()


def scans_in_branches(w: Any, x: Any, k: Any) -> Any:
    return sf.cond(
        k > 2,
        lambda: sf.scan(lambda c, q: (c * q, c), w, x)[1].sum(),
        lambda: sf.scan(lambda c, q: (c + q, c * w), w, x)[1].sum(),
    )


def ragged(**how: Any) -> Any:
    def of(w: Any, x: Any, lengths: Any) -> Any:
        return both(*sf.scan(lambda c, q: ((c * w + q).sin(), c * q), x[0] * 0 + w, x,
                             lengths=lengths, **how))  # fmt: skip

    return of


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "carries of all kinds": (carries_of_all_kinds, (W, X)),
    "in place": (in_place, (W, X)),
    "until inside until": (until_inside_until, (W, X)),
    "while of while": (while_of_while, (W, K)),
    "maps and branches": (maps_and_branches, (W, X)),
    "scans in branches": (scans_in_branches, (W, X, K)),
    "the other branch": (scans_in_branches, (W, X, np.asarray(1))),
    "early, backwards, in segments": (
        lambda w, x: both(*early(w, x, reverse=True, checkpoint=2)), (W, X),
    ),
    "within a budget": (lambda w, x: both(*sf.scan(step(w), w, x, memory_budget=5000)), (W, X)),
    "lags of both": (
        lambda w, x: both(*sf.scan(
            lambda c, q, p: ((c * w + q[0] - q[1]).sin(), c * p[0]), w, x,
            taps={"xs": (0, 2), "ys": (1,)}, ys_init=w.reshape(1, 3),
        )), (W, X),
    ),
    "ragged": (ragged(), (W, ROWS, np.array([2, 5]))),
    "ragged, backwards": (ragged(reverse=True), (W, ROWS, np.array([0, 4]))),
    "ragged, in segments": (ragged(checkpoint="sqrt"), (W, ROWS, np.array([0, 4]))),
    "ragged in map": (
        lambda w, x, n: sf.map(
            lambda s: sf.scan(lambda c, q: ((c * w[0] + q).sin(), c * q), x[0, :, 0], x[:, :, 1],
                              lengths=n)[1].sum() * s, w).sum(),
        (W, ROWS, np.array([1, 3])),
    ),
    "a last row": (lambda w, x: sf.scan(step(w), w, x)[1][-1].sum(), (W, X)),
    "some rows": (lambda w, x: sf.scan(step(w), w, x)[1][1:3].sum(), (W, X)),
    "carries that change places": (
        lambda w, x: sf.scan(lambda c, q: ((c[1], c[0] * q), c[0]), (w, w * 2), x)[1].sum(), (W, X),
    ),
    "a matrix": (
        lambda w, x: sf.scan(lambda c, q: (c @ c.t() @ c * 0.1 + q, c.sum()), x[:3],
                             sf.stack([x[:3], x[1:]]))[1].sum() * w.sum(), (W, X),
    ),
    "sorted": (
        lambda w, x: sf.scan(lambda c, q: ((c * q).sort().values, c * w), w, x)[1].sum(), (W, X),
    ),
    "a table": (
        lambda w, x, i: sf.scan(lambda c, k: (c * x[k] + w, c), w, i)[1].sum(),
        (W, X, np.array([3, 0, 0])),
    ),
    "the mean over the iterations": (lambda w, x: early(w, x)[1].mean(), (W, X)),
    "a number of iterations": (lambda w, x: w.sum() * early(w, x)[1].shape[0], (W, X)),
    "a scan over the iterations": (
        lambda w, x: sf.scan(lambda c, y: (c * y + w, c), w, early(w, x)[1])[1].sum(), (W, X),
    ),
    "a row for each iteration": (
        lambda w, x: (lambda ys: (ys.sum(1) * sf.arange(ys.shape[0])).sum())(early(w, x)[1]),
        (W, X),
    ),
    "slices that grow": (
        lambda w, x, k: sf.fori_loop(0, k, lambda i, c: c + (x[:i] * w).sum(0), w).sum(), (W, X, K),
    ),
    "scans that grow": (
        lambda w, k: sf.fori_loop(
            0, k, lambda i, c: c + sf.scan(lambda a, _: (a * w, a), w, length=i)[1].sum(0), w
        ).sum(), (W, K),
    ),
    "prefixes of some rows": (
        lambda w, x, k: sf.associative_scan(lambda a, b: a * b, (x * w)[:k], reverse=True).sum(),
        (W, X, K),
    ),
    "a product of some rows": (lambda w, x, k: (x[:k].t() @ x[:k] @ w).sum(), (W, X, K)),
    "softmax of some rows": (lambda w, x, k: (x[:k].softmax(0) * w).sum(), (W, X, K)),
    "two sizes that are one": (
        lambda w, x, k: ((x[:k] * w) * (x[6 - k - 2 : 2 * k - 2] * w)).sum(), (W, X, K),
    ),
    "a carry of some rows": (
        lambda w, x, k: sf.while_loop(
            lambda c: c.sum() < 40, lambda c: c * 1.3 + 1, (x * w)[:k].abs() + 1
        ).sum(), (W, X, K),
    ),
    "some rows until": (lambda w, x, k: both(*early(w, x[:k], reverse=True)), (W, X, K)),
    "rows as often as": (
        lambda w, x, i: (x * w).repeat_interleave(i, 0).cumsum(0).sum(),
        (W, X, np.array([0, 2, 1, 3])),
    ),
    "added by rows": (
        lambda w, x, k: (
            sf.zeros(k, 3, dtype=sf.float64).index_add(0, sf.arange(4) % k, x * w) ** 2
        ).sum(), (W, X, K),
    ),
    "a mask in a scan": (
        lambda w, x: sf.scan(
            lambda c, q: (c + (q[q > 0] * w.sum()).sum() * c, q[q > c].sum()), w, x
        )[1].sum(), (W, X),
    ),
}  # fmt: skip


def derivatives(fn: Callable[..., Any], args: list[Any], create: Any) -> list[Any]:
    """The value, the gradients by ``args``, and those of the sum of their squares."""

    def all_of(y: Any, **how: Any) -> list[Any]:
        if not create and not y.requires_grad:
            return [a * 0 for a in args]
        found = sf.grad(y, args, allow_unused=True, **how)
        return [a * 0 if d is None else d for a, d in zip(args, found, strict=True)]

    y = fn(*args)
    first = all_of(y, **({} if create else {"create_graph": True}))
    return [y, *first, *all_of(sum((d * d).sum() for d in first))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    fn, given = PROGRAMS[name]
    floats = [a for a in given if a.dtype == np.float64]
    rest = [a for a in given if a.dtype != np.float64]
    made = [sf.placeholder((None,) * a.ndim, str(a.dtype), name=f"a{i}")
            for i, a in enumerate(given)]  # fmt: skip
    numbers = made[len(floats) :]
    f = sf.compile(made, derivatives(lambda *a: fn(*a, *numbers), made[: len(floats)], create=True))
    got = f(*given)
    tensors = [sf.tensor(a, requires_grad=True) for a in floats]
    want = derivatives(lambda *a: fn(*a, *map(sf.tensor, rest)), tensors, create=False)
    for mine, other in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, other.detach(), rtol=1e-7, atol=1e-10)
    for i, a in enumerate(floats):
        way, small = np.random.default_rng(i).normal(size=a.shape), 1e-6
        ends = [
            f(*[b + sign * small * way if j == i else b for j, b in enumerate(given)])[0].item()
            for sign in (1, -1)
        ]
        slope = (np.asarray(got[1 + i]) * way).sum()
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * small), rtol=1e-4, atol=1e-6)
    assert f.compile_count == 1
