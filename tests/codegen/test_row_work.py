"""Work on rows of unknown length is done by kernels that programs share: a program has a call, the
results are those of rows of known length however the rows lie, and the interpreter has them, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from code_amount import recipe_of

import staticflow as sf
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import Call, Kernel
from staticflow.codegen.llvm.render import called_in
from staticflow.codegen.lower.row_work import emit_row_work
from staticflow.codegen.parts import walk
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dims import Sym
from staticflow.ops.along.order import NETWORK, SHORT
from staticflow.runtime.drafting import draft_program

FEW = 12
"""Statements of a kernel that calls another for each row, at most."""

LENGTHS = (1, 3, NETWORK, SHORT - 1, SHORT, SHORT + 1, 500)

Work = Callable[[Any], list[Any]]
WORKS: dict[str, Work] = {
    "sortup": lambda x: [*x.sort(-1)],
    "sortdown": lambda x: [*x.sort(-1, descending=True)],
    "rank": lambda x: [*sf.kthvalue(x, 1, -1)],
}


def called_by(program: sf.Program) -> tuple[str, ...]:
    return called_in(program.source("llvm"))


def kernels_of(shape: tuple[int | None, ...], work: Work) -> tuple[Kernel, ...]:
    x = sf.placeholder(shape, name="x")
    return draft_program(recipe_of(lambda: sf.compile([x], work(x)))).routine.kernels


@pytest.mark.parametrize("name", WORKS)
def test_a_program_has_a_call(name: str) -> None:
    work = WORKS[name]
    (kernel,) = kernels_of((None, None), work)
    assert sum(1 for _ in walk(kernel.body)) <= FEW
    (call,) = (s for s in walk(kernel.body) if isinstance(s, Call))
    assert call.kernel.name == f"shared_{name}_f32"
    made = verify_kernel(call.kernel.make())
    of_call = (call.kernel.name, call.kernel.buffers, call.kernel.sizes)
    assert (made.name, made.buffers, made.sizes) == of_call
    x = sf.placeholder((None, None), name="x")
    assert called_by(sf.compile([x], work(x))) == (call.kernel.name,)


@pytest.mark.parametrize("name", WORKS)
def test_where_there_is_none(name: str) -> None:
    """Of known length, and where the modes of other threads would not be those of the program."""
    assert not any(
        isinstance(s, Call)
        for kernel in kernels_of((3, 200), WORKS[name])
        for s in walk(kernel.body)
    )
    x = sf.placeholder((None, None), name="x")
    assert called_by(sf.compile([x], WORKS[name](x), flush_subnormals=True)) == ()


VIEWS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x,
    "columns": lambda x: x.transpose(0, 1),
    "part of rows": lambda x: x[:, 1:],
    "every other element": lambda x: x[:, ::2],
    "backwards": lambda x: x.flip(1),
    "made on the way": lambda x: x + 1,
    "dims that are one": lambda x: x.reshape(-1),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", WORKS)
def test_however_rows_lie(name: str, view: str) -> None:
    x = sf.placeholder((None, None), name="x")
    program = sf.compile([x], WORKS[name](VIEWS[view](x)))
    works = [called for called in called_by(program) if called != "shared_copy_f32"]
    assert works and all(called.startswith(f"shared_{name}_f32") for called in works)
    for n in LENGTHS:
        a = sf.tensor(np.random.default_rng(n).integers(0, 90, (3, n)).astype("f"))
        if view == "part of rows" and n == 1 and name == "rank":
            continue
        y = sf.placeholder((3, n), name="y")
        known = sf.compile([y], WORKS[name](VIEWS[view](y)))
        for found, expected in zip(program(a), known(a), strict=True):
            np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("name", ["sortup", "sortdown", "rank", "rank_apart"])
@pytest.mark.parametrize("n", [5, SHORT, SHORT + 40])
def test_the_interpreter_has_them(name: str, n: int) -> None:
    of_work, *apart = name.split("_")
    kernel = verify_kernel(emit_row_work("_".join(["shared", of_work, "f32", *apart])).kernel)
    step = 3 if apart else 1
    row = np.random.default_rng(n).integers(0, 40, n).astype("f")
    keys = np.full(n * step, np.nan, "f")
    keys[::step] = row
    rank = n // 3
    sizes = {Sym("n"): n, Sym("rank"): rank, Sym("step"): step}
    arrays = {"keys": keys}
    for buffer in kernel.buffers[1:]:
        arrays[buffer.name] = np.zeros(2 * n + 512, buffer.dtype.numpy)
    assert interpret_kernel(kernel, arrays, {s: sizes[s] for s in kernel.sizes}) == 0
    order = np.argsort(-row if of_work == "sortdown" else row, kind="stable")
    if of_work == "rank":
        assert arrays["position"][0] == order[rank]
    else:
        np.testing.assert_array_equal(arrays["positions"][:n], order)
        np.testing.assert_array_equal(arrays["values"][:n], row[order])
