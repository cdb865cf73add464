"""Kernels as small as shows one thing: elementwise, reductions, views, checks, control flow."""

from __future__ import annotations

import numpy as np
from cuda_case import M, N, builder_of

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import CORE_SUMS, CORE_TILE, TEAMS, Buffer, Kernel, Operand
from staticflow.codegen.schedule.loops import bind_grid
from staticflow.codegen.team_order import core_place
from staticflow.graph.dims import Dim, Sym, dim_max, dim_min, floor_div
from staticflow.graph.dtypes import DType, bool_, float16, float32, float64, int16, int32, int64


def affine(dtype: DType) -> Kernel:
    """``y = a * x + b``, all of them arrays."""
    k = builder_of({"a": dtype, "x": dtype, "b": dtype}, {"y": dtype})
    with k.loop("i", Dim.of(N), kind="grid") as i:
        product = k.mul(k.load("a", i), k.load("x", i))
        k.store("y", i, k.add(product, k.load("b", i)))
    return k.kernel(f"affine_{dtype}")


def logic() -> Kernel:
    """``y = not (a and b)`` of bools."""
    k = builder_of({"a": bool_, "b": bool_}, {"y": bool_})
    with k.loop("i", Dim.of(N), kind="grid") as i:
        k.store("y", i, k.apply("not", k.apply("and", k.load("a", i), k.load("b", i))))
    return k.kernel("logic")


def in_place() -> Kernel:
    """``w -= 0.1 * g``."""
    k = Builder([Buffer("w", float32, "inout"), Buffer("g", float32, "in")], [N])
    with k.loop("i", Dim.of(N), kind="grid") as i:
        k.store("w", i, k.sub(k.load("w", i), k.mul(k.load("g", i), 0.1)))
    return k.kernel("in_place")


def row_sum(dtype: DType) -> Kernel:
    """The sum of each row of (n, m)."""
    k = builder_of({"x": dtype}, {"y": dtype}, [N, M])
    n, m = Dim.of(N), Dim.of(M)
    with k.loop("i", n, kind="grid") as i:
        total = k.var(k.const(0, dtype))
        with k.loop("j", m) as j:
            k.accumulate(total, "add", k.load("x", i * m + j))
        k.store("y", i, total)
    return k.kernel(f"row_sum_{dtype}")


def column_max() -> Kernel:
    """The largest of each column of (n, m), -inf where there is none."""
    k = builder_of({"x": float32}, {"y": float32}, [N, M])
    n, m = Dim.of(N), Dim.of(M)
    with k.loop("j", m, kind="grid") as j:
        largest = k.var(k.const(-np.inf, float32))
        with k.loop("i", n) as i:
            k.accumulate(largest, "max", k.load("x", i * m + j))
        k.store("y", j, largest)
    return k.kernel("column_max")


def full_sum() -> Kernel:
    """The sum of everything, by one thread."""
    k = builder_of({"x": float64}, {"y": float64})
    total = k.var(k.const(0.0, float64))
    with k.loop("i", Dim.of(N)) as i:
        k.accumulate(total, "add", k.load("x", i))
    k.store("y", 0, total)
    return k.kernel("full_sum")


def count() -> Kernel:
    """Adds one to a number: more than one thread would show."""
    k = Builder([Buffer("y", int32, "inout")], [])
    k.store("y", 0, k.add(k.load("y", 0), 1))
    return k.kernel("count")


def own_memory() -> Kernel:
    """``y = 2 x`` by way of an element of each thread's own, of which there are three."""
    k = builder_of({"x": int32}, {"y": int32})
    k.buffers["room"] = Buffer("room", int32, "inout")
    with k.loop("i", Dim.of(N), kind="grid") as i:
        own = k.worker(3)
        k.store("room", own, k.load("x", i))
        k.store("y", i, k.add(k.load("room", own), k.load("x", i)))
        k.store("room", own, k.const(0, int32))
    return k.kernel("own_memory")


def transpose() -> Kernel:
    """(n, m) to (m, n), its two parallel loops bound to the grid."""
    k = builder_of({"x": int32}, {"y": int32}, [N, M])
    n, m = Dim.of(N), Dim.of(M)
    with k.loop("j", m, kind="parallel") as j, k.loop("i", n, kind="parallel") as i:
        k.store("y", j * n + i, k.load("x", i * m + j))
    return bind_grid(k.kernel("transpose"))


def patches() -> Kernel:
    """(n, m) cut into (n, m // 2, 2) and the halves swapped: three loops bound to the grid."""
    k = builder_of({"x": int16}, {"y": int16}, [N, M])
    n, half = Dim.of(N), Dim.of(M) // 2
    with (
        k.loop("i", n, kind="parallel") as i,
        k.loop("j", half, kind="parallel") as j,
        k.loop("t", 2, kind="parallel") as t,
    ):
        k.store("y", i * half * 2 + 2 * j + t, k.load("x", i * Dim.of(M) + 2 * j + 1 - t))
    return bind_grid(k.kernel("patches"))


def broadcast() -> Kernel:
    """A row (m) to every row of (n, m); the inner loop is left parallel."""
    k = builder_of({"x": float32}, {"y": float32}, [N, M])
    n, m = Dim.of(N), Dim.of(M)
    with k.loop("i", n, kind="grid") as i, k.loop("j", m, kind="parallel") as j:
        k.store("y", i * m + j, k.load("x", j))
    return k.kernel("broadcast")


