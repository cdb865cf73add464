"""The sizes at which other code takes over: every constant of the framework that is one, by name,
and sizes on both sides of each.

`SIZES` and `NO_SIZES` together name every integer constant of the packages that compute. A new one
is in neither, and `test_thresholds` says so.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

__all__ = ["BY_MATRICES", "MEASURES", "SIZES", "constants", "stale_names", "unknown_constants"]

Shapes = Sequence[tuple[int, ...]]


MEASURES: Mapping[str, Callable[[Shapes], int]] = {
    "elements": lambda shapes: max(map(prod, shapes)),
    "length": lambda shapes: max(n for s in shapes for n in (*s, 1)),
}
"""What a threshold counts, of the shapes of the operands and results of an operation."""

SIZES: Mapping[str, str] = {
    "eager.costs._OFTEN_BELOW.faster": "elements",
    "eager.costs._OFTEN_BELOW.rows": "elements",
    "eager.costs.SMALL": "elements",
    "eager.indexed.MANY": "elements",
    "eager.costs.BEYOND": "elements",
    "eager.costs.LARGE": "elements",
    "eager.costs.SPREAD": "elements",
    "eager.costs.SHORT": "length",
    "eager.costs.NARROW": "length",
    "eager.costs.ROW": "length",
    "eager.costs.STARTED": "length",
    "eager.costs.SUMMED_ROW": "length",
    "eager.costs.FEW_IN_ROW": "length",
    "eager.costs.LONG": "length",
    "eager.costs.LONG_BOOLS": "length",
    "eager.costs.LONG_NARROW": "length",
    "eager.costs.BETWEEN": "length",
    "eager.costs.CALLS": "elements",
    "eager.costs.HALVES": "elements",
    "codegen.lower.blocks._LEAST": "elements",
    "codegen.lower.contract._LARGE": "elements",
    "codegen.lower.loops.LANES_PART": "length",
    "codegen.lower.loops._PART": "length",
    "codegen.lower.short_rows._MOST": "length",
    "graph.mask_indices._LARGE": "elements",
    "graph.rowmajor._LARGE": "elements",
    "ops.indexing.gather_ops._SMALL": "elements",
    "ops.along.stable._FEW": "elements",
}
"""Constants from which on something else computes an operation, and what they count."""

BY_MATRICES = (
    "codegen.gemm.ways._CACHE", "codegen.gemm.ways._FEW_PAGES", "codegen.gemm.ways._PAGES", "codegen.gemm.ways._LITTLE",
    "codegen.gemm.ways._SMALL", "codegen.gemm.ways._DEPTH_PER_ROW", "codegen.gemm.ways._BRIEF",
    "codegen.thresholds.LEAST_ROWS", "codegen.gemm.cut._ROWS", "codegen.gemm.cut._STRIPE",
    "codegen.gemm.cut._ROWS_PER_COPY", "codegen.gemm.cut._DEEP", "codegen.gemm.cut._BY_ROWS.column",
    "codegen.gemm.cut._BY_COLUMNS.column", "codegen.gemm.cut._BY_COLUMNS.panels",
    "codegen.gemm.tile._NEAR", "codegen.gemm.ways.FEW_COLUMNS", "codegen.gemm.few_rows._CHUNK", "codegen.gemm.few_rows._LEAST_CHUNK",
    "eager.costs.PRODUCT", "eager.costs.PANELS", "eager.costs.LITTLE", "eager.costs.TURNED",
    "eager.costs.NO_LIBRARY", "eager.costs.BY_VECTOR",
)  # fmt: skip
"""Constants that the rows, the columns, the inner dim, the elements of the second matrix or the
multiplications of a product of matrices are compared with."""

NO_SIZES: Mapping[str, str] = {
    name: reason
    for reason, names in {
        "counts blocks, tasks or threads, which follow from sizes": (
            "codegen.lower.blocks._MOST", "codegen.gemm.cut._BY_ROWS.tasks", "codegen.gemm.cut.GROUPS",
            "codegen.gemm.cut.ENOUGH",
            "codegen.lower.tasks.GROUPS", "codegen.llvm.loops._ENOUGH", "runtime.pool.MOST", "runtime.pool.PIECES",
            "runtime.threads.MOST_WORKERS", "codegen.llvm.parallel.MANY_WORKERS",
            "runtime.pool.SPINS", "runtime.pool.MOST_DOUBLINGS",
        ),
        "bytes of sums that are sent together, of which tests/distributed/test_order_of_collectives.py has fewer and more": (
            "passes.partition.schedule.BUNDLE",
            "passes.partition.schedule.PARTS",
        ),
        "sizes of whole programs, on both sides of which tests/static/test_row_blocks.py and "
        "tests/ops/loops/test_loop_memory.py are": (
            "passes.row_blocks._BLOCK", "passes.row_blocks._WIDE", "codegen.program.carries._LARGE",
        ),
        "rows of a kernel that adds up over them, on both sides of which tests/codegen/test_row_totals.py is": (
            "codegen.lower.rows._BLOCK", "codegen.lower.rows._LEAST_ROWS", "codegen.lower.rows._MOST_ROWS", "codegen.lower.rows._ROWS",
            "passes.row_totals._SHORT",
        ),
        "columns, rows and bytes of a kernel that goes down columns, on both sides of which tests/codegen/test_row_totals.py is": (
            "passes.down_columns._COLUMNS", "passes.down_columns._LARGE", "passes.down_columns._ROWS",
        ),
        "a width of vectors or of a tile, to whose multiples no other size is even": (
            "codegen.lower.blocks._EVEN", "codegen.gemm.tile._CHAINS", "codegen.gemm.few_rows.LEAST_VECTORS", "codegen.gemm.few_rows._STREAMS",
            "codegen.gemm.few_rows._MOST", "codegen.llvm.sqrt._LANES",
            "codegen.lower.correlate._UNROLLED", "codegen.lower.window_products._UNROLLED", "codegen.lower.loops._ROWS_PART", "codegen.schedule.cpu._ALONG_COLUMNS",
            "codegen.lower.short_rows._REGISTERS", "codegen.schedule.cpu._STRIP", "graph.rowmajor._SOME", "graph.rowmajor._RUN", "graph.rowmajor._STRIP", "graph.rowmajor._WIDTH",
            "eager.ranges._PIECE",
        ),
        "products that make an element of a convolution, of which tests/codegen/test_long_sums.py has many": (
            "codegen.lower.correlate._DEEP", "codegen.lower.windows.PART", "ops.windows.correlate._MOST_AT_ONCE",
        ),
        "statements behind a product, and those and the numbers that it adds up, on both sides of which tests/codegen/test_long_epilogues.py is": (
            "codegen.lower.contract._LONG", "codegen.lower.contract._MUCH",
        ),
        "rows, columns and positions of a convolution as a product, of which tests/codegen/test_convolutions.py has fewer and more": (
            "codegen.lower.kernel_products._LEAST_COLUMNS", "codegen.lower.kernel_products._LEAST_ROWS",
            "codegen.lower.kernel_products._LEAST_POSITIONS", "codegen.lower.kernel_products._POSITIONS",
            "codegen.lower.kernel_products._BLOCK", "codegen.lower.kernel_products._ROWS_PER_COPY",
            "codegen.lower.kernel_products._POSITIONS_PER_PART",
            "codegen.lower.window_products._LEAST_ROWS", "codegen.lower.window_products._COLUMNS",
            "codegen.lower.window_products._DEPTH", "codegen.lower.window_products._OFFSETS", "codegen.lower.correlate._BLOCK",
        ),
        "rows and columns of a matrix that is factored, of which tests/codegen/test_elimination.py and test_householder.py have fewer and more": (
            "ops.matrices.matrix_work.BLOCK", "ops.matrices.householder._BLOCK", "ops.matrices.substitution._SMALL", "codegen.lower.nest._NARROW",
        ),
        "how a kernel is spread over a GPU, on both sides of which tests/codegen/cuda is, or which "
        "follows from the machine": (
            "codegen.kernel.TEAMS.blocks", "codegen.kernel.WARP", "codegen.kernel.VECTOR_BYTES",
            "codegen.target.GPU.vector_bits", "codegen.target.GPU.workers", "codegen.target.GPU.streamed_bytes", "codegen.cuda.teams.BLOCK",
            "codegen.cuda.writer.LATER", "codegen.schedule.gpu.OWNERS", "codegen.schedule.gpu.ROW_OWNERS",
            "codegen.schedule.gpu._SOME", "codegen.schedule.gpu._WARP_ROW", "codegen.schedule.groups._ENOUGH",
            "codegen.schedule.groups._MOST", "codegen.schedule.teams.FEW", "codegen.schedule.teams._MANY",
            "codegen.lower.team_tiles.TILE", "codegen.lower.team_tiles._PITCH", "codegen.lower.team_products._DEEP",
            "codegen.lower.team_tiles.SIDE", "codegen.lower.team_tiles.STEP",
            "codegen.kernel.CORE_DEPTH", "codegen.kernel.CORE_SUMS", "codegen.kernel.CORE_TILE",
            "codegen.lower.core_tiles._PITCH", "codegen.lower.core_tiles._STEP",
            "codegen.lower.team_products._LEAST_DEPTH", "codegen.lower.team_products._BLOCKS",
            "ops.along.recurrence._THREADS", "ops.along.recurrence._LEAST_OF_THREAD", "ops.along.recurrence._BLOCKS",
            "ops.along.recurrence._LEAST_OF_BLOCK", "ops.along.extremes._MOST", "ops.along.extremes._BEHIND", "ops.along.recurrence._MOST", "ops.along.cumulative._MOST_PARTS",
            "codegen.lower.split_reductions._SIDE_BY_SIDE",
            "ops.along.first_few._THREADS", "ops.along.first_few._LISTS",
            "ops.indexing.rank_merge._RUN", "ops.indexing.rank_merge._MOST", "ops.matrices.matrix_work.THREADS",
            "codegen.lower.team_attention._SHARED_ROW",
            "codegen.lower.team_results._REGISTERS",
            "codegen.program.joined_launches._FEW", "codegen.program.joined_launches._BUFFERS",
            "ops.indexing.rank_merge._ROUNDS", "ops.indexing.rank_merge._HALVINGS", "ops.indexing.roll_repeat._HALVINGS",
            "ops.matrices.elimination._FEW", "ops.along.bisection._POSITION_BITS",
            "ops.along.recurrence._CHUNKS", "ops.along.recurrence._LEAST", "ops.along.recurrence._MANY", "ops.indexing.mask_ops._CHUNK", "ops.indexing.gather_ops._MANY",
            "runtime.device.graph_loops._LEAST_DRIVER", "runtime.device.cublas._NO_SUMS_OF_16_BITS", "runtime.device.cublas.TF32",
            "runtime.device.cublaslt._EPILOGUES.gelu", "runtime.device.cublaslt._NOT_SUPPORTED", "runtime.device.cublaslt._WELL_ALIGNED",
        ),
        "bytes of a line, from how many of which on stores go past the caches says the machine, or in "
        "tests/codegen/test_streams.py the test": (
            "codegen.kernel.LINE_BYTES",
        ),
        "objects that the collector of Python is told of, which tests/house/test_import.py looks at": (
            "graph.collector._OF_PYTHON",
        ),
        "how many elements count as one that is reduced, on both sides of which tests/eager/test_eager_kernels.py is": (
            "eager.costs.ADDED",
        ),
        "integers that are counted, of which tests/ops/test_distinct.py has fewer and more": (
            "ops.along.counts._MANY",
        ),
        "rows of a matrix, of which tests/ops/test_distances.py has fewer and more": (
            "ops.statistics.distances._MANY",
        ),
        "rows of a table for each that is named, which tests/eager/test_row_gradients.py has with another constant, too": (
            "eager.row_gradient.FEW",
        ),
        "vertices of a walk, of which tests/eager/test_eager_walk.py has fewer and more": (
            "eager.fast.walk.MOST_VERTICES",
        ),
        "operations of a process, of which tests/eager/test_first_operations.py runs fewer and more": (
            "eager.costs.FIRST",
        ),
        "elements of a row, and statements beside the loop over them, on both sides of which tests/codegen/test_short_loops.py is": (
            "codegen.schedule.short_loops._FEW", "codegen.schedule.short_loops._MUCH",
        ),
        "rows, statements beside their loops, and bytes of a row, on both sides of which tests/codegen/test_phases.py is": (
            "codegen.schedule.phases.ROWS", "codegen.schedule.phases._MUCH", "codegen.schedule.phases._NEAR",
        ),
        "elements of rows whose pairs are gone through, and rows, on both sides of which tests/codegen/test_pairs.py is": (
            "codegen.schedule.pairs._MOST", "codegen.schedule.pairs._BLOCK", "codegen.schedule.pairs._LEAST", "codegen.schedule.pairs._WRITTEN_OUT",
        ),
        "elements of a row that is put somewhere, on both sides of which tests/passes/test_nests.py is": (
            "passes.nests._VECTOR",
        ),
        "elements of a matrix, and vectors that it is multiplied with, on both sides of which tests/passes/test_stack_vectors.py is": (
            "passes.stack_vectors._LEAST", "passes.stack_vectors._MOST",
        ),
        "counts statements, terms or nodes of a program": (
            "passes.partition.partition.DEEPEST",
            "codegen.lower.saved_row._COSTLY", "codegen.schedule.cpu._SHORT", "codegen.schedule.vectorize._LITTLE", "codegen.schedule.short_loops._MOST", "codegen.lower.short_rows._MOST_STATEMENTS", "codegen.maths.division._MOST_SHIFTS",
            "codegen.program.traffic._GUESS", "codegen.program.traffic._A_CALL", "codegen.program.packing._MANY", "passes.dump._MOST",
            "passes.loops.unroll._MOST_NODES", "passes.loops.pair_scans._MOST_NODES", "passes.loops.unswitch._MOST_NODES", "passes.powers._MOST_PRODUCTS", "passes.narrow_products._DEEP", "passes.narrow_products._MOST", "codegen.llvm.routine._IN_REGISTERS", "codegen.llvm.routine._STEPS_OF_A_BLOCK", "codegen.llvm.stretches._LEAST", "codegen.llvm.stretches._LONGEST",
            "codegen.program.layout._WORK", "codegen.program.memory_order._PARTS",
            "codegen.program.node_order._EXAMPLE", "passes.fuse._EXAMPLE", "codegen.lower.loop_dims._EXAMPLE", "codegen.work._MEMORY", "codegen.schedule.runs._BYTES.zero",
            "codegen.work._SLOW.quotient", "codegen.work._SLOW.remainder", "codegen.work._VECTOR",
            "passes.access.MOST_REPEATED", "passes.contraction.MOST_SEARCHED", "ops.matrices.exponential._DEGREE",
            "passes.fold.MOST_ELEMENTS", "passes.arrays.MOST_MEMBERS", "passes.rewrite._MOST_ROUNDS",
            "passes.loops.scalar.MOST_STATE", "ops.loops.branch_kinds._MOST", "ops.loops.branch_kinds._DEEPEST",
            "ops.windows.convolution._MOST_PHASES", "ops.matrices.einsum._MOST_COMPARED", "ops.matrices.einsum._MOST_PAIRED", "graph.types.MOST_DIMS", "ops.matrices.einsum._UNKNOWN",
            "ops.loops.reachable._MOST", "ops.loops.inner_sizes._MOST", "ops.along.cumulative._MOST_DIFFERENCES", "eager.fast.plans.MOST_STEPS", "eager.fast.recall.MOST_VALUES",
            "eager.fast.records.MOST", "eager.fast.key.WORDS",
            "ops.along.sorted_search._HALVINGS", "ops.symbols.saves._MOST", "ops.symbols.stable._MOST_ROUNDS", "ops.symbols.attention_reading._DEEP",
        ),
        "the iterations of a loop, which tests/ops/loops/test_loop_memory.py and tests/arguments/test_long.py vary": (
            "codegen.lower.state._STRETCH.0", "codegen.lower.state._STRETCH.1",
            "codegen.lower.state._STRETCH.2", "codegen.lower.state._ROOM", "codegen.llvm.arena._LITTLE",
            "codegen.llvm.repeats._BETWEEN_LOOKS", "codegen.llvm.repeats._MOST_ITERATIONS",
            "codegen.llvm.loops._BETWEEN_LOOKS", "codegen.llvm.loops._FEW", "runtime.pool.LONGEST",
            "passes.loops.batch_products._LARGE",
        ),
        "so many calls or kinds of calls are remembered, which tests/eager/test_eager_recall.py varies": (
            "eager.programs.MOST_CALLS", "eager.programs.MOST_KINDS",
            "eager.fast.records.MEMO", "eager.fast.records.OPS_ROOM", "eager.fast.records.CODES", "eager.fast.recall.OFTEN",
            "eager.fast.recall.SLOTS", "runtime.free_objects.MOST", "runtime.block_cache.BLOCKS",
        ),
        "a chain of products, and the sizes and orders that are tried for it, made in tests/passes/random_chains.py": (
            "passes.order_products.MOST_PRODUCTS", "passes.order_products._MOST_TRIALS",
            "passes.product_chains.MOST_FACTORS", "passes.product_orders._LARGEST", "passes.product_orders._TRIED",
        ),
        "queries and keys in a block of attention, of which tests/static/test_attention.py has fewer and more": (
            "codegen.lower.attention_blocks._KEYS", "codegen.lower.attention_blocks._QUERIES", "ops.symbols.attention._LEAST",
        ),
        "elements of a row that is sorted, of which tests/codegen/test_sort_digits.py has fewer and more": (
            "ops.along.order.SHORT", "ops.indexing.radix._PART", "ops.indexing.radix._MOST_PARTS",
            "ops.indexing.radix._BITS", "ops.indexing.radix._VALUES",
        ),
        "elements of a row of which some are sought, of which tests/codegen/test_selection.py has fewer and more": (
            "ops.along.order.NETWORK", "ops.along.selection._BITS", "ops.along.selection._VALUES",
            "ops.along.selection._LONG", "ops.along.selection._NEAR", "ops.along.ranks._COUNTED", "ops.along.selection._SAMPLE", "ops.along.selection._SAMPLE_OF_ROW",
            "ops.along.selection._BLOCK",
        ),
        "values that are sought together, of which tests/codegen/test_search.py has fewer and more": (
        ),
        "a row of `topk`, of `isin` or of products, whose samples have fewer and more": (
            "ops.along.order.FEW", "ops.along.sets._FEW", "ops.along.multiplication._IN_REGISTERS",
        ),
        "elements of which tests/ops/test_distinct.py has fewer and more": (
            "graph.mask_indices._SMALL", "ops.indexing.data_dependent._MANY",
        ),
        "a share of a mask, of which tests/eager/test_eager_large.py has less and more": (
            "graph.mask_indices._DENSE",
        ),
        "counts operations, of which an element takes from two to hundreds: above between LARGE and SPREAD": (
            "codegen.thresholds.SHARED_WORK", "codegen.thresholds.WAKING_WORK", "runtime.pool.LEAST",
        ),
        "bytes from which memory comes from elsewhere: LARGE, SPREAD and BEYOND lie on both sides": (
            "runtime.aligned.ALIGNED_FROM", "runtime.block_cache.KEPT_FROM",
            "runtime.block_cache.HUGE_FROM",
        ),
        "small matrices, of which tests/eager/test_eager_products.py has fewer and more": (
            "eager.costs.MATRICES",
        ),
        "operations on an element and checks of a kernel, of which tests/passes/test_many_in_a_kernel.py has fewer and more": (
            "passes.down_columns._OPERATIONS", "passes.fuse._MOST_CHECKS",
        ),
        "bytes of a part of a collective, of which tests/distributed/test_collectives.py has fewer and more": (
            "ops.along.collectives.AT_ONCE",
        ),
        "a size in memory, or a distance in it, at which nothing else computes": (
            "codegen.llvm.arena._ALIGNMENT", "codegen.llvm.arena.CELL", "runtime.block_cache.LINE", "runtime.pool.LINE",
            "runtime.aligned._DEFAULT_HANDLER", "runtime.compiler.LOADS_OF_A_LINKER", "runtime.aligned.TRACED", "runtime.aligned.OF_NEW_ARRAYS", "codegen.program.layout.ALIGNMENT", "runtime.object_layout",
            "eager.fast.plans._WORD", "eager.costs.NEAR",
        ),
        "elements from which sums of several arrays are several kernels: tests/codegen/test_memory_order.py has more, most others fewer": (
            "passes.fuse._LARGE",
        ),
        "elements that are written into a text, of which tests/static/test_saved_programs.py has fewer and more": (
            "graph.printer._FEW",
        ),
        "characters of a text that LLVM takes in parts, of which tests/codegen/test_modules.py has fewer and more": (
            "codegen.llvm.modules.SMALL", "codegen.llvm.modules._MOST",
        ),
        "elements up to which what was read is compared by value, which tests/static/test_traced_values.py tells": (
            "eager.tensor._FEW",
        ),
        "more than any test has: what is beyond is refused, or taken by the general path": (
            "codegen.kernel.ENDLESS", "graph.verify._LARGE", "ops.elementwise.gamma._MOST_DERIVATIVES", "ops.elementwise.gamma._MOST_DIMS", "ops.declaring.late.MOST", "runtime.block_cache.MOST_KEPT",
            "ops.tensors.shortcuts._MOST_CHOSEN", "ops.declaring.sizes.MOST_TENSORS",
            "runtime.executable._LARGEST", "runtime.fastcall_sizes._BITS",
            "eager.fast.compute.MOST_ARRAYS", "eager.fast.pull_fused.MOST_KEPT",
            "runtime.fastcall_call.MOST_ARRAYS", "runtime.fastcall_call.MOST_NUMBERS",
            "runtime.fastcall_call.LONG", "runtime.counting.MOST_ENTRIES", "ops.loops.plain_scan.ENDLESS",
            "runtime.fastcall_text._MOST_APART", "runtime.interpreter_lock.PATIENCE",
            "runtime.overlaps._PATIENCE",
        ),
        "so many times the rounding is none, which tests/static/test_expression.py tells from a change": (
            "eager.expression._BITS_OFF",
        ),
        "a code, a mask, a constant of an algorithm": (
            "codegen.statuses.INTERRUPTED", "codegen.statuses.NO_ROOM",
            "codegen.llvm.float_parts._BALANCED", "codegen.llvm.sqrt._ZEROS_AND_INFINITY",
            "codegen.statuses.SIZES_DIFFER", "codegen.llvm.subnormals._FTZ_AND_DAZ", "codegen.llvm.subnormals._FZ", "codegen.maths.bits.PARITY",
            "codegen.llvm.poison.NOTHING", "codegen.llvm.poison._NO_NUMBER",
            "codegen.maths.bits.ROUNDS", "codegen.maths.erf.SPARE", "codegen.maths.far._AHEAD",
            "codegen.maths.far._LOW", "codegen.maths.normal.SPARE", "codegen.target.PORTABLE",
            "eager.fast.records.FLAGS", "eager.fast.records.NO_DTYPE", "eager.fast.apply.FLOATS", "eager.fast.change._WORDS", "eager.fast.compute.SHORT_FLOATS", "eager.fast.entry.FLOATS", "eager.fast.key.MAY_BE_WANTED",
            "eager.fast.recall._OPEN",
            "eager.fast.objects.COUNT", "runtime.pool.FUTEX", "runtime.pool.FAULTS",
            "runtime.pool.EVERYBODY", "runtime.pool.MASK_WORDS", "runtime.relocations._BYTES.1",
            "runtime.relocations._BYTES.24", "runtime.relocations._RELATIVE.0", "runtime.relocations._ADDRESSES.257",
            "runtime.relocations._ADDRESSES.260", "runtime.relocations._PAGES.0", "runtime.relocations._PAGES.1",
            "runtime.relocations._JUMPS.0", "runtime.relocations._JUMPS.1", "runtime.relocations._OF_ISLANDS.0",
            "runtime.relocations._OF_ISLANDS.1", "runtime.relocations.ISLAND",
            "graph.printer._MAX_LINE", "ops.random.draws._PARITY", "ops.random.draws._WORD",
        ),
        "of the cache of machine code on disk, which tests/runtime/test_code_cache.py varies": (
            "runtime.code_cache", "runtime.program_cache",
        ),
        "of GPUs": (
            "codegen.cuda.render._FILLING_BLOCKS", "codegen.cuda.render._MAX_BLOCKS",
            "runtime.device.executable._ENOUGH", "runtime.device.executable._MOST_MET",
            "runtime.device.masked.MOST_CAPTURED", "runtime.device.cublas.MOST",
            "runtime.device.replay._MOST_REPLAYS", "runtime.device.replay._MOST_LAYOUTS",
            "runtime.device.staging._ALIGNED",
            "runtime.device.masked._AT_ONCE", "runtime.device.segments._MOST_ON_BOTH_SIDES",
        ),
    }.items()
    for name in names
}  # fmt: skip
"""The other constants, or whole tables and modules of them, and why no size of an array is compared
with them."""


def unknown_constants() -> set[str]:
    """The constants of which none of the tables says what they are."""
    known = {*SIZES, *BY_MATRICES, *NO_SIZES}
    return {n for n in constants() if known.isdisjoint(_prefixes(n))}


def stale_names() -> set[str]:
    """The names in the tables that are none of a constant."""
    return {*SIZES, *BY_MATRICES, *NO_SIZES} - {p for n in constants() for p in _prefixes(n)}


def _prefixes(name: str) -> list[str]:
    """A constant, and the table and the module that it is in."""
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(2, len(parts) + 1)]


PACKAGES = ("codegen", "eager", "graph", "ops", "passes", "runtime")
LEAST = 8
"""Of sizes below this one the samples of the op table have all."""


@cache
def constants() -> Mapping[str, int]:
    """The integers, from `LEAST` on, that modules of the framework assign to constants, by name; of
    a table or a record those that it holds. What a table repeats of other constants is not one."""
    found: dict[str, int] = {}
    for package in PACKAGES:
        path = importlib.import_module(f"staticflow.{package}").__path__
        for info in pkgutil.walk_packages(path, f"staticflow.{package}."):
            found |= _constants_of(info.name.removeprefix("staticflow."))
    return found


def _constants_of(name: str) -> dict[str, int]:
    module = importlib.import_module(f"staticflow.{name}")
    assert module.__file__ is not None
    assigned = {}
    for statement in ast.parse(Path(module.__file__).read_text()).body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=constant)], value=value)
                | ast.AnnAssign(target=ast.Name(id=constant), value=ast.expr() as value)
            ) if constant.isupper():
                own = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
                found = dict(_numbers(f"{name}.{constant}", getattr(module, constant)))
                others = [getattr(module, o, None) for o in own if o.isupper()]
                assigned |= {n: v for n, v in found.items() if v not in others}
    return assigned


def _numbers(name: str, value: object) -> Iterator[tuple[str, int]]:
    parts: Mapping[Any, object] = {}
    if isinstance(value, Mapping):
        parts = value
    elif isinstance(value, tuple) and len(value) < 8:
        parts = dict(enumerate(value))
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in fields(value)}
    if type(value) is int and value >= LEAST:
        yield name, value
    for key, part in parts.items():
        named = isinstance(key, int) or (isinstance(key, str) and key[:1] != "_")
        if named and type(part) is int and part >= LEAST:
            yield f"{name}.{key}", part
