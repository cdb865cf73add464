"""Which loops can have lanes: what differs between iterations, and what stands in the way."""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.codegen.kernel import (
    Accumulate,
    Active,
    Bind,
    Block,
    Fold,
    If,
    Index,
    Let,
    Load,
    Local,
    Loop,
    Operand,
    Reg,
    Set,
    Stmt,
    Store,
    Var,
    Worker,
)
from staticflow.codegen.parts import operands_of, sizes_of, walk
from staticflow.codegen.rewrite import symbol_of
from staticflow.codegen.schedule.independent import memory_conflict
from staticflow.codegen.text import format_statement
from staticflow.graph.dim_queries import coefficient, symbols_of
from staticflow.graph.dims import Sym

__all__ = [
    "accumulator_obstacle",
    "is_vector",
    "looks_up",
    "obstacle",
    "own_arrays",
    "vector_registers",
]


def obstacle(loop: Loop) -> str | None:
    """What keeps a loop from lanes, in words; None if it can have them."""
    if loop.step != 1:
        return f"its step is {loop.step}"
    if loop.kind == "grid":
        return "its iterations are the threads of a grid"
    if loop.going is not None:
        return "it asks before each iteration"
    stmts = walk(loop.body)
    own = {s.reg.name for s in stmts if isinstance(s, (Let, Var))} | _arrays_among(stmts)
    vectors = _vectors_among(stmts, loop.var)
    folds = {s.reg for s in stmts if isinstance(s, Let) and isinstance(s.expr, Fold)}
    for stmt in stmts:
        if (
            isinstance(stmt, If)
            and not is_vector(stmt.cond, vectors)
            and not (stmt.cond in folds and _leaves_traces(stmt, own))
        ):  # all lanes take the same branch
            continue
        fault = _statement_obstacle(stmt, loop.var, own, vectors)
        if fault is not None:
            return f"{format_statement(stmt)}: {fault}"
    fault = accumulator_obstacle(loop.body, own)
    return fault if fault is not None or loop.kind == "parallel" else memory_conflict(loop)


def _statement_obstacle(stmt: Stmt, var: Sym, own: set[str], vectors: set[str | Sym]) -> str | None:
    if isinstance(stmt, If):
        return "lanes cannot branch"
    if isinstance(stmt, Set) and stmt.reg.name not in own:
        return "the register is from outside the loop"
    if isinstance(stmt, Loop) and var in symbols_of(stmt.lo) | symbols_of(stmt.hi):
        return "lanes differ in the number of iterations"
    fault = _symbol_obstacle(stmt, var, vectors)
    if fault is not None:
        return fault
    if isinstance(stmt, Loop) and stmt.going is not None and stmt.going.name in vectors:
        return "lanes may differ in the number of iterations"
    is_of_all = isinstance(stmt, Store) and stmt.buffer not in own
    if isinstance(stmt, Store) and is_of_all and var not in symbols_of(stmt.index):
        return "all lanes store to one element"
    regs = [stmt.reg] if isinstance(stmt, (Let, Var, Set, Accumulate)) else operands_of(stmt)
    part = stmt.expr if isinstance(stmt, Let) else stmt
    if isinstance(part, Worker):
        return "each iteration asks for its thread"
    bounded = isinstance(part, (Load, Store)) and part.bound is not None
    if bounded or any(r.lanes > 1 for r in regs) or isinstance(part, Active):
        return "it has lanes already"
    return None


def _symbol_obstacle(stmt: Stmt, var: Sym, vectors: set[str | Sym]) -> str | None:
    """What keeps the symbols that differ between lanes from being vectors in a statement."""
    part = stmt.expr if isinstance(stmt, Let) else stmt
    sizes = [s for s in sizes_of(part) if not vectors.isdisjoint(symbols_of(s))]
    sym = symbol_of(stmt)
    above = None if sym is None else sym.upper
    if not sizes and (above is None or vectors.isdisjoint(symbols_of(above))):
        return None
    if not isinstance(part, (Load, Index)):
        return "lanes differ in the value of a symbol"
    differ = [s for s in symbols_of(part.index) if s in vectors]
    steps = [coefficient(part.index, s) for s in differ]
    if any(step is None or not {var, *differ}.isdisjoint(symbols_of(step)) for step in steps):
        return "a symbol that differs between lanes is more than added to the index"
    return None


