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
             | "if" operand ["mostly"] "{" stmt* "}" ["else" "{" stmt* "}"]
             | "bind" NAME "=" operand ["below" index] ["held"]
                                                              an integer register as an index symbol
             | "check" operand CODE                          stop and return CODE unless true
             | "reserve" NAME index                          room for so many elements
             | "local" NAME ":" DTYPE INT ("shared" | "private" | "stack")
                                                              an array of a team, thread or block
             | "multiply" NAME NAME "into" NAME "pitch" INT "depth" INT
                                                              tiles by tensor cores
             | "call" NAME "(" place ("," place)* "," "sizes" [index ("," index)*] ")" "work" index
                                                              run a kernel that programs share
    place   := NAME "[" index "]"                            a buffer, from that element on
    expr    := OP "(" [operand ("," operand)*] ")"           one of `primitives.PRIMITIVES`
             | "load" NAME "[" index "]" ["at" operand] [bound]
             | "cast" operand | "bitcast" operand            to the dtype of the bound register
             | "splat" operand                               one scalar in every lane
             | "fold" OP operand                             all lanes combined into one scalar
             | "zip" operand operand ("low" | "high")        half the lanes of each, in turns
             | "index" index                                 an index expression as an int64 value
             | "active" index                                lane < index, a bool vector
             | "worker" index                                the thread of the iteration, an int64
             | "aligned" NAME*                               whether buffers begin at 16 bytes
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
with one lane (a load that does not name ``lane`` is scalar and is then splat). What a load is
``at``, an int64 vector, is added to the index, lane by lane. Lanes that are off
read as zero and are not written. A bool is one bit in a register and one byte, 0 or 1, in a buffer.

A register or bound symbol is visible in its block after its statement, and in nested blocks. No two
registers of a kernel have the same name, and no two symbols are equal, but that blocks beside each
other may bind one again. Only a `var` is ever set or accumulated into. A loop runs while
``variable < hi``; ``kind`` says how its iterations may be spread: ``serial`` (in order),
``parallel`` (in any order, on any thread), ``long`` (in order, and between any two it looks whether
the user wants to stop), or in one of the ways of a GPU. At the top level, and one after the other:
``grid`` (in any order, one GPU thread each), ``warps`` and ``blocks`` (in any order, each by a
*team* of `TEAMS` GPU threads). In the body of the last two, ``threads``: the threads of the team
take the iterations in turn, thread t the iterations number t, t + team, t + 2 team and so on.
A ``scan`` is a ``threads`` loop with a step of 1 that in the end of its body reads what it
accumulates: iteration i finds in the register what it was before the loop and all iterations up to
i have given it, in the order of `scan_threads` (of `team_order`), one round of a team's threads
after the other.
Before the last `accumulate` of its body there is nothing but `let`, `bind` and others, and it has
no `check`.
A serial or long loop with ``while`` also ends before an iteration that finds that `var`, a
bool, false; it may be the only end (`ENDLESS`). Iterations of a loop that is not in order change no
register bound outside it, but that those of a ``threads`` loop may `accumulate` into one, always
with the same OP, and do not read it: each thread combines what its iterations give, in order, from
the identity of OP on; then `combine_threads` combines what the threads have; and the register
becomes ``OP(register, that)``. In the body of a parallel loop or one of the top level,
and not in a block nested there, `worker` is less
than its index, which is what it was before the loop, and no two of them that run at the same time
find the same number: no more threads, or teams, than that run the loop.
Distinct buffers of a kernel do not overlap. A kernel returns 0, the code of the first `Check` that
failed, `INTERRUPTED` or `NO_ROOM`; what it stored until then is unspecified.

A local array is unset at first. A *shared* or *private* one stands in the body of a loop over warps
or blocks. There is one of a shared array in a team; a private one is there once for each of its
threads, which touch their own in ``threads`` loops alone. One on the *stack* stands in any other
block, is there once for each time that this runs, and no parallel loop in it touches it.

In the body of a loop over blocks, and not in a ``threads`` loop, the threads of the block
*multiply* two tiles in shared arrays of `CORE_TILE` places each: rows of one matrix, columns of
another, both of 16-bit floats; what a place has at a position k of the inner dimension is element
``place * pitch + k``. To the private `CORE_SUMS` sums of each thread, float32, they add the
products for those elements of the result that are the thread's (`core_place` of `team_order`), of
the positions below ``depth``, one after the other. (On a GPU tensor cores do that; the order in
which they add up 16 products is their own.)

Of a buffer that *grows* nothing can be touched but what was reserved, in the block of a `Reserve`
or one nested there, after it; the nested ones reserve no more of it. What the buffer holds stays,
also from one call of the kernel to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import TypeAlias

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DType

__all__ = [
    "ACCESSES",
    "CORE_DEPTH",
    "CORE_SUMS",
    "CORE_TILE",
    "ENDLESS",
    "HALVES",
    "IN_ORDER",
    "KINDS",
    "LANE",
    "LAUNCHED",
    "LINE_BYTES",
    "PLACES",
    "SHARED",
    "TEAMS",
    "VECTOR_BYTES",
    "WARP",
    "Accumulate",
    "Active",
    "Aligned",
    "Apply",
    "Bind",
    "Bitcast",
    "Block",
    "Buffer",
    "Call",
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
    "Local",
    "Loop",
    "MultiplyTiles",
    "Operand",
    "Reg",
    "Reserve",
    "Set",
    "Shared",
    "Splat",
    "Stmt",
    "Store",
    "Streams",
    "Var",
    "Worker",
    "Workers",
    "Zip",
]

