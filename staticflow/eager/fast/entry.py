"""Native code that leaves a `TapeEntry` of `staticflow.eager.vertex` for an operation."""

from __future__ import annotations

from staticflow.eager.fast.calls import call_python
from staticflow.eager.fast.classes import (
    Entry,
    Memory,
    Output,
    SavedType,
    Tensor,
    leaf,
    memory_example,
    name_current_vertex,
    name_shape,
    name_version,
    note_saves,
    output_example,
    saved_type_example,
    serials,
    zero,
)
from staticflow.eager.fast.line import write_line
from staticflow.eager.fast.objects import (
    bit_of,
    dtype_of,
    has_flag,
    is_memory,
    is_tensor,
    is_there,
    is_view,
    new_row,
    operand_array,
    operand_tensor,
    same_shape,
    triple,
)
from staticflow.eager.fast.records import FLAGS, MOST, Call, Operand
from staticflow.eager.fast.view import own_memory
from staticflow.graph.dtypes import DTYPES
from staticflow.native import cpython
from staticflow.native.cpython import NONE, Array, List, Tuple, is_array
from staticflow.native.language import (
    Object,
    Owned,
    Row,
    constant,
    drop,
    hold,
    inline,
    native,
    offset_of,
    size_of,
    trust,
)
from staticflow.runtime.new_objects import like

__all__ = [
    "attach", "find_edges", "has_no_edge", "is_like", "number_entry", "record", "record_several",
    "save_value",
]  # fmt: skip

FLOATS = sum(1 << i for i, dtype in enumerate(DTYPES) if dtype.is_floating)

PER_ELEMENT = FLAGS["PER_ELEMENT"]

dtypes = constant(Row[Object], "dtypes")


# -- edges ---------------------------------------------------------------------------------------


@native
def find_edge(operand: Operand) -> bool:
    """Note at an operand where the gradient of its tensor goes; false with an error set."""
    if operand.is_number:
        return True
    tensor = operand_tensor(operand)
    view = tensor.view
    if is_there(view) and not is_as_seen(view, tensor.memory):
        return ask_edge(operand)
    vertex = tensor.vertex
    if is_there(vertex):
        operand.edge = hold(tensor if vertex is leaf else vertex)
    return True


@inline
def is_as_seen(view: Object, memory: Object | None) -> bool:
    """Whether nobody changed the memory of a view since its history was worked out."""
    return is_there(memory) and is_view(view) and is_memory(memory) and memory.version is view.seen


@native
def ask_edge(operand: Operand) -> bool:
    """`find_edge` by Python, which works out the history of a view anew."""
    arguments = trust(operand, Row[Object], "the first field is the tensor")
    edge = cpython.PyObject_VectorcallMethod(name_current_vertex, arguments, 1, None)
    if edge is None:
        return False
    if edge is NONE:
        drop(edge)
    else:
        operand.edge = edge
    return True


@native
def has_no_edge(operand: Operand) -> bool:
    """Whether the gradient of a tensor goes nowhere. An error may be set if not."""
    return find_edge(operand) and operand.edge is None


@native
def find_edges(call: Call) -> int:
    """Find the edges of all operands: a bit for each that has one; -1 if an error was raised."""
    wanted = 0
    for i in range(call.count):
        operand = call.operands[i]
        if not find_edge(operand):
            return -1
        if operand.edge is not None:
            wanted |= 1 << i
    return wanted


# -- what an entry keeps -------------------------------------------------------------------------


@native
def save_value(tensor: Tensor, array: Array) -> Owned[Tuple | None]:
    """A value as an entry keeps it: the array, its memory, and the version of that. Of a tensor
    that is on another array meanwhile nobody knows the memory of this one, and a copy is kept."""
    memory = own_memory(tensor)
    if memory is None:
        return None
    if tensor.data is array:
        version = cpython.PyObject_GetAttr(memory, name_version)  # which may refuse
        return triple(hold(array), memory, version)
    drop(memory)
    copy = cpython.PyArray_NewCopy(array, 0)
    new = like(memory_example, size_of(Memory), 0)
    return triple(copy, new, hold(zero))


