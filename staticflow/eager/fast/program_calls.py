"""Native code of a call of a program by the step of a plan: of a vjp, or of a fused function, which
leaves one entry of the tape as `staticflow.eager.fused` has it in Python."""

from __future__ import annotations

from staticflow.eager.fast.calls import clear_error
from staticflow.eager.fast.classes import (
    Entry,
    State,
    fixed_memory,
    zero,
)
from staticflow.eager.fast.compute import compute_in_order, compute_taken
from staticflow.eager.fast.entry import attach, find_edges, number_entry, save_value
from staticflow.eager.fast.objects import (
    new_row,
    operand_array,
    operand_tensor,
    tensor_of,
    tensors_of,
    triple,
    tuple_of_one,
)
from staticflow.eager.fast.operands import current_state, is_recording, open_operands
from staticflow.eager.fast.records import MOST, Call, Operand, ProgramStep, Step
from staticflow.native import cpython
from staticflow.native.cpython import NONE, Tuple, is_array, is_tuple
from staticflow.native.language import (
    Object,
    Owned,
    Row,
    drop,
    drop_row,
    hold,
    inline,
    native,
    offset_of,
    size_of,
    space,
    trust,
    zero_record,
    zero_row,
)
from staticflow.runtime.new_objects import like

__all__ = ["call_program"]


@native
def call_program(
    step: Step, known: ProgramStep, objects: Row[Object], count: int
) -> Owned[Object | None]:
    """What the step of a plan that calls a program gives of tensors; null with an error set."""
    if count <= MOST:
        operands = zero_row(Operand, count, MOST)
        out = run_on(operands, step, known, objects, count)
        drop_row(operands, count)
        if out is not None or cpython.PyErr_Occurred() is not None:
            return out
    return cpython.PyObject_Vectorcall(known.otherwise, objects, count, None)


@inline
def run_on(
    operands: Row[Operand], step: Step, known: ProgramStep, objects: Row[Object], count: int
) -> Owned[Object | None]:
    """`call_program` in the usual case, its ``operands`` to be taken up; null with an error set,
    or, with none, in any other."""
    op = step.op
    state = current_state()
    if state is None:
        return None
    out: Object | None = None
    if op is not None:
        call = zero_record(Call)
        call.op = op
        call.objects = objects
        call.count = count
        call.operands = operands
        out = compute_and_record(call, step, known, state) if open_operands(call, state) else None
    drop(state)
    return out


@inline
def compute_and_record(
    call: Call, step: Step, known: ProgramStep, state: State
) -> Owned[Object | None]:
    """What a call gives of operands that are open, where the gradients that are wanted are those of
    the step; null as `run_on`."""
    wanted = find_edges(call) if is_recording(state) else 0
    kernel = step.compute
    if wanted != known.wanted or kernel is None:
        return None
    arrays = space(Object, call.count, MOST)
    for i in range(call.count):
        arrays[i] = operand_array(call.operands[i])
    taking = step.taking
    if taking is None:
        data = compute_in_order(kernel, arrays, call.count)
    else:
        data = compute_taken(taking, kernel, arrays, call.count)
    if data is None:
        clear_error()  # Python's way raises it again
        return None
    out = wrap_outputs(known, data)
    if out is not None and known.example is not None and not record_program(call, known, data, out):
        drop(out)
        out = None
    drop(data)
    return out


@inline
def wrap_outputs(known: ProgramStep, data: Object) -> Owned[Object | None]:
    """The outputs among what a program gave as a tensor, or as a tuple of them; null if they are
    not as the step has them, or with an error set."""
    if is_array(data):
        return tensor_of(data) if known.is_tuple == 0 else tuple_of_one(data)
    if not is_tuple(data) or cpython.PyTuple_Size(data) < known.outputs:
        return None
    if known.is_tuple != 0:
        return tensors_of(data, known.outputs)
    first = data.items[0]
    return tensor_of(first) if is_array(first) else None


# -- the tape ------------------------------------------------------------------------------------


@native
def record_program(call: Call, known: ProgramStep, data: Object, out: Object) -> bool:
    """Let the tape know what ``out`` came from, which stands in ``data`` with the residuals behind
    it; false with an error set."""
    example = trust(known.example, Entry, "the caller has asked")
    entry = like(example, size_of(Entry), offset_of(Entry, "weakref"))
    if entry is None:
        return False
    residuals = cpython.PyTuple_Size(data) - known.outputs if is_tuple(data) else 0
    good = fill_program(entry, call, known, data, residuals) and attach(entry, out)
    drop(entry)
    return good


@native
def fill_program(
    entry: Entry, call: Call, known: ProgramStep, data: Object, residuals: int
) -> bool:
    """Write into an entry what it is to know; false with an error set."""
    edges = edges_and_none(call, residuals)
    if edges is None:
        return False
    entry.edges = edges
    args = keep_all(call, known, data, residuals)
    if args is None:
        return False
    entry.args = args
    entry.result = hold(NONE)
    return number_entry(entry)


@native
def edges_and_none(call: Call, residuals: int) -> Owned[Tuple | None]:
    """The edges of a call, and None for each residual, as a row; null with an error set."""
    edges = new_row(call.count + residuals)
    if edges is None:
        return None
    for i in range(call.count):
        edge = call.operands[i].edge
        cpython.PyTuple_SetItem(edges, i, hold(edge if edge is not None else NONE))
    for i in range(call.count, call.count + residuals):
        cpython.PyTuple_SetItem(edges, i, hold(NONE))
    cpython.PyObject_GC_Track(edges)
    return edges


@native
def keep_all(call: Call, known: ProgramStep, data: Object, residuals: int) -> Owned[Tuple | None]:
    """What an entry keeps of the operands, and the residuals, as a row; null with an error set."""
    args = new_row(call.count + residuals)
    if args is None:
        return None
    for i in range(call.count + residuals):
        kept = keep(call, known, data, i)
        if kept is None:
            drop(args)
            return None
        cpython.PyTuple_SetItem(args, i, kept)
    return args


@inline
def keep(call: Call, known: ProgramStep, data: Object, i: int) -> Owned[Tuple | None]:
    """An operand as an entry keeps it, or, behind these, a residual; null with an error set."""
    if i < call.count:
        operand = call.operands[i]
        return save_value(operand_tensor(operand), operand_array(operand))
    results = trust(data, Tuple, "there are residuals in it")
    residual = results.items[known.outputs + i - call.count]
    return triple(hold(residual), hold(fixed_memory), hold(zero))
