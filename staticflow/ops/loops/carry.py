"""The carry of a loop: a tree of tensors that each iteration takes and gives back in the same
structure, shapes and dtypes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from staticflow import pytree
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.articles import with_article
from staticflow.graph.dims import Dim, Size, same
from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import close, new_param
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.late import ties_of
from staticflow.ops.declaring.thread import thread
from staticflow.ops.loops.leaves import is_like, tensors_of
from staticflow.ops.loops.loop import scan_op, while_op
from staticflow.ops.loops.region import affect, close_over, values_at_start
from staticflow.ops.symbols.symbol import STATIC, Symbol

__all__ = [
    "call",
    "check_flag",
    "check_leaves",
    "check_pair",
    "check_tree",
    "detach_unrecorded",
    "loop_over",
    "note_iteration",
]  # fmt: skip


def call(what: str, name: str, fn: Any, *args: Any) -> Any:
    """``fn(*args)``, where ``fn`` is the argument ``name`` of the loop ``what``. Raises
    `DTypeError` if it takes another number of arguments."""
    try:
        return fn(*args)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            _check_arity(what, name, fn, args)
        raise


def _check_arity(what: str, name: str, fn: Any, args: tuple[Any, ...]) -> None:
    if not callable(fn):
        raise DTypeError(
            f"{what}: {name} is of type {type(fn).__name__}; it must be a function, at "
            f"{format_locs(here())}"
        ) from None
    try:
        signature = inspect.signature(fn)
        signature.bind(*args)
    except ValueError:  # a function that does not tell its arguments
        return
    except TypeError:
        many = f"{len(args)} argument{'' if len(args) == 1 else 's'}"
        of = _ARGUMENTS.get((what, name, len(args)), "")
        raise DTypeError(
            f"{what}: {name} takes {signature}, and is called with {many}{of}; it must take as "
            f"many{_advice_on_list(args)}, at {format_locs(here())}"
        ) from None


_ARGUMENTS = {
    ("scan", "fn", 2): ", carry and x",
    ("scan", "fn", 3): ", carry, x and the past ys",
    ("scan", "until", 2): ", carry and y",
    ("fori_loop", "body", 2): ", i and carry",
    ("map", "fn", 1): ", a row of xs",
    ("while_loop", "cond_fn", 1): ", the carry",
    ("while_loop", "body_fn", 1): ", the carry",
}
"""What the functions of loops are called with."""


def _advice_on_list(args: tuple[Any, ...]) -> str:
    """What to do where one argument is a list, of which users expect what tuples do."""
    if len(args) == 1 and type(args[0]) is list:
        return "; a carry that is a list is one argument, begin with a tuple for one per element"
    return ""


def detach_unrecorded(tree: Any) -> Any:
    """What a loop or a branch gives: values without history where operations are not recorded, also
    where it hands on what it was given."""
    if thread.state.recording:
        return tree

    def apart(v: Any) -> Any:
        return v.detach() if isinstance(v, Symbol) or getattr(v, "requires_grad", False) else v

    return pytree.map_tree(apart, tree)


def note_iteration(error: Exception, iteration: int, what: str) -> None:
    """Note in which iteration of a loop that runs now an error was raised."""
    error.add_note(f"in iteration {iteration} of the {what} at {format_locs(here())}")


def check_tree(what: str, before: Any, after: Any, name: str = "carry") -> Any:
    """``after`` as tensors, if it is as an iteration got it: where a loop carries more than its
    user gives, this is what its user may get wrong."""
    leaves, tree = pytree.flatten(before)
    return pytree.unflatten(tree, check_leaves(what, tree, leaves, after, name))


def check_leaves(
    what: str, tree: pytree.TreeDef, before: Sequence[Any], after: Any, name: str = "carry"
) -> list[Any]:
    """The leaves of what an iteration gives back as tensors, held to the leaves ``before`` it."""
    leaves, own = pytree.flatten(after)
    if own != tree:
        raise ShapeError(
            f"{what}: the {name} came in as {tree} and went out as {own}; every iteration must "
            f"give it back in the structure in which it came in{_containers(tree, own)}, at "
            f"{format_locs(here())}"
        )
    if not all(map(is_like, leaves, before)):
        leaves = tensors_of(what, name, tree, leaves, before)
        _check_carry(what, tree, before, leaves, name)
    return leaves


def _containers(before: pytree.TreeDef, after: pytree.TreeDef) -> str:
    """The remedy where a list stands for a tuple, or the other way round."""
    mine, theirs = before.kind, after.kind
    if {mine, theirs} == {list, tuple} and mine and theirs and before.keys == after.keys:
        return f": return {with_article(mine)}, or begin with {with_article(theirs)}"
    return ""


def _check_carry(
    what: str,
    tree: pytree.TreeDef,
    before: Sequence[Any],
    after: Sequence[Any],
    name: str,
) -> None:
    """Hold the leaves ``after`` an iteration to those ``before``, of the ``name`` that the user
    knows.

    Sizes unknown on either side are left to the graph's assumptions.
    """
    wrong: list[str] = []
    error: type[DTypeError | ShapeError] = ShapeError
    for path, a, b in zip(pytree.paths(tree, name), before, after, strict=True):
        if _agree(a, b):
            continue
        if a.dtype is not b.dtype:
            error = DTypeError
        wrong.append(f"{path} came in as {_kind(a)} and went out as {_kind(b)}")
    if wrong:
        raise error(
            f"{what}: {', '.join(wrong)}; every iteration must give it back as it was: "
            f"begin with a value of that type, or convert the result, at {format_locs(here())}"
        )


def _agree(a: Any, b: Any) -> bool:
    mine, other = a.__sf_shape__, b.__sf_shape__
    return a.dtype is b.dtype and (
        mine == other or (len(mine) == len(other) and all(map(_may_agree, mine, other)))
    )


def _may_agree(a: Size, b: Size) -> bool:
    return same(a, b) or isinstance(a, Dim) or isinstance(b, Dim)


def _kind(x: Any) -> TensorType | str:
    return TensorType(x.dtype, x.shape) if hasattr(x, "dtype") else type(x).__name__


def check_flag(what: str, flag: Any) -> Any:
    """``flag``, if it is one bool."""
    if isinstance(flag, bool):
        return flag
    if not hasattr(flag, "dtype") or flag.dtype != bool_ or flag.shape != ():
        raise DTypeError(
            f"{what} must be one bool, a tensor of no dims, not {_kind(flag)}; compare, as in "
            f"x > 0, and take .all() or .any() of several, at {format_locs(here())}"
        )
    return flag


def check_pair(result: Any) -> tuple[Any, Any]:
    """What ``fn`` of a scan gives, if that is a tuple of a carry and a y."""
    if isinstance(result, tuple) and len(result) == 2:
        return result
    count = f" of {len(result)}" if isinstance(result, tuple | list) else ""
    raise ShapeError(
        f"scan: fn gives {with_article(type(result))}{count}; it must give a tuple of two, "
        f"(carry, y); return carry, None where there is no y, at {format_locs(here())}"
    )


def loop_over(
    carries: Sequence[Node],
    rows: Sequence[Node],
    own: Sequence[Node],
    outputs: Sequence[Node],
    began: int,
    length: Size | None,
    reverse: bool = False,
    binds: tuple[Dim, ...] = (),
) -> tuple[list[Any], list[Any]]:
    """The loop whose body computes ``outputs`` (carries, then ys) from its ``own`` params, traced
    from the serial number ``began`` on; guarded if it ``binds`` its number of iterations. Gives the
    last carries and the stacked ys.

    Variables whose state the body changes are carried, too.
    """
    n = len(carries)
    region = close_over(own, outputs, began)
    changed, kept = region.changed_states, region.read_states
    ties = ties_of([*carries, *rows, *region.captured], {"length": length})
    params = [
        *own[:n], *(s.start for s in changed.values()),
        *own[n:], *region.captured.values(), *(s.start for s in kept.values()),
        *(new_param(tie.tensor_type, "tie") for tie in ties),
    ]  # fmt: skip
    body = close(
        params, [*region.outputs[:n], *(s.end for s in changed.values()), *region.outputs[n:]]
    )
    operands = [
        *map(Symbol, carries), *values_at_start(changed),
        *map(Symbol, (*rows, *region.captured)), *values_at_start(kept), *map(Symbol, ties),
    ]  # fmt: skip
    attrs = {"body": body, "carries": n + len(changed), "xs": len(rows), "length": length}
    attrs |= {"binds": binds} if binds else {"reverse": reverse}
    values = STATIC.apply(while_op if binds else scan_op, operands, attrs)
    split = n + len(changed)
    news = dict(zip(changed, values[n:split], strict=True))
    always = [v for v, s in changed.items() if s.always]
    results = affect([*values[:n], *values[split:]], news, always)
    return results[:n], results[n:]
