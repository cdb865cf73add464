"""NVRTC, NVIDIA's compiler, takes the text of every kernel and leaves its arithmetic as written.

It needs no GPU and no driver, only the library that ``pip install nvidia-cuda-nvrtc`` brings.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cuda_cases import KERNELS
from cuda_clusters import CLUSTERS
from cuda_kernels import affine, tiles
from nvrtc import ARCHITECTURES, Nvrtc, nvrtc
from slices import by_days

from staticflow.codegen.cuda.render import (
    NVRTC_OPTIONS,
    launch_count,
    render_cuda,
    render_cuda_module,
)
from staticflow.graph.dtypes import DType, bfloat16, float16, float32
from staticflow.runtime.device.guards import BRANCH, COPIES, GO_ON, VOTE

__all__ = ["nvrtc"]


@pytest.mark.parametrize("architecture", by_days(ARCHITECTURES, 1, "test kernels"))
def test_every_kernel_compiles_without_spills(nvrtc: Nvrtc, architecture: str) -> None:
    kernels = [*KERNELS, *(c.lowered.kernel for c in CLUSTERS), VOTE, GO_ON, BRANCH, *COPIES]
    guarded = {k.name for k in COPIES}
    spilled = nvrtc.spilled(render_cuda_module(kernels, guarded), architecture)
    assert len(spilled) >= sum(map(launch_count, kernels)) and set(spilled) == {0}


def test_a_kernel_that_spills_is_found_among_others(nvrtc: Nvrtc, tmp_path: Path) -> None:
    """Whichever of them were compiled before. A thread of 1024 has 64 registers."""
    values = " ".join(f"double v{i} = x[{i} * n + t];" for i in range(120))
    total = " + ".join(f"v{i} * v{(i * 7 + 3) % 120}" for i in range(120))
    head = 'extern "C" __global__ void'
    few = f"{head} few(double* x, int n) {{ x[n] *= 2; }}\n"
    many = (
        f"{head} __launch_bounds__(1024) many(double* x, int n) {{ int t = threadIdx.x; {values} "
        f"__syncthreads(); x[t] = {total}; }}\n"
    )
    fresh = Nvrtc(nvrtc.library, tmp_path)
    assert fresh.spilled(few, "sm_80") == [0]
    zero, spilled = fresh.spilled(few + many, "sm_80")
    assert zero == 0 < spilled and len([*tmp_path.iterdir()]) == 2
    assert fresh.spilled(many + few, "sm_80") == [spilled, 0]
    assert len([*tmp_path.iterdir()]) == 2  # nothing was compiled anew
    assert fresh.spilled(many, "sm_90")[0] > 0 and len([*tmp_path.iterdir()]) == 3


def test_neighbours_are_moved_by_16_bytes(nvrtc: Nvrtc) -> None:
    (kernel,) = (c.lowered.kernel for c in CLUSTERS if c.name == "neighbours_0")
    options = [*NVRTC_OPTIONS, "--gpu-architecture=compute_80"]
    text = nvrtc.compile(render_cuda(kernel), options, "PTX")[0].decode()
    assert re.search(r"ld\.global(\.nc)?\.v4\.f32", text)
    assert "st.global.v4.f32" in text


@pytest.mark.parametrize(
    ("architecture", "dtype", "instruction"),
    [
        ("compute_75", float16, "m16n8k8.row.col.f32.f16.f16.f32"),
        ("compute_80", float16, "m16n8k16.row.col.f32.f16.f16.f32"),
        ("compute_90", float16, "m16n8k16.row.col.f32.f16.f16.f32"),
        ("compute_80", bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32"),
        ("compute_90", bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32"),
    ],
)
def test_tiles_of_16_bits_are_for_tensor_cores(
    nvrtc: Nvrtc, architecture: str, dtype: DType, instruction: str
) -> None:
    """They are loaded as pairs, and the sums are in registers."""
    options = [*NVRTC_OPTIONS, f"--gpu-architecture={architecture}"]
    text = nvrtc.compile(render_cuda(tiles(dtype)), options, "PTX")[0].decode()
    assert {*re.findall(r"mma\.sync\.aligned\.(\S+)", text)} == {instruction}
    assert "ld.shared.u32" in text or "ld.shared.b32" in text
    assert "ld.shared.u16" not in text and "ld.shared.b16" not in text
    assert "shfl" not in text and ".local" not in text


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
