"""How the kernels of each op would be launched on a GPU, the worst first: counted, not measured.

Of an op with sizes that are unknown, and about as many elements as ``--elements`` says, a line says
of its worst launch: who runs an iteration of it (a thread, a warp or a block) and how many there
are; how many statements the busiest thread goes through, one after the other; by how much these
are more than if all statements were spread over all threads that an H100 runs at a time; and how
many times the least number of 32 bytes a warp's worst access to memory asks for, of those whose
places are not themselves read from memory.

``python benchmarks/gpu_launches.py [NAME ...] [--elements N]``, in the repository: the ops and
their samples are those of the tests, and a few functions of one long row, of few long rows and of
few long columns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import staticflow as sf
from staticflow.codegen.kernel import (
    ENDLESS,
    LAUNCHED,
    SHARED,
    TEAMS,
    WARP,
    Bind,
    Block,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Reg,
    Store,
)
from staticflow.codegen.lower.cluster import lower_cluster
from staticflow.codegen.schedule.gpu import schedule_gpu
from staticflow.codegen.target import GPU
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.graph import close
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize

__all__ = ["LaunchCount", "count_launches", "main"]

ROOT = Path(__file__).parents[1]

SIZE = 7
"""The size in the samples that is unknown to the kernels."""

THREADS = 132 * 2048
"""Threads that an H100 runs at a time."""

SECTOR = 32
"""Bytes that memory is read by."""

SEARCH = 32
"""Iterations of a loop that ends by a value: as of a search."""

LEAST = 100
"""Statements of a thread that are no more than a launch takes anyway."""

FUNCTIONS: dict[str, Callable[[Any, int], Any]] = {
    "sum": lambda x, dim: x.sum(dim),
    "var": lambda x, dim: x.var(dim),
    "amax": lambda x, dim: sf.amax(x, dim),
    "argmax": lambda x, dim: x.argmax(dim),
    "softmax": lambda x, dim: sf.softmax(x, dim),
    "logsumexp": lambda x, dim: sf.logsumexp(x, dim),
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cummax": lambda x, dim: x.cummax(dim).values,
    "sort": lambda x, dim: x.sort(dim).values,
    "topk": lambda x, dim: x.topk(10, dim).values,
    "median": lambda x, dim: x.median(dim).values,
}

SHAPES = {"a row": ((None,), 0), "4 rows": ((4, None), 1), "1024 columns": ((None, 1024), 0)}


@dataclass(frozen=True)
class LaunchCount:
    """What a launch does. ``kind`` is that of its loop, ``steps`` are the statements of the busiest
    thread, ``statements`` those of all."""

    kind: str
    iterations: int
    steps: int
    statements: int
    sectors: float

    @property
    def waste(self) -> float:
        """How many times as long the busiest thread is at it as all would be together."""
        most = THREADS // TEAMS.get(self.kind, 1)
        waves = -(-self.iterations // most)
        return waves * self.steps / max(self.statements / THREADS, LEAST)


class _Values(dict[Sym, int]):
    """The values of symbols in the middle of all loops. Of what is read from memory nobody knows
    it: it is ``lost``."""

    def __init__(self, usual: int, known: dict[Sym, int], lost: set[Sym]) -> None:
        super().__init__(known)
        self.usual, self.lost = usual, lost

    def __missing__(self, sym: Sym) -> int:
        self.lost.add(sym)
        upper = self.usual if sym.upper is None else evaluate_dim(sym.upper, self)
        return max(upper - 1, 0) // 2

    def with_(self, sym: Sym, value: int) -> _Values:
        return _Values(self.usual, {**self, sym: value}, self.lost)


@dataclass
class _Walk:
    """Goes through the body of a launch, as the threads of a warp do, each with its ``values``."""

    kernel: Kernel
    kind: str
    values: list[_Values]
    indices: dict[str, Size] = field(default_factory=dict)
    sectors: float = 0.0

    def block(self, block: Block, values: list[_Values], spread: bool) -> tuple[int, int]:
        """The statements of a thread, and those of all iterations of the loops in a block."""
        steps = statements = 0
        for stmt in block:
            if isinstance(stmt, Loop):
                own, all_ = self._loop(stmt, values, spread)
            elif isinstance(stmt, If):
                sides = [self.block(b, values, spread) for b in (stmt.then, stmt.orelse)]
                own, all_ = (max(of) for of in zip(*sides, strict=True))
            else:
                own, all_ = 1, 1
                self._statement(stmt, values, spread)
            steps, statements = steps + own, statements + all_
        return steps, statements

    def _loop(self, loop: Loop, values: list[_Values], spread: bool) -> tuple[int, int]:
        one = values[0]
        lo, hi = evaluate_dim(loop.lo, one), evaluate_dim(loop.hi, one)
        count = max(0, -(-(hi - lo) // loop.step))
        if loop.going is not None or loop.hi == ENDLESS:
            count = min(count, SEARCH)
        shared = loop.kind in SHARED
        inside = [
            v.with_(
                loop.var, lo + loop.step * (min(i, max(count - 1, 0)) if shared else count // 2)
            )
            for i, v in enumerate(values)
        ]
        own, all_ = self.block(loop.body, inside, spread or shared)
        rounds = -(-count // TEAMS[self.kind]) if shared else count
        return rounds * own, count * all_

    def _statement(self, stmt: Any, values: list[_Values], spread: bool) -> None:
        if isinstance(stmt, Let) and isinstance(stmt.expr, Index):
            self.indices[stmt.reg.name] = stmt.expr.index
        elif isinstance(stmt, Bind) and isinstance(stmt.value, Reg):
            index = self.indices.get(stmt.value.name)
            for v in values if index is not None else ():
                v[stmt.sym] = evaluate_dim(index, v)
        part = stmt.expr if isinstance(stmt, Let) else stmt
        if isinstance(part, Load | Store) and spread:
            self._access(part, values)

    def _access(self, part: Load | Store, values: list[_Values]) -> None:
        own = [b for b in self.kernel.buffers if b.name == part.buffer]
        places = [evaluate_dim(part.index, v) for v in values]
        if not own or symbols_of(part.index) & values[0].lost or len(set(places)) == 1:
            return
        size = own[0].dtype.itemsize
        touched = len({place * size // SECTOR for place in places})
        self.sectors = max(self.sectors, touched / (WARP * size / SECTOR))


def count_launches(kernel: Kernel, size: int) -> Iterator[LaunchCount]:
    """The launches of a kernel whose unknown sizes are all ``size``."""
    sizes = dict.fromkeys(kernel.sizes, size)
    ahead: list[Any] = []
    loops = [s for s in kernel.body if isinstance(s, Loop) and s.kind in LAUNCHED]
    if not loops:
        walk = _Walk(kernel, "thread", [_Values(size, sizes, set())])
        yield LaunchCount("thread", 1, *walk.block(kernel.body, walk.values, False), 0.0)
    for stmt in kernel.body:
        if stmt not in loops:
            ahead.append(stmt)
            continue
        values = [_Values(size, sizes, set()) for _ in range(WARP)]
        walk = _Walk(kernel, stmt.kind, values)
        walk.block(tuple(s for s in ahead if not isinstance(s, Loop)), values, False)
        lo, hi = evaluate_dim(stmt.lo, values[0]), evaluate_dim(stmt.hi, values[0])
        count = max(0, -(-(hi - lo) // stmt.step))
        if count == 0:
            continue
        alone = stmt.kind == "grid"
        middle = lo + count // 2 // WARP * WARP * stmt.step
        inside = [
            v.with_(stmt.var, middle + (i * stmt.step if alone else 0))
            for i, v in enumerate(values)
        ]
        steps, statements = walk.block(stmt.body, inside, alone)
        yield LaunchCount(stmt.kind, count, steps, count * statements, walk.sectors)


def kernels_of(inputs: Sequence[Any], outputs: Sequence[Any]) -> Iterator[Kernel]:
    """The kernels that compute symbols on a GPU."""
    graph, _ = optimize(close([i.node for i in inputs], [o.node for o in outputs]))
    for node in graph.nodes:
        if node.op is cluster:
            lowered = lower_cluster(node.attrs["body"], node.attrs["kind"], GPU)
            yield schedule_gpu(lowered).kernel


def kernels_of_table(elements: int) -> Iterator[tuple[str, list[Kernel], int]]:
    """The names of all that is looked at, the kernels, and the unknown size."""
    for where, (shape, dim) in SHAPES.items():
        known = next((n for n in shape if n is not None), 1)
        for name, fn in FUNCTIONS.items():
            x = sf.placeholder(shape, name="x")
            yield f"{name} of {where}", [*kernels_of([x], [fn(x, dim)])], elements // known
    from opinfo import ROWS
    from opinfo.modes import arrays_of, call

    for name, info in ROWS.items():
        if info.sized is None:
            continue
        sample = info.sized(info.dtypes[0], SIZE)
        arrays = arrays_of(sample)
        inputs = [
            sf.placeholder(
                tuple("n" if d == SIZE else d for d in a.shape), dtype_of(a.dtype), name=f"x{i}"
            )
            for i, a in enumerate(arrays)
        ]
        many = max((sum(d == SIZE for d in a.shape) for a in arrays), default=1)
        size = round(elements ** (1 / max(many, 1)))
        yield name, [*kernels_of(inputs, call(info, sample, inputs))], size


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the ops; all without")
    parser.add_argument("--elements", type=int, default=10**6, help="about so many of the largest")
    args = parser.parse_args(argv)
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]
    rows = []
    for name, kernels, size in kernels_of_table(args.elements):
        if args.names and name not in args.names:
            continue
        counts = [c for k in kernels for c in count_launches(k, size)]
        if counts:
            rows.append((max(counts, key=lambda c: c.waste), len(counts), name))
    rows.sort(key=lambda row: -row[0].waste)
    print(f"{'':28} launches  by        of them      statements     times  sectors")
    for worst, launches, name in rows:
        print(
            f"{name:28} {launches:8}  {worst.kind:7} {worst.iterations:9} {worst.steps:15,} "
            f"{worst.waste:9.1f} {worst.sectors:8.1f}"
        )


if __name__ == "__main__":
    main()
