"""The text of Kernel IR; its grammar is in `staticflow.codegen.kernel`.

`parse_kernel` gives back exactly what `print_kernel` was given, as long as symbols of one kernel
have different names; others are renamed apart before they are printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from staticflow.codegen.kernel import (
    ACCESSES,
    HALVES,
    KINDS,
    LANE_SYM,
    PLACES,
    Accumulate,
    Active,
    Aligned,
    Apply,
    Bind,
    Bitcast,
    Block,
    Buffer,
    Call,
    Cast,
    Check,
    Const,
    Expr,
    Fold,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    MultiplyTiles,
    Operand,
    Reg,
    Reserve,
    Set,
    Shared,
    Splat,
    Stmt,
    Store,
    Streams,
    Var,
    Worker,
    Workers,
    Zip,
)
from staticflow.codegen.parts import walk
from staticflow.codegen.primitives import COMBINES, PRIMITIVES
from staticflow.codegen.rewrite import rewrite, symbol_of
from staticflow.graph.dim_queries import substitute_dim
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DTYPES, DType
from staticflow.graph.size_text import read_size
from staticflow.graph.tokens import Tokens

__all__ = ["format_statement", "parse_kernel", "print_kernel"]

# -- printing --------------------------------------------------------------------------------------


def print_kernel(kernel: Kernel) -> str:
    """The kernel as text, one statement a line, ending in a line end."""
    kernel = _with_names_apart(kernel)
    sizes = ", ".join(s.name for s in kernel.sizes)
    lines = [f"kernel {kernel.name}({sizes}) {{"]
    lines += [f"  buffer {b.name}: {b.dtype} {b.access}" for b in kernel.buffers]
    _print_block(kernel.body, "  ", lines)
    return "\n".join([*lines, "}", ""])


def _with_names_apart(kernel: Kernel) -> Kernel:
    """The kernel with symbols that are told apart by their names alone."""
    bound = (symbol_of(stmt) for stmt in walk(kernel.body))
    symbols = dict.fromkeys([*kernel.sizes, *(s for s in bound if s is not None)])
    if len({s.name for s in symbols}) == len(symbols) and not any(s.serial for s in symbols):
        return kernel
    taken: set[str] = set()
    syms: dict[Sym, Sym] = {}
    values: dict[Sym, Size] = {}
    for symbol in symbols:
        name, copy = symbol.name, 1
        while name in taken:
            copy += 1
            name = f"{symbol.name}_{copy}"
        taken.add(name)
        upper = None if symbol.upper is None else substitute_dim(symbol.upper, values)
        syms[symbol] = Sym(name, 0, upper)
        values[symbol] = Dim.of(syms[symbol])
    sizes = tuple(syms[s] for s in kernel.sizes)
    return Kernel(kernel.name, kernel.buffers, sizes, rewrite(kernel.body, values, syms))


def _print_block(block: Block, indent: str, lines: list[str]) -> None:
    for stmt in block:
        opens = " {" if isinstance(stmt, (Loop, If)) else ""
        lines.append(indent + format_statement(stmt) + opens)
        if isinstance(stmt, Loop):
            _print_block(stmt.body, indent + "  ", lines)
            lines.append(indent + "}")
        elif isinstance(stmt, If):
            _print_block(stmt.then, indent + "  ", lines)
            if stmt.orelse:
                lines.append(indent + "} else {")
                _print_block(stmt.orelse, indent + "  ", lines)
            lines.append(indent + "}")


def format_statement(stmt: Stmt) -> str:
    """One statement as text; of a loop or branch what precedes its blocks."""
    return _FORMAT[type(stmt)](stmt)


def _type(value: Operand) -> str:
    return str(value.dtype) if value.lanes == 1 else f"{value.dtype}x{value.lanes}"


def _operand(arg: Operand) -> str:
    if isinstance(arg, Reg):
        return f"%{arg.name}"
    text = str(arg.value).lower() if isinstance(arg.value, bool) else repr(arg.value)
    return f"{text}:{_type(arg)}"


def _binding(reg: Reg) -> str:
    return f"%{reg.name}: {_type(reg)}"


def _bound_text(bound: Size | None) -> str:
    return "" if bound is None else f" if lane < {bound}"


def _at_text(at: Operand | None) -> str:
    return "" if at is None else f" at {_operand(at)}"


def _format_store(stmt: Store) -> str:
    past = "" if stmt.past is None else f" past {_operand(stmt.past)}"
    value = f"{_operand(stmt.value)}{_bound_text(stmt.bound)}{past}"
    return f"store {stmt.buffer}[{stmt.index}] = {value}"


def _format_loop(stmt: Loop) -> str:
    step = "" if stmt.step == 1 else f" step {stmt.step}"
    kind = "" if stmt.kind == "serial" else f" {stmt.kind}"
    going = "" if stmt.going is None else f" while {_operand(stmt.going)}"
    return f"for {stmt.var} in {stmt.lo}..{stmt.hi}{step}{going}{kind}"


def _format_bind(stmt: Bind) -> str:
    below = "" if stmt.sym.upper is None else f" below {stmt.sym.upper}"
    held = " held" if stmt.held else ""
    return f"bind {stmt.sym} = {_operand(stmt.value)}{below}{held}"


def _format_call(stmt: Call) -> str:
    places = ", ".join(f"{b}[{at}]" for b, at in zip(stmt.buffers, stmt.starts, strict=True))
    sizes = ", ".join(map(str, stmt.sizes))
    return f"call {stmt.kernel.name}({places}, sizes {sizes}) work {stmt.work}"


_FORMAT: dict[type, Callable[[Any], str]] = {
    Let: lambda s: f"let {_binding(s.reg)} = {_FORMAT[type(s.expr)](s.expr)}",
    Var: lambda s: f"var {_binding(s.reg)} = {_operand(s.init)}",
    Set: lambda s: f"set %{s.reg.name} = {_operand(s.value)}",
    Accumulate: lambda s: f"accumulate %{s.reg.name} {s.op} {_operand(s.value)}",
    Store: _format_store,
    Loop: _format_loop,
    If: lambda s: f"if {_operand(s.cond)}{' mostly' if s.mostly else ''}",
    Bind: _format_bind,
    Check: lambda s: f"check {_operand(s.cond)} {s.code}",
    Reserve: lambda s: f"reserve {s.buffer} {s.count}",
    Local: lambda s: f"local {s.name}: {s.dtype} {s.count} {s.place}",
    MultiplyTiles: lambda s: (
        f"multiply {s.left} {s.right} into {s.sums} pitch {s.pitch} depth {s.depth}"
    ),
    Call: _format_call,
    Apply: lambda e: f"{e.op}({', '.join(map(_operand, e.args))})",
    Load: lambda e: f"load {e.buffer}[{e.index}]{_at_text(e.at)}{_bound_text(e.bound)}",
    Cast: lambda e: f"cast {_operand(e.arg)}",
    Bitcast: lambda e: f"bitcast {_operand(e.arg)}",
    Splat: lambda e: f"splat {_operand(e.arg)}",
    Fold: lambda e: f"fold {e.op} {_operand(e.arg)}",
    Zip: lambda e: f"zip {_operand(e.a)} {_operand(e.b)} {e.half}",
    Index: lambda e: f"index {e.index}",
    Active: lambda e: f"active {e.bound}",
    Worker: lambda e: f"worker {e.most}",
    Workers: lambda e: "workers",
    Aligned: lambda e: " ".join(["aligned", *e.buffers]),
    Streams: lambda e: f"streams {e.buffer} of {e.bytes}",
}

# -- parsing ---------------------------------------------------------------------------------------

_TYPE = re.compile(f"({'|'.join(d.short for d in DTYPES)})(?:x([1-9][0-9]*))?")
_DTYPE = {d.short: d for d in DTYPES}
_WORDS = {"true": True, "false": False, "inf": float("inf"), "nan": float("nan")}


def parse_kernel(text: str, callees: Iterable[Shared] = ()) -> Kernel:
    """The kernel that ``text`` describes, which may call the ``callees``. It is not verified, so
    that a wrong one can be read.

    Raises `ParseError`, with the line and what was expected, for text outside the grammar, and
    for a register, symbol or buffer that no line before has introduced.
    """
    return _Parser(Tokens(text), {kernel.name: kernel for kernel in callees}).kernel()


class _Parser:
    """Reads one kernel. Whether a name is still in scope where it is used is the verifier's."""

    def __init__(self, tokens: Tokens, callees: Mapping[str, Shared]) -> None:
        self.tokens, self.callees = tokens, callees
        self.buffers: dict[str, Buffer] = {}
        self.regs: dict[str, Reg] = {}
        self.symbols: dict[str, Sym] = {"lane": LANE_SYM}

    def kernel(self) -> Kernel:
        tokens = self.tokens
        tokens.expect("kernel")
        name = tokens.name("the kernel's name")
        tokens.expect("(")
        sizes: list[Sym] = []
        while not tokens.sees(")"):
            if sizes:
                tokens.expect(",")
            sizes.append(Sym(tokens.name("the name of a size")))
        tokens.expect(")")
        self.symbols |= {s.name: s for s in sizes}
        tokens.expect("{")
        buffers: list[Buffer] = []
        while tokens.accept("buffer"):
            buffers.append(self.buffer())
        body = self.rest_of_block()
        tokens.expect_end()
        return Kernel(name, tuple(buffers), tuple(sizes), body)

    def buffer(self) -> Buffer:
        name = self.tokens.name("the name of a buffer")
        self.tokens.expect(":")
        dtype = _DTYPE[self.one_of(_DTYPE)]
        buffer = self.buffers[name] = Buffer(name, dtype, self.one_of(ACCESSES))
        return buffer

    def rest_of_block(self) -> Block:
        stmts: list[Stmt] = []
        while not self.tokens.accept("}"):
            stmts.append(_STATEMENTS[self.one_of(_STATEMENTS)](self))
        return tuple(stmts)

    def block(self) -> Block:
        self.tokens.expect("{")
        return self.rest_of_block()

    # -- statements ------------------------------------------------------------------------------

    def let(self) -> Let:
        name, dtype, lanes = self.binding()
        expr = self.expr()
        return Let(self.bind_reg(name, dtype, lanes), expr)

    def var(self) -> Var:
        name, dtype, lanes = self.binding()
        init = self.operand()
        return Var(self.bind_reg(name, dtype, lanes), init)

    def set(self) -> Set:
        reg = self.reg()
        self.tokens.expect("=")
        return Set(reg, self.operand())

    def accumulate(self) -> Accumulate:
        reg = self.reg()
        return Accumulate(reg, self.one_of(COMBINES), self.operand())

    def store(self) -> Store:
        buffer, index = self.element()
        self.tokens.expect("=")
        value, bound = self.operand(), self.read_bound()
        past = self.reg() if self.tokens.accept("past") else None
        return Store(buffer, index, value, bound, past)

    def loop(self) -> Loop:
        name = self.tokens.name("the loop's variable")
        self.tokens.expect("in")
        lo = self.size()
        self.tokens.expect("..")
        hi = self.size()
        step = self.tokens.integer() if self.tokens.accept("step") else 1
        going = self.reg() if self.tokens.accept("while") else None
        kind = "serial" if self.tokens.sees("{") else self.one_of(KINDS)
        var = self.symbols[name] = Sym(name, 0, hi)
        return Loop(var, lo, hi, self.block(), step, kind, going)

    def branch(self) -> If:
        cond = self.operand()
        mostly = self.tokens.accept("mostly")
        then = self.block()
        return If(cond, then, self.block() if self.tokens.accept("else") else (), mostly)

    def bind(self) -> Bind:
        name = self.tokens.name("the name of a symbol")
        self.tokens.expect("=")
        value = self.operand()
        upper = self.size() if self.tokens.accept("below") else None
        sym = self.symbols[name] = Sym(name, 0, upper)
        return Bind(sym, value, self.tokens.accept("held"))

    def check(self) -> Check:
        cond = self.operand()
        return Check(cond, self.tokens.integer())

    def reserve(self) -> Reserve:
        return Reserve(self.buffer_name(), self.size())

    def local(self) -> Local:
        name = self.tokens.name("the name of an array")
        self.tokens.expect(":")
        dtype = _DTYPE[self.one_of(_DTYPE)]
        count, place = self.tokens.integer(), self.one_of(PLACES)
        self.buffers[name] = Buffer(name, dtype, place)
        return Local(name, dtype, count, place)

    def multiply_tiles(self) -> MultiplyTiles:
        left, right = self.buffer_name(), self.buffer_name()
        self.tokens.expect("into")
        sums = self.buffer_name()
        self.tokens.expect("pitch")
        pitch = self.tokens.integer()
        self.tokens.expect("depth")
        return MultiplyTiles(left, right, sums, pitch, self.tokens.integer())

    def call(self) -> Call:
        kernel = self.callees[self.one_of(self.callees)]
        self.tokens.expect("(")
        places = []
        while not self.tokens.accept("sizes"):
            places.append(self.element())
            self.tokens.expect(",")
        sizes: list[Size] = []
        while not self.tokens.accept(")"):
            if sizes:
                self.tokens.expect(",")
            sizes.append(self.size())
        self.tokens.expect("work")
        buffers, starts = zip(*places, strict=True)
        return Call(kernel, buffers, starts, tuple(sizes), self.size())

    # -- expressions -----------------------------------------------------------------------------

    def expr(self) -> Expr:
        word = self.one_of((*_EXPRESSIONS, *PRIMITIVES))
        if word in _EXPRESSIONS:
            return _EXPRESSIONS[word](self)
        self.tokens.expect("(")
        args: list[Operand] = []
        while not self.tokens.accept(")"):
            if args:
                self.tokens.expect(",")
            args.append(self.operand())
        return Apply(word, tuple(args))

    def load(self) -> Load:
        buffer, index = self.element()
        at = self.operand() if self.tokens.accept("at") else None
        return Load(buffer, index, self.read_bound(), at)

    def read_aligned(self) -> Aligned:
        names = [self.buffer_name()]
        while self.tokens.next in self.buffers:
            names.append(self.tokens.take())
        return Aligned(tuple(names))

    def streams(self) -> Streams:
        name = self.buffer_name()
        self.tokens.expect("of")
        return Streams(name, self.size())

    def fold(self) -> Fold:
        return Fold(self.one_of(COMBINES), self.operand())

    # -- parts -----------------------------------------------------------------------------------

    def one_of(self, words: Mapping[str, object] | tuple[str, ...]) -> str:
        if self.tokens.next not in words:
            raise self.tokens.error("one of " + ", ".join(words))
        return self.tokens.take()

    def size(self) -> Size:
        return read_size(self.tokens, self.symbols)

    def buffer_name(self) -> str:
        if self.tokens.next not in self.buffers:
            raise self.tokens.error(f"a buffer of this kernel ({', '.join(self.buffers)})")
        return self.tokens.take()

    def element(self) -> tuple[str, Size]:
        buffer = self.buffer_name()
        self.tokens.expect("[")
        index = self.size()
        self.tokens.expect("]")
        return buffer, index

    def read_bound(self) -> Size | None:
        if not self.tokens.sees("if", "lane"):
            return None
        self.tokens.take()
        self.tokens.take()
        self.tokens.expect("<")
        return self.size()

    def type(self) -> tuple[DType, int]:
        match = _TYPE.fullmatch(self.tokens.next)
        if match is None:
            raise self.tokens.error("a type, such as f32 or f32x16")
        self.tokens.take()
        return _DTYPE[match[1]], int(match[2] or 1)

    def binding(self) -> tuple[str, DType, int]:
        self.tokens.expect("%")
        name = self.tokens.name("the name of a register")
        self.tokens.expect(":")
        dtype, lanes = self.type()
        self.tokens.expect("=")
        return name, dtype, lanes

    def bind_reg(self, name: str, dtype: DType, lanes: int) -> Reg:
        reg = self.regs[name] = Reg(name, dtype, lanes)
        return reg

    def reg(self) -> Reg:
        self.tokens.expect("%")
        if self.tokens.next not in self.regs:
            raise self.tokens.error("a register that a line before binds")
        return self.regs[self.tokens.take()]

    def operand(self) -> Operand:
        if self.tokens.sees("%"):
            return self.reg()
        value = self.literal()
        self.tokens.expect(":")
        return Const(value, *self.type())

    def literal(self) -> bool | int | float:
        negative = self.tokens.accept("-")
        if self.tokens.next in _WORDS:
            value = _WORDS[self.tokens.take()]
        elif self.tokens.sees_kind("number"):
            text = self.tokens.take()
            value = int(text) if text.isdigit() else float(text)
        else:
            raise self.tokens.error("a register or a literal")
        return -value if negative else value


_STATEMENTS: dict[str, Callable[[_Parser], Stmt]] = {
    "let": _Parser.let,
    "var": _Parser.var,
    "set": _Parser.set,
    "accumulate": _Parser.accumulate,
    "store": _Parser.store,
    "for": _Parser.loop,
    "if": _Parser.branch,
    "bind": _Parser.bind,
    "check": _Parser.check,
    "reserve": _Parser.reserve,
    "local": _Parser.local,
    "multiply": _Parser.multiply_tiles,
    "call": _Parser.call,
}
_EXPRESSIONS: dict[str, Callable[[_Parser], Expr]] = {
    "load": _Parser.load,
    "cast": lambda p: Cast(p.operand()),
    "bitcast": lambda p: Bitcast(p.operand()),
    "splat": lambda p: Splat(p.operand()),
    "fold": _Parser.fold,
    "zip": lambda p: Zip(p.operand(), p.operand(), p.one_of(HALVES)),
    "index": lambda p: Index(p.size()),
    "active": lambda p: Active(p.size()),
    "worker": lambda p: Worker(p.size()),
    "workers": lambda p: Workers(),
    "aligned": _Parser.read_aligned,
    "streams": _Parser.streams,
}
