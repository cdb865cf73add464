"""Runs of unknown length are copied, and set to zero, by kernels that programs share: a program has
a call, with the results that it has of known lengths, and the interpreter has them, too."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from code_amount import TARGET, recipe_of, recipe_of_graph
from opinfo import ROWS
from opinfo.modes import graph_of
from slices import daily

import staticflow as sf
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import LANE_SYM, Apply, Call, Check, Kernel, Let, Load, Loop, Store
from staticflow.codegen.llvm.render import called_in, render_module
from staticflow.codegen.parts import walk
from staticflow.codegen.schedule.runs import emit_run, least_shared
from staticflow.codegen.schedule.shared_runs import schedule_run
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dim_queries import coefficient
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import DTYPES, dtype_of
from staticflow.runtime.drafting import draft_program
from staticflow.runtime.machine import host_target
from staticflow.runtime.native import compile_native
from staticflow.runtime.shared_kernels import shared_symbols
from staticflow.runtime.threads import pool_symbols

NAMES = [f"shared_{word}_{dtype.short}" for word in ("copy", "zero") for dtype in DTYPES]


def kernels_of(inputs: list[Any], output: Any) -> tuple[Kernel, ...]:
    return draft_program(
        replace(recipe_of(lambda: sf.compile(inputs, output)), target=TARGET)
    ).routine.kernels


def calls_of(inputs: list[Any], output: Any) -> list[str]:
    return [
        stmt.kernel.name
        for kernel in kernels_of(inputs, output)
        for stmt in walk(kernel.body)
        if isinstance(stmt, Call)
    ]


def named(*shape: int | None, dtype: str = "float32", name: str = "x") -> Any:
    return sf.placeholder(shape, dtype, name=name)


MADE: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "joined": (lambda x: sf.cat([x, x]), ["copy"] * 2),
    "rows between zeros": (
        lambda x: sf.nn.functional.pad(x, (0, 0, 1, 1)), ["zero", "copy"]
    ),
    "a slice": (lambda x: x.slice_scatter(x[:1], 0, 0, 1), ["copy"]),
}  # fmt: skip


@pytest.mark.parametrize("case", MADE)
def test_a_run_is_a_call(case: str) -> None:
    make, words = MADE[case]
    x = named(None, 5)
    assert calls_of([x], make(x)) == [f"shared_{word}_f32" for word in words]
    known = named(200_000, 5)
    assert calls_of([known], make(known)) == []
    program = sf.compile([x], make(x))
    assert set(called_in(program.source("llvm"))) == {f"shared_{word}_f32" for word in words}
    for n in (1, 2, 6, 7, 500):
        a = np.random.default_rng(n).random((n, 5), "f")
        y = named(n, 5)
        expected = sf.compile([y], make(y))(a)
        np.testing.assert_array_equal(program(a).numpy(), expected.numpy())


OTHERS: dict[str, Callable[[Any], Any]] = {
    "backwards": lambda x: x.flip(0),
    "apart": lambda x: x[::2].clone(),
    "columns": lambda x: x.T.clone(),
    "computed": lambda x: x + 1,
    "cast": lambda x: x.to("float64"),
    "of another sign": lambda x: sf.where(x > x, x, -0.0),
    "few": lambda x: x[:3].clone(),
    "side by side": lambda x: sf.stack([x, x], 1),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_is_no_run(case: str) -> None:
    x = named(None, 3)
    assert calls_of([x], OTHERS[case](x)) == []


def test_rows_that_threads_share_are_no_runs() -> None:
    """Their elements are few, perhaps: a call for each would be slower."""
    table, i = named(1000, None, name="t"), named(None, dtype="int64", name="i")
    assert calls_of([table, i], table[i]) == []


def test_modes_of_the_processor_are_of_a_program() -> None:
    x = named(None)
    program = sf.compile([x], sf.cat([x, x]), flush_subnormals=True)
    assert called_in(program.source("llvm")) == ()


OPS = [name for name, row in ROWS.items() if row.sized is not None and "attend" not in name]


def check_op(name: str) -> None:
    """No kernel of an op of an unknown size has a loop of its own that only moves a run."""
    info = ROWS[name]
    assert info.sized is not None
    recipe = recipe_of_graph(graph_of(info, info.sized(info.dtypes[0], 2003), unknown=2003))
    for kernel in draft_program(replace(recipe, target=TARGET)).routine.kernels:
        for stmt in kernel.body:
            assert not (isinstance(stmt, Loop) and _only_copies(stmt)), kernel


def _only_copies(loop: Loop) -> bool:
    """Whether a loop, whose rest may be a branch, loads vectors and stores them as they are."""
    stmts = [*walk(loop.body)]
    loads = {s.reg: s.expr.index for s in stmts if isinstance(s, Let) and isinstance(s.expr, Load)}
    stores = [s for s in stmts if isinstance(s, Store)]
    computes = any(
        isinstance(s, Check)
        or (isinstance(s, Let) and isinstance(s.expr, Apply) and s.reg.lanes > 1)
        for s in stmts
    )
    return (
        not computes
        and loop.kind == "parallel"
        and not isinstance(loop.hi, int)
        and not any(isinstance(s, Loop) for s in stmts)
        and loads.keys() == {s.value for s in stores}
        and all(
            coefficient(index, sym) == 1
            for index in (*loads.values(), *(s.index for s in stores))
            for sym in (loop.var, LANE_SYM)
        )
    )


@pytest.mark.parametrize("name", daily(OPS, 40, "runs of ops"))
def test_an_op_has_no_loop_for_a_run(name: str) -> None:
    check_op(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", OPS)
def test_no_op_has_a_loop_for_a_run(name: str) -> None:
    check_op(name)


# -- the kernels -----------------------------------------------------------------------------------


def arrays_for(name: str, n: int) -> dict[str, np.ndarray[Any, Any]]:
    """What a kernel is given, with two elements behind the run that are to stay."""
    dtype = dtype_of(name.split("_")[2]).numpy
    numbers = np.random.default_rng(n).integers(0, 2, n + 2)
    arrays = {"from": numbers.astype(dtype), "to": np.ones(n + 2, dtype)}
    return arrays if "copy" in name else {"to": arrays["to"]}


def expected_of(arrays: dict[str, np.ndarray[Any, Any]], n: int) -> np.ndarray[Any, Any]:
    expected = arrays["to"].copy()
    expected[:n] = arrays["from"][:n] if "from" in arrays else 0
    return expected


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype_and_length(name: str) -> None:
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, ctypes.c_int64)
    if "zero" in name:
        call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)
    run = call(shared_symbols([name])[name])
    least = least_shared(name)
    for n in (0, 1, 15, 16, 17, 63, 64, 65, 129, 1000, least - 1, least, 3 * least + 5):
        arrays = arrays_for(name, n)
        expected = expected_of(arrays, n)
        assert run(*(a.ctypes.data for a in arrays.values()), n) == 0
        assert arrays["to"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["shared_copy_f32", "shared_zero_f32"])
def test_what_goes_past_the_caches(name: str) -> None:
    """From the first byte on, where the run begins at a line of theirs, and where it does not."""
    kernel = schedule_run(name, replace(host_target(), streamed_bytes=1))
    text = render_module([kernel], host_target())
    assert "!nontemporal" in text
    module = compile_native(
        text.replace(f"define internal i32 @{name}(", f"define i32 @{name}("),
        [name],
        pool_symbols(),
    )
    types = [ctypes.c_void_p] * len(kernel.buffers)
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *types, ctypes.c_int64)(module.address(name))
    n = least_shared(name) + 3
    for shift in range(16):
        arrays = arrays_for(name, n + 16)
        arrays = {name: array[shift : shift + n + 2] for name, array in arrays.items()}
        expected = expected_of(arrays, n)
        assert run(*(a.ctypes.data for a in arrays.values()), n) == 0
        np.testing.assert_array_equal(arrays["to"], expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_interpreter_has_them(name: str) -> None:
    scheduled = schedule_run(name, TARGET)
    for kernel in (emit_run(name).kernel, scheduled):
        verify_kernel(kernel)
        for n in (0, 5, 200):
            arrays = arrays_for(name, n)
            expected = expected_of(arrays, n)
            assert interpret_kernel(kernel, arrays, {Sym("n"): n}) == 0
            assert arrays["to"].tobytes() == expected.tobytes()
