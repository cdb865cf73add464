"""What a traced function keeps in Python for its next call, as ``self.h = h`` does.

Eagerly the next call goes on with it. A function that is traced runs once for all calls, which
would all go on with what was there before: so one that keeps a symbol is traced a second time, to
see, and refused if it uses what the first time has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

from staticflow.errors import SymbolicError
from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import new_param
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node, toposort
from staticflow.graph.types import TensorType
from staticflow.ops.loops.reachable import nodes_since
from staticflow.ops.symbols.effect import marks_since

__all__ = ["trace_alike"]

T = TypeVar("T")


def trace_alike(
    write: Callable[[], T], nodes_of: Callable[[T], Iterable[Node]], what: str, things: Any
) -> T:
    """What ``write``, which traces functions of the user's among ``things``, gives, and its nodes
    are ``nodes_of`` that.

    Raises `SymbolicError` where a trace uses what the one before has left in Python; ``what`` says
    who called, and how such a thing is handed on.
    """
    began = new_param(TensorType(bool_, ()), "").serial
    found = write()
    kept = nodes_since(began, *things)
    if not kept:
        return found
    again = new_param(TensorType(bool_, ()), "").serial
    try:
        made = [*nodes_of(write()), *nodes_since(again, *things)]
    except Exception as error:
        where = "; ".join(sorted(format_locs(n.locs) for n in kept))
        error.add_note(f"traced once more, as the first trace left what is made at {where}")
        raise
    made += marks_since(again)  # and the effects are those of the first trace
    stale = next((n for n in toposort(made) if n in kept), None)
    if stale is not None:
        _refuse(what, stale)
    return found


def _refuse(what: str, stale: Node) -> NoReturn:
    raise SymbolicError(
        f"{what} uses what it kept in Python ({stale.type}, made at {format_locs(stale.locs)}); a "
        "line of Python runs once, when it is traced, so every call or iteration would begin with "
        "the same: give it as an argument (a carry) and return what it becomes, "
        f"at {format_locs(here())}"
    )
