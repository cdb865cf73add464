"""Native code by which a call of a kind that was met before runs the ops that it came to.

What follows from the key of a call (`staticflow.eager.fast.key`) is a *plan*, which
`staticflow.eager.fast.plans` makes. It lies in one of a few slots that the hash of the key says.
"""

from __future__ import annotations

from staticflow.eager.fast.apply import apply
from staticflow.eager.fast.calls import clear_error, forward
from staticflow.eager.fast.change import count_change, run_change
from staticflow.eager.fast.classes import Memory, Tensor, name_hasten
from staticflow.eager.fast.key import WORDS, describe_call, hash_of, pack_key
from staticflow.eager.fast.objects import (
    count_elements,
    dtype_of,
    operand_array,
    operand_tensor,
    tensor_of,
)
from staticflow.eager.fast.operands import current_state, is_recording, is_usual, open_operand
from staticflow.eager.fast.program_calls import call_program
from staticflow.eager.fast.records import MOST, Key, Operand, Plan, Remembered, Slot, Step
from staticflow.eager.fast.view import memory_of
from staticflow.graph.dtypes import DTYPES, int64
from staticflow.native import cpython
from staticflow.native.cpython import Array, Tuple, is_tuple
from staticflow.native.language import (
    Object,
    Owned,
    Row,
    constant,
    drop,
    drop_row,
    export,
    hold,
    inline,
    logical_shift,
    native,
    space,
    take,
    trust,
    zero_record,
)
from staticflow.runtime.object_layout import CONTIGUOUS, WRITEABLE

__all__ = ["MOST_VALUES", "OFTEN", "RECALL", "recall", "recall_at"]

OFTEN = 100
"""After so many calls of a kind a kernel is compiled for it, which takes 30 ms."""

MOST_VALUES = 1024
"""A call of more values than that, which lie on the stack, is not remembered."""

_INT64 = DTYPES.index(int64)
_OPEN = CONTIGUOUS | WRITEABLE


# -- a call --------------------------------------------------------------------------------------


