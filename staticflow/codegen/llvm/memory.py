"""Loads and stores in LLVM text: scalar, contiguous, backward, strided, and loads of lanes that lie
anywhere; with or without a mask.

User arrays are aligned to their element only, so vectors are too. LLVM declares the intrinsics
itself, and takes these masked ones in their older form in every version.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.codegen.kernel import LANE, LANE_SYM, LINE_BYTES, Buffer, Streams
from staticflow.codegen.llvm.index import IndexWriter, at_lane
from staticflow.codegen.llvm.text import I64, FunctionText, Type, memory_type
from staticflow.codegen.llvm.values import Value
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import coefficient
from staticflow.graph.dims import Size, is_provably_ge
from staticflow.graph.dtypes import DType, bool_

__all__ = ["goes_past", "load", "store", "store_past"]


@dataclass(frozen=True, slots=True)
class _Place:
    """The lanes of one load or store; ``mask`` is None if all of them are on. ``at`` is a vector
    that is added to the index of each lane."""

    indices: IndexWriter
    buffer: Buffer
    index: Size
    lanes: int
    mask: str | None
    at: str | None = None

    @property
    def type(self) -> Type:
        return memory_type(self.buffer.dtype, self.lanes)

    @property
    def base(self) -> str:
        return self.indices.base(self.buffer.name)

    @property
    def align(self) -> int:
        return self.buffer.dtype.itemsize

    @property
    def contiguous(self) -> bool:
        if self.at is not None:
            return False
        return self.lanes == 1 or coefficient(self.index, LANE_SYM) == 1

    @property
    def backward(self) -> bool:
        """Whether each lane lies before the one before it."""
        return self.lanes > 1 and self.at is None and coefficient(self.index, LANE_SYM) == -1

    @property
    def suffix(self) -> str:
        """How the masked intrinsics spell the type, ``v1f32`` for one lane."""
        element = memory_type(self.buffer.dtype).suffix
        return f"v{self.lanes}{element}"

    def address(self, lane: int = 0) -> str:
        index = self.index if self.lanes == 1 else at_lane(self.index, lane)
        return self.indices.address(self.base, memory_type(self.buffer.dtype), index)

    def offsets(self) -> str:
        """The elements of all lanes, as a vector of i64."""
        offsets = self.indices.vector(self.index, self.lanes)
        if self.at is None:
            return offsets
        return self.indices.text.op(f"add {I64.wide(self.lanes)} {offsets}, {self.at}")

    def addresses(self) -> str:
        """The addresses of all lanes, as a vector."""
        offsets = self.offsets()
        element = memory_type(self.buffer.dtype)
        return self.indices.text.op(
            f"getelementptr {element}, ptr {self.base}, <{self.lanes} x i64> {offsets}"
        )


def _place(
    indices: IndexWriter,
    buffer: Buffer,
    index: Size,
    lanes: int,
    bound: Size | None,
    at: str | None = None,
) -> _Place:
    mask = None
    if bound is not None and not is_provably_ge(bound, lanes):
        mask = indices.mask(bound, lanes)
    return _Place(indices, buffer, index, lanes, mask, at)


def load(
    indices: IndexWriter,
    buffer: Buffer,
    index: Size,
    lanes: int,
    bound: Size | None,
    at: str | None = None,
) -> Value:
    """``lanes`` elements; those at or past ``bound`` are zero and their memory is not touched. What
    the vector ``at`` has in a lane is added to its index."""
    text = indices.text
    place = _place(indices, buffer, index, lanes, bound, at)
    stride = coefficient(index, LANE_SYM)
    if at is not None and place.mask is None:
        raw = _load_anywhere(text, place)
    elif place.backward:
        raw = _in_reverse(text, place.type, _load_whole(text, _forward(text, place)))
    elif at is None and isinstance(stride, int) and _is_dense(stride, lanes):
        raw = _load_dense(indices, place, stride, bound if place.mask is not None else None)
    elif place.contiguous or place.mask is not None:
        raw = _load_whole(text, place)
    else:
        raw = _load_lanes(text, place)
    return Value(_from_memory(text, raw, buffer.dtype, lanes), buffer.dtype, lanes)


def _is_dense(stride: int, lanes: int) -> bool:
    """Whether vectors that hold all lanes beat a load for each. Of fewer lanes than the stride less
    one, one of the vectors would go beyond the last lane."""
    return 2 <= stride <= 4 and lanes >= max(2, stride - 1)


def _in_reverse(text: FunctionText, type: Type, vector: str) -> str:
    return text.shuffle(type, vector, "poison", [*reversed(range(type.lanes))])


def _forward(text: FunctionText, place: _Place) -> _Place:
    """The memory of lanes that lie backward, from the last of them on, where they lie forward."""
    lanes, mask = place.lanes, place.mask
    first = at_lane(place.index, lanes - 1)
    if mask is not None:
        mask = _in_reverse(text, Type("i1", lanes), mask)
    return _Place(place.indices, place.buffer, first + LANE, lanes, mask)


def _load_whole(text: FunctionText, place: _Place) -> str:
    if place.mask is not None:
        return _load_masked(text, place)
    return text.op(f"load {place.type}, ptr {place.address()}, align {place.align}")


def _load_lanes(text: FunctionText, place: _Place) -> str:
    element, result = memory_type(place.buffer.dtype), "poison"
    for lane in range(place.lanes):
        one = text.op(f"load {element}, ptr {place.address(lane)}, align {place.align}")
        result = text.op(f"insertelement {place.type} {result}, {element} {one}, i64 {lane}")
    return result


def _load_anywhere(text: FunctionText, place: _Place) -> str:
    element, result = memory_type(place.buffer.dtype), "poison"
    offsets = place.offsets()
    for lane in range(place.lanes):
        at = text.op(f"extractelement {I64.wide(place.lanes)} {offsets}, i64 {lane}")
        address = text.op(f"getelementptr {element}, ptr {place.base}, i64 {at}")
        one = text.op(f"load {element}, ptr {address}, align {place.align}")
        result = text.op(f"insertelement {place.type} {result}, {element} {one}, i64 {lane}")
    return result


def _load_dense(indices: IndexWriter, place: _Place, stride: int, bound: Size | None) -> str:
    """The elements between the first lane's and the last's in whole vectors, of which the last ends
    with the last lane; from them the lanes are picked."""
    n, text = place.lanes, indices.text
    first = at_lane(place.index, 0)
    starts = [*range(0, n * (stride - 1), n), (n - 1) * (stride - 1)]
    parts = []
    for start in starts:
        rest = None if bound is None else (bound - 1) * stride + 1 - start
        part = _place(indices, place.buffer, first + start + LANE, n, rest)
        parts.append(_load_whole(text, part))
    at = [min(lane * stride // n, stride - 1) for lane in range(n)]
    result = parts[0]
    for number, part_raw in enumerate(parts[1:], 1):
        own = [lane * stride if number == 1 else lane for lane in range(n)]
        taken = [lane * stride - starts[number] + n for lane in range(n)]
        chosen = [
            t if a == number else o if a < number else 0
            for a, o, t in zip(at, own, taken, strict=True)
        ]
        result = text.shuffle(place.type, result, part_raw, chosen)
    return result


def _load_masked(text: FunctionText, place: _Place) -> str:
    n, vector = place.lanes, place.type.vector
    given = f"i32 {place.align}, <{n} x i1> {place.mask}, {vector} zeroinitializer"
    if not place.contiguous:
        word = f"@llvm.masked.gather.{place.suffix}.v{n}p0"
        return text.op(f"call {vector} {word}(<{n} x ptr> {place.addresses()}, {given})")
    word = f"@llvm.masked.load.{place.suffix}.p0"
    raw = text.op(f"call {vector} {word}(ptr {place.address()}, {given})")
    return raw if n > 1 else text.op(f"extractelement {vector} {raw}, i64 0")


def store(
    indices: IndexWriter, buffer: Buffer, index: Size, value: Value, bound: Size | None
) -> None:
    """The lanes of ``value`` to their elements; at or past ``bound`` memory is not touched."""
    text = indices.text
    raw = _to_memory(text, value)
    if isinstance(bound, int) and bound < value.lanes and bound % 2 and _is_integer(buffer):
        # LLVM 22.1 stores a lane that is alone in its register as wide as it was before it was
        # narrowed, over its neighbours (llvm/llvm-project#179489): none is left alone.
        bound -= 1
        _store_lane(text, _place(indices, buffer, index, value.lanes, None), raw, bound)
        if not bound:
            return
    place = _place(indices, buffer, index, value.lanes, bound)
    if place.backward:
        place, raw = _forward(text, place), _in_reverse(text, place.type, raw)
    if place.mask is not None:
        _store_masked(text, place, raw)
    elif place.contiguous:
        text.do(f"store {place.type} {raw}, ptr {place.address()}, align {place.align}")
    else:
        for lane in range(value.lanes):
            _store_lane(text, place, raw, lane)


def _is_integer(buffer: Buffer) -> bool:
    return memory_type(buffer.dtype).scalar.startswith("i")


def _store_lane(text: FunctionText, place: _Place, raw: str, lane: int) -> None:
    element = memory_type(place.buffer.dtype)
    one = text.op(f"extractelement {place.type} {raw}, i64 {lane}")
    text.do(f"store {element} {one}, ptr {place.address(lane)}, align {place.align}")


def store_past(indices: IndexWriter, buffer: Buffer, index: Size, value: Value, past: str) -> None:
    """The lanes of ``value``, whole lines of memory, to their elements: past the caches where the
    bool ``past`` is true. They are in place for another thread behind the next atomic change of
    something, which each thread of the pool makes at the end of its work (``serve`` in `pool`)."""
    text = indices.text
    place = _place(indices, buffer, index, value.lanes, None)
    given = f"store {place.type} {_to_memory(text, value)}, ptr {place.address()}, align"
    streaming, usual, stored = map(text.new_block, ("past", "usual", "stored"))
    text.branch(past, streaming, usual, rare=True)  # so that the others fall through
    text.start(streaming)
    text.do(f"{given} {LINE_BYTES}, !nontemporal !{{i32 1}}")
    text.jump(stored)
    text.start(usual)
    text.do(f"{given} {place.align}")
    text.jump(stored)
    text.start(stored)


def goes_past(indices: IndexWriter, expr: Streams, read: Sequence[str], least: int) -> str:
    """What `Streams` says, of a kernel that has ``read`` these buffers, of at ``least`` so many
    bytes."""
    text = indices.text
    at = text.op(f"ptrtoint ptr {indices.base(expr.buffer)} to i64")
    found = text.op(f"icmp eq i64 {text.op(f'and i64 {at}, {LINE_BYTES - 1}')}, 0")
    tests = []
    if not isinstance(expr.bytes, int) or expr.bytes < least:
        tests.append(f"icmp sge i64 {indices.value(expr.bytes)}, {least}")
    for name in read:
        other = text.op(f"ptrtoint ptr {indices.base(name)} to i64")
        tests.append(f"icmp ne i64 {at}, {other}")
    for test in tests:
        found = text.op(f"and i1 {found}, {text.op(test)}")
    return found


def _store_masked(text: FunctionText, place: _Place, raw: str) -> None:
    n, vector = place.lanes, place.type.vector
    given = f"i32 {place.align}, <{n} x i1> {place.mask}"
    if not place.contiguous:
        word = f"@llvm.masked.scatter.{place.suffix}.v{n}p0"
        text.do(f"call void {word}({vector} {raw}, <{n} x ptr> {place.addresses()}, {given})")
        return
    if n == 1:
        raw = text.op(f"insertelement {vector} poison, {place.type} {raw}, i64 0")
    word = f"@llvm.masked.store.{place.suffix}.p0"
    text.do(f"call void {word}({vector} {raw}, ptr {place.address()}, {given})")


def _from_memory(text: FunctionText, raw: str, dtype: DType, lanes: int) -> str:
    if dtype is not bool_:
        return raw
    stored = memory_type(dtype, lanes)
    return text.op(f"icmp ne {stored} {raw}, {stored.splat('0')}")


def _to_memory(text: FunctionText, value: Value) -> str:
    if value.dtype is not bool_:
        return value.name
    return text.convert("zext", value.name, value.type, "i8")
