"""What is counted of launches, for kernels of which it is plain."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import staticflow as sf
from tests.comparison.test_bench import FOLDER


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("gpu_launches")


def counts_of(table: Any, fn: Any, shape: tuple[Any, ...], size: int) -> list[Any]:
    x = sf.placeholder(shape, name="x")
    (kernel,) = table.kernels_of([x], [fn(x)])
    return [*table.count_launches(kernel, size)]


def test_the_busiest_thread_of_a_column(table: Any) -> None:
    """Twice the rows are twice the statements of each thread, as there are no more threads."""
    first, second = (
        counts_of(table, lambda x: x.sum(0), (None, 1024), n) for n in (1 << 17, 1 << 18)
    )
    assert [c.iterations for c in first] == [c.iterations for c in second] == [1 << 17, 1024]
    assert second[0].steps == pytest.approx(2 * first[0].steps, rel=0.1)
    assert all(c.kind == "grid" and c.sectors == 1 for c in first)


def test_threads_that_read_rows_of_their_own(table: Any) -> None:
    """Each of a warp reads another 32 bytes, of which it wants 4."""
    (count,) = counts_of(table, lambda x: x.cummax(1).values, (1 << 12, 8), 1)
    assert count.kind == "grid" and count.iterations == 1 << 12
    assert count.sectors == 8


def test_one_block_wastes_the_others(table: Any) -> None:
    short, long = (counts_of(table, lambda x: x.cumprod(0), (None,), n) for n in (100, 1 << 24))
    assert short[0].waste < 1 < 100 < long[0].waste
    assert long[0].iterations == 1
