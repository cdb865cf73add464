"""Native code of what in-place methods ask and do, step by step.

Whether elements may be changed, whether it is done by a ufunc of NumPy, by a copy or by the program
that did so last, and how a change is counted and its line noted.
"""

from __future__ import annotations

from staticflow.eager.costs import BEYOND, LARGE, NEAR, SHORT, SPREAD
from staticflow.eager.fast.classes import Memory, State, Tensor, bfloat16, multiply, one
from staticflow.eager.fast.compute import call_in_context, kernel_at, run_kernel, try_compute
from staticflow.eager.fast.entry import has_no_edge
from staticflow.eager.fast.line import user_line
from staticflow.eager.fast.objects import (
    bit_of,
    count_elements,
    operand_array,
    operand_tensor,
    same_shape,
)
from staticflow.eager.fast.operands import (
    current_state,
    is_recording,
    open_number,
    open_operand,
)
from staticflow.eager.fast.records import MOST, InPlace, KnownOp, Operand, Step
from staticflow.eager.fast.view import base_of, memory_of
from staticflow.graph.dtypes import DTYPES
from staticflow.native import cpython
from staticflow.native.cpython import NONE, Array
from staticflow.native.language import (
    Int32,
    Object,
    Owned,
    Record,
    Row,
    constant,
    drop,
    drop_row,
    hold,
    inline,
    native,
    space,
    take,
    trust,
    unsigned_less,
    variable,
    zero_row,
)
from staticflow.runtime.object_layout import CONTIGUOUS, FORTRAN, WRITEABLE

__all__ = [
    "bump", "call_ufunc_into", "copy_array", "count_change", "has_vertex", "is_done_here",
    "is_free", "is_in_lines", "is_in_rows", "no_op", "open_source", "open_target", "run_change",
    "run_program", "scale",
]  # fmt: skip


class Threads(Record, shared=True):
    """How many threads are wanted."""

    wanted: int


threads = constant(Threads, "wanted")
no_op = variable(KnownOp, "no_op")

_WORDS = sum(1 << i for i, dtype in enumerate(DTYPES) if dtype.itemsize == 4)


# -- whether -------------------------------------------------------------------------------------


@native
def open_target(method: InPlace, operand: Operand, recording: bool) -> Owned[Memory | None]:
    """The memory of the tensor that a method is called on, if its elements may be changed and
    nothing of that is recorded; null if not. Its operand is opened."""
    if not open_operand(operand):
        return None
    if bit_of(operand_array(operand)) & method.dtypes == 0:
        return None
    return open_memory(operand, recording)


@native
def open_memory(operand: Operand, recording: bool) -> Owned[Memory | None]:
    """The memory of the tensor that an opened operand is, if its elements may be changed and
    nothing of that is recorded; null if not."""
    array = operand_array(operand)
    if not is_open(array):
        return None
    memory = memory_of(operand_tensor(operand), array)
    if memory is None:
        return None
    if recording and not is_free(operand_tensor(operand)):
        drop(memory)
        return None
    return memory


@native
def is_open(array: Array) -> bool:
    """Whether the elements of an array may be written, each of which has a place of its own."""
    if array.flags & WRITEABLE == 0:
        return False
    strides = array.strides
    for i in range(array.ndim):
        if strides[i] == 0:
            return False
    return True


@native
def is_free(tensor: Tensor) -> bool:
    """Whether a tensor, and what it is a view of, has no history that a change would be a part
    of."""
    if has_vertex(tensor):
        return False
    base = base_of(tensor)
    if base is None:
        return False
    free = not has_vertex(base)
    drop(base)
    return free


@native
def has_vertex(tensor: Tensor) -> bool:
    """Whether a tensor has a history, or is a leaf."""
    return tensor.vertex is not NONE


@native
def open_source(method: InPlace, operand: Operand, target: Operand, recording: bool) -> bool:
    """Whether an operand is an array of the target's dtype that nothing is recorded of, or becomes
    one. An error may be set if it is not."""
    if method.number != 0 or not open_operand(operand):
        return open_number(no_op, operand, target)
    if operand_array(operand).descr is not operand_array(target).descr:
        return False
    return not recording or operand.object is target.object or has_no_edge(operand)


@native
def is_done_here(method: InPlace, array: Array, size: int, scaled: bool) -> bool:
    """Whether a method can be done here.

    NumPy does a ufunc, or a copy, of a small array, and a ufunc of a large one that does not lie in
    rows, unless a plan may, but not with an operand that it would scale before. What a program did
    of a large array in rows it does again. NumPy copies a large array, a very large one on one
    thread alone; but not of bfloat16, whose elements it copies one by one. Of large arrays those
    alone are filled here whose elements are words in a row, no more than the caches hold.
    """
    by_numpy = method.ufunc is not None
    copies = method.program is None
    if size < LARGE:
        return by_numpy or copies
    if not is_in_rows(array):
        if by_numpy:
            return not scaled
    elif kernel_at(method.program) is not None:
        return True
    if not copies or (size >= SPREAD and threads.wanted != 1) or array.descr is bfloat16:
        return False
    fills = method.constant is not None or method.number != 0
    return not fills or (size < BEYOND and is_row_of_words(array))


