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

IN_ORDER = {
    "masked_scatter": "each element goes where those before it left off",
    "masked_take": "each element goes where those before it left off",
    "repeated_index": "each index goes where those before it left off",
    "median": "of one row, the elements that are left are moved up one by one",
    "solve": "the pivots of one matrix are looked for in order",
    "lu": "the matrices of a batch share working memory",
    "row_order": "each exchange goes on where those before it left off",
    "slogdet": "the matrices of a batch share working memory",
    "cholesky": "the matrices of a batch share working memory",
}
"""Ops with a kernel that one thread runs, and why."""


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


def has_work_for_one(kernel: Kernel) -> bool:
    """Whether one thread does a loop of many iterations, or of an unknown number, alone."""
    launches = [s for s in kernel.body if isinstance(s, Loop) and s.kind in LAUNCHED]
    if not launches:
        return any(isinstance(s, Loop) for s in walk(kernel.body))
    return any(iteration_count(s) == 1 and leaves_work(s.body) for s in launches)


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_no_kernel_has_one_thread_do_work_for_many(unknown: bool) -> None:
    alone = set()
    for name in ROWS:
        for kernel in kernels_of(name, unknown):
            assert render_cuda(kernel)
            if has_work_for_one(kernel):
                alone.add(name)
    assert alone == set(IN_ORDER)
