"""Losses of wide products, computed for a block of rows at a time: values, gradients, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.passes import row_blocks

F = sf.nn.functional
WORDS, WIDTH = 4100, 6


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Blocks of 16 rows."""
    monkeypatch.setattr(row_blocks, "_BLOCK", 16 * WORDS)
    yield 16


def cross_entropy(**how: Any) -> Callable[..., Any]:
    return lambda z, t, weight: F.cross_entropy(z, t, **how)


def chosen(x: Any, t: Any) -> Any:
    return x.gather(1, t.unsqueeze(1))[:, 0]


LOSSES: dict[str, Callable[..., Any]] = {
    "mean": cross_entropy(),
    "sum": cross_entropy(reduction="sum"),
    "ignored": cross_entropy(ignore_index=3),
    "smoothed": cross_entropy(label_smoothing=0.1),
    "each": lambda z, t, weight: (F.cross_entropy(z, t, reduction="none") ** 2).sum(),
    "weighted": lambda z, t, weight: F.cross_entropy(z, t, weight=weight),
    "weighted and smoothed": lambda z, t, weight: F.cross_entropy(
        z, t, weight=weight, label_smoothing=0.2, ignore_index=3
    ),
    "nll": lambda z, t, weight: F.nll_loss(z.log_softmax(1), t),
    "gathered": lambda z, t, weight: -chosen(z.log_softmax(1), t).mean(),
    "by hand": lambda z, t, weight: (z.logsumexp(1) - chosen(z, t)).mean(),
    "one hot": lambda z, t, weight: -(F.one_hot(t, WORDS) * z.log_softmax(1)).sum(),
    "logarithm": lambda z, t, weight: -chosen(z.softmax(1).log(), t).mean(),
    "focal": lambda z, t, weight: ((1 - chosen(z.softmax(1), t)) ** 2).mean(),
}


