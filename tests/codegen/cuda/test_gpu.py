"""The kernels of the cases on a CUDA device, through cupy, against the interpreter.

Deselected unless pytest is given ``-m gpu``; without cupy or a device they fail then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_case import Array, Case, assert_same, interpreted, poisoned
from cuda_cases import CASES, KERNELS

from staticflow.codegen.cuda.render import (
    code_of,
    entry_name,
    launch_count,
    launch_geometry,
    render_cuda_module,
)
from staticflow.runtime.device.cupy_device import CupyDevice

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def find() -> Callable[[str], Any]:
    """What gives a kernel of the cases by its name."""
    return CupyDevice(0).compile(render_cuda_module(KERNELS))


def launched(find: Callable[[str], Any], case: Case) -> tuple[int, dict[str, Array]]:
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
        function = find(entry_name(case.kernel, launch))
        function(grid, block, (*arrays.values(), *sizes, status))
    after = {name: cupy.asnumpy(array).view(before[name].dtype) for name, array in arrays.items()}
    return code_of(int(status.get()[0])), after


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gpu_agrees_with_interpreter(find: Callable[[str], Any], case: Case) -> None:
    code, expected = interpreted(case)
    actual_code, actual = launched(find, case)
    assert actual_code == code == 0
    assert_same(case, actual, expected)
