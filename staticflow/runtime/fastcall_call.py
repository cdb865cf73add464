"""The call of a program as native code, one for all; ``METH_FASTCALL`` functions lead to it.

It takes the inputs, each an array or a box of one, checks all that the graph says of them, makes
the outputs, and calls ``run``. It gives one array, or a tuple of arrays where the program has not
one output; an int, the status of a run that failed; or None, with nothing done, for arguments that
it will not take or if it is not its turn. It raises what made the user stop the run, and words no
errors of its own: who asked runs the same arguments through the portable path, which does.
`call_boxed` asks itself, and gives a new box; it takes arguments by name, too (``METH_KEYWORDS``).

What depends on the program is in its `Program`, and in the code that it points to: ``measure``
knows the sizes of a call (`staticflow.runtime.fastcall_text`).
"""

from __future__ import annotations

from collections.abc import Callable

from staticflow.codegen.statuses import INTERRUPTED
from staticflow.native import cpython
from staticflow.native.cpython import FALSE, NONE, Array, Tuple, is_array
from staticflow.native.language import (
    Byte,
    Int32,
    Object,
    Owned,
    Record,
    Row,
    Type,
    constant,
    drop,
    drop_row,
    elsewhere,
    export,
    hold,
    inline,
    native,
    space,
    trust,
)
from staticflow.runtime import interpreter_lock
from staticflow.runtime.fastcall_checks import Spec, overlap, take_arrays
from staticflow.runtime.fastcall_helpers import (
    array_from,
    hidden_tuple,
    outcome,
    show_tuple,
)
from staticflow.runtime.interpreter_lock import Call
from staticflow.runtime.new_objects import like

__all__ = ["MOST_ARRAYS", "MOST_NUMBERS", "Output", "Program", "call_boxed", "call_program"]

MOST_ARRAYS = 4096
"""Programs of more arrays have no native entry, which has them on the stack."""

MOST_NUMBERS = 1 << 17
"""Programs whose calls compute more sizes have no native entry, for the same reason."""

LONG = 1 << 16
"""Bytes of traffic above which other threads may run meanwhile: some microseconds, against a tenth
of one for letting the lock of the interpreter go, and far more until it is had again."""

go = elsewhere(interpreter_lock.go)


# -- a program -----------------------------------------------------------------------------------


class Output(Record):
    """An output: what makes an array of a number of sizes, of a dtype object and of so many bytes,
    null with an error set; that dtype object; where its bytes are among the numbers of a call, and
    its sizes behind; its number of dims; and whether only the run can tell its size."""

    make: Callable[[Int32, Row[int], Object, int], Owned[Array | None]]
    descr: Object
    at: int
    ndim: Int32
    is_late: bool


class Program(Record):
    """What a call has to know of a program: the code that runs it, checks its sizes before, and
    tells those of late outputs behind; the state that this keeps; the inputs and then the variables
    as ``params``, of which some are ``updated``; the boxes of the variables, and where boxes of
    their class have the array; where the constants and the outputs lie, of which one at least may
    be late; how many numbers a call computes, and at which the bytes of its traffic are.

    Of `call_boxed`: the callable for calls that are left to it, an object for the array to come in
    one like it, and the size of such an object.
    """

    run: Callable[[object, object, object, Call], int]
    measure: Callable[[Row[Array], Row[int]], bool]
    measure_late: Callable[[Row[int]], None]
    state: object
    specs: Row[Spec]
    inputs: int
    params: int
    updated: int
    variables: Row[Object]
    box_class: Type
    slot: int
    constants: Row[Row[Byte]]
    constant_count: int
    outputs: Row[Output]
    output_count: int
    has_late: bool
    numbers: int
    traffic: int
    portable: Object
    example: Object
    box_size: int


class Switch(Record, shared=True):
    """Where a bool of the configuration is."""

    value: Object


check_nan = constant(Switch, "check_nan")


# -- the call ------------------------------------------------------------------------------------


@export
def call_program(program: Program, args: Row[Object], count: int) -> Owned[Object | None]:
    """What a program gives of so many arguments."""
    params = program.params
    if count != program.inputs:
        return hold(NONE)
    arrays = space(Owned[Array], params, MOST_ARRAYS)
    table = space(
        Row[Byte] | None, params + program.constant_count + program.output_count, MOST_ARRAYS
    )
    cls = program.box_class
    slot = program.slot
    taken = take_arrays(args, count, program.specs, cls, slot, arrays, table)
    if taken == count and count < params:
        taken += take_arrays(
            program.variables, params - count, program.specs[count:], cls, slot, arrays[count:],
            table[count:],
        )  # fmt: skip
    result = call_on(program, arrays, table) if taken == params else hold(NONE)
    drop_row(arrays, taken)
    return result