def slices() -> Kernel:
    """``y[i] = x[2 i + 1]``, ``reverse[i] = x[2 n - i]``, from x of size 2 n + 1."""
    k = builder_of({"x": int64}, {"y": int64, "reverse": int64})
    n = Dim.of(N)
    with k.loop("i", n, kind="grid") as i:
        k.store("y", i, k.load("x", 2 * i + 1))
        k.store("reverse", i, k.load("x", 2 * n - i))
    return k.kernel("slices")


def every_third() -> Kernel:
    """Stores to elements 4, 7, ... below n; the others keep what they hold."""
    k = builder_of({}, {"y": int32})
    with k.loop("i", Dim.of(N), lo=4, step=3, kind="grid") as i:
        k.store("y", i, k.cast(k.index_value(i), int32))
    return k.kernel("every_third")


def index_arithmetic() -> Kernel:
    """Floor division with a negative numerator, maxima and minima of indices, as values."""
    k = builder_of({}, {"floor": int64, "rest": int64, "clamped": int64, "power": int64})
    n = Dim.of(N)
    with k.loop("i", n, kind="grid") as i:
        k.store("floor", i, k.index_value((i - 10) // 4))
        k.store("rest", i, k.index_value((i - 10) % 4))
        k.store("clamped", i, k.index_value(dim_min(dim_max(i - 10, 0), n - 15)))
        k.store("power", i, k.index_value(7 - 3 * i * i * n))
    return k.kernel("index_arithmetic")


def collatz() -> Kernel:
    """How many of 20 steps of the Collatz rule each number takes until 1: nested ifs and sets."""
    k = builder_of({"x": int64}, {"y": int32})
    with k.loop("i", Dim.of(N), kind="grid") as i:
        value, steps = k.var(k.load("x", i)), k.var(k.const(0, int32))
        with k.loop("t", 20), k.when(k.compare("ne", value, 1)):
            k.accumulate(steps, "add", k.const(1, int32))
            odd = k.compare("eq", k.apply("and", value, 1), 1)
            half = k.apply("shr", value, 1)
            with k.when(odd):
                k.set(value, k.add(k.mul(value, 3), 1))
            with k.when(k.apply("not", odd)):
                k.set(value, half)
        k.store("y", i, steps)
    return k.kernel("collatz")


def gather() -> Kernel:
    """``y[i] = x[index[i]]`` of m elements; code 7 for an index out of range, 9 for n == 3."""
    k = Builder(
        [Buffer("x", float16, "in"), Buffer("index", int32, "in"), Buffer("y", float16, "out")],
        [N, M],
    )
    m = Dim.of(M)
    k.check(k.compare("ne", k.index_value(Dim.of(N)), 3), 9)
    with k.loop("i", Dim.of(N), kind="grid") as i:
        at = k.load("index", i)
        inside = k.apply(
            "and", k.compare("ge", at, 0), k.compare("lt", k.cast(at, int64), k.index_value(m))
        )
        k.check(inside, 7)
        k.store("y", i, k.load("x", k.bind(at, upper=m)))
    return k.kernel("gather")


def tiles(dtype: DType) -> Kernel:
    """``out[tile] += left[tile] @ right[tile].T`` of n tiles of 64 places and 32 positions."""
    k = Builder(
        [
            Buffer("left", dtype, "in"),
            Buffer("right", dtype, "in"),
            Buffer("out", float32, "inout"),
        ],
        [N],
    )
    pitch, depth, threads = 34, 32, TEAMS["blocks"]
    with k.loop("tile", Dim.of(N), kind="blocks") as tile:
        rooms = [k.local(dtype, CORE_TILE * pitch, "shared") for _ in range(2)]
        sums = k.local(float32, CORE_SUMS, "private")
        with k.loop("t", CORE_TILE * depth, kind="threads") as t:
            for name, room in zip(("left", "right"), rooms, strict=True):
                value = k.load(name, tile * CORE_TILE * depth + t)
                k.store(room, floor_div(t, depth) * pitch + t % depth, value)
        for is_end in (False, True):
            with k.loop("t", threads, kind="threads") as t:
                for own in range(CORE_SUMS):
                    row, column = core_place(t, own)
                    at = tile * CORE_TILE**2 + row * CORE_TILE + column
                    if is_end:
                        k.store("out", at, k.load(sums, own))
                    else:
                        k.store(sums, own, k.load("out", at))
            if not is_end:
                k.multiply_tiles(*rooms, sums, pitch, depth)
    return k.kernel(f"tiles_{dtype}")


def ragged() -> Kernel:
    """A grid loop as long as a loaded number says."""
    k = Builder([Buffer("length", int32, "in"), Buffer("y", int32, "out")], [])
    length = k.bind(k.load("length", 0))
    with k.loop("i", length, kind="grid") as i:
        k.store("y", i, k.cast(k.index_value(2 * i), int32))
    return k.kernel("ragged")


def words() -> Kernel:
    """A kernel, buffers and sizes with names that mean something in CUDA C."""
    names = ("float", "status", "threadIdx", "sf_thread", "y")
    k = Builder(
        [Buffer(name, float32, "out" if name == "y" else "in") for name in names],
        [Sym("for"), Sym("größe"), Sym("_")],
    )
    with k.loop("int", Dim.of(Sym("for")) + Dim.of(Sym("größe")), kind="grid") as i:
        total: Operand = k.load(names[0], i)
        for name in names[1:-1]:
            total = k.add(total, k.load(name, i + Dim.of(Sym("_"))))
        k.store("y", i, total)
    return k.kernel("exp")