def arrays(rows: int, dtype: str = "float64") -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    h, w = rng.standard_normal((rows, WIDTH)), rng.standard_normal((WORDS, WIDTH))
    bias, weight = rng.standard_normal(WORDS), rng.random(WORDS) + 0.5
    t = rng.integers(0, WORDS, rows)
    t[: rows // 3] = 3
    return [*(a.astype(dtype) for a in (h, w, bias, weight)), t]


def step(loss_of: Callable[..., Any], rows: int | None, dtype: str = "float64", **how: Any) -> Any:
    h = sf.placeholder((rows, WIDTH), dtype, name="h")
    w = sf.placeholder((WORDS, WIDTH), dtype, name="w")
    bias, weight = (sf.placeholder((WORDS,), dtype, name=n) for n in ("bias", "weight"))
    t = sf.placeholder((rows,), "int64", name="t")
    loss = loss_of(h @ w.T + bias, t, weight)
    return sf.compile([h, w, bias, weight, t], (loss, *sf.grad(loss, [h, w, bias])), **how)


def fired(program: Any) -> int:
    return sum(report.counts["rows in blocks"] for report in program.passes)


def assert_equal(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    for a, b in zip(found, wanted, strict=True):
        b = np.asarray(b)
        np.testing.assert_allclose(np.asarray(a), b, rtol=rtol, atol=rtol * np.abs(b).max())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("rows", [64, 67])
def test_losses_of_known_rows(small_blocks: int, name: str, rows: int) -> None:
    program = step(LOSSES[name], rows)
    assert fired(program) == 1
    wanted = step(LOSSES[name], rows, passes=["-row_blocks"])(*arrays(rows))
    assert_equal(program(*arrays(rows)), wanted)


UNEQUAL = {"gathered", "by hand", "logarithm", "focal"}
"""Whose classes may be fewer than the rows, where both are unknown: a gather takes fewer."""


@pytest.mark.parametrize("name", [n for n in LOSSES if n not in UNEQUAL])
def test_losses_of_unknown_rows(small_blocks: int, name: str) -> None:
    program, other = (step(LOSSES[name], None, passes=p) for p in (None, "-row_blocks"))
    assert fired(program) == 1
    for rows in (1, 3, 15, 16, 17, 31, 33, 64, 67):
        assert_equal(program(*arrays(rows)), other(*arrays(rows)))


def test_an_index_of_each_row(small_blocks: int) -> None:
    """The classes are chosen by an index of all rows and one of columns, of which some count from
    the end."""

    def loss(z: Any, t: Any, weight: Any) -> Any:
        return -z.log_softmax(1)[sf.arange(z.shape[0]), t - WORDS * (t % 2)].mean()

    program, other = (step(loss, None, passes=p) for p in (None, "-canonicalize,-simplify"))
    assert fired(program) == 1 and not fired(other)
    assert program.plan.peak_bytes(h_0=1600) < 1600 * WORDS * 8 / 10
    for rows in (1, 16, 67):
        assert_equal(program(*arrays(rows)), other(*arrays(rows)))


def test_no_rows(small_blocks: int) -> None:
    program = step(LOSSES["sum"], None)
    loss, *grads = program(*arrays(0))
    assert float(loss) == 0
    assert all(not np.asarray(g).any() for g in grads)


def test_finite_differences(small_blocks: int) -> None:
    program = step(LOSSES["weighted and smoothed"], 67)
    assert fired(program) == 1
    values = arrays(67)
    _, *grads = program(*values)
    rng = np.random.default_rng(0)
    for i, grad in enumerate(grads):
        way = rng.standard_normal(values[i].shape)
        ends = [
            float(program(*values[:i], values[i] + s * 1e-5 * way, *values[i + 1 :])[0])
            for s in (1, -1)
        ]
        wanted = float((np.asarray(grad) * way).sum())
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(wanted, rel=1e-6)


def test_extremes(small_blocks: int) -> None:
    """Scores that overflow as exponentials, and infinite ones."""
    values = arrays(67, "float32")
    values[0] *= 1000
    values[2][5] = -np.inf
    program = step(LOSSES["mean"], 67, "float32")
    other = step(LOSSES["mean"], 67, "float32", passes=["-row_blocks"])
    assert fired(program) == 1
    found = program(*values)
    assert all(np.isfinite(np.asarray(a)).all() for a in found)
    assert_equal(found, other(*values), 1e-5)


@pytest.mark.parametrize("lead", [(5, 16), (None, 16), (5, None)])
@pytest.mark.parametrize("turned", [False, True])
def test_scores_of_three_dims(small_blocks: int, lead: Any, turned: bool) -> None:
    h = sf.placeholder((*lead, WIDTH), "float64", name="h")
    w = sf.placeholder((WIDTH, WORDS), "float64", name="w")
    t = sf.placeholder(lead, "int64", name="t")
    z = h @ w
    loss = (
        F.cross_entropy(z.transpose(1, 2), t)
        if turned
        else F.cross_entropy(z.reshape(-1, WORDS), t.reshape(-1))
    )
    wanted = (loss, *sf.grad(loss, [h, w]))
    program, other = (sf.compile([h, w, t], wanted, passes=p) for p in (None, "-row_blocks"))
    assert fired(program) == 1
    a, b, _, _, c = arrays(80)
    given = a.reshape(5, 16, WIDTH), np.ascontiguousarray(b.T), c.reshape(5, 16)
    assert_equal(program(*given), other(*given))


def test_layouts(small_blocks: int) -> None:
    program, other = (step(LOSSES["mean"], None, passes=p) for p in (None, "-row_blocks"))
    h, w, *rest = arrays(67)
    given = (np.asfortranarray(h), np.repeat(w, 2, 1)[:, ::2], *rest)
    assert_equal(program(*given), other(h, w, *rest))


def test_threads_change_no_bit(small_blocks: int) -> None:
    program, values = step(LOSSES["smoothed"], 67, "float32"), arrays(67, "float32")
    before = sf.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            sf.set_num_threads(threads)
            results.append([np.array(a) for a in program(*values)])
    finally:
        sf.set_num_threads(before)
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


def test_in_a_loop(small_blocks: int) -> None:
    """Steps of descent in a scan."""
    h, w, *_, t = arrays(67)

    def train(**how: Any) -> Any:
        x = sf.placeholder(h.shape, "float64", name="x")
        start = sf.placeholder(w.shape, "float64", name="start")

        def descend(v: Any, _: Any) -> Any:
            loss = F.cross_entropy(x @ v.T, sf.tensor(t))
            return v - 0.1 * sf.grad(loss, [v])[0], loss

        last, losses = sf.scan(descend, start, None, length=3)
        return sf.compile([x, start], (last, losses), **how)

    assert_equal(train()(h, w), train(passes=["-row_blocks"])(h, w))


def wide(rows: int | None, passes: Any = None) -> Any:
    h = sf.placeholder((rows, 64), name="h")
    w, bias = sf.placeholder((50_000, 64), name="w"), sf.placeholder((50_000,), name="bias")
    t = sf.placeholder((rows,), "int64", name="t")
    loss = F.cross_entropy(h @ w.T + bias, t)
    return sf.compile([h, w, bias, t], (loss, *sf.grad(loss, [h, w, bias])), passes=passes)


@pytest.mark.parametrize("rows", [2048, 2051, None])
def test_memory_of_50_000_words(rows: int | None) -> None:
    programs = [wide(rows, p) for p in (None, "-row_blocks")]
    least, most = (
        p.plan.evaluate(p.plan.peak, dict.fromkeys(p.graph.symbols, 2048)) for p in programs
    )
    assert least * 10 < most


@pytest.mark.parametrize(
    "outputs",
    {
        "the scores are a result": lambda z, h: (z, z.logsumexp(1)),
        "the gradient needs the whole loss": lambda z, h: sf.grad(z.logsumexp(1).sum().exp(), [h]),
        "nothing is reduced": lambda z, h: (z.sum(0),),
        "a largest over rows": lambda z, h: (z.softmax(1).amax(0),),
        "of 16 bits": lambda z, h: (z.half().softmax(1).sum(0),),
    }.items(),
    ids=lambda entry: entry[0],
)  # fmt: skip
def test_where_it_does_not_fire(small_blocks: int, outputs: Any) -> None:
    h = sf.placeholder((67, WIDTH), name="h")
    w = sf.placeholder((WIDTH, WORDS), name="w")
    program = sf.compile([h, w], list(outputs[1](h @ w, h)))
    assert fired(program) == 0


def test_exact_numerics_leave_it() -> None:
    assert fired(step(LOSSES["mean"], 65536)) == 1
    assert fired(step(LOSSES["mean"], 65536, numerics="exact")) == 0
    assert fired(step(LOSSES["mean"], 4 * (2**23 // WORDS) - 1)) == 0
