"""The CUDA renderer: its text, compiled as C++ and run by the emulator, does what the interpreter
does."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from cuda_case import Array, Case, Geometry, N, assert_same, emulated, interpreted, sample
from cuda_cases import CASES, KERNELS
from cuda_kernels import affine, gather, row_sum
from emulator import ORDERS, DeviceArray, EmulatorError, Module

from staticflow.codegen.builder import Builder
from staticflow.codegen.cuda.render import (
    entry_name,
    launch_geometry,
    render_cuda,
    render_cuda_module,
)
from staticflow.codegen.cuda.values import HELPERS, apply, cast
from staticflow.codegen.kernel import TEAMS, Buffer, Kernel, Loop
from staticflow.codegen.primitives import PRIMITIVES
from staticflow.codegen.schedule.loops import bind_grid, vectorize
from staticflow.codegen.verify import verify_kernel
from staticflow.errors import CompileError
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import (
    DTYPES,
    float16,
    float32,
    int32,
    int64,
)


def two_checks() -> Kernel:
    """Iteration i fails with code 5 if x[i] > 0, with code 2 if x[i] < 0."""
    k = Builder([Buffer("x", float32, "in")], [N])
    with k.loop("i", Dim.of(N), kind="grid") as i:
        k.check(k.compare("le", k.load("x", i), 0.0), 5)
        k.check(k.compare("ge", k.load("x", i), 0.0), 2)
    return verify_kernel(k.kernel("two_checks"))


def faulty(name: str, iterations: int, index: Callable[[Dim], Size]) -> Kernel:
    """Iteration i of n + ``iterations`` stores i at an index that is wrong in some way."""
    k = Builder([Buffer("y", int64, "out")], [N])
    with k.loop("i", Dim.of(N) + iterations, kind="grid") as i:
        k.store("y", index(i), k.index_value(i))
    return verify_kernel(k.kernel(name))


TWO_CHECKS = two_checks()
PAST = faulty("past", 1, lambda i: i)
FRONT = faulty("front", 0, lambda i: i - 1)
RACE = faulty("race", 0, lambda i: i // 8)


@pytest.fixture(scope="module")
def module() -> Module:
    """All kernels in one compilation, since the header alone takes most of a second."""
    return Module(render_cuda_module([*KERNELS, TWO_CHECKS, PAST, FRONT, RACE]))


# -- against the interpreter -------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_emulator_agrees_with_interpreter(module: Module, case: Case) -> None:
    code, expected = interpreted(case)
    for order in ORDERS:
        actual_code, actual = emulated(module, case, order)
        assert actual_code == code == 0
        assert_same(case, actual, expected)


BY_THREADS = [
    k for k in KERNELS if not any(isinstance(s, Loop) and s.kind in TEAMS for s in k.body)
]
"""The kernels that need no teams, which have all their threads."""


@pytest.mark.parametrize("geometry", [((1, 1, 1), (1, 1, 1)), ((3, 1, 1), (7, 1, 1))])
@pytest.mark.parametrize("kernel", BY_THREADS, ids=lambda kernel: kernel.name)
def test_any_launch_size_will_do(module: Module, kernel: Kernel, geometry: Geometry) -> None:
    case = [case for case in CASES if case.kernel is kernel][-1]
    code, expected = emulated(module, case)
    actual_code, actual = emulated(module, case, "seeded", geometry, seed=5)
    assert actual_code == code
    assert_same(case, actual, expected)


# -- checks ------------------------------------------------------------------------------------


def _gather_case(index: list[int], elements: int) -> Case:
    arrays = {
        "x": sample(float16, elements),
        "index": np.array(index, np.int32),
        "y": np.empty(len(index), np.float16),
    }
    kernel = gather()
    return Case(
        "gather", kernel, arrays, dict(zip(kernel.sizes, (len(index), elements), strict=True))
    )


@pytest.mark.parametrize(
    ("index", "code"),
    [([0, 4, 1, 2], 0), ([0, 5, 1, 2], 7), ([0, 1, 2, -1], 7), ([0, 1, 2], 9), ([9, 9, 9], 9)],
)
def test_check_stops_with_its_code(module: Module, index: list[int], code: int) -> None:
    case = _gather_case(index, 5)
    for order in ORDERS:
        actual_code, actual = emulated(module, case, order)
        assert actual_code == code == interpreted(case)[0]
        if code == 7:  # the other iterations are done
            good = [i for i, at in enumerate(index) if 0 <= at < 5]
            np.testing.assert_array_equal(
                actual["y"][good], case.arrays["x"][np.array(index)[good]]
            )


def test_the_smallest_code_wins_in_every_order_and_launch(module: Module) -> None:
    x = np.zeros(600, np.float32)
    x[[3, 299]], x[[290, 500]] = 1.0, -1.0
    case = Case("two checks", TWO_CHECKS, {"x": x}, {N: 600})
    geometries: list[Geometry] = [
        launch_geometry(case.kernel, case.sizes),
        ((1, 1, 1), (1, 1, 1)),
        ((2, 1, 1), (13, 1, 1)),
    ]
    codes = {
        emulated(module, case, order, geometry)[0] for order in ORDERS for geometry in geometries
    }
    assert codes == {2}


# -- geometry ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "blocks"), [(0, 1), (1, 1), (256, 1), (257, 2), (10**6, 3907), (2**45, 2**31 - 1)]
)
def test_geometry_has_a_thread_for_each_iteration(n: int, blocks: int) -> None:
    assert launch_geometry(affine(float32), {N: n}) == ((blocks, 1, 1), (256, 1, 1))


def test_geometry_without_a_grid_loop_is_one_thread() -> None:
    k = Builder([Buffer("y", int32, "out")], [])
    k.store("y", 0, k.const(1, int32))
    assert launch_geometry(k.kernel("one"), {}) == ((1, 1, 1), (1, 1, 1))


def test_geometry_counts_the_product_of_a_nest() -> None:
    k = Builder([Buffer("y", int32, "out")], [N, Sym("m")])
    n, m = Dim.of(N), Dim.of(Sym("m"))
    with k.loop("i", n, kind="parallel") as i, k.loop("j", m, lo=2, kind="parallel") as j:
        k.store("y", i * m + j, k.const(1, int32))
    kernel = bind_grid(k.kernel("nest"))
    assert launch_geometry(kernel, {N: 100, Sym("m"): 12})[0] == (4, 1, 1)
    assert launch_geometry(kernel, {N: 100, Sym("m"): 1})[0] == (1, 1, 1)


# -- text --------------------------------------------------------------------------------------


def test_every_primitive_has_text_for_every_kind() -> None:
    for op, primitive in PRIMITIVES.items():
        for dtype in DTYPES:
            if dtype.kind in primitive.kinds:
                text = apply(op, ["first", "second", "third"][: primitive.arity], dtype)
                assert "first" in text
                assert "{" not in text


def test_every_cast_names_a_helper_that_exists() -> None:
    text = " ".join(cast("x", a, b) for a in DTYPES for b in DTYPES)
    assert set(re.findall(r"sf_\w+", text)) <= set(HELPERS)


def test_helpers_are_written_once_and_only_where_used() -> None:
    text = render_cuda_module([affine(float16), row_sum(float16)])
    assert text.count("float sf_f32_from_f16(") == 1
    assert "bf16" not in text
    assert "sf_fail" not in text


def test_text_is_plain_c_without_includes() -> None:
    text = render_cuda_module(BY_THREADS)
    assert text.isascii()
    for word in ("#", "template", "std::", "INFINITY", "NAN", "int64_t"):
        assert word not in text


def test_signature_is_buffers_sizes_status(module: Module) -> None:
    assert module.signature(entry_name(gather())) == [
        "const uint16*",
        "const int32*",
        "uint16*",
        "int64",
        "int64",
        "int32*",
    ]


def test_affine_text() -> None:
    assert (
        render_cuda(affine(float32)).split("\n\n")[-1]
        == """\
