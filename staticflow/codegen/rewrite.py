"""Copies of Kernel IR with sizes, symbols and registers replaced: what every schedule is made of.

Registers and symbols are bound once in a kernel, so a second copy of a block needs fresh names for
whatever it binds; `Names` gives them. Parts in which nothing changes are returned as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from operator import is_not
from typing import Any, TypeVar

from staticflow.codegen.kernel import (
    Accumulate,
    Active,
    Aligned,
    Apply,
    Bind,
    Bitcast,
    Block,
    Call,
    Cast,
    Check,
    Fold,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    MultiplyTiles,
    Reg,
    Reserve,
    Set,
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
from staticflow.errors import VerifyError
from staticflow.graph.dim_queries import substitute_dim
from staticflow.graph.dims import Dim, Size, Sym

__all__ = [
    "Names",
    "copy_block",
    "find_loop",
    "rename_buffers",
    "replace_loop",
    "rewrite",
    "symbol_of",
]

T = TypeVar("T")

_PARTS = (
    Let, Var, Set, Accumulate, Store, Loop, If, Bind, Check, Reserve, Local, MultiplyTiles,
    Call,
    Apply, Load, Cast, Bitcast, Splat, Fold, Zip, Index, Active, Worker, Workers, Aligned,
    Streams,
)  # fmt: skip
_FIELDS: dict[type, tuple[str, ...]] = {c: tuple(f.name for f in fields(c)) for c in _PARTS}


def symbol_of(stmt: Stmt) -> Sym | None:
    """The index symbol that a statement binds, if it does."""
    if isinstance(stmt, Loop):
        return stmt.var
    return stmt.sym if isinstance(stmt, Bind) else None


class Names:
    """Names that a kernel does not use yet, for registers and symbols alike."""

    def __init__(self, kernel: Kernel) -> None:
        self._used = {s.name for s in kernel.sizes}
        for stmt in walk(kernel.body):
            symbol = symbol_of(stmt)
            if symbol is not None:
                self._used.add(symbol.name)
            elif isinstance(stmt, (Let, Var)):
                self._used.add(stmt.reg.name)
        self._copies: dict[str, int] = {}

    def fresh(self, like: str) -> str:
        """``like`` itself if it is new, or with a number that makes it so."""
        if like not in self._used:
            self._used.add(like)
            return like
        stem, _, number = like.rpartition("_")
        base = stem if stem and number.isdigit() else like
        while True:
            copy = self._copies[base] = self._copies.get(base, 0) + 1
            name = f"{base}_{copy}"
            if name not in self._used:
                self._used.add(name)
                return name


def rewrite(
    part: T,
    sizes: Mapping[Sym, Size],
    syms: Mapping[Sym, Sym] | None = None,
    regs: Mapping[str, Reg] | None = None,
) -> T:
    """A statement, expression or block with the symbols in its indices replaced by ``sizes``, the
    symbols that it binds by ``syms``, and its registers, by name, by ``regs``.
    """
    change: dict[type, Callable[[Any], Any]] = {Dim: lambda size: substitute_dim(size, sizes)}
    if syms:
        change[Sym] = lambda sym: syms.get(sym, sym)
    if regs:
        change[Reg] = lambda reg: regs.get(reg.name, reg)
    result: T = _rewrite(part, change)
    return result


def _rewrite(part: Any, change: Mapping[type, Callable[[Any], Any]]) -> Any:
    kind = type(part)
    if kind in change:
        return change[kind](part)
    if kind is tuple:
        items = tuple([_rewrite(item, change) for item in part])
        return items if any(map(is_not, items, part)) else part
    names = _FIELDS.get(kind)
    if names is None:
        return part
    old = [getattr(part, name) for name in names]
    new = [_rewrite(value, change) for value in old]
    return kind(*new) if any(map(is_not, new, old)) else part


def copy_block(block: Block, sizes: Mapping[Sym, Size], names: Names | None = None) -> Block:
    """A copy of ``block`` with symbols replaced by ``sizes``, the bounds of the symbols that it
    binds included. With ``names``, what it binds gets fresh names, so that both can stand in one
    kernel.
    """
    values, syms, regs = dict(sizes), {}, {}
    for stmt in walk(block):
        symbol = symbol_of(stmt)
        if symbol is not None:
            upper = None if symbol.upper is None else substitute_dim(symbol.upper, values)
            if names is not None:
                symbol_copy = Sym(names.fresh(symbol.name), 0, upper)
            else:
                symbol_copy = replace(symbol, upper=upper)
            syms[symbol] = symbol_copy
            values[symbol] = Dim.of(symbol_copy)
        elif isinstance(stmt, (Let, Var)) and names is not None:
            reg = stmt.reg
            regs[reg.name] = Reg(names.fresh(reg.name), reg.dtype, reg.lanes)
    return rewrite(block, values, syms, regs)


def rename_buffers(block: Block, names: Mapping[str, str]) -> Block:
    """A copy of ``block`` that loads from and stores to buffers of other names."""
    change: dict[type, Callable[[Any], Any]] = {
        kind: lambda part: replace(part, buffer=names[part.buffer]) for kind in (Load, Store)
    }
    change[Aligned] = lambda part: Aligned(tuple(names[b] for b in part.buffers))
    change[Call] = lambda part: replace(part, buffers=tuple(names[b] for b in part.buffers))
    result: Block = _rewrite(block, change)
    return result


def find_loop(kernel: Kernel, var: Sym) -> Loop:
    """The loop over ``var``; VerifyError if the kernel has none."""
    for stmt in walk(kernel.body):
        if isinstance(stmt, Loop) and stmt.var == var:
            return stmt
    raise VerifyError(f"kernel {kernel.name}: there is no loop over {var}")


def replace_loop(kernel: Kernel, var: Sym, block: Block) -> Kernel:
    """The kernel with ``block`` in place of its loop over ``var``."""
    return kernel.with_body(_replace_loop(kernel.body, var, block))


def _replace_loop(body: Block, var: Sym, block: Block) -> Block:
    result: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Loop) and stmt.var == var:
            result += block
        elif isinstance(stmt, Loop):
            result.append(replace(stmt, body=_replace_loop(stmt.body, var, block)))
        elif isinstance(stmt, If):
            then = _replace_loop(stmt.then, var, block)
            orelse = _replace_loop(stmt.orelse, var, block)
            result.append(replace(stmt, then=then, orelse=orelse))
        else:
            result.append(stmt)
    return tuple(result)