@native
def make_saved_type(array: Array) -> Owned[SavedType | None]:
    """What stands for a tensor whose value is not kept; null with an error set."""
    new = like(saved_type_example, size_of(SavedType), 0)
    if new is None:
        return None
    new.dtype = hold(dtypes[dtype_of(array)])
    shape = cpython.PyObject_GetAttr(array, name_shape)
    if shape is None:
        drop(new)
        return None
    new.shape = shape
    return new


@native
def is_like(a: Array, b: Array) -> bool:
    """Whether an array is of the shape and dtype of another."""
    return a.descr is b.descr and same_shape(a, b)


@native
def is_per_element(call: Call, data: Array) -> bool:
    """Whether the operands are numbers, or like the result."""
    if not has_flag(call.op, PER_ELEMENT):
        return False
    for i in range(call.count):
        operand = call.operands[i]
        if not operand.is_number and not is_like(operand_array(operand), data):
            return False
    return True


@native
def save_argument(
    operand: Operand, uses: int, wanted: int, data: Array | None
) -> Owned[Object | None]:
    """An argument as an entry keeps it that is needed for the cotangents of ``uses``, of which
    ``wanted`` are wanted: a number, `save_value`, None for what is like the one result, or a
    `SavedType`; null with an error set."""
    if operand.is_number:
        return hold(trust(operand.object, Object, "an operand that was taken up has one"))
    array = operand_array(operand)
    if uses & wanted:
        return save_value(operand_tensor(operand), array)
    if data is not None and is_like(array, data):
        return hold(NONE)
    return make_saved_type(array)


@native
def collect_edges(call: Call) -> Owned[Tuple | None]:
    """The edges of an entry as a row; null with an error set."""
    edges = new_row(call.count)
    if edges is None:
        return None
    for i in range(call.count):
        edge = call.operands[i].edge
        cpython.PyTuple_SetItem(edges, i, hold(edge if edge is not None else NONE))
    cpython.PyObject_GC_Track(edges)
    return edges


@native
def save_arguments(call: Call, wanted: int, data: Array | None) -> Owned[Tuple | None]:
    """What an entry keeps of the arguments as a row, by the one result, null if there are several;
    null with an error set. The garbage collector
    need not look at arrays, numbers and types."""
    args = new_row(call.count)
    if args is None:
        return None
    for i in range(call.count):
        arg = save_argument(call.operands[i], call.op.uses[i + 1], wanted, data)
        if arg is None:
            drop(args)
            return None
        cpython.PyTuple_SetItem(args, i, arg)
    return args


# -- the entry -----------------------------------------------------------------------------------


@inline
def trace_uses(call: Call) -> bool:
    """Have it known which values the vjp uses; false with an error set."""
    if call.op.traced & 1 << call.count != 0:
        return True
    traced = call_python(note_saves, call.op, call.objects, call.count, call.attrs, None)
    if traced is None:
        return False
    drop(traced)
    return True


@native
def record(call: Call, out: Tensor, data: Array) -> bool:
    """Let the tape know what ``out`` came from, if a gradient is wanted; false with an error
    set."""
    wanted = find_edges(call)
    if wanted <= 0:
        return wanted == 0
    if not trace_uses(call):
        return False
    example = call.op.entry[int(not is_per_element(call, data))]
    entry = like(example, size_of(Entry), offset_of(Entry, "weakref"))
    if entry is None:
        return False
    if not fill_entry(entry, call, out, data, wanted):
        drop(entry)
        return False
    out.vertex = entry
    return True


@inline
def fill_entry(entry: Entry, call: Call, out: Tensor, data: Array, wanted: int) -> bool:
    """Write into an entry what it is to know; false with an error set."""
    if not fill_operands(entry, call, data, wanted):
        return False
    if call.op.uses[0] & wanted:
        result = save_value(out, data)
        if result is None:
            return False
        entry.result = result
    else:
        entry.result = hold(NONE)
    return number_entry(entry)