extern "C" __global__ void affine_f32_kernel(
    const float* __restrict__ a_,
    const float* __restrict__ x_,
    const float* __restrict__ b_,
    float* __restrict__ y_,
    long long n_,
    int* status) {
  for (long long i0 = sf_thread(); i0 < n_; i0 += sf_threads()) {
    const float v1 = a_[i0];
    const float v2 = x_[i0];
    const float v3 = v1 * v2;
    const float v4 = b_[i0];
    const float v5 = v3 + v4;
    y_[i0] = v5;
  }
}
"""
    )


# -- what is refused ---------------------------------------------------------------------------


def test_vector_is_refused() -> None:
    k = Builder([Buffer("x", float32, "in"), Buffer("y", float32, "out")], [N])
    with k.loop("i", Dim.of(N)) as i:
        k.store("y", i, k.neg(k.load("x", i)))
    kernel = k.kernel("negate")
    (loop,) = kernel.body
    with pytest.raises(CompileError, match=r"negate: `let .*x8.*bind_grid.*before vectorize"):
        render_cuda(vectorize(kernel, loop.var, 8))


def test_memory_as_it_runs_is_refused() -> None:
    k = Builder([Buffer("g", int32, "grows")], [N])
    k.reserve("g", Dim.of(N))
    with pytest.raises(CompileError, match=r"stack: `reserve g n`: a kernel on a GPU gets no mem"):
        render_cuda(k.kernel("stack"))


def test_store_beside_the_grid_loop_is_refused() -> None:
    k = Builder([Buffer("y", int32, "out")], [N])
    with k.loop("i", Dim.of(N), kind="grid") as i:
        k.store("y", i, k.const(1, int32))
    k.store("y", 0, k.const(2, int32))
    with pytest.raises(CompileError, match=r"`store y\[0\] = 2:i32` stands beside the grid loop"):
        render_cuda(k.kernel("beside"))


def test_load_of_what_the_grid_stores_is_refused_beside_it() -> None:
    k = Builder([Buffer("y", int32, "inout")], [N])
    first = k.load("y", 0)
    with k.loop("i", Dim.of(N), kind="grid") as i:
        k.store("y", i, first)
    with pytest.raises(CompileError, match="stands beside the grid loop"):
        render_cuda(k.kernel("beside"))


# -- planted faults ----------------------------------------------------------------------------


def _run_faulty(module: Module, kernel: Kernel, order: str = "forward") -> Array:
    case = Case(kernel.name, kernel, {"y": np.empty(300, np.int64)}, {N: 300})
    return emulated(module, case, order)[1]["y"]


def test_a_store_past_the_end_traps(module: Module) -> None:
    where = r"at 0x\w+ in block \(1, 0, 0\), thread \(44, 0, 0\)"
    with pytest.raises(EmulatorError, match=f"past_kernel: memory access out of bounds {where}"):
        _run_faulty(module, PAST)


def test_a_store_in_front_is_found(module: Module) -> None:
    with pytest.raises(EmulatorError, match="wrote in front of an array"):
        _run_faulty(module, FRONT)


def test_an_order_that_matters_shows(module: Module) -> None:
    forward, reverse = (_run_faulty(module, RACE, order) for order in ("forward", "reverse"))
    assert (forward != reverse).any()


def test_arguments_of_another_type_are_refused(module: Module) -> None:
    """A float16 array is passed as its bits, and nothing else is."""
    x = [DeviceArray(np.zeros(4, np.float16)) for _ in range(4)]
    status = DeviceArray(np.zeros(1, np.int32))
    launch = (entry_name(affine(float16)), (1, 1, 1), (32, 1, 1))
    module.launch(*launch, [*x, np.int64(4), status])
    wide = DeviceArray(np.zeros(4, np.float32))
    with pytest.raises(EmulatorError, match=r"argument 1 .* is float32\*, .* takes const uint16\*"):
        module.launch(*launch, [x[0], wide, *x[2:], np.int64(4), status])
    with pytest.raises(EmulatorError, match=r"argument 4 .* is int32, .* takes int64"):
        module.launch(*launch, [*x, np.int32(4), status])
