"""Kernel IR: what a kernel does, for either back end, with no word of LLVM or CUDA in it.

The grammar, in the text that `print_kernel` writes::

    kernel  := "kernel" NAME "(" [NAME ("," NAME)*] ")" "{" buffer* stmt* "}"    names of sizes
    buffer  := "buffer" NAME ":" DTYPE ("in" | "out" | "inout" | "grows")
    stmt    := "let" binding "=" expr                        bind a register once
             | "var" binding "=" operand                     bind a register that may be set
             | "set" reg "=" operand                         give a `var` another value
             | "accumulate" reg OP operand                   reg = OP(reg, operand)
             | "store" NAME "[" index "]" "=" operand [bound]
             | "for" NAME "in" index ".." index ["step" INT] ["while" reg] [KIND] "{" stmt* "}"
             | "if" operand "{" stmt* "}" ["else" "{" stmt* "}"]
             | "bind" NAME "=" operand ["below" index] ["held"]
                                                              an integer register as an index symbol
             | "check" operand CODE                          stop and return CODE unless true
             | "reserve" NAME index                          room for so many elements
    expr    := OP "(" [operand ("," operand)*] ")"           one of `primitives.PRIMITIVES`
             | "load" NAME "[" index "]" [bound]
             | "cast" operand | "bitcast" operand            to the dtype of the bound register
             | "splat" operand                               one scalar in every lane
             | "fold" OP operand                             all lanes combined into one scalar
             | "zip" operand operand ("low" | "high")        half the lanes of each, in turns
             | "index" index                                 an index expression as an int64 value
             | "active" index                                lane < index, a bool vector
             | "worker" index                                the thread of the iteration, an int64
             | "workers"                                     how many threads there may be, an int64
    operand := reg | CONST ":" type                          CONST is a Python literal, inf or nan,
    reg     := "%" NAME                                        true or false
    binding := "%" NAME ":" type
    type    := DTYPE ["x" LANES]
    bound   := "if" "lane" "<" index                         lanes at or past it are off
    index   := a `Size` over sizes, loop variables, bound symbols and `lane`, as
               `staticflow.graph.size_text` reads it

White space separates words, a line end is nothing more, and ``#`` starts a comment. The variable of
a loop is below the loop's end, which is the symbol's ``upper``.

Registers hold scalars, or vectors of ``lanes`` elements. An index counts elements of a flat buffer.
In a load or store of several lanes the index says where each lane goes through the symbol
``lane``: coefficient 1 is a contiguous vector, another one is strided, none at all is only legal
with one lane (a load that does not name ``lane`` is scalar and is then splat). Lanes that are off
read as zero and are not written. A bool is one bit in a register and one byte, 0 or 1, in a buffer.

A register or bound symbol is visible in its block after its statement, and in nested blocks. No two
registers of a kernel have the same name, and no two symbols are equal, but that blocks beside each
other may bind one again. Only a `var` is ever set or accumulated into. A loop runs while
``variable < hi``; ``kind`` says how its iterations may be spread: ``serial`` (in order),
``parallel`` (in any order, on any thread), ``grid`` (one GPU thread each; a kernel has at most one,
at its top level) or ``long`` (in order, and between any two it looks whether the user wants to
stop). A serial or long loop with ``while`` also ends before an iteration that finds that `var`, a
bool, false; it may be the only end (`ENDLESS`). Iterations of a parallel or grid loop change no
register bound outside it. In the body of one, and not in a block nested there, `worker` is less
than its index, which is what it was before the loop, and no two of them that run at the same time
find the same number: no more threads than that run the loop.
Distinct buffers of a kernel do not overlap. A kernel returns 0, the code of the first `Check` that
failed, `INTERRUPTED` or `NO_ROOM`; what it stored until then is unspecified.

Of a buffer that *grows* nothing can be touched but what was reserved, in the block of a `Reserve`
or one nested there, after it; the nested ones reserve no more of it. What the buffer holds stays,
also from one call of the kernel to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DType

__all__ = [
    "ACCESSES",
    "ENDLESS",
    "HALVES",
    "IN_ORDER",
    "KINDS",
    "LANE",
    "Accumulate",
    "Active",
    "Apply",
    "Bind",
    "Bitcast",
    "Block",
    "Buffer",
    "Cast",
    "Check",
    "Const",
    "Expr",
    "Fold",
    "If",
    "Index",
    "Kernel",
    "Let",
    "Load",
    "Loop",
    "Operand",
    "Reg",
    "Reserve",
    "Set",
    "Splat",
    "Stmt",
    "Store",
    "Var",
    "Worker",
    "Workers",
    "Zip",
    "operands_of",
    "sizes_of",
    "walk",
]

LANE_SYM = Sym("lane")
LANE: Dim = Dim.of(LANE_SYM)
"""The number of the lane, inside the index of a vector load, store or `Index`."""

ENDLESS = 1 << 62
"""The ``hi`` of a loop that counts to no end."""

ACCESSES = ("in", "out", "inout", "grows")
HALVES = ("low", "high")
KINDS = ("serial", "parallel", "grid", "long")
IN_ORDER = ("serial", "long")
"""The kinds of loops whose iterations run one after the other."""


@dataclass(frozen=True, slots=True)
class Reg:
    """A register: a typed name, ``lanes`` elements wide."""

    name: str
    dtype: DType
    lanes: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A literal, in every lane. Compared by bits: 0.0 and -0.0 differ, NaN equals itself."""

    value: bool | int | float
    dtype: DType
    lanes: int = 1

    def _key(self) -> tuple[object, ...]:
        return (repr(self.value), self.dtype, self.lanes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


Operand: TypeAlias = Reg | Const


@dataclass(frozen=True, slots=True)
class Apply:
    """A primitive on operands of equal lanes."""

    op: str
    args: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Elements of a buffer. With ``bound``, only lanes below it are read, the others are zero."""

    buffer: str
    index: Size
    bound: Size | None = None


@dataclass(frozen=True, slots=True)
class Cast:
    """The value in the register's dtype: floats to integers truncate (out of range: unspecified),
    integers wrap, anything to bool is ``!= 0``."""

    arg: Operand


@dataclass(frozen=True, slots=True)
class Bitcast:
    """An operand's bits as another dtype of the same width."""

    arg: Operand


@dataclass(frozen=True, slots=True)
class Splat:
    """One scalar in every lane of the register."""

    arg: Operand


@dataclass(frozen=True, slots=True)
class Fold:
    """All lanes combined into one scalar, in an unspecified order. Of a scalar it is that; where
    iterations of a loop become lanes, the fold of any one is that of all."""

    op: str
    arg: Operand


@dataclass(frozen=True, slots=True)
class Zip:
    """The lanes of the low or the high half of two vectors in turns: ``a0 b0 a1 b1 ...``."""

    a: Operand
    b: Operand
    half: str


@dataclass(frozen=True, slots=True)
class Index:
    """An index expression as an int64 value; naming ``lane`` makes it a vector."""

    index: Size


@dataclass(frozen=True, slots=True)
class Active:
    """The bool vector ``lane < bound``."""

    bound: Size


@dataclass(frozen=True, slots=True)
class Worker:
    """The number of the thread that runs an iteration of the parallel loop around, an int64 below
    ``most``, for there are no more."""

    most: Size


@dataclass(frozen=True, slots=True)
class Workers:
    """How many threads may run the iterations of parallel loops, an int64: at least 1, and another
    number each time. It is there to cut work for threads; no result may depend on it."""


Expr: TypeAlias = (
    Apply | Load | Cast | Bitcast | Splat | Fold | Zip | Index | Active | Worker | Workers
)


@dataclass(frozen=True, slots=True)
class Let:
    """Bind a register, once."""

    reg: Reg
    expr: Expr


@dataclass(frozen=True, slots=True)
class Var:
    """Bind a register that `Set` and `Accumulate` may change."""

    reg: Reg
    init: Operand


@dataclass(frozen=True, slots=True)
class Set:
    """Give a `Var` another value."""

    reg: Reg
    value: Operand


@dataclass(frozen=True, slots=True)
class Accumulate:
    """``reg = op(reg, value)``, in whatever order suits; ``op`` is one of `COMBINES`."""

    reg: Reg
    op: str
    value: Operand


@dataclass(frozen=True, slots=True)
class Store:
    """Write lanes to a buffer; with ``bound``, only those below it."""

    buffer: str
    index: Size
    value: Operand
    bound: Size | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """``for var in lo..hi step step while going``."""

    var: Sym
    lo: Size
    hi: Size
    body: Block
    step: int = 1
    kind: str = "serial"
    going: Reg | None = None


@dataclass(frozen=True, slots=True)
class If:
    """Run ``then`` where a scalar bool is true, ``orelse`` where it is not."""

    cond: Operand
    then: Block
    orelse: Block = ()


@dataclass(frozen=True, slots=True)
class Bind:
    """Name the value of a scalar integer register so that indices can use it.

    If it is ``held`` it stays in a register: loops in which it is used do not compute it anew.
    """

    sym: Sym
    value: Operand
    held: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """Return ``code`` (positive) from the kernel unless a scalar bool is true."""

    cond: Operand
    code: int


@dataclass(frozen=True, slots=True)
class Reserve:
    """Give a buffer that grows room for ``count`` elements at least; return `NO_ROOM` if there is
    none."""

    buffer: str
    count: Size


Stmt: TypeAlias = Let | Var | Set | Accumulate | Store | Loop | If | Bind | Check | Reserve
Block: TypeAlias = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A flat array that the kernel is given; ``access`` is one of `ACCESSES`."""

    name: str
    dtype: DType
    access: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: buffers first, then sizes, in the order of its native parameters."""

    name: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[Sym, ...]
    body: Block

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name."""
        return next(b for b in self.buffers if b.name == name)

    def with_body(self, body: Block) -> Kernel:
        """The kernel with another body."""
        return replace(self, body=body)

    def with_name(self, name: str) -> Kernel:
        """The kernel under another name."""
        return replace(self, name=name)


def walk(block: Block) -> Iterator[Stmt]:
    """Every statement of a block and of the blocks nested in it, outer before inner."""
    stack = [*reversed(block)]
    while stack:
        stmt = stack.pop()
        yield stmt
        if isinstance(stmt, Loop):
            stack += reversed(stmt.body)
        elif isinstance(stmt, If):
            stack += reversed(stmt.orelse)
            stack += reversed(stmt.then)


def operands_of(part: Stmt | Expr) -> tuple[Operand, ...]:
    """The operands that a statement or expression names itself, nested blocks left out."""
    if isinstance(part, Let):
        part = part.expr
    if isinstance(part, Apply):
        return part.args
    values = [getattr(part, name) for name in _fields_of(type(part)).operands]
    return tuple([v for v in values if v is not None])


def sizes_of(part: Stmt | Expr) -> tuple[Size, ...]:
    """The index expressions that a statement or expression names itself."""
    values = [getattr(part, name) for name in _fields_of(type(part)).sizes]
    return tuple([v for v in values if v is not None])


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a kind of statements or expressions that are operands, but for the register
    that it sets, and those that are sizes."""

    operands: tuple[str, ...]
    sizes: tuple[str, ...]


_FIELDS: dict[type, _Fields] = {}


def _fields_of(kind: type) -> _Fields:
    found = _FIELDS.get(kind)
    if found is None:
        kinds = {name: text.split(" ")[0] for name, text in kind.__annotations__.items()}
        found = _FIELDS[kind] = _Fields(
            tuple([n for n, k in kinds.items() if n != "reg" and k in ("Operand", "Reg")]),
            tuple([n for n, k in kinds.items() if k == "Size"]),
        )
    return found
