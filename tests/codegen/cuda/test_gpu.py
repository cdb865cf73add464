"""The kernels of the cases on a CUDA device, through cupy, against the interpreter.

Deselected unless pytest is given ``-m gpu``; without cupy or a device they fail then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_case import Array, Case, assert_same, interpreted, poisoned
from cuda_cases import CASES, KERNELS

from staticflow.codegen.cuda.render import (
    NVRTC_OPTIONS,
    code_of,
    entry_name,
    launch_count,
    launch_geometry,
    render_cuda_module,
)

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def module() -> Any:
    """All kernels of the cases in one module."""
    import cupy

    return cupy.RawModule(code=render_cuda_module(KERNELS), options=NVRTC_OPTIONS)


def launched(module: Any, case: Case) -> tuple[int, dict[str, Array]]:
    """The code and the buffers after a launch. Arrays travel as bytes, since cupy knows no
    bfloat16; numbers are NumPy scalars, since cupy passes a Python int as an int64 and a float as a
    float64 whatever the parameter is."""
    import cupy

    before = {
        b.name: poisoned(case.arrays[b.name]) if b.access == "out" else case.arrays[b.name]
        for b in case.kernel.buffers
    }
    arrays = {name: cupy.asarray(array.view(np.uint8)) for name, array in before.items()}
    sizes = [np.int64(case.sizes[size]) for size in case.kernel.sizes]
    status = cupy.zeros(1, cupy.int32)
    for launch in range(launch_count(case.kernel)):
        grid, block = launch_geometry(case.kernel, case.sizes, launch)
        function = module.get_function(entry_name(case.kernel, launch))
        function(grid, block, (*arrays.values(), *sizes, status))
    after = {name: cupy.asnumpy(array).view(before[name].dtype) for name, array in arrays.items()}
    return code_of(int(status.get()[0])), after


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gpu_agrees_with_interpreter(module: Any, case: Case) -> None:
    code, expected = interpreted(case)
    actual_code, actual = launched(module, case)
    assert actual_code == code == 0
    assert_same(case, actual, expected)
