"""When the compiler's kernel pays: the one place where NumPy and native code are weighed.

An op states two facts: where NumPy is as fast at it as the kernel of it (`Op.numpy`), and whether
both give the same bits (`Op.exact`). The tables say from how many elements on the kernel computes
such an op, and the numbers beside them what else is done from when on. Times were measured on one
thread of a machine with vectors of 512 bits, in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from staticflow.graph.op import NumPy, Op

__all__ = [
    "ADDED", "BETWEEN", "BEYOND", "BY_VECTOR", "CALLS", "FEW_IN_ROW", "FIRST", "HALVES",
    "LARGE", "LITTLE", "LONG", "LONG_BOOLS", "LONG_NARROW", "MATRICES", "NARROW", "NEAR",
    "NO_LIBRARY", "PANELS", "PRODUCT", "ROW", "SHORT", "SMALL", "SOME", "SPREAD", "STARTED",
    "STEPS", "SUMMED_ROW", "TURNED",
    "kernel_from", "often_below",
]  # fmt: skip

# -- sizes ---------------------------------------------------------------------------------------

SMALL = 1 << 12
"""Elements up to which an array is as soon copied as made: 0.3 microseconds."""

LARGE = 1 << 16
"""Elements from which on a pass over an array takes so long (a sum of two 4 microseconds, `exp` 21)
that a kernel is worth it, which takes some 20 ms to make, and is spread over threads."""

HALVES = 1 << 6
"""Floats of 16 bits from which on a kernel computes what NumPy does to one after the other: it adds
100 in 0.9 microseconds and 1000 in 5.4, and adds 1000 up in 2.8, the kernels in 0.3 all of it."""

ROW = 64
"""Elements that NumPy takes for as long as for a row of few, where it goes along rows."""

STARTED = 1 << 7
"""Elements that NumPy takes for as long as it does to begin with a row of operands that broadcast:
it adds a vector to 600 rows of 16 in 4.6 microseconds, and the kernel in 2.3; to 300 of 100 in 7.4
and 4.1, to 300 of 200 in 12.2 and 7.4; and multiplies 1000 rows of 1 and a row of 16 in 12 and
5."""

SUMMED_ROW = 1 << 9
"""Such elements where it adds up, which takes 15 nanoseconds for each row of a few: the sums of 333
rows of 3 take it 6.7 microseconds, and the kernel 0.7; those of 256 rows of 100 10.3, and 1.8."""

ADDED = 1 << 4
"""Elements that are gone through in the time in which NumPy adds one up: from 4096 on a kernel
does. The sums of 4 rows of 1000 take NumPy 1.7 microseconds and the kernel 0.2, of 50 of 200 3.4
and 0.5, of 40 of 1000 7.5 and 1.6, and the sum of all of these 7.2 and 1.7."""

SPREAD = 1 << 19
"""Elements from which on it pays to let a program fill or copy an array on several threads, write
to a part of one or add cotangents up, all of which takes a call in Python: 5 to 15 microseconds. On
two threads 100,000 float32 are copied in 12 microseconds, and by NumPy in 9; 524,288 are filled in
25, and 37."""

BEYOND = 1 << 22
"""Elements from which on an array is more than the caches hold, and whole vectors fill it sooner
than NumPy does."""

PRODUCT = 1 << 20
"""Multiplications from which on a product of matrices is a kernel's: some 15 microseconds of them.
It takes 0.2 seconds to compile, once for all sizes, and saves a fifth of the time or more. From
here on NumPy's OpenBLAS uses threads, which look for work while they wait: beside another process
that computes, it takes 200 microseconds for 128 x 128 x 128 on two processors, the kernel 38."""

PANELS = 36 * 36
"""Elements of the result up to which OpenBLAS computes ``x @ y.T`` from the matrices as they lie.
For more it copies both before: 8 rows of 256 and 256 columns take 42 microseconds, and the kernel
14, those of 1024 take 720, and the kernel 170."""

LITTLE = 1 << 10
"""Elements of ``y`` below which the kernel of ``x @ y.T`` does not copy it either: of 64 rows, 10
columns and 64 rows of ``y`` `linear` takes 7 microseconds, and NumPy 4.6."""

SOME = 4
"""Rows from which on `linear` is a kernel's, if ``y`` is not so small: for 8 rows and 64 columns of
64 it takes 2 microseconds, and NumPy 3.2; for 2 rows and 512 columns of 512 25, and NumPy 20."""

TURNED = 1 << 18
"""Multiplications from which on such a product is a kernel's: below, the call of a kernel costs
what it saves."""

NO_LIBRARY = 1 << 12
"""Multiplications from which on a product of integers or of floats of 16 bits is a kernel's, since
no library of NumPy's multiplies them: of 16 x 16 x 16 int64 in 1.9 microseconds, and NumPy in 4.5,
of 64 x 64 x 64 in 15 and 174, of 256 x 256 x 256 in 830 and 18,000; in float16 in 1.7 and 4.6, 6.8
and 32, 300 and 690."""

BY_VECTOR = 1 << 4
"""Elements of a vector from which on the product of a matrix with it is a kernel's, which compiles
in 0.05 s, and of integers and floats of 16 bits those of the matrix: of two vectors of 1,000
float32 it takes 0.3 microseconds, and NumPy 2.9; of 100,000 float16 7, and 350; of 100,000 rows of
20 float32 210, and 260, of 3 170, and 110."""

MATRICES = 1 << 9
"""Matrices of up to `NARROW` rows and columns from which on a kernel that knows these multiplies
them, several at a time, which takes 20 ms to compile: NumPy takes 30 nanoseconds and more for each.
2000 products of 3 x 3 take it 60 microseconds, and the kernel 4, of 8 x 8 90 and 23, of 16 x 16 220
and 150."""

# -- a process -----------------------------------------------------------------------------------

FIRST = 1000
"""Operations that a process runs on the general path, some 10 microseconds each, before it has the
fast path, which takes 50 ms to load, and 500 ms to make where it is not on disk. What makes
parameters, compiles a step and calls that never needs it."""

# -- how arrays lie ------------------------------------------------------------------------------

SHORT = 32
"""Elements of a row; rows of fewer are sooner copied than taken one at a time, unless their length
is known."""

NARROW = 16
"""Elements of a row up to which a kernel is made for rows of that length, which it takes together.
For 33,333 rows of 3, 8 and 16 ``x + vector`` takes 29, 36 and 58 microseconds, and 148, 144 and 136
where the kernel finds out at each row that no vector is full; the difference of parts of wider rows
21, 39 and 53, and 1764, 324 and 357."""

FEW_IN_ROW = 128
"""Elements of a row below which NumPy is slower to find the largest than a kernel is, 1.3 to 25
times; it takes 12 to 30 ns for each row, and is 1.6 times faster along longer ones."""

NEAR = 16
"""Bytes up to which neighbours of a row lie apart in what a kernel takes as it lies; and elements,
in `STEPS`. Of wider ones each takes a line of the cache, whoever reads it."""

STEPS = 4

BETWEEN = 10
"""Elements up to which neighbours along a dim lie apart where NumPy finds the largest down columns
sooner than a kernel: of 20,000 rows of 5 in 0.3 times its time, of 10,000 of 10 in 0.8, of 12 in as
long, of 16 in 1.7 times its time."""

LONG = 1 << 10
"""Elements of a row from which on a kernel sorts it sooner than NumPy, if they have eight bytes: 50
rows of 1000 int64 in 0.84 times its time, of 500 in 1.4. The element of a rank it finds as soon in
rows of any length: of 100 rows of 100 in 24 microseconds, and NumPy in 19 and the time to look for
its position, of 50 of 200 in 15, and 66."""

LONG_NARROW = 1 << 9
"""Such elements of four bytes or less: 50 rows of 500 float32 are sorted in 1.1 times the time of
NumPy on one thread and in 0.7 on two, 30 of 700 in 0.8, of int32 in 0.55."""

LONG_BOOLS = 1 << 8
"""Such bools: 200 rows of 256 in 0.94 times the time of NumPy, 50 of 500 in 0.4."""

CALLS = 1 << 11
"""Elements below which what NumPy does in many calls, 25 to 60 microseconds of them, is sooner done
by a kernel, along rows of `ROW` and more: the hundred largest of 1000 in 8 microseconds, not in
40."""

# -- an op ---------------------------------------------------------------------------------------

_KERNEL_FROM: Mapping[NumPy, float] = {
    "slower": 0, "small": LARGE, "alone": LARGE, "rows": inf, "faster": inf,
}  # fmt: skip

_OFTEN_BELOW: Mapping[NumPy, int] = {
    "small": LARGE, "alone": LARGE, "rows": 1 << 9, "faster": 1 << 8, "slower": 0,
}  # fmt: skip


def kernel_from(op: Op) -> float:
    """Elements from which on the kernel computes ``op``, whatever else holds of its operands.
    Along rows it depends on the dim, and broadcast operands are NumPy's weakness before."""
    return _KERNEL_FROM[op.numpy]


def often_below(op: Op) -> int:
    """Elements below which the kernel computes ``op`` where calls of a kind come often: the call of
    NumPy, from 0.25 microseconds on, is most of the time there. Along a dim NumPy takes some
    elements at a time, and what a ufunc does is called at once. 0 where the bits would differ."""
    if not op.exact or (op.numpy == "alone" and op.ufunc is not None):
        return 0
    return _OFTEN_BELOW[op.numpy]