@export
def recall(
    function: Remembered, first: Object | None, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """What a call of a function gives, by the plan of its kind if there is one; null with an error
    set."""
    state = current_state()
    if state is None:
        return None
    plain = is_usual(state)
    key = zero_record(Key)
    key.tells_wanted = function.fuses != 0 and is_recording(state)
    drop(state)
    key.words = space(int, WORDS + 1)  # a hash stands behind the last
    key.tensors = space(Tensor, MOST)
    if plain and describe_call(key, function, first, args, count, names):
        hash = hash_of(key)
        number = find_plan(key, hash)
        if number < 0:
            if is_second_miss(hash):
                return learn(key, hash, function, first, args, count, names)
        elif is_remembered(plan_slots[number]):
            result = run_plan(plan_slots[number], key)
            if result is not None or not clear_error():
                return result
    return forward(function.itself, first, None, args, count, names)


@export
def recall_at(
    address: Object, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """What a call gives of the function whose record lies at an address."""
    function = trust(cpython.PyLong_AsVoidPtr(address), Remembered, "it was made with this address")
    return recall(function, None, args, count, names)


@inline
def learn(
    key: Key,
    hash: int,
    function: Remembered,
    first: Object | None,
    args: Row[Object],
    count: int,
    names: Tuple | None,
) -> Owned[Object | None]:
    """What a call gives that Python runs and makes a plan of; null with an error set."""
    kind = pack_key(key, hash)
    if kind is None:
        return None
    result = forward(function.learner, kind, first, args, count, names)
    drop(kind)
    return result


# -- a plan --------------------------------------------------------------------------------------


@inline
def is_remembered(slot: Slot) -> bool:
    """Whether the plan in a slot has steps, or says that calls of the kind are not remembered."""
    plan = slot.plan
    return plan is not None and plan.steps is not None


@native
def run_plan(slot: Slot, key: Key) -> Owned[Object | None]:
    """What the plan in a slot gives of the tensors of a key; null if something failed."""
    owner = hold(trust(slot.owner, Object, "what a plan lies in belongs to somebody"))
    plan = trust(slot.plan, Plan, "its owner is held: another may take its place meanwhile")
    result = follow_plan(plan, key)
    if result is not None:
        plan.runs += 1
        if plan.runs == OFTEN and not hasten(owner):
            drop(result)
            drop(owner)
            return None
    drop(owner)
    return result


@inline
def hasten(owner: Object) -> bool:
    """Tell the owner of a plan that it was run often; false with an error set."""
    arguments = space(Object, 1)
    arguments[0] = owner
    said = cpython.PyObject_VectorcallMethod(name_hasten, arguments, 1, None)
    good = said is not None
    drop(said)
    return good


@native
def follow_plan(plan: Plan, key: Key) -> Owned[Object | None]:
    """What the steps of a plan give of the tensors of a key; null if something failed."""
    steps = plan.steps
    if steps is None:
        return None
    values = space(Owned[Object], plan.values, MOST_VALUES)
    known = begin_values(values, plan, key)
    for i in range(plan.step_count):
        step = steps[i]
        out = run_step(step, values)
        after = keep_results(out, step.results, values, known)
        if after < 0:
            drop_row(values, known)
            return None
        known = after
    result = give_results(values, plan)
    drop_row(values, known)
    return result


@inline
def begin_values(values: Row[Owned[Object]], plan: Plan, key: Key) -> int:
    """Begin the values with the tensors of a key and the numbers of a plan; how many these are."""
    count = key.tensor_count
    tensors = key.tensors
    for i in range(count):
        values[i] = hold(tensors[i])
    numbers = plan.numbers
    rest = values[count:]
    for i in range(plan.number_count):
        rest[i] = hold(numbers[i])
    return count + plan.number_count


@native
def run_step(step: Step, values: Row[Owned[Object]]) -> Owned[Object | None]:
    """What a step gives of the values so far; null if it failed. Without an op it is a draw from a
    generator, whose state stands in the place of what computes an op."""
    op = step.op
    if op is None:
        return draw_state(step.compute)
    count = step.count
    which = step.operands
    operands = space(Object, count, MOST_VALUES)
    for i in range(count):
        operands[i] = values[which[i]]
    if step.changes != 0:
        return run_change(step, operands, count)
    program = step.program
    if program is not None:
        return call_program(step, program, operands, count)
    return apply(op, operands, count, step.attrs, step)


@native
def keep_results(
    out: Owned[Object | None], results: int, values: Row[Owned[Object]], known: int
) -> int:
    """Take what a step gave to the values that are known so far; how many there are then, -1 if
    it failed or did not give ``results`` in a tuple, or one alone if that is 0."""
    if out is None:
        return -1
    if results == 0:
        values[known] = out
        return known + 1
    if not is_tuple(out) or cpython.PyTuple_Size(out) != results:
        drop(out)
        return -1
    new = values[known:]
    for i in range(results):
        new[i] = hold(cpython.PyTuple_GetItem(out, i))
    drop(out)
    return known + results


@native
def give_results(values: Row[Owned[Object]], plan: Plan) -> Owned[Object | None]:
    """The results of a call among the values: one, a tuple or a named tuple; null with an error
    set."""
    which = plan.results
    count = plan.result_count
    if count < 0:
        return hold(values[which[0]])
    row = cpython.PyTuple_New(count)
    if row is None:
        return None
    for i in range(count):
        cpython.PyTuple_SetItem(row, i, hold(values[which[i]]))
    cls = plan.made
    if cls is None:
        return row
    named = cpython.PyObject_CallObject(cls, row)
    drop(row)
    return named


# -- a draw from a generator ---------------------------------------------------------------------


@native
def draw_state(source: Object | None) -> Owned[Tensor | None]:
    """The state of a generator, which is counted on, as a new tensor; null if it is not as it
    should be, or with an error set."""
    operand = zero_record(Operand)
    operand.object = source
    drawn = draw_from_opened(operand) if open_operand(operand) else None
    drop(operand)
    return drawn


@inline
def draw_from_opened(operand: Operand) -> Owned[Tensor | None]:
    """What `draw_state` gives of a tensor that is opened."""
    array = operand_array(operand)
    memory = memory_of(operand_tensor(operand), array)
    if memory is None:
        return None
    state = cpython.PyArray_NewCopy(array, 0)
    drawn = tensor_of(state) if state is not None else None
    if state is not None and drawn is not None and not count_draw(memory, array, state):
        drop(drawn)
        drawn = None
    drop(state)
    drop(memory)
    return drawn


@native
def count_draw(memory: Memory, array: Array, drawn: Array) -> bool:
    """Count on the state of a generator, and copy it to an array; false if either is none, or with
    an error set, with nothing done but that a change is counted."""
    if not count_change(memory) or not is_generator_state(array) or not is_generator_state(drawn):
        return False
    numbers = trust(array.data, Row[int], "a seed and a count")
    copied = trust(drawn.data, Row[int], "a seed and a count")
    after = numbers[1] + 1
    numbers[1] = after
    copied[0] = numbers[0]
    copied[1] = after
    return True


@native
def is_generator_state(array: Array) -> bool:
    """Whether an array is the state of a generator, a seed and a count that may be written."""
    return array.flags & _OPEN == _OPEN and dtype_of(array) == _INT64 and count_elements(array) == 2


# -- the table of plans -------------------------------------------------------------------------

SLOTS = 4096
"""So many kinds of calls are remembered at most."""

SLOTS_EACH = 4
"""In so many slots, the newest first, the plan of one may lie."""

plan_slots = constant(Row[Slot], "plan_slots")


@inline
def first_slot(hash: int) -> int:
    """The first slot in which the plan of a key of a hash may lie."""
    return logical_shift(hash, 1) & (SLOTS - SLOTS_EACH)


@native
def find_plan(key: Key, hash: int) -> int:
    """The number of the slot in which the plan of a key lies; -1 if it has none."""
    count = key.count
    first = first_slot(hash)
    for number in range(first, first + SLOTS_EACH):
        slot = plan_slots[number]
        if slot.hash == hash:
            plan = slot.plan
            if plan is None or plan.words != count:
                continue
            if cpython.memcmp(plan.key, key.words, count * 8) == 0:
                return number
    return -1


@native
def is_second_miss(hash: int) -> bool:
    """Whether a key is looked for in vain a second time: its slots remember the last few that
    were."""
    first = first_slot(hash)
    newer = hash
    for number in range(first, first + SLOTS_EACH):
        slot = plan_slots[number]
        before = slot.missed
        slot.missed = newer
        if before == hash:
            return True
        newer = before
    return False


@export
def install_plan(hash: int, plan: Plan, owner: Object) -> None:
    """Put a plan, which ``owner`` holds, where keys of a hash look first; what lay there, and
    behind it, moves on, and what lay last is dropped. A slot holds its owner."""
    first = first_slot(hash)
    last = take(plan_slots[first + SLOTS_EACH - 1].owner)
    for number in range(first + SLOTS_EACH - 1, first, -1):
        move_plan(plan_slots[number - 1], plan_slots[number])
    slot = plan_slots[first]
    slot.hash = hash
    slot.plan = plan
    slot.owner = hold(owner)
    drop(last)  # nothing else runs before


@inline
def move_plan(source: Slot, target: Slot) -> None:
    """Move a plan to another slot, in which there is no owner."""
    target.hash = source.hash
    target.plan = source.plan
    target.owner = take(source.owner)


RECALL = (install_plan, recall, recall_at)
