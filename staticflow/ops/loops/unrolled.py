"""Loops of a graph whose iterations do the work of many: fewer of them, each with more to fuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow import pytree
from staticflow.errors import ArgumentError
from staticflow.graph.dims import Size
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.slicing import as_position
from staticflow.ops.loops.carry import call, check_pair, check_tree

__all__ = ["check_unroll", "unrolled_iterations", "write_iterations"]


def check_unroll(what: str, unroll: Any, until: Any = None) -> None:
    """Refuse an ``unroll`` that is no bool and no int from 1 on, or stands beside ``until``."""
    many = unroll if isinstance(unroll, bool) else as_position(unroll)
    if not isinstance(many, int) or (many < 1 and many is not False):
        raise ArgumentError(
            f"{what}: unroll is an int from 1 on, True for all iterations or False for none, not "
            f"{unroll!r}, at {format_locs(here())}"
        )
    if until is not None and (many is True or many > 1):
        raise ArgumentError(
            f"{what}: unroll and until do not go together: whether there is a next iteration shows "
            f"only behind each; leave one of them out, at {format_locs(here())}"
        )


def unrolled_iterations(what: str, unroll: int | bool, length: Size) -> int:
    """How many of the ``length`` iterations become one."""
    if unroll is not True:
        return int(unroll) or 1
    if not isinstance(length, int):
        raise ArgumentError(
            f"{what}: unroll=True writes out all iterations, and their number is {length}, which "
            f"only a call tells; give a number of iterations, at {format_locs(here())}"
        )
    return max(length, 1)


def write_iterations(
    fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, length: int, reverse: bool
) -> tuple[Any, Any]:
    """``scan(fn, init, xs, length, reverse)`` as one iteration after the other."""
    carry, ys = init, []
    for step in reversed(range(length)) if reverse else range(length):
        x = pytree.map_tree(lambda leaf, at=step: leaf[at], xs)
        after, y = check_pair(call("scan", "fn", fn, carry, x))
        carry = check_tree("scan", carry, after)
        ys.append(y)
    return carry, pytree.map_tree(lambda *rows: stack(rows[:: -1 if reverse else 1]), *ys)
