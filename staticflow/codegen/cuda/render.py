"""The CUDA renderer: kernels as CUDA C, compiled by NVRTC for a GPU and as C++ for the tests.

A kernel is one *launch* for each of its loops over a grid, over warps or over blocks, in their
order, or a single one of one thread if it has none of these. A launch is a function ``extern "C"
__global__ void ENTRY(buffers, long long sizes, int* status)``; `launch_count`, `entry_name` and
`launch_geometry` say how many there are, what they are called and how many threads each wants. The
iterations of a grid loop are spread over the threads of a one-dimensional launch of any size, those
of a loop over warps or blocks over its teams of so many threads. What stands beside these loops is
done by every thread of the launches that read it, and so may not store. In a team every thread runs
every statement, on the same values, but that one thread alone stores, and the iterations of a
``threads`` loop are spread. Loops of the other kinds stay loops, in order.

``status`` points to a word that the caller has set to 0, one for all launches of a kernel. A
`Check` that fails ends its iteration of the loop of the launch (outside of one, the thread), and
the word becomes the smallest of all that failed: the same for every launch size and every order of
the threads; no later launch of the kernel does anything. `code_of` gives the code. (Where
iterations fail with different codes, the interpreter returns that of the one it comes to first.)

The text gives the same bits as the interpreter if products and sums are not contracted, quotients
and roots are rounded correctly and subnormals are kept, which `NVRTC_OPTIONS` asks for. What the
Kernel IR leaves open: the bits of a NaN that an operation makes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from staticflow.codegen.cuda.cores import PAIR
from staticflow.codegen.cuda.teams import BLOCK
from staticflow.codegen.cuda.values import helpers_in
from staticflow.codegen.cuda.writer import LATER, write_launch
from staticflow.codegen.kernel import (
    LAUNCHED,
    TEAMS,
    Accumulate,
    Active,
    Bind,
    Check,
    Expr,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Reg,
    Reserve,
    Set,
    Splat,
    Stmt,
    Store,
    Var,
    Zip,
)
from staticflow.codegen.parts import operands_of, walk
from staticflow.codegen.schedule.loops import iteration_count
from staticflow.codegen.text import format_statement
from staticflow.codegen.unused import bound_by, reads
from staticflow.errors import CompileError
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Sym, ceil_div

__all__ = [
    "NVRTC_OPTIONS",
    "code_of",
    "entry_name",
    "has_work",
    "launch_count",
    "launch_geometry",
    "render_cuda",
    "render_cuda_module",
]

NVRTC_OPTIONS = ("--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false")
"""The options of NVRTC under which it keeps the arithmetic as it is written; see the module."""

_SHARED = """\
#ifndef SF_SHARED
#define SF_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#endif"""
_MAX_BLOCKS = 2**31 - 1  # the limit of the first dimension of a launch
_FILLING_BLOCKS = 1024  # several for each multiprocessor of the largest GPUs


def render_cuda(kernel: Kernel) -> str:
    """The CUDA C text of one scalar kernel, which `verify_kernel` accepts.

    Parameters are the buffers (``const`` those of access ``in``), then the sizes as ``long long``,
    then ``int* status``. Raises `CompileError` for a kernel with vectors, for one that reserves
    memory, and for one that stores, or loads what it stores, beside its launches.
    """
    return render_cuda_module([kernel])


def render_cuda_module(kernels: Iterable[Kernel], guarded: Container[str] = ()) -> str:
    """The CUDA C text of several kernels, whose names differ, behind one prelude. Those with a name
    in ``guarded``, which have no `Check`, do nothing where the word of their status is not 0."""
    functions = [
        _function(kernel, number, kernel.name in guarded)
        for kernel in kernels
        for number in range(launch_count(kernel))
    ]
    text = "\n".join(functions)
    needed = (("SF_SHARED(", _SHARED), ("SF_PAIR(", PAIR))
    macros = [definition for name, definition in needed if name in text]
    return "\n\n".join([*macros, *helpers_in(text), *functions]) + "\n"


def launch_count(kernel: Kernel) -> int:
    """How many launches, one after the other, run ``kernel``."""
    return max(len(_launch_loops(kernel)), 1)


def entry_name(kernel: Kernel, launch: int = 0) -> str:
    """The name of the function that a launch of ``kernel`` is rendered as. (A kernel may have the
    name of a C function.)"""
    return f"{kernel.name}_kernel" + (f"_{launch}" if launch else "")


