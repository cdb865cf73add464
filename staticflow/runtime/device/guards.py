"""The kernels by which a device itself sees to it that a call that fails changes nothing, and that
a loop that has ended is not gone on with.

A kernel that is *guarded* does nothing where its status is not 0 before. A `Vote` makes it so if
a launch before has failed, so the host need not wait to look before variables are overwritten.
"""

from __future__ import annotations

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Buffer, Kernel
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import DType, bool_, int32, int64, uint8

__all__ = ["BRANCH", "COPIES", "GO_ON", "VOTE"]

_COUNT = Sym("count")


def _build_vote() -> Kernel:
    k = Builder([Buffer("words", int32, "in")], [_COUNT])
    with k.loop("i", Dim.of(_COUNT)) as i:
        k.check(k.apply("eq", k.load("words", i), 0), 1)
    return k.kernel("failures_in_words")


def _build_copy(dtype: DType) -> Kernel:
    k = Builder([Buffer("source", dtype, "in"), Buffer("target", dtype, "out")], [_COUNT])
    with k.loop("i", Dim.of(_COUNT), kind="grid") as i:
        k.store("target", i, k.load("source", i))
    return k.kernel(f"guarded_copy_of_{dtype.name}")


def _build_go_on() -> Kernel:
    k = Builder([Buffer("flag", bool_, "in"), Buffer("words", int32, "inout")], [_COUNT])
    before = k.load("words", 0)
    goes_on = k.apply("and", k.apply("eq", before, 0), k.load("flag", 0))
    done = k.load("words", 1)
    k.store("words", 0, k.select(goes_on, 0, k.const(1, int32)))
    k.store("words", 1, k.add(done, k.cast(goes_on, int32)))
    return k.kernel("go_on_with_a_loop")


def _build_branch() -> Kernel:
    buffers = [Buffer("flag", bool_, "in"), Buffer("around", int32, "in")]
    k = Builder([*buffers, Buffer("words", int32, "out")], [_COUNT])
    is_on = k.apply("eq", k.load("around", 0), 0)
    flag = k.load("flag", 0)
    first = k.apply("and", is_on, flag)
    second = k.apply("and", is_on, k.apply("not", flag))
    for i, taken in enumerate((first, second)):
        k.store("words", i, k.select(taken, 0, k.const(1, int32)))
    return k.kernel("take_a_branch")


VOTE = _build_vote()
"""A kernel that fails, with the code 1, if one of the words that it is given is not 0."""

GO_ON = _build_go_on()
"""A kernel that begins an iteration of a loop: it counts it in the second word, or writes 1 to the
first, if the flag is false or that was done before."""

BRANCH = _build_branch()
"""A kernel that writes 0 to the word of the side that a flag takes, and 1 to that of the other, or
1 to both if the word around them is not 0."""

COPIES = tuple(map(_build_copy, (int64, uint8)))
"""Kernels that copy elements, as they do where they are guarded: of 8 bytes, and of one."""
