"""Kernels with data, on which emulator, GPU and interpreter must agree: `CASES`.

The primitives, casts and literals of each dtype on special values, and `cuda_kernels` at several
sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import cuda_kernels as kernels
import numpy as np
from cuda_case import Array, Case, M, N, builder_of, limits_of, sample, specials

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Buffer, Kernel, Operand
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.primitives import COMBINES, PRIMITIVES
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)

# -- operations ------------------------------------------------------------------------------------


def primitives_case(dtype: DType) -> Case:
    """Every primitive of the dtype, on all pairs of special values, each into its own buffer."""
    values = specials(dtype)
    a, b = np.repeat(values, len(values)), np.tile(values, len(values))
    # The third operand in another order: pairs meet most values, an exact cancellation included.
    c = np.random.default_rng(1).permutation(a)
    ops = {op: p for op, p in PRIMITIVES.items() if op == "select" or dtype.kind in p.kinds}
    results = {op: bool_ if p.result == "bool" else dtype for op, p in ops.items()}
    k = builder_of(
        {"a": dtype, "b": dtype, "c": dtype, "condition": bool_},
        {f"{op}_of": result for op, result in results.items()},
    )
    with k.loop("i", Dim.of(N), kind="grid") as i:
        x, y, z = (k.load(name, i) for name in "abc")
        for op, primitive in ops.items():
            args: Sequence[Operand] = (x, _tamed(k, op, y), z)[: primitive.arity]
            if op == "select":
                args = (k.load("condition", i), x, y)
            k.store(f"{op}_of", i, k.apply(op, *args))
    arrays = {"a": a, "b": b, "c": c, "condition": np.arange(len(a)) % 2 == 0}
    outputs = {f"{op}_of": np.empty(len(a), d.numpy) for op, d in results.items()}
    kernel = verify_kernel(k.kernel(f"primitives_{dtype}"))
    zeros = frozenset({"max_of", "min_of"})
    return Case(f"primitives of {dtype}", kernel, arrays | outputs, {N: len(a)}, zeros)


def _tamed(k: Builder, op: str, b: Operand) -> Operand:
    """A second operand that the primitive is defined for."""
    if op in ("shl", "shr"):
        return k.apply("and", b, b.dtype.bits - 1)
    if op in ("quotient", "remainder"):
        return k.select(k.compare("eq", b, 0), k.const(7, b.dtype), b)
    return b


def casts_case(dtype: DType) -> Case:
    """The special values of a dtype in every dtype; 0 instead of a float that is out of range."""
    a = specials(dtype)
    k = builder_of({"a": dtype}, {f"to_{target}": target for target in DTYPES})
    with k.loop("i", Dim.of(N), kind="grid") as i:
        x = k.load("a", i)
        for target in DTYPES:
            value: Operand = x
            if dtype.is_floating and target.category == 1:
                low, high = limits_of(target)
                inside = k.apply(
                    "and", k.compare("ge", x, float(low)), k.compare("lt", x, float(high + 1))
                )
                value = k.select(inside, x, 0.0)
            k.store(f"to_{target}", i, k.cast(value, target))
    outputs = {f"to_{t}": np.empty(len(a), t.numpy) for t in DTYPES}
    kernel = verify_kernel(k.kernel(f"casts_{dtype}"))
    return Case(f"casts of {dtype}", kernel, {"a": a} | outputs, {N: len(a)})


def bitcasts_case(source: DType, target: DType) -> Case:
    """The bits of special values, and back."""
    a = specials(source)
    k = builder_of({"a": source}, {"bits": target, "back": source})
    with k.loop("i", Dim.of(N), kind="grid") as i:
        bits = k.bitcast(k.load("a", i), target)
        k.store("bits", i, bits)
        k.store("back", i, k.bitcast(bits, source))
    outputs = {"bits": np.empty(len(a), target.numpy), "back": np.empty(len(a), source.numpy)}
    kernel = verify_kernel(k.kernel(f"bitcast_{source}_{target}"))
    return Case(f"bits of {source} as {target}", kernel, {"a": a} | outputs, {N: len(a)})


def constants_case(dtype: DType) -> Case:
    """Special values and others as literals."""
    values = np.concatenate([specials(dtype), sample(dtype, 10)])
    k = builder_of({}, {"y": dtype})
    number = {"b": bool, "f": float}.get(dtype.kind, int)
    for i, value in enumerate(values):
        k.store("y", i, k.const(number(value), dtype))
    kernel = verify_kernel(k.kernel(f"constants_{dtype}"))
    return Case(f"constants of {dtype}", kernel, {"y": np.empty_like(values)}, {N: 0})


def accumulate_case(dtype: DType) -> Case:
    """Every combination, over the columns of each row."""
    ops = [op for op in COMBINES if dtype.kind in PRIMITIVES[op].kinds]
    k = builder_of({"x": dtype}, {f"{op}_of": dtype for op in ops}, [N, M])
    n, m = Dim.of(N), Dim.of(M)
    with k.loop("i", n, kind="grid") as i:
        totals = {op: k.var(k.load("x", i * m)) for op in ops}
        with k.loop("j", m, lo=1) as j:
            for op, total in totals.items():
                k.accumulate(total, op, k.load("x", i * m + j))
        for op, total in totals.items():
            k.store(f"{op}_of", i, total)
    arrays = {"x": sample(dtype, 40 * 5)}
    outputs = {f"{op}_of": np.empty(40, dtype.numpy) for op in ops}
    kernel = verify_kernel(k.kernel(f"accumulate_{dtype}"))
    zeros = frozenset({"max_of", "min_of"})
    return Case(f"accumulation of {dtype}", kernel, arrays | outputs, {N: 40, M: 5}, zeros)


_FUNCTIONS = (
    "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "sigmoid", "erfc", "erfinv", "asinh",
    "acosh", "atanh",
)  # fmt: skip


def functions_case(dtype: DType) -> Case:
    """Mathematical functions, which are primitives by the time that they are rendered."""
    a = np.concatenate([specials(dtype), 10 * sample(dtype, 50)])
    buffers = [Buffer("a", dtype, "in"), *(Buffer(f"{f}_of", dtype, "out") for f in _FUNCTIONS)]
    k = Scalars(buffers, [N])
    with k.loop("i", Dim.of(N), kind="grid") as i:
        for name in _FUNCTIONS:
            k.store(f"{name}_of", i, getattr(k, name)(k.load("a", i)))
    outputs = {f"{f}_of": np.empty(len(a), dtype.numpy) for f in _FUNCTIONS}
    kernel = verify_kernel(k.kernel(f"functions_{dtype}"))
    return Case(f"functions of {dtype}", kernel, {"a": a} | outputs, {N: len(a)})


_BITS = ("left_shift", "right_shift", "threefry")


def bits_case() -> Case:
    """Functions of two int64, the cipher of the random numbers among them."""
    a, b = sample(int64, 60), np.concatenate([np.arange(-5, 30), sample(int64, 25, 1)])
    results = {f"{f}_of": int64 for f in _BITS}
    inputs = [Buffer("a", int64, "in"), Buffer("b", int64, "in")]
    k = Scalars([*inputs, *(Buffer(name, int64, "out") for name in results)], [N])
    with k.loop("i", Dim.of(N), kind="grid") as i:
        for name in _BITS:
            k.store(f"{name}_of", i, getattr(k, name)(k.load("a", i), k.load("b", i)))
    outputs = {name: np.empty(60, np.int64) for name in results}
    kernel = verify_kernel(k.kernel("bits"))
    return Case("functions of bits", kernel, {"a": a, "b": b} | outputs, {N: 60})


# -- the table -------------------------------------------------------------------------------------

Lengths = Mapping[str, Callable[..., int]]


def _at_sizes(
    kernel: Kernel,
    sizes: Iterable[tuple[int, ...]],
    lengths: Lengths,
    data: Mapping[str, Callable[..., Array]] | None = None,
) -> list[Case]:
    """A kernel at several sizes; ``lengths`` gives each buffer's length from them, ``data`` what is
    in it where a `sample` will not do."""
    verify_kernel(kernel)
    cases = []
    for values in sizes:
        arrays = {}
        for seed, buffer in enumerate(kernel.buffers):
            array = sample(buffer.dtype, lengths[buffer.name](*values), seed)
            if data and buffer.name in data:
                array = data[buffer.name](*values).astype(buffer.dtype.numpy)
            arrays[buffer.name] = array
        given = dict(zip(kernel.sizes, values, strict=True))
        cases.append(Case(f"{kernel.name} at {values}", kernel, arrays, given))
    return cases


_VECTORS = [(n,) for n in (0, 1, 31, 32, 33, 1000)]
_MATRICES = [(0, 3), (3, 0), (1, 1), (31, 2), (2, 33), (32, 32), (100, 7)]
_ARITHMETIC = (float16, bfloat16, float32, float64, int32, int64)


def _vector(n: int) -> int:
    return n


def _matrix(n: int, m: int) -> int:
    return n * m


def _positions(n: int) -> int:
    return n * 64 * 32


def _whole_numbers(n: int) -> Array:
    return np.arange(_positions(n)) * 7 % 31 - 15


_AFFINE: Lengths = dict.fromkeys(("a", "x", "b", "y"), _vector)

CASES: tuple[Case, ...] = (
    *map(primitives_case, DTYPES),
    *map(casts_case, DTYPES),
    *map(constants_case, DTYPES),
    *map(accumulate_case, DTYPES),
    bitcasts_case(float32, int32),
    bitcasts_case(float64, int64),
    bitcasts_case(float16, int16),
    bitcasts_case(bfloat16, int16),
    bitcasts_case(float16, bfloat16),
    bitcasts_case(uint8, int8),
    functions_case(float32),
    functions_case(float64),
    bits_case(),
    *(case for t in _ARITHMETIC for case in _at_sizes(kernels.affine(t), _VECTORS, _AFFINE)),
    *_at_sizes(kernels.logic(), _VECTORS, _AFFINE),
    *_at_sizes(kernels.in_place(), _VECTORS, {"w": _vector, "g": _vector}),
    *(
        case
        for t in _ARITHMETIC
        for case in _at_sizes(kernels.row_sum(t), _MATRICES, {"x": _matrix, "y": lambda n, m: n})
    ),
    *_at_sizes(kernels.column_max(), _MATRICES, {"x": _matrix, "y": lambda n, m: m}),
    *_at_sizes(kernels.full_sum(), _VECTORS, {"x": _vector, "y": lambda n: 1}),
    *_at_sizes(kernels.count(), [()], {"y": lambda: 1}),
    *_at_sizes(
        kernels.own_memory(),
        _VECTORS,
        {"x": _vector, "y": _vector, "room": lambda n: 3},
        {"room": lambda n: np.zeros(3)},
    ),
    *_at_sizes(kernels.transpose(), _MATRICES, {"x": _matrix, "y": _matrix}),
    *_at_sizes(kernels.patches(), _MATRICES, {"x": _matrix, "y": lambda n, m: n * (m // 2) * 2}),
    *_at_sizes(kernels.broadcast(), _MATRICES, {"x": lambda n, m: m, "y": _matrix}),
    *_at_sizes(
        kernels.slices(), _VECTORS, {"x": lambda n: 2 * n + 1, "y": _vector, "reverse": _vector}
    ),
    *_at_sizes(kernels.every_third(), [(0,), (4,), (5,), (7,), (8,), (1000,)], {"y": _vector}),
    *_at_sizes(
        kernels.index_arithmetic(),
        _VECTORS,
        dict.fromkeys(("floor", "rest", "clamped", "power"), _vector),
    ),
    *_at_sizes(
        kernels.collatz(), _VECTORS, {"x": _vector, "y": _vector}, {"x": lambda n: np.arange(n)}
    ),
    *_at_sizes(
        kernels.gather(),
        [(0, 0), (0, 5), (1, 1), (33, 5), (1000, 1000)],
        {"x": lambda n, m: m, "index": lambda n, m: n, "y": lambda n, m: n},
        {"index": lambda n, m: np.arange(n) * 7 % max(m, 1)},
    ),
    # (whole numbers, whose sums are the same in any order, as tensor cores have their own)
    *(
        case
        for t in (float16, bfloat16)
        for case in _at_sizes(
            kernels.tiles(t),
            [(0,), (1,), (3,)],
            {"left": _positions, "right": _positions, "out": lambda n: n * 64 * 64},
            {
                "left": _whole_numbers,
                "right": lambda n: _whole_numbers(n)[::-1],
                "out": lambda n: np.arange(n * 64 * 64) % 17,
            },
        )
    ),
    *_at_sizes(
        kernels.ragged(),
        [()],
        {"length": lambda: 1, "y": lambda: 600},
        {"length": lambda: np.array([500])},
    ),
    *_at_sizes(
        kernels.words(),
        [(0, 0, 0), (20, 13, 2)],
        dict.fromkeys(
            ("float", "status", "threadIdx", "sf_thread", "y"), lambda a, b, c: a + b + c
        ),
    ),
)

_KERNELS = {case.kernel.name: case.kernel for case in CASES}
KERNELS: tuple[Kernel, ...] = tuple(_KERNELS.values())
"""The kernels of the cases, each once."""