def _leaves_traces(stmt: If, own: set[str]) -> bool:
    """Whether a branch does more than set registers of the iteration, or may load where only those
    that it is meant for have an element: other lanes take it, too."""
    return any(
        isinstance(s, (Store, Bind)) or (isinstance(s, Accumulate) and s.reg.name not in own)
        for s in walk((stmt,))
    )


def accumulator_obstacle(body: Block, own: set[str]) -> str | None:
    """Accumulators from outside the loop take one kind of combination, and are not read in it."""
    ops: dict[str, str] = {}
    stmts = walk(body)
    for stmt in stmts:
        if not isinstance(stmt, Accumulate) or stmt.reg.name in own:
            continue
        if ops.setdefault(stmt.reg.name, stmt.op) != stmt.op:
            return f"%{stmt.reg.name} is combined in two ways"
    if not ops:
        return None
    read = {a.name for s in stmts for a in operands_of(s) if isinstance(a, Reg)}
    both = sorted(read & ops.keys())
    return f"%{both[0]} is accumulated and read in one iteration" if both else None


def is_vector(arg: Operand, vectors: set[str | Sym]) -> bool:
    """Whether an operand differs from iteration to iteration, by what `vector_registers` found."""
    return isinstance(arg, Reg) and arg.name in vectors


def vector_registers(body: Block, var: Sym) -> set[str | Sym]:
    """The registers, by name, and the symbols bound in ``body`` whose value differs from iteration
    to iteration."""
    return _vectors_among(walk(body), var)


def _vectors_among(stmts: Sequence[Stmt], var: Sym) -> set[str | Sym]:
    vectors: set[str | Sym] = set()
    own = {s.reg.name for s in stmts if isinstance(s, (Let, Var))}
    arrays = _arrays_among(stmts)
    made: list[tuple[str | Sym, set[str | Sym]]] = []  # of which others each is made
    for stmt in stmts:
        if isinstance(stmt, Bind):
            made.append((stmt.sym, {a.name for a in operands_of(stmt) if isinstance(a, Reg)}))
        if not isinstance(stmt, (Let, Var, Set, Accumulate)) or stmt.reg.name not in own:
            continue
        expr = stmt.expr if isinstance(stmt, Let) else None
        if isinstance(expr, Fold):
            continue  # which is one for all of them
        parts: set[str | Sym] = {a.name for a in operands_of(stmt) if isinstance(a, Reg)}
        if isinstance(expr, (Load, Index)):
            parts |= symbols_of(expr.index)
            if var in parts or (isinstance(expr, Load) and expr.buffer in arrays):
                vectors.add(stmt.reg.name)
        made.append((stmt.reg.name, parts))
    size = -1
    while size != len(vectors):
        size = len(vectors)
        for name, parts in made:
            if name not in vectors and not vectors.isdisjoint(parts):
                vectors.add(name)
    return vectors


def own_arrays(body: Block) -> set[str]:
    """The names of the arrays that each iteration has for itself."""
    return _arrays_among(walk(body))


def _arrays_among(stmts: Sequence[Stmt]) -> set[str]:
    return {s.name for s in stmts if isinstance(s, Local)}


def looks_up(body: Block) -> bool:
    """Whether something is loaded where only the run knows: at an index with a symbol that the body
    binds."""
    bound = {s.sym for s in walk(body) if isinstance(s, Bind)}
    loads = (s.expr.index for s in walk(body) if isinstance(s, Let) and isinstance(s.expr, Load))
    return any(not bound.isdisjoint(symbols_of(index)) for index in loads)
