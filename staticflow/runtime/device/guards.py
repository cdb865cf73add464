"""The kernels by which a device itself sees to it that a call that fails changes nothing.

A kernel that is *guarded* does nothing where its status is not 0 before. A `Vote` makes it so if
a launch before has failed, so the host need not wait to look before variables are overwritten.
"""

from __future__ import annotations

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Buffer, Kernel
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import DType, int32, int64, uint8

__all__ = ["COPIES", "VOTE"]

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


VOTE = _build_vote()
"""A kernel that fails, with the code 1, if one of the words that it is given is not 0."""

COPIES = tuple(map(_build_copy, (int64, uint8)))
"""Kernels that copy elements, as they do where they are guarded: of 8 bytes, and of one."""
