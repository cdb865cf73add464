"""NVRTC takes the kernels that the compiler makes of the op table and of its gradients, without
spills. The suite compiles a few of the ops, others every day, the campaign all."""

from __future__ import annotations

import pytest
from nvrtc import Nvrtc, nvrtc
from opinfo import ROWS
from opinfo.modes import gradient_graph, graph_of
from slices import daily

from staticflow.codegen.cuda.render import render_cuda, render_cuda_module
from staticflow.codegen.kernel import Kernel
from staticflow.codegen.lower.cluster import lower_cluster
from staticflow.codegen.schedule.loops import bind_grid
from staticflow.codegen.target import Target
from staticflow.errors import CompileError
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize

__all__ = ["nvrtc"]

TARGET = Target(vector_bits=128, fma=True, masks=False)
SIZE = 7
NAMES = sorted(set(ROWS) - {"as_strided"})  # whose sample has a dim of 0, by which no grid divides
OLDEST, NEWEST = "sm_75", "sm_90"


def is_scalar(kernel: Kernel) -> bool:
    """Whether a kernel is one of a GPU: products, and what is made of them, come from the lowering
    with the vectors of a CPU."""
    try:
        render_cuda(kernel)
    except CompileError as error:
        assert "has a vector" in str(error)
        return False
    return True


def kernels_of(name: str) -> list[Kernel]:
    """The kernels of an op in its first dtype, and of its gradients."""
    info = ROWS[name]
    if info.sized is None:
        return []
    sample = info.sized(info.dtypes[0], SIZE)
    graphs = [graph_of(info, sample, SIZE), info.grad and gradient_graph(info, sample, SIZE)]
    found = []
    for graph in filter(None, graphs):
        for node in optimize(graph)[0].nodes:
            if node.op is cluster:
                kernel = lower_cluster(node.attrs["body"], node.attrs["kind"], TARGET).kernel
                found.append(bind_grid(kernel).with_name(f"{name}_{len(found)}"))
    return [kernel for kernel in found if is_scalar(kernel)]


def check(nvrtc: Nvrtc, name: str) -> None:
    kernels = kernels_of(name)
    for architecture in (OLDEST, NEWEST) if kernels else ():
        spilled = nvrtc.spilled(render_cuda_module(kernels), architecture)
        assert len(spilled) >= len(kernels) and set(spilled) == {0}, name


@pytest.mark.parametrize("name", daily(NAMES, 24, "nvrtc"))
def test_the_kernels_of_an_op_compile_without_spills(nvrtc: Nvrtc, name: str) -> None:
    check(nvrtc, name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_the_kernels_of_each_op_compile_without_spills(nvrtc: Nvrtc, name: str) -> None:
    check(nvrtc, name)


def test_most_ops_have_kernels() -> None:
    few = daily(NAMES, 40, "kernels")
    assert sum(bool(kernels_of(name)) for name in few) > 20
