"""Work that threads share: in groups, each with a worker whose memory is its own."""

from __future__ import annotations

from collections.abc import Iterator

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.plan import Span
from staticflow.codegen.gemm.tile import each
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min

__all__ = ["GROUPS", "bind_index", "each_in_groups", "enough_tasks"]

GROUPS = 16
"""Groups of tasks, at most, which threads share; each worker has scratch memory of its own."""

_TASKS = 4  # for each thread, if there are several


def enough_tasks(k: Builder) -> Size:
    """How many tasks leave no thread without work for long: one, where there is one thread."""
    workers = k.workers()
    one = k.compare("le", workers, 1)
    return k.bind(k.select(one, 1, k.mul(workers, _TASKS)), "enough")


def each_in_groups(
    k: Builder, total: Size, workers: int, most: int = GROUPS
) -> tuple[Size, Iterator[tuple[Size, Size]]]:
    """``total`` tasks for threads to share, in ``most`` groups at most: how many threads there are,
    ``workers`` at most, and the loops over the tasks, which give the number of each and that of its
    worker."""
    groups = dim_max(dim_min(total, most), 1)
    each_group = ceil_div(total, groups)
    threads = dim_min(groups, workers)

    def tasks() -> Iterator[tuple[Size, Size]]:
        for group in each(k, "group", Span(0, groups, 1), "parallel"):
            worker = k.worker(threads) if groups != 1 else 0
            end = dim_min(group * each_group + each_group, total)
            for at in each(k, "b", Span(group * each_group, end, 1)):
                yield at, worker

    return threads, tasks()


def bind_index(k: Builder, index: Size, size: Size) -> Size:
    """An index of a dim as a symbol, so that what is computed of it does not grow long."""
    return index if isinstance(index, int) else k.bind(k.index_value(index), upper=size)