def launch_geometry(
    kernel: Kernel, sizes: Mapping[Sym, int], launch: int = 0
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The grid and the block of a launch of ``kernel``, each as (x, y, z).

    One thread, warp or block for each iteration of its loop, or one thread in all if it has none.
    There is always a block, for the checks beside the loop. An iteration count that the kernel
    itself loads gets a launch that fills a large GPU, whose threads share the iterations.
    """
    loops = _launch_loops(kernel)
    if not loops:
        return (1, 1, 1), (1, 1, 1)
    loop = loops[launch]
    iterations, known = iteration_count(loop), _with_bound_sizes(kernel, sizes)
    if symbols_of(iterations) <= set(known):
        blocks = evaluate_dim(ceil_div(iterations, BLOCK // TEAMS.get(loop.kind, 1)), known)
    else:
        blocks = _FILLING_BLOCKS
    return (min(max(blocks, 1), _MAX_BLOCKS), 1, 1), (BLOCK, 1, 1)


def has_work(kernel: Kernel, sizes: Mapping[Sym, int], launch: int = 0) -> bool:
    """Whether a launch of ``kernel`` does anything: it has iterations, or checks beside them, or
    nobody knows how many iterations there are."""
    loops = _launch_loops(kernel)
    iterations = iteration_count(loops[launch]) if loops else 1
    known = _with_bound_sizes(kernel, sizes)
    if not symbols_of(iterations) <= set(known) or evaluate_dim(iterations, known) > 0:
        return True
    return any(isinstance(s, Check) for s in walk(tuple(_beside(kernel, loops[launch]))))


def _with_bound_sizes(kernel: Kernel, sizes: Mapping[Sym, int]) -> dict[Sym, int]:
    """The values of ``sizes``, and of what the kernel works out of these beside its launches."""
    known, values = dict(sizes), dict[str, int]()
    for stmt in kernel.body:
        if isinstance(stmt, Let) and isinstance(stmt.expr, Index):
            if symbols_of(stmt.expr.index) <= set(known):
                values[stmt.reg.name] = evaluate_dim(stmt.expr.index, known)
        elif isinstance(stmt, Bind) and isinstance(stmt.value, Reg) and stmt.value.name in values:
            known[stmt.sym] = values[stmt.value.name]
    return known


def code_of(status: int) -> int:
    """The code of the kernel, 0 or that of a `Check` that failed, when ``status`` is the word
    behind its launches."""
    return status % LATER


# -- what can be rendered ------------------------------------------------------------------------


def _launch_loops(kernel: Kernel) -> list[Loop]:
    return [s for s in kernel.body if isinstance(s, Loop) and s.kind in LAUNCHED]


def _beside(kernel: Kernel, loop: Loop) -> list[Stmt]:
    """What stands before the loop of a launch, beside other launches, and is needed: what the loop
    reads, and the checks since the launch before."""
    kept: list[Stmt] = []
    needed = reads((loop,))
    before = kernel.body[: kernel.body.index(loop)]
    own_checks = True
    for stmt in reversed(before):
        if isinstance(stmt, Loop) and stmt.kind in LAUNCHED:
            own_checks = False
            continue
        bound = bound_by(stmt)
        changed = {s.reg.name for s in walk((stmt,)) if isinstance(s, (Set, Accumulate))}
        if (own_checks and isinstance(stmt, Check)) or needed & (bound | changed):
            kept.append(stmt)
            needed |= reads((stmt,))
        elif not isinstance(stmt, (Let, Var, Bind, Check, Set, Accumulate)):
            kept.append(stmt)
    return kept[::-1]


def _check_beside(kernel: Kernel, loop: Loop, beside: list[Stmt]) -> None:
    """Every thread runs what stands beside the loop of its launch, at its own time."""
    for stmt in beside:
        first, last = sorted((kernel.body.index(stmt), kernel.body.index(loop)))
        since = kernel.body[first : last + 1]
        stored = {s.buffer for s in walk(since) if isinstance(s, Store)}
        for part in walk((stmt,)):
            access = part.expr if isinstance(part, Let) else part
            if isinstance(access, Store) or (isinstance(access, Load) and access.buffer in stored):
                raise CompileError(
                    f"kernel {kernel.name}: `{format_statement(part)}` stands beside the "
                    f"{loop.kind} loop over {loop.var}, where every thread does it; move it into a "
                    "kernel of its own"
                )


def _check_memory(kernel: Kernel) -> None:
    for stmt in walk(kernel.body):
        if isinstance(stmt, Reserve):
            raise CompileError(
                f"kernel {kernel.name}: `{format_statement(stmt)}`: a kernel on a GPU gets no "
                "memory as it runs; such a loop runs on the CPU"
            )


def _check_scalar(kernel: Kernel) -> None:
    for stmt in walk(kernel.body):
        parts = [stmt, stmt.expr] if isinstance(stmt, Let) else [stmt]
        if any(_has_lanes(part) for part in parts):
            raise CompileError(
                f"kernel {kernel.name}: `{format_statement(stmt)}` has a vector; a GPU kernel is "
                "scheduled with bind_grid, from the kernel as it was before vectorize"
            )


def _has_lanes(part: Stmt | Expr) -> bool:
    if isinstance(part, (Splat, Zip, Active)):
        return True
    operands = [*operands_of(part), getattr(part, "reg", None)]
    return any(operand is not None and operand.lanes > 1 for operand in operands)


# -- functions -----------------------------------------------------------------------------------


def _function(kernel: Kernel, number: int, guarded: bool) -> str:
    _check_scalar(kernel)
    _check_memory(kernel)
    loops = _launch_loops(kernel)
    if not loops:
        return write_launch(kernel, entry_name(kernel), 0, kernel.body, guarded)
    loop = loops[number]
    beside = _beside(kernel, loop)
    behind = kernel.body[kernel.body.index(loop) + 1 :] if loop is loops[-1] else ()
    _check_beside(kernel, loop, [*beside, *behind])
    return write_launch(kernel, entry_name(kernel, number), number, (*beside, loop), guarded)
