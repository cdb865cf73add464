"""Random loops that put into their carries in place, at places that numbers of the graph tell too:
the native program and the slow machine that watches its memory against the graph as it was
written, and against the same steps one by one, eagerly.

``STATICFLOW_FUZZ=500 pytest tests/fuzz`` runs that many other ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from routine_machine import run_slowly

import staticflow as sf
from staticflow.graph.interpret import interpret_graph

CAMPAIGN = int(os.environ.get("STATICFLOW_FUZZ", "0"))
Step = Callable[[Any, Any, Any], tuple[Any, Any]]


def _assign(y: Any, key: Any, value: Any) -> Any:
    y[key] = value
    return y


def _change(part: Any, verb: str, value: Any, y: Any) -> Any:
    getattr(part, verb)(value)
    return y


def _columns(y: Any, q: Any, n: Any) -> Any:
    """A loop that puts column by column, and reads one that it may have put."""
    return sf.fori_loop(0, 3, lambda i, c: _assign(c, (slice(None), i), c[:, n] * 0.5 + q[:, i]), y)


ALL = slice(None)
PUTS: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda y, q, n: _assign(y, 0, q[0]),
    lambda y, q, n: _assign(y, -1, q.mean(0)),
    lambda y, q, n: _assign(y, (ALL, n), q[:, 0]),
    lambda y, q, n: _assign(y, (ALL, n - 3), q[:, 2] * 0.5),
    lambda y, q, n: _assign(y, (0, n), q.mean()),
    lambda y, q, n: _assign(y, (ALL, slice(1, None)), q[:, :2]),
    lambda y, q, n: _assign(y, (ALL, slice(None, None, 2)), y[:, 1:]),
    lambda y, q, n: _assign(y, y > 0.5, 0.25),
    lambda y, q, n: _change(y[:, n], "add_", q[:, 1], y),
    lambda y, q, n: _change(y[0][n], "mul_", 0.5, y),
    lambda y, q, n: _change(y.T[n], "mul_", 0.5, y),
    lambda y, q, n: _change(y.T[n][1:], "sub_", q[1:, n], y),
    lambda y, q, n: _change(y[::2, n], "fill_", 0.25, y),
    lambda y, q, n: _change(y[0], "copy_", y[-1].sin(), y),
    lambda y, q, n: y.index_add(1, sf.stack([n, n * 0]), q[:, :2] * 0.5),
    lambda y, q, n: y.index_put((sf.stack([n * 0, n * 0 + 1]), sf.stack([n, n])), q[:2, 0]),
    lambda y, q, n: y.index_put((sf.stack([n * 0, n * 0]), sf.stack([n, n])), q[:2, 0], True),
    lambda y, q, n: y.slice_scatter(q[:1], 0, 0, 1),
    lambda y, q, n: y.select_scatter(q[:, 1], 1, 2),
    lambda y, q, n: sf.cond(q.sum() > 0, lambda: _assign(y.clone(), 0, q[-1]), lambda: y * 1.0),
    _columns,
)


def drawn(rng: np.random.Generator, count: int, h: Any, k: Any) -> Step:
    """A step of ``count`` carries of the shape of ``h``, each of which is put into as its plan
    says: in its own memory or in a copy's, and read before and after. Nothing is drawn as it is
    called."""
    plans = rng.integers((len(PUTS), count + 2, 3), size=(count, 3, 3)).tolist()
    lengths = rng.integers(4, size=count).tolist()
    copied, read_before, changed_after = (rng.random((3, count)) < 0.35).tolist()
    takes = rng.integers(count, size=count) if rng.random() < 0.4 else np.arange(count)
    kept = [(int(rng.integers(5)), int(rng.integers(count))) for _ in range(2)]

    def step(i: Any, carries: Any, row: Any) -> tuple[Any, Any]:
        before = [c * 0.375 for c in carries]
        columns = [carries[a][:, 0].clone() for _, a in kept]
        new: list[Any] = []
        for at in range(count):
            own = carries[takes[at]]
            y = own.clone() if copied[at] else own
            for form, other, place in plans[at][: lengths[at]]:
                q = [*carries, row, h][other]
                n = ((i + k) % 3, i % 3, (q.sum() > 0) * 1)[place]
                y = PUTS[form](y, q.tanh(), n)
            y = y + before[at] if read_before[at] else y
            new.append(y.sin() if changed_after[at] else y)
        stacked = [
            (new[a], carries[a], column, new[a][:, (i + k) % 3], new[a].sum(0))[form]
            for (form, a), column in zip(kept, columns, strict=True)
        ]
        return tuple(new), tuple(stacked)

    return step


def loop_of(seed: int, x: Any, h: Any, k: Any) -> list[Any]:
    """What the loop of a seed over ``x`` gives, in either mode: a scan from either end, or a
    loop that reads its rows."""
    rng = np.random.default_rng(seed)
    count, kind = int(rng.integers(1, 4)), int(rng.integers(3))
    step = drawn(rng, count, h, k)
    init = tuple(h if shared else h * 1.5 for shared in rng.random(count) < 0.3)
    if kind == 2:
        _, last = sf.while_loop(
            lambda i, c: i < x.shape[0] - 1,
            lambda i, c: (i + 1, step(i, c, x[i])[0]),
            (0, init),
        )
        return [*last, h * 2]

    def counted(carry: Any, row: Any) -> Any:
        i, carries = carry
        carries, stacked = step(i, carries, row)
        return (i + 1, carries), stacked

    (_, last), stacked = sf.scan(counted, (0, init), x, reverse=kind == 1)
    return [*last, *stacked, h * 2]


@pytest.mark.parametrize("seed", range(100, 100 + CAMPAIGN) if CAMPAIGN else range(16))
def test_random_puts(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    known = rng.random() < 0.3
    time, batch = (3, 2) if known else ("T", "B")
    x = sf.placeholder((time, batch, 3), "float64", name="x")
    h = sf.placeholder((batch, 3), "float64", name="h")
    k = sf.placeholder((), "int64", name="k")
    outs = loop_of(seed, x, h, k)
    used = [i for i in range(len(outs)) if rng.random() < 0.6] or [0]
    loss = sum((outs[i].sin().sum() for i in used), start=0.0)
    grads = sf.grad(loss, [x, h], allow_unused=True) if seed % 2 else []
    program = sf.compile(
        [x, h, k], [*(outs[i] for i in used), *(g for g in grads if g is not None)]
    )
    for rows, size, number in ((3, 2, 0), (1, 2, 2), (0, 2, 1), (5, 4, 4))[: 1 if known else 4]:
        given = [rng.normal(size=s) for s in ((rows, size, 3), (size, 3))]
        arrays = [*given, np.asarray(number)]
        expected = interpret_graph(program.graph, [a.copy() for a in arrays])
        got = [o.numpy() for o in program(*arrays)]
        eager = loop_of(seed, *map(sf.tensor, given), sf.tensor(number))
        code, slow = run_slowly(program, arrays)
        assert code == 0
        for at, (a, b) in enumerate(zip(got, expected, strict=True)):
            what = f"output {at} of {rows} rows, {size} each"
            np.testing.assert_allclose(a, b, 1e-9, 1e-9, err_msg=what)
        for at, (a, b) in enumerate(zip(slow, expected, strict=False)):
            np.testing.assert_allclose(a, b, 1e-9, 1e-9, err_msg=f"slow output {at}")
        for i, a in zip(used, got, strict=False):
            np.testing.assert_allclose(a, eager[i].numpy(), 1e-9, 1e-9, err_msg=f"eager {i}")