LANE_SYM = Sym("lane")
LANE: Dim = Dim.of(LANE_SYM)
"""The number of the lane, inside the index of a vector load, store or `Index`."""

ENDLESS = 1 << 62
"""The ``hi`` of a loop that counts to no end."""

VECTOR_BYTES = 16
"""What a thread of a GPU loads or stores at once, at most."""

LINE_BYTES = 64
"""A line of the caches of a CPU: what memory is read and written by."""

PLACES = ("shared", "private", "stack")
ACCESSES = ("in", "out", "inout", "grows")
HALVES = ("low", "high")
KINDS = ("serial", "parallel", "grid", "warps", "blocks", "threads", "scan", "long")
SHARED = ("threads", "scan")
"""The kinds of loops whose iterations the threads of a team take in turn."""

IN_ORDER = ("serial", "long")
"""The kinds of loops whose iterations run one after the other."""

WARP = 32
"""Threads of a GPU that run in step."""

TEAMS = {"warps": WARP, "blocks": 256}
"""How many GPU threads run an iteration of a loop of a kind together."""

CORE_TILE = 64
"""Places of a tile that a block multiplies by tensor cores."""

CORE_SUMS = CORE_TILE * CORE_TILE // TEAMS["blocks"]
"""Elements of a product of such tiles that are a thread's."""

CORE_DEPTH = 16
"""Positions of the inner dimension that tensor cores take at once."""

LAUNCHED = ("grid", *TEAMS)
"""The kinds of loops whose iterations are spread over a GPU; each such loop is a launch."""


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
    """Elements of a buffer. With ``bound``, only lanes below it are read, the others are zero.
    What a vector ``at`` has in a lane, int64, is added to the index of that lane."""

    buffer: str
    index: Size
    bound: Size | None = None
    at: Operand | None = None


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
class Aligned:
    """Whether the first elements of some buffers lie at multiples of `VECTOR_BYTES`, a bool. In a
    block that is run if it is true neighbours are loaded and stored together. No result may depend
    on it."""

    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Workers:
    """How many threads may run the iterations of parallel loops, an int64: at least 1, and another
    number each time. It is there to cut work for threads; no result may depend on it."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Whether what is stored to a buffer is to go past the caches, a bool: a run of the kernel
    moves so many ``bytes`` that they would hold none of it, the buffer begins at a line of theirs
    (`LINE_BYTES`), and does not lie over one that is read. No result may depend on it."""

    buffer: str
    bytes: Size


Expr: TypeAlias = (
    Apply
    | Load
    | Cast
    | Bitcast
    | Splat
    | Fold
    | Zip
    | Index
    | Active
    | Worker
    | Workers
    | Aligned
    | Streams
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
    """Write lanes to a buffer; with ``bound``, only those below it. They are whole lines of the
    caches if there is a register ``past``, of `Streams`, and go past these where it is true."""

    buffer: str
    index: Size
    value: Operand
    bound: Size | None = None
    past: Reg | None = None


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
    """Run ``then`` where a scalar bool is true, ``orelse`` where it is not, which is rare if the
    bool is ``mostly`` true."""

    cond: Operand
    then: Block
    orelse: Block = ()
    mostly: bool = False


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


@dataclass(frozen=True, slots=True)
class Local:
    """An array of a team, of each of its threads, or of a block: ``place`` is one of `PLACES`."""

    name: str
    dtype: DType
    count: int
    place: str


@dataclass(frozen=True, slots=True)
class MultiplyTiles:
    """Add the products of tiles of two shared arrays to the ``sums`` of the threads of a block."""

    left: str
    right: str
    sums: str
    pitch: int
    depth: int


@dataclass(frozen=True, slots=True)
class Shared:
    """A kernel that programs share, as those know it that call it. It is made by ``make``, which
    hardly anybody asks for: its machine code is on disk."""

    name: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[Sym, ...]
    make: Callable[[], Kernel] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """Run a ``kernel`` that programs share: its ``buffers`` are such of this kernel, each from the
    element on at which it ``starts``, and what it writes to lies apart from what it reads. It is
    about as much ``work`` as `staticflow.codegen.work` says of other statements."""

    kernel: Shared
    buffers: tuple[str, ...]
    starts: tuple[Size, ...]
    sizes: tuple[Size, ...]
    work: Size


Stmt: TypeAlias = (
    Let
    | Var
    | Set
    | Accumulate
    | Store
    | Loop
    | If
    | Bind
    | Check
    | Reserve
    | Local
    | MultiplyTiles
    | Call
)
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

    def __hash__(self) -> int:
        """The hash of the parameters, of the ends of loops and of where elements are read and
        written: enough to tell most kernels apart, also thousands that differ in the row they
        read. That of all statements took 3 % of compiling a transformer block."""
        found: list[Size] = []
        _note_sizes(self.body, found)
        return hash((self.name, self.buffers, self.sizes, *found))

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name."""
        return next(b for b in self.buffers if b.name == name)

    def with_body(self, body: Block) -> Kernel:
        """The kernel with another body."""
        return replace(self, body=body)

    def with_name(self, name: str) -> Kernel:
        """The kernel under another name."""
        return replace(self, name=name)


def _note_sizes(block: Block, found: list[Size]) -> None:
    """Add the ends of the loops of a block, and the indices of what it loads and stores."""
    for stmt in block:
        if isinstance(stmt, Loop):
            found += (stmt.lo, stmt.hi)
            _note_sizes(stmt.body, found)
        elif isinstance(stmt, Store):
            found.append(stmt.index)
        elif isinstance(stmt, Let) and isinstance(stmt.expr, Load):
            found.append(stmt.expr.index)
