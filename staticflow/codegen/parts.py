"""What stands in a kernel: the statements of blocks, loops alone; operands, sizes and totals."""

from __future__ import annotations

from collections.abc import Iterator

from staticflow.codegen.kernel import (
    Accumulate,
    Apply,
    Block,
    Call,
    Expr,
    If,
    Let,
    Loop,
    Operand,
    Reg,
    Stmt,
    Var,
)
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size

__all__ = ["loops_in", "operands_of", "sizes_of", "totals_of", "walk"]


def walk(block: Block) -> list[Stmt]:
    """Every statement of a block and of the blocks nested in it, outer before inner."""
    found: list[Stmt] = []
    _walk(block, found)
    return found


def _walk(block: Block, found: list[Stmt]) -> None:
    for stmt in block:
        found.append(stmt)
        if isinstance(stmt, Loop):
            _walk(stmt.body, found)
        elif isinstance(stmt, If):
            _walk(stmt.then, found)
            _walk(stmt.orelse, found)


def loops_in(block: Block) -> Iterator[Loop]:
    """Every loop of a block and of the blocks nested in it, outer before inner."""
    for stmt in block:
        if isinstance(stmt, Loop):
            yield stmt
            yield from loops_in(stmt.body)
        elif isinstance(stmt, If):
            yield from loops_in(stmt.then)
            yield from loops_in(stmt.orelse)


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
    names = _fields_of(type(part)).sizes
    if not names:  # of most
        return ()
    values = [getattr(part, name) for name in names]
    if isinstance(part, Call):
        return (*part.starts, *part.sizes, *values)
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


def totals_of(loop: Loop) -> dict[Reg, str]:
    """The registers from outside a loop that its body accumulates into, each with its primitive."""
    stmts = walk(loop.body)
    own = {s.reg.name for s in stmts if isinstance(s, (Let, Var))}
    return {s.reg: s.op for s in stmts if isinstance(s, Accumulate) and s.reg.name not in own}
