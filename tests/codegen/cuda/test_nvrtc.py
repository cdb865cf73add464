"""NVRTC, NVIDIA's compiler, takes the text of every kernel and leaves its arithmetic as written.

It needs no GPU and no driver, only the library that ``pip install nvidia-cuda-nvrtc`` brings.
"""

from __future__ import annotations

import re

import pytest
from cuda_cases import KERNELS
from cuda_clusters import CLUSTERS
from cuda_kernels import affine
from nvrtc import ARCHITECTURES, Nvrtc, nvrtc

from staticflow.codegen.cuda.render import (
    NVRTC_OPTIONS,
    launch_count,
    render_cuda,
    render_cuda_module,
)
from staticflow.graph.dtypes import float32
from staticflow.runtime.device.guards import BRANCH, COPIES, GO_ON, VOTE

__all__ = ["nvrtc"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_compiles_without_spills(nvrtc: Nvrtc, architecture: str) -> None:
    kernels = [*KERNELS, *(c.lowered.kernel for c in CLUSTERS), VOTE, GO_ON, BRANCH, *COPIES]
    guarded = {k.name for k in COPIES}
    spilled = nvrtc.spilled(render_cuda_module(kernels, guarded), architecture)
    assert len(spilled) >= sum(map(launch_count, kernels)) and set(spilled) == {0}


def test_neighbours_are_moved_by_16_bytes(nvrtc: Nvrtc) -> None:
    (kernel,) = (c.lowered.kernel for c in CLUSTERS if c.name == "neighbours_0")
    options = [*NVRTC_OPTIONS, "--gpu-architecture=compute_80"]
    text = nvrtc.compile(render_cuda(kernel), options, "PTX")[0].decode()
    assert re.search(r"ld\.global(\.nc)?\.v4\.f32", text)
    assert "st.global.v4.f32" in text


def test_arithmetic_is_left_as_written(nvrtc: Nvrtc) -> None:
    options = [*NVRTC_OPTIONS, "--gpu-architecture=compute_80"]
    everything = nvrtc.compile(render_cuda_module(KERNELS), options, "PTX")[0].decode()
    assert ".ftz" not in everything
    assert ".approx" not in everything
    assert "div.rn.f32" in everything
    assert "sqrt.rn.f32" in everything
    one = nvrtc.compile(render_cuda(affine(float32)), options, "PTX")[0].decode()
    assert "mul.rn.f32" in one
    assert "add.rn.f32" in one
    assert "fma" not in one
