"""Vjps whose ops are remembered: backward without a frame of Python for each op.

A vjp asks of tensors only their shapes and dtypes, so the ops that it comes to, or the program that
stands for them (`staticflow.eager.pullback`), follow from the kind of a call, as those of a
function that `ops.declaring.by_shape` marks do. From the third call of a
kind on native code runs them at once (`staticflow.eager.fast.recall`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.eager.pullback import pull_by_program
from staticflow.eager.saved import ResultType, SavedType
from staticflow.errors import OPERAND_ERRORS
from staticflow.graph.op import Op
from staticflow.ops import OPS
from staticflow.ops.declaring.eager_side import eager

__all__ = ["VJPS", "install_native", "pull_by_plan", "vjp_of"]


class _Vjps:
    """What `vjp_of` is called as: native code, or None where there is none."""

    __slots__ = ("form",)

    def __init__(self) -> None:
        self.form: Callable[..., Sequence[Any]] | None = None


VJPS = _Vjps()


def install_native(form: Callable[..., Sequence[Any]] | None) -> None:
    """Let native code stand for `vjp_of` from now on, where there is any."""
    VJPS.form = form


def pull_by_plan(
    op: Op, needs: Sequence[bool], ct: Any, out: Any, args: Sequence[Any], attrs: Mapping[str, Any]
) -> Sequence[Any] | None:
    """What ``op.vjp`` gives of these; None where its calls are not remembered, or fail."""
    form = VJPS.form
    name = op.name
    if form is None or OPS.get(name) is not op:
        return None
    result = _describe(out) if type(out) is tuple else out if type(out) is not ResultType else None
    given = _describe(args)
    if given is None:
        return None
    try:
        found = form(name, tuple(needs), ct, result, *given, **attrs)
    except OPERAND_ERRORS:  # which the vjp itself raises once more, in its own words
        return None
    if len(found) == len(needs):
        return found
    if len(found) != sum(needs):
        return None
    cotangents = iter(found)
    return [next(cotangents) if need else None for need in needs]


def _describe(values: Sequence[Any]) -> list[Any] | None:
    """The values, and what stands for those that were not kept where a call is remembered: their
    shape and dtype, or None where these are the cotangent's. None if one is on another device."""
    given: list[Any] = []
    for a in values:
        kind = type(a)
        if kind is ResultType:
            given.append(None)
        elif kind is SavedType:
            if a.__sf_gpu__ is not None:
                return None
            given.append((a._shape, a._dtype))
        else:
            given.append(a)
    return given


def vjp_of(
    name: str, needs: Sequence[bool], ct: Any, out: Any, /, *args: Any, **attrs: Any
) -> tuple[Any, ...]:
    """The cotangents of the arguments that are needed, of the op of a ``name``; none if it gives
    fewer. What was not kept is given as `_describe` says it."""
    vjp = OPS[name].vjp
    assert vjp is not None
    several = type(out) is list
    result = tuple([_restore(o, ct) for o in out]) if several else _restore(out, ct)
    given = [_restore(a, ct) for a in args]
    found = pull_by_program(OPS[name], needs, ct, result, given, attrs)
    if found is None:
        found = vjp(needs, ct, result, *given, **attrs)
    wanted = [
        eager.wrap(f) if type(f) is np.ndarray else f
        for f, need in zip(found, needs, strict=False)
        if need
    ]
    return () if any(f is None for f in wanted) else tuple(wanted)


def _restore(described: Any, ct: Any) -> Any:
    if described is None:
        return ResultType.of(ct)
    return SavedType.of(*described) if type(described) is tuple else described