@native
def is_in_rows(array: Array) -> bool:
    """Whether an array is row-major, or in rows as `staticflow.eager.rows` has them."""
    if array.flags & CONTIGUOUS:
        return True
    last = array.ndim - 1  # a scalar is row-major
    return array.dims[last] >= SHORT and not unsigned_less(NEAR, array.strides[last])


@native
def is_in_lines(array: Array) -> bool:
    """Whether an array lies in lines along some dim, as `staticflow.eager.rows` has them."""
    sizes = array.dims
    strides = array.strides
    for i in range(array.ndim):
        if sizes[i] >= SHORT and not unsigned_less(NEAR, strides[i]):
            return True
    return False


# -- how -----------------------------------------------------------------------------------------


@native
def call_ufunc_into(ufunc: Object, arrays: Row[Object], count: int, state: State) -> bool:
    """Let a ufunc write into the last of some arrays; false if it failed."""
    out = call_in_context(ufunc, arrays, count, None, state)
    good = out is not None
    drop(out)
    return good


@native
def copy_array(array: Array, source: Array) -> bool:
    """Copy an array of the same shape, or of no dims; false if that failed, or it is neither. Rows
    of words are filled in a third of the time in which NumPy stores each: 100,000 in 2
    microseconds."""
    if source.ndim != 0:
        if not same_shape(array, source):
            return False
    elif is_row_of_words(array) and array.descr is source.descr:
        word = trust(source.data, Row[Int32], "an array of words, which has one element")[0]
        cpython.wmemset(
            trust(array.data, Row[Int32], "a row of words"), word, count_elements(array)
        )
        return True
    return cpython.PyArray_CopyInto(array, source) == 0


@native
def is_row_of_words(array: Array) -> bool:
    """Whether the elements of an array are words that lie one after the other."""
    return array.flags & (CONTIGUOUS | FORTRAN) != 0 and _WORDS & bit_of(array) != 0


@native
def scale(operand: Operand, factor: Operand, state: State) -> bool:
    """Put an operand times a factor in its place; false if that failed."""
    both = space(Object, 2)
    both[0] = operand_array(operand)
    both[1] = operand_array(factor)
    out = call_in_context(multiply, both, 2, None, state)
    if out is None:
        return False
    before = take(operand.array)
    operand.array = out
    drop(before)
    return True


@native
def run_program(method: InPlace, arrays: Row[Object], count: int) -> bool:
    """Whether the program that overwrote a large array last overwrites this one. An error may be
    set if not."""
    program = hold(kernel_at(method.program))
    if program is None:
        return False
    nothing = try_compute(program, arrays, count)
    done = nothing is not None
    drop(nothing)
    drop(program)
    return done


# -- by the step of a plan ----------------------------------------------------------------------


@native
def run_change(step: Step, objects: Row[Object], count: int) -> Owned[Object | None]:
    """The first of some tensors, which the program of a step has overwritten; null if it may not
    be, or the program declines, with nothing done, or with an error set."""
    kernel = step.compute
    if kernel is None or count > MOST:
        return None
    state = current_state()
    if state is None:
        return None
    operands = zero_row(Operand, count, MOST)
    done = change_opened(step, kernel, operands, objects, count, is_recording(state))
    drop_row(operands, count)
    drop(state)
    good = done and cpython.PyErr_Occurred() is None
    return hold(objects[0]) if good else None


@inline
def change_opened(
    step: Step,
    kernel: Object,
    operands: Row[Operand],
    objects: Row[Object],
    count: int,
    recording: bool,
) -> bool:
    """Whether a program overwrites the first of some objects, tensors of which nothing is recorded,
    which are taken up as operands. An error may be set if it was done, too."""
    arrays = space(Object, count, MOST)
    for i in range(count):
        operand = operands[i]
        operand.object = objects[i]
        beside = objects[i] is not objects[0]
        if not open_operand(operand) or (recording and beside and not has_no_edge(operand)):
            return False
        arrays[i] = operand_array(operand)
    memory = open_memory(operands[0], recording)
    if memory is None:
        return False
    nothing = run_kernel(step, kernel, arrays, count)
    done = nothing is not None
    drop(nothing)
    if done:
        bump(memory)
    drop(memory)
    return done


# -- afterwards ----------------------------------------------------------------------------------


@native
def bump(memory: Memory) -> bool:
    """Note a change of a memory; false with an error set."""
    if not count_change(memory):
        return False
    line = user_line()
    if line is None:
        return False
    memory.changed = line
    return True


@native
def count_change(memory: Memory) -> bool:
    """Count a change of a memory; false with an error set, as of a version that is no number."""
    version = memory.version
    before = hold(version if version is not None else NONE)
    after = cpython.PyNumber_Add(before, one)
    drop(before)
    if after is None:
        return False
    memory.version = after
    return True