@native
def call_on(
    program: Program, arrays: Row[Array], table: Row[Row[Byte] | None]
) -> Owned[Object | None]:
    """What a program gives of arrays that are as its specs say."""
    numbers = space(int, program.numbers, MOST_NUMBERS)
    if not program.measure(arrays, numbers):
        return hold(NONE)
    if program.updated != 0 and is_shared(program, arrays):
        return hold(NONE)
    for i in range(program.constant_count):
        table[program.params + i] = program.constants[i]
    if program.output_count == 1:
        return run_for_one(program, table, numbers)
    return run_for_tuple(program, table, numbers)


@native
def is_shared(program: Program, arrays: Row[Array]) -> bool:
    """Whether an array that is updated shares memory with another one."""
    count = program.params
    starts = space(int, count, MOST_ARRAYS)
    ends = space(int, count, MOST_ARRAYS)
    return overlap(arrays, program.specs, count, program.updated, starts, ends)


# -- the run -------------------------------------------------------------------------------------


@inline
def start(program: Program, table: Row[Row[Byte] | None], numbers: Row[int]) -> int:
    """The status of a run."""
    long = numbers[program.traffic] > LONG
    return go(program.run, table, numbers, program.state, long, program.updated != 0)


@inline
def run_for_one(
    program: Program, table: Row[Row[Byte] | None], numbers: Row[int]
) -> Owned[Object | None]:
    """Run for the one output."""
    output = program.outputs[0]
    position = program.params + program.constant_count
    if output.is_late:
        table[position] = None
        status = start(program, table, numbers)
        if status != 0:
            return outcome(status)
        program.measure_late(numbers)
        return late_array(output, numbers, table[position])
    array = early_array(output, numbers)
    if array is None:
        return None
    table[position] = trust(array.data, Row[Byte], "the call holds the array")
    status = start(program, table, numbers)
    if status == 0:
        return array
    drop(array)
    return outcome(status)


@native
def run_for_tuple(
    program: Program, table: Row[Row[Byte] | None], numbers: Row[int]
) -> Owned[Object | None]:
    """Run for a tuple of outputs."""
    result = hidden_tuple(program.output_count)
    if result is None:
        return None
    status = run_into(program, result, table, numbers)
    if status != 0:
        drop(result)
        return outcome(status)
    show_tuple(result, program.output_count)
    return result


@inline
def run_into(
    program: Program, result: Tuple, table: Row[Row[Byte] | None], numbers: Row[int]
) -> int:
    """Run, and put the outputs into a tuple; the status, or `INTERRUPTED` where there is no memory
    for one of them, and an error is set."""
    places = table[program.params + program.constant_count :]
    for i in range(program.output_count):
        output = program.outputs[i]
        if output.is_late:
            places[i] = None
        else:
            array = early_array(output, numbers)
            if array is None:
                return INTERRUPTED
            places[i] = trust(array.data, Row[Byte], "the tuple holds the array")
            cpython.PyTuple_SetItem(result, i, array)
    status = start(program, table, numbers)
    if status == 0 and program.has_late:
        program.measure_late(numbers)
        status = put_late(program, result, places, numbers)
    return status


@native
def put_late(
    program: Program, result: Tuple, places: Row[Row[Byte] | None], numbers: Row[int]
) -> int:
    """Put outputs of which the run told the size into a tuple: 0, or `INTERRUPTED` where there is
    no memory for one of them. All that the program gave away is freed."""
    status = 0
    for i in range(program.output_count):
        output = program.outputs[i]
        if output.is_late:
            array = late_array(output, numbers, places[i])
            if array is None:
                status = INTERRUPTED
            else:
                cpython.PyTuple_SetItem(result, i, array)
    return status


@inline
def early_array(output: Output, numbers: Row[int]) -> Owned[Array | None]:
    """The array of an output; null with an error set."""
    return output.make(output.ndim, numbers[output.at + 1 :], output.descr, numbers[output.at])


@native
def late_array(output: Output, numbers: Row[int], memory: Row[Byte] | None) -> Owned[Array | None]:
    """The array of an output that a program gave away; null with an error set."""
    return array_from(early_array(output, numbers), memory, numbers[output.at])


# -- in a box ------------------------------------------------------------------------------------


@export
def call_boxed(
    program: Program, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """The one array that a program gives, in a new box."""
    if check_nan.value is FALSE and names is None:
        result = call_program(program, args, count)
        if result is None:
            return None
        if is_array(result):
            return put_into_box(program, result)
        drop(result)
    return cpython.PyObject_Vectorcall(program.portable, args, count, names)


@native
def put_into_box(program: Program, array: Owned[Array]) -> Owned[Object | None]:
    """A new box of an array; null with an error set."""
    made = like(program.example, program.box_size, program.slot)
    if made is None:
        drop(array)
        return None
    slots = trust(made, Row[Owned[Object | None]], "an object is its words")
    slots[program.slot >> 3] = array
    return made
