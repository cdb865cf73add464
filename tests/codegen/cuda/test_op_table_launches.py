"""Every kernel of the op table can be launched on a GPU, and none has one thread do work that
several could."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opinfo import ROWS
from opinfo.modes import arrays_of, call

import staticflow as sf
from staticflow.codegen.cuda.render import render_cuda
from staticflow.codegen.kernel import LAUNCHED, Kernel, Loop
from staticflow.codegen.lower.cluster import lower_cluster
from staticflow.codegen.parts import walk
from staticflow.codegen.schedule.gpu import schedule_gpu
from staticflow.codegen.schedule.loops import iteration_count
from staticflow.codegen.schedule.teams import leaves_work
from staticflow.codegen.target import GPU
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.graph import close
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize

WALKS = {
    "product_of_others": "walks to and fro along a row",
}
"""Ops with a kernel of a thread for each of a few long rows, and why."""

_SOME = 512
"""Rows of which fewer leave most of a GPU idle if each is for a thread."""


def kernels_of(name: str, unknown: bool) -> Iterator[Kernel]:
    """The kernels of an op whose sizes are known or not."""
    info = ROWS[name]
    assert info.sized is not None
    size = 7 if unknown else 40
    sample = info.sized(info.dtypes[0], size)
    inputs = [
        sf.placeholder(
            tuple("n" if unknown and d == size else d for d in a.shape),
            dtype_of(a.dtype),
            name=f"x{i}",
        )
        for i, a in enumerate(arrays_of(sample))
    ]
    outputs = call(info, sample, inputs)
    graph, _ = optimize(close([i.node for i in inputs], [o.node for o in outputs]))
    for node in graph.nodes:
        if node.op is cluster:
            lowered = lower_cluster(node.attrs["body"], node.attrs["kind"], GPU)
            yield verify_kernel(schedule_gpu(lowered).kernel)


def has_work_for_few(kernel: Kernel, most: int) -> bool:
    """Whether ``most`` threads at most do a loop of many iterations, or of an unknown number, each
    alone; 1 thread is one of a block whose others wait."""
    launches = [s for s in kernel.body if isinstance(s, Loop) and s.kind in LAUNCHED]
    if not launches:
        return any(isinstance(s, Loop) for s in walk(kernel.body))
    counts = ((s, iteration_count(s)) for s in launches)
    return any(isinstance(n, int) and n <= most and leaves_work(s.body) for s, n in counts)


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_no_kernel_has_one_thread_do_work_for_many(unknown: bool) -> None:
    alone, few = set(), set()
    for name in ROWS:
        for kernel in kernels_of(name, unknown):
            assert render_cuda(kernel)
            if has_work_for_few(kernel, 1):
                alone.add(name)
            elif unknown and has_work_for_few(kernel, _SOME):
                few.add(name)
    assert alone == set()
    assert few == (set(WALKS) if unknown else set())
