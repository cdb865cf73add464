"""The form of a row: what an operator of ONNX is in operations of ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from staticflow.data_classes import dataclass

__all__ = ["Row", "row"]


@dataclass(frozen=True, slots=True)
class Row:
    """What an operator is.

    ``run`` is a function of tensors. Its parameters by name only are inputs or attributes of ONNX
    by their names, whichever they are in the version of the file, so that one function serves all;
    other inputs are positional, in their order. An input that is left out is None.

    ``static`` names arguments that are read as numbers and sizes, as a shape is; ``fixed`` those
    which training leaves alone. ``since`` is the version of the operator from which on it holds.
    ``ignored`` are attributes that change nothing here. ``known`` is the operator on arrays, which
    may hold unknown sizes, where all of its inputs are known before the run; it gives
    NotImplemented where it cannot tell. With ``whole`` the function takes values as they are,
    arrays and lists included.
    """

    run: Callable[..., Any]
    static: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    since: int = 1
    known: Callable[..., Any] | None = None
    whole: bool = False

    @property
    def positional(self) -> tuple[tuple[str, ...], bool]:
        """The names of the positional parameters, and whether more may follow."""
        params = inspect.signature(self.run).parameters.values()
        names = tuple(p.name for p in params if p.kind is p.POSITIONAL_OR_KEYWORD)
        return names, any(p.kind is p.VAR_POSITIONAL for p in params)

    @property
    def keywords(self) -> Mapping[str, bool]:
        """The parameters by name only, and whether they have a default."""
        params = inspect.signature(self.run).parameters.values()
        return {p.name: p.default is not p.empty for p in params if p.kind is p.KEYWORD_ONLY}


def row(run: Callable[..., Any], **facts: Any) -> Row:
    """A row; names of arguments are given as one text, ``"axes steps"``.

    >>> sorted(row(len, static="axes steps").static)
    ['axes', 'steps']
    """
    texts = {k: frozenset(v.split()) for k, v in facts.items() if isinstance(v, str)}
    return Row(run, **{**facts, **texts})
