"""Index arithmetic in LLVM text, computed where it is loop-invariant.

A *scope* is the function, or the body of a loop or of a branch; it defines symbols: sizes, a loop
variable, bound registers. Each part of an index is computed once, in front of the outermost loop
that it does not depend on, so that ``i*N*K + j*K + k`` in three loops leaves one addition to the
innermost. What depends on all the loops around a branch stays in the branch.

Code that is moved out this way may run where its place of use would not, hence nothing here may
trap: a divisor that could be zero is replaced by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

from staticflow.codegen.kernel import LANE, LANE_SYM
from staticflow.codegen.llvm.text import (
    I32,
    I64,
    BasicBlock,
    FunctionText,
    Type,
    lane_numbers,
    local,
    mask_literal,
)
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import as_symbol, coefficient, substitute_dim, symbols_of
from staticflow.graph.dims import (
    Call,
    Dim,
    Size,
    Sym,
    is_provably_ge,
    size_from,
    terms_of,
)

__all__ = ["IndexWriter", "Induction", "at_lane"]

Atom = Sym | Call
Monomial = tuple[Atom, ...]


def at_lane(index: Size, lane: int) -> Size:
    """The index that one lane has."""
    stride = coefficient(index, LANE_SYM)
    if stride is None:
        return substitute_dim(index, {LANE_SYM: lane})
    if isinstance(stride, int) and isinstance(index, Dim):  # a term that is left out
        rest = size_from(tuple([term for term in index.terms if term[0] != _LANE_ALONE]))
        return rest + stride * lane
    return index + stride * (lane - LANE)


_LANE_ALONE = (LANE_SYM,)


@dataclass(slots=True)
class Induction:
    """The variable of an innermost loop, ``lo, lo + step, ...``, and its multiples by sizes, each
    of which is added to and not multiplied: its name, its first value, and what is added."""

    var: Sym
    lo: Size
    step: int
    multiples: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Scope:
    """``block`` is where its code goes; set when a scope is opened inside of it."""

    is_loop: bool
    induction: Induction | None = None
    known: dict[Hashable, str] = field(default_factory=dict)
    block: BasicBlock | None = None


class IndexWriter:
    """Writes the values of indices, masks and addresses into a `FunctionText`."""

    def __init__(self, text: FunctionText, symbols: Mapping[Sym, str]) -> None:
        self.text = text
        self._scopes = [_Scope(is_loop=False)]
        self._values = dict(symbols)
        self._depths = dict.fromkeys([*symbols, LANE_SYM], 0)
        self._bases: dict[str, str] = {}  # of buffers that are not at their parameter
        self._base_depths: dict[str, int] = {}
        self._serials = itertools.count(1)

    # -- scopes ------------------------------------------------------------------------------

    @contextmanager
    def scope(
        self, before: BasicBlock, is_loop: bool = True, induction: Induction | None = None
    ) -> Iterator[None]:
        """A scope inside of the current one, whose code goes to the end of ``before`` meanwhile."""
        self._scopes[-1].block = before
        self._scopes.append(_Scope(is_loop, induction))
        yield
        self._scopes.pop()
        self._scopes[-1].block = None

    def define(self, sym: Sym, value: str) -> None:
        """Give a symbol its value, in the current scope."""
        self._values[sym] = value
        self._depths[sym] = len(self._scopes) - 1

    def define_base(self, buffer: str, base: str) -> None:
        """Say where a buffer lies from here on, in the current scope."""
        self._bases[buffer] = base
        self._base_depths[base] = len(self._scopes) - 1

    def base(self, buffer: str) -> str:
        """Where a buffer lies."""
        return self._bases.get(buffer) or local(f"b.{buffer}")

    def _depth(self, size: Size) -> int:
        """The outermost scope that knows all symbols of ``size``."""
        return max((self._depths[s] for s in symbols_of(size)), default=0)

    def _atom_depth(self, atom: Atom) -> int:
        if isinstance(atom, Sym):
            return self._depths[atom]
        return max((self._depths[s] for s in atom.symbols), default=0)

    def _once(self, depth: int, key: Hashable, write: Callable[[], str]) -> str:
        """What ``write`` computes of symbols that are known at ``depth``, computed once before the
        loops inside of that. What scopes further inside know may be of blocks that do not run.
        """
        home = depth
        while home + 1 < len(self._scopes) and not self._scopes[home + 1].is_loop:
            home += 1
        for scope in self._scopes[depth : home + 1]:
            if key in scope.known:
                return scope.known[key]
        scope = self._scopes[home]
        with self.text.at(scope.block or self.text.block):
            scope.known[key] = write()
        return scope.known[key]

    # -- scalars -----------------------------------------------------------------------------

    def value(self, size: Size) -> str:
        """An index as an i64 register or literal."""
        if isinstance(size, int):
            return str(size)
        alone = as_symbol(size)
        if alone is not None:
            return self._values[alone]
        depth = self._depth(size)
        return self._once(depth, size, lambda: self._sum(size, depth))

    def name(self, size: Size) -> Size:
        """A symbol that has the value of ``size``, known where that is."""
        symbol = Sym("%value", next(self._serials))
        self._values[symbol] = self.value(size)
        self._depths[symbol] = self._depth(size)
        return Dim.of(symbol)

    def real(self, size: Size) -> str:
        """A number, as a double register or literal, that is no smaller than the magnitude of
        ``size``, also where that is too large for an integer."""
        total = "0.0"
        for monomial, c in terms_of(size):
            part = f"{float(abs(c)):.1f}"
            for atom in monomial:
                part = self.text.op(f"fmul double {part}, {self._real_atom(atom)}")
            total = self.text.op(f"fadd double {total}, {part}")
        return total

    def _real_atom(self, atom: Atom) -> str:
        if isinstance(atom, Sym):
            return self.text.op(f"sitofp i64 {self._atom(atom)} to double")
        a, b = self.real(atom.a), self.real(atom.b)
        if atom.fn == "min" and all(is_provably_ge(size, 0) for size in (atom.a, atom.b)):
            return self.text.op(f"call double @llvm.minnum.f64(double {a}, double {b})")
        return self.text.op(f"fadd double {a}, {b}")

    def _sum(self, size: Dim, depth: int) -> str:
        """The terms grouped by what varies at ``depth``: ``rest + factor * group + ...``."""
        factors: dict[Monomial, Size] = {}
        for monomial, c in size.terms:
            varying = tuple(a for a in monomial if self._atom_depth(a) == depth)
            fixed = tuple(a for a in monomial if a not in varying)
            factors[varying] = factors.get(varying, 0) + (Dim(((fixed, c),)) if fixed else c)
        rest = factors.pop((), 0)
        total = None if rest == 0 else self.value(rest)
        for varying, factor in factors.items():
            part = self._multiple(varying, factor)
            if part is not None:
                total = part if total is None else self.text.op(f"add i64 {total}, {part}")
                continue
            group = self._product(varying)
            if total is not None and factor == -1:
                total = self.text.op(f"sub i64 {total}, {group}")
                continue
            part = group if factor == 1 else self._times(depth, group, self.value(factor))
            total = part if total is None else self.text.op(f"add i64 {total}, {part}")
        assert total is not None, "a Dim has terms"
        return total

    def _multiple(self, varying: Monomial, factor: Size) -> str | None:
        """The product of the variable of an innermost loop and a size, as what is added to in each
        iteration; None of anything else."""
        var = varying[0]
        if isinstance(factor, int) or len(varying) != 1 or not isinstance(var, Sym):
            return None
        depth = self._depths[var]
        induction = self._scopes[depth].induction
        if induction is None or induction.var is not var:
            return None
        known, key = self._scopes[depth].known, ("multiple", factor)
        if key not in known:
            known[key] = self.text.fresh("at")
            first, more = self.value(induction.lo * factor), self.value(induction.step * factor)
            induction.multiples.append((known[key], first, more))
        return known[key]

    def _product(self, atoms: Monomial) -> str:
        result, *rest = map(self._atom, atoms)
        depth = max(map(self._atom_depth, atoms))
        for value in rest:
            result = self._times(depth, result, value)
        return result

    def _times(self, depth: int, a: str, b: str) -> str:
        """The product of two values that are known at ``depth``."""
        return self._once(depth, ("mul", a, b), lambda: self.text.op(f"mul i64 {a}, {b}"))

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Sym):
            return self._values[atom]
        depth = self._atom_depth(atom)
        return self._once(depth, atom, lambda: _CALLS[atom.fn](self, atom.a, atom.b))

    def _floordiv(self, a: Size, b: Size) -> str:
        x, y = self.value(a), self._divisor(b)
        if is_provably_ge(a, 0):
            return self.text.op(f"udiv i64 {x}, {y}")
        quotient = self.text.op(f"sdiv i64 {x}, {y}")
        remainder = self.text.op(f"srem i64 {x}, {y}")
        borrow = self.text.op(f"ashr i64 {remainder}, 63")  # -1 where sdiv rounded up
        return self.text.op(f"add i64 {quotient}, {borrow}")

    def _divisor(self, b: Size) -> str:
        if is_provably_ge(b, 1):
            return self.value(b)
        return self.text.call("smax.i64", I64, (I64, self.value(b)), (I64, "1"))

    def _max(self, a: Size, b: Size) -> str:
        return self.text.call("smax.i64", I64, (I64, self.value(a)), (I64, self.value(b)))

    def _min(self, a: Size, b: Size) -> str:
        return self.text.call("smin.i64", I64, (I64, self.value(a)), (I64, self.value(b)))

    def _root(self, a: Size, b: Size) -> str:
        product = self.text.op(f"mul i64 {self.value(a)}, {self.value(b)}")
        real = self.text.op(f"sitofp i64 {product} to double")
        exact = self.text.op(f"call double @llvm.sqrt.f64(double {real})")
        return self.text.op(f"fptosi double {exact} to i64")

    # -- vectors -----------------------------------------------------------------------------

    def vector(self, size: Size, lanes: int) -> str:
        """An index that may name ``lane``, as ``lanes`` i64."""
        if lanes == 1:
            return self.value(size)
        return self._once(
            self._depth(size), ("vector", size, lanes), lambda: self._vector(size, lanes)
        )

    def _vector(self, size: Size, lanes: int) -> str:
        type = I64.wide(lanes)
        stride = coefficient(size, LANE_SYM)
        if stride is None:
            result = "poison"
            for lane in range(lanes):
                one = self.value(at_lane(size, lane))
                result = self.text.op(f"insertelement {type} {result}, i64 {one}, i64 {lane}")
            return result
        base = self.text.splat(type, self.value(at_lane(size, 0)))
        if isinstance(stride, int):
            return self.text.op(f"add {type} {base}, {lane_numbers('i64', lanes, stride)}")
        steps = self.text.splat(type, self.value(stride))
        offsets = self.text.op(f"mul {type} {steps}, {lane_numbers('i64', lanes)}")
        return self.text.op(f"add {type} {base}, {offsets}")

    def mask(self, bound: Size, lanes: int) -> str:
        """``lane < bound`` for each lane, as ``<lanes x i1>`` even where ``lanes`` is 1."""
        if isinstance(bound, int):
            return mask_literal(bound, lanes)
        return self._once(
            self._depth(bound), ("mask", bound, lanes), lambda: self._mask(bound, lanes)
        )

    def _mask(self, bound: Size, lanes: int) -> str:
        # Compared as i32, half the width of the bound, which is first brought into 0..lanes.
        n = self.value(bound)
        if not is_provably_ge(lanes, bound):
            n = self.text.call("smin.i64", I64, (I64, n), (I64, str(lanes)))
        if not is_provably_ge(bound, 0):
            n = self.text.call("smax.i64", I64, (I64, n), (I64, "0"))
        narrow = self.text.convert("trunc", n, I64, "i32")
        vector = Type("i32", lanes).vector
        one = self.text.op(f"insertelement {vector} poison, i32 {narrow}, i64 0")
        every = one
        if lanes > 1:
            every = self.text.shuffle(I32.wide(lanes), one, "poison", [0] * lanes)
        return self.text.op(f"icmp sgt {vector} {every}, {lane_numbers('i32', lanes)}")

    # -- addresses ---------------------------------------------------------------------------

    def address(self, base: str, element: Type, index: Size) -> str:
        """The address of an element of the buffer at ``base``.

        One offset for each scope, outermost first, and the constant last: what varies least is
        added once outside, and what varies most is left to the addressing modes of the machine.
        """
        here = len(self._scopes) - 1
        return self._once(here, (base, index), lambda: self._address(base, element, index))

    def _address(self, base: str, element: Type, index: Size) -> str:
        parts: dict[int, list[tuple[Monomial, int]]] = {}
        constant = 0
        first = self._base_depths.get(base, 0)
        for monomial, c in terms_of(index):
            if monomial:
                depth = max(first, *map(self._atom_depth, monomial))
                parts.setdefault(depth, []).append((monomial, c))
            else:
                constant = c
        for depth in sorted(parts):
            base = self._advance(depth, base, element, Dim(tuple(parts[depth])))
        here = len(self._scopes) - 1
        return self._advance(here, base, element, constant) if constant else base

    def _advance(self, depth: int, base: str, element: Type, count: Size) -> str:
        def write() -> str:
            offset = self.value(count)
            return self.text.op(f"getelementptr {element}, ptr {base}, i64 {offset}", "p")

        return self._once(depth, (base, count), write)


_CALLS: dict[str, Callable[[IndexWriter, Size, Size], str]] = {
    "floordiv": IndexWriter._floordiv,
    "max": IndexWriter._max,
    "min": IndexWriter._min,
    "root": IndexWriter._root,
}