@native
def fill_operands(entry: Entry, call: Call, data: Array | None, wanted: int) -> bool:
    """Write into an entry the edges of a call's operands, what it keeps of them, and the
    attributes; ``data`` is the array of a single result. False with an error set."""
    edges = collect_edges(call)
    if edges is None:
        return False
    entry.edges = edges
    args = save_arguments(call, wanted, data)
    if args is None:
        return False
    entry.args = args
    attrs = call.attrs
    if attrs is not None:
        entry.attrs = hold(attrs)
    return True


@native
def number_entry(entry: Entry) -> bool:
    """Write the next serial number and the user's line into an entry; false with an error set."""
    serial = cpython.PyIter_Next(serials)
    if serial is None:
        return False
    entry.serial = serial
    return write_line(entry)


# -- several results -----------------------------------------------------------------------------


@native
def record_several(call: Call, tensors: Tuple, data: Tuple) -> bool:
    """Let the tape know what several tensors on arrays came from, whose operands' edges are known;
    false with an error set."""
    wanted = 0
    for i in range(call.count):
        wanted |= int(call.operands[i].edge is not None) << i
    if not trace_uses(call):
        return False
    entry = like(call.op.entry[1], size_of(Entry), offset_of(Entry, "weakref"))
    if entry is None:
        return False
    good = fill_several(entry, call, tensors, data, wanted) and attach(entry, tensors)
    drop(entry)
    return good


@inline
def fill_several(entry: Entry, call: Call, tensors: Tuple, data: Tuple, wanted: int) -> bool:
    """Write into an entry of several results what it is to know; false with an error set."""
    if not fill_operands(entry, call, None, wanted):
        return False
    used = call.op.results if call.op.uses[0] & wanted != 0 else 0
    results = save_results(call, tensors, data, used)
    if results is None:
        return False
    entry.result = results
    return number_entry(entry)


@native
def save_results(call: Call, tensors: Tuple, data: Tuple, used: int) -> Owned[List | None]:
    """What an entry keeps of several results as a list, by value of those that are ``used``, a bit
    for each; null with an error set."""
    count = cpython.PyTuple_Size(tensors)
    results = cpython.PyList_New(count)
    if results is None:
        return None
    for i in range(count):
        place = i if i < MOST else MOST
        kept = save_result(tensors.items[i], data.items[i], used & (1 << place) != 0)
        if kept is None:
            drop(results)
            return None
        cpython.PyList_SetItem(results, i, kept)
    return results


@inline
def save_result(tensor: Object, array: Object, by_value: bool) -> Owned[Object | None]:
    """What an entry keeps of a result on an array; null with an error set."""
    own = trust(array, Array, "the tensor was made of it")
    if by_value:
        return save_value(trust(tensor, Tensor, "it was made so"), own)
    return make_saved_type(own)


@native
def attach(entry: Entry, out: Object) -> bool:
    """Let an entry be what made a tensor, or those of a tuple that are floating; false with an
    error set."""
    if is_tensor(out):
        out.vertex = hold(entry)
        return True
    row = trust(out, Tuple, "several results are one")
    for i in range(cpython.PyTuple_Size(row)):
        tensor = row.items[i]
        if is_tensor(tensor) and is_floating(tensor):
            output = output_of(entry, i)
            if output is None:
                return False
            tensor.vertex = output
    return True


@inline
def is_floating(tensor: Tensor) -> bool:
    """Whether a tensor is of floats."""
    array = tensor.data
    if array is None or not is_array(array):
        return False
    return bit_of(trust(array, Array, "it was asked")) & FLOATS != 0


@inline
def output_of(entry: Entry, index: int) -> Owned[Output | None]:
    """The result of an entry that has a number; null with an error set."""
    output = like(output_example, size_of(Output), offset_of(Output, "weakref"))
    number = cpython.PyLong_FromLongLong(index)
    serial = cpython.PyIter_Next(serials)
    if output is None or number is None or serial is None:
        drop(output)
        drop(number)
        drop(serial)
        return None
    output.entry = hold(entry)
    output.index = number
    output.serial = serial
    return output
