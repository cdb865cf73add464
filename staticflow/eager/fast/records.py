"""The records of native code, some of which Python fills in.

A record is declared once, as native functions read it; `structure` makes of it what Python fills
in. What may be null is so where there is none.
"""

from __future__ import annotations

from typing import Annotated

from staticflow.eager.fast.classes import Entry, State, Tensor
from staticflow.native.cpython import Dict, List
from staticflow.native.language import Byte, Fixed, Int32, Object, Owned, Record, Row
from staticflow.native.layout import structure

__all__ = [
    "CODES", "FLAGS", "MEMO", "MOST", "NO_DTYPE", "OPS_ROOM", "Call", "Cell", "InPlace",
    "InPlaceRecord", "Key", "KnownCode", "KnownCodeRecord", "KnownOp", "KnownOpRecord",
    "NumberMemo", "NumberMemoRecord", "OpPlace", "OpPlaceRecord", "Operand", "OperandRecord",
    "Plan", "PlanRecord", "PlannedView", "PlannedViewRecord", "ProgramStep", "ProgramStepRecord",
    "Remembered", "RememberedRecord", "Slot", "SlotRecord", "Step", "StepRecord", "TakenArray",
    "TakenArrayRecord", "Taking", "TakingRecord", "Walk",
]  # fmt: skip

MOST = 32
"""Arguments of one call; the general path takes more."""


FLAGS = {name: 1 << i for i, name in enumerate(
    ("RECORDABLE", "PER_ELEMENT", "NUMBERS", "BY_NUMBER", "ANY_DTYPES", "TAIL", "VIEW", "REDUCES",
     "PARTIALS", "PLANNED", "HALVES", "EVEN", "PART", "ROWS")
)}  # fmt: skip
"""What an op's flags say: it has a vjp; its vjp is one of `PerElementEntry`; numbers may stand
beside its tensors, and reach what computes it as they are and not as arrays; its tensors are of any
dtypes, or the first is; it gives a view; it reduces dims; the partials of its vjp run on arrays;
calls of its vjp are remembered; so many floats of 16 bits are as many as a large array to it; it
takes no copies of arrays that do not lie in rows, but leaves them to NumPy; it gives a part of its
tensor, whose cotangent may wait for others; and the gradient of its table may be kept by rows."""

OPS_ROOM = 1024
"""In a table of so many places ops are found by their addresses."""

CODES = 256
"""Of so many code objects it is remembered whether they are the user's."""


MEMO = 256
"""So many numbers are remembered as arrays, by identity."""

NO_DTYPE = 63
"""The index of a dtype that is none of ours; in the table of dtypes None is there."""


class Cell(Record, shared=True):
    """Where an object is that may be exchanged, or null."""

    object: Owned[Object | None]


class Remembered(Record):
    """A function whose calls are remembered."""

    itself: Object
    learner: Object  # which takes the key and its hash as bytes before the arguments
    fuses: int  # whether it runs programs, so that kinds tell which gradients are wanted


class KnownOp(Record):
    """What native code knows of an op."""

    object: Object
    compute: Annotated[Row[Object], Fixed(2)]  # what computes it, on small and on large arrays
    entry: Annotated[Row[Entry], Fixed(2)]  # a `PerElementEntry` and a `TapeEntry` to copy
    dtypes: int  # a bit for each
    flags: int
    uses: Annotated[Row[int], Fixed(MOST + 1)]  # by the results, and each argument: a bit for each
    # cotangent that needs its value
    results: int  # a bit for each result whose value any of them needs, from `MOST` on one for all
    traced: int  # a bit for each number of arguments for which that is known
    arity: int
    kernel: Cell | None  # which computed it of large arrays last
    name: Object
    partials: Annotated[Row[Object | None], Fixed(4)]  # of `PARTIALS`, null where there is none
    otherwise: Remembered  # the general path, by plans of what is not the usual case


class OpPlace(Record):
    """What native code knows of an op, in a table of all."""

    op: KnownOp | None


class Operand(Record):
    """An argument of a call. It is *opened* when its array is found, or it is a number."""

    object: Object | None  # first, so that an operand is a row of arguments, too
    array: Owned[Object | None]  # its array, or what stands for that
    edge: Owned[Object | None]  # where its gradient goes
    is_number: bool
    size: int  # of its array


class PlannedView(Record):
    """A view of an array of known sizes and strides."""

    offset: int  # in bytes
    ndim: Int32
    sizes: Row[int]
    strides: Row[int]
    from_ndim: Int32
    from_sizes: Row[int]
    from_strides: Row[int]


class TakenArray(Record):
    """What a kernel takes for one of its arrays: an ``object`` of the plan's own, the operand
    ``view``ed in another order of dims, a row-major copy of it if ``copied``, or the operand."""

    object: Object | None
    view: PlannedView | None
    copied: Byte


