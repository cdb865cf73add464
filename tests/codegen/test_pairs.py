"""Sums over few elements for each pair of rows have rows for lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.kernel import Local
from staticflow.codegen.parts import walk
from staticflow.runtime.threads import pool_jobs

PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "squares of differences": lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
    "distances": sf.cdist,
    "sizes of differences": lambda x, y: (x[:, None] - y).abs().sum(-1),
    "the largest": lambda x, y: (x[:, None] * y).amax(-1),
    "all": lambda x, y: (x[:, None] > y).all(-1),
    "two at once": lambda x, y: (x[:, None] * y).sum(-1) / ((x[:, None] + y) ** 2).sum(-1).sqrt(),
    "with what is of a pair": lambda x, y: (
        ((x[:, None] - y) ** 2).sum(-1) * (x[:, :1] - y[:, 0]) + x[:, 0, None]
    ),
    "a batch of them": lambda x, y: ((x[None, :, None] - y[None, None]).abs() + 1).sum(-1),
    "of one row read twice": lambda x, y: ((x[:, None] - y) * (y + x[:, None] * y)).sum(-1),
}


def programs(of: Callable[[Any, Any], Any], k: int, known: bool, n: int, m: int) -> Any:
    x = sf.placeholder((n if known else None, k), name="x")
    y = sf.placeholder((m if known else None, k), name="y")
    return sf.compile([x, y], of(x, y))


def has_arrays(step: Any) -> bool:
    kernels = step._executable.program.kernels
    return any(isinstance(s, Local) for kernel in kernels for s in walk(kernel.body))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_what_they_are_in_float64(name: str, known: bool) -> None:
    """Of all numbers of elements that are written out or not, and rows that fill vectors or not."""
    of = PAIRS[name]
    for k in (2, 7, 8, 9, 16, 64, 65):
        step = None if known else programs(of, k, False, 0, 0)
        for n, m in ((9, 40), (8, 16), (33, 31), (150, 17), (1, 70), (70, 1), (0, 20), (20, 0)):
            rng = np.random.default_rng([n, m, k])
            a, b = rng.uniform(0.5, 2, (n, k)), rng.uniform(0.5, 2, (m, k))
            run = programs(of, k, True, n, m) if step is None else step
            exact = of(sf.tensor(a), sf.tensor(b)).numpy()
            found = run(a.astype("f4"), b.astype("f4")).numpy()
            if exact.dtype == bool:
                exact = of(*(sf.tensor(v.astype("f4")) for v in (a, b))).numpy()
            np.testing.assert_allclose(found, exact, 3e-5, 3e-5)


@pytest.mark.parametrize("k", [2, 8, 64])
def test_a_row_is_loaded_once_for_all_others(k: int) -> None:
    assert has_arrays(programs(PAIRS["squares of differences"], k, False, 0, 0))


@pytest.mark.parametrize(
    ("of", "k", "n", "m"),
    [
        (PAIRS["squares of differences"], 65, 100, 100),  # long rows
        (PAIRS["squares of differences"], 8, 7, 100),  # few of them
        (PAIRS["squares of differences"], 8, 100, 3),
        (lambda x, y: (x[:, None] - x[None] * y[0]).cumsum(-1), 8, 100, 100),  # no total
        (lambda x, y: (x[:, None] * (x[:, None] - y).exp()[:, :, :1]).sum(-1), 1, 100, 100),
    ],
    ids=["long", "few", "narrow", "no total", "one"],
)  # fmt: skip
def test_what_stays_as_it_is(of: Callable[[Any, Any], Any], k: int, n: int, m: int) -> None:
    assert not has_arrays(programs(of, k, True, n, m))


def test_threads_share_the_rows_that_go_by() -> None:
    """Where the others are one vector of them."""
    step = programs(PAIRS["squares of differences"], 8, False, 0, 0)
    rng = np.random.default_rng(0)
    x, y = rng.random((200_000, 8), np.float32), rng.random((16, 8), np.float32)
    threads = sf.get_num_threads()
    try:
        sf.set_num_threads(1)
        one = step(x, y).numpy()
        sf.set_num_threads(3)
        before = pool_jobs()
        three = step(x, y).numpy()
        assert pool_jobs() > before
    finally:
        sf.set_num_threads(threads)
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("view", ["cropped", "stepped", "flipped", "turned"])
def test_rows_that_lie_in_other_ways(view: str) -> None:
    views: dict[str, Callable[[Any], Any]] = {
        "cropped": lambda v: v[1:, 2:-1],
        "stepped": lambda v: v[::2, ::3],
        "flipped": lambda v: v.flip(0, 1),
        "turned": lambda v: v.t(),
    }

    def of(a: Any, b: Any) -> Any:
        return ((views[view](a)[:, None] - views[view](b)) ** 2).sum(-1)

    rng = np.random.default_rng(0)
    a, b = rng.random((70, 24)), rng.random((70, 24))
    x, y = (sf.placeholder(a.shape, name=n) for n in "xy")
    d = of(x, y)
    step = sf.compile([x, y], [d, *sf.grad((d * d).sum(), [x, y])])
    exact = [sf.tensor(v, requires_grad=True) for v in (a, b)]
    out = of(*exact)
    (out * out).sum().backward()
    for one, other in zip(
        step(a.astype("f4"), b.astype("f4")), [out.detach(), *(e.grad for e in exact)], strict=True
    ):
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-4, 1e-3)