class Taking(Record):
    """What the kernel of a step takes that does not take the operands as they are, and how its
    result is seen."""

    count: int
    arrays: Row[TakenArray]
    back: PlannedView | None


class ProgramStep(Record):
    """What the step of a plan that runs a compiled program knows: the entry of the tape that it
    leaves, how many outputs there are besides what the way back keeps, whether they come as a
    tuple, for which operands a gradient is wanted, and what Python does where native code cannot
    (`staticflow.eager.noted_programs.ProgramCall`).
    """

    example: Entry | None  # null if nothing is recorded
    outputs: int
    wanted: int
    is_tuple: Byte
    otherwise: Object


class Step(Record):
    """A step of a plan: an op, with what is known of this very call; or a draw from a generator,
    which is in ``compute``."""

    op: KnownOp | None  # null for a draw
    attrs: Object | None
    count: int
    operands: Row[int]  # which of the values
    results: int  # 0 for one that is no tuple
    compute: Object | None  # what computes it of arrays alone
    taking: Taking | None  # what that takes, if not the operands as they are
    view: PlannedView | None  # that it gives
    vector: Object | None  # that `compute` takes for the second operand
    by_numpy: Object | None  # the function that computes it else, of arrays alone
    program: ProgramStep | None  # what is known of the call of a program
    changes: Byte  # whether `compute` overwrites the first operand


class Call(Record):
    """A call of an op: what it was given, which is the caller's, and that taken up as operands."""

    op: KnownOp
    objects: Row[Object]
    count: int
    operands: Row[Operand]
    attrs: Object | None
    step: Step | None  # that it is


class Key(Record, shared=True):
    """The key of a call, as it is written. It borrows the tensors that it describes, which nobody
    may hold as soon as Python runs."""

    words: Row[int]
    count: int
    tensors: Row[Tensor]
    tensor_count: int
    tells_wanted: bool  # whether it tells of which tensors a gradient may be wanted


class Plan(Record):
    """The steps that calls of a kind come to. Its *values* are the tensors of the call, numbers,
    and what steps give, in order."""

    key: Row[int]
    words: int  # of the key
    numbers: Row[Object]  # among the operands of steps
    number_count: int
    steps: Row[Step] | None  # null if calls of the kind are not remembered
    step_count: int
    values: int
    result_count: int  # given in a tuple, or -1 for one value alone
    results: Row[int]  # which of the values
    made: Object | None  # the class that is made of the tuple
    runs: int


class Slot(Record, shared=True):
    """What holds a plan."""

    hash: int  # of its key, 0 if there is no plan
    plan: Plan | None
    owner: Owned[Object | None]  # the object that the plan lives as long as
    missed: int  # the hash of the key that was looked for here last in vain


class InPlace(Record):
    """What native code knows of an in-place method."""

    general: Remembered  # what does what is not usual
    ufunc: Object | None
    count: int  # of operands beside the tensor itself, 0 or 1
    constant: Object | None  # that a copy takes if it has no operand
    dtypes: int  # a bit for each
    scaled: Byte  # whether its operand may be
    number: Byte  # whether its operand is
    program: Cell | None  # which overwrote a large array last; null for a copy
    value: Object | None  # the function whose value is copied to a small array


class Walk(Record):
    """A walk back: the names are those of `tape.walk`. The ``vertex`` with its cotangent is where
    the walk is, null at the end; while cotangents are put down, it is the one with the largest
    ``serial`` of those that they came to, null and 0 before the first."""

    state: State
    retain: bool
    leaves: Dict
    waiting: Dict
    order: List
    sums: Object
    wanted: Object  # a dict, or None
    followed: Object  # a dict, or None: all edges are
    serial: int
    vertex: Owned[Object | None]
    ct: Owned[Object | None]


class NumberMemo(Record, shared=True):
    """A number that was taken up as an array."""

    number: Owned[Object | None]
    descr: Owned[Object | None]
    array: Owned[Object | None]


class KnownCode(Record, shared=True):
    """A code object, and whether it is the user's."""

    code: Owned[Object | None]
    users: int


KnownOpRecord, OperandRecord, RememberedRecord = (
    structure(KnownOp),
    structure(Operand),
    structure(Remembered),
)
SlotRecord, PlanRecord, StepRecord = structure(Slot), structure(Plan), structure(Step)
ProgramStepRecord = structure(ProgramStep)
TakenArrayRecord, TakingRecord = structure(TakenArray), structure(Taking)
PlannedViewRecord, InPlaceRecord = structure(PlannedView), structure(InPlace)
OpPlaceRecord = structure(OpPlace)
NumberMemoRecord, KnownCodeRecord = structure(NumberMemo), structure(KnownCode)
