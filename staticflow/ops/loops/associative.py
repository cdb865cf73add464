"""Running combinations: all prefixes of a sequence under an associative function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow import pytree
from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, same
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.axes import flip
from staticflow.ops.basics.creation import new_zeros
from staticflow.ops.basics.joining import cat, stack
from staticflow.ops.basics.slicing import slice_op
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import of_size, reshape, unsqueeze
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.loops.carry import call, check_tree
from staticflow.ops.loops.cond import cond
from staticflow.ops.loops.leaves import tensors_of
from staticflow.ops.loops.meets_symbol import in_graph, refuse_late, run_or_write
from staticflow.ops.loops.scan import scan
from staticflow.ops.symbols.symbol import symbolic

__all__ = ["associative_scan"]


def associative_scan(fn: Callable[[Any, Any], Any], xs: Any, reverse: bool = False) -> Any:
    """Row i of the result is ``x[0]`` combined by ``fn`` with all rows up to ``x[i]``.

    ``xs`` is a tree of tensors with equal first dims; ``fn(a, b)`` combines two such trees row by
    row and must be associative. With ``reverse`` rows are combined from the end. Of a known length
    this takes about log2(length) calls of ``fn`` on many rows at once (Blelloch, "Prefix sums and
    their applications", 1990); of an unknown one it is a loop.

    >>> import staticflow as sf
    >>> sf.associative_scan(lambda a, b: a * b, sf.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([ 1.,  2.,  6., 24.])
    """
    given, tree = pytree.flatten(xs)
    leaves = tensors_of("associative_scan", "xs", tree, given)
    if not leaves or any(not x.shape for x in leaves):
        raise ShapeError(
            f"associative_scan: xs must be tensors with a first dim, at {format_locs(here())}"
        )
    length = _common_length(leaves, pytree.paths(tree, "xs"))

    def combine(a: Any, b: Any) -> Any:
        given = (pytree.map_tree(eager.protect, v) for v in (a, b))
        found = check_tree("associative_scan", a, call("associative_scan", "fn", fn, *given), "xs")
        if symbolic(*pytree.flatten(found)[0]) and not in_graph(*pytree.flatten(a)[0]):
            refuse_late("associative_scan", "fn")
        return found

    def run() -> Any:
        rows = pytree.unflatten(tree, [_with_rows(x, length) for x in leaves])
        if reverse:
            rows = pytree.map_tree(lambda x: flip(x, 0), rows)
        if isinstance(length, int):
            out = _in_pairs(combine, rows, length)
        else:
            out = _one_by_one(combine, rows)
        return pytree.map_tree(lambda x: flip(x, 0), out) if reverse else out

    return run_or_write(run, leaves, fn)


def _common_length(leaves: Sequence[Any], names: Sequence[str]) -> Size:
    """The rows of all leaves. Sizes that are not known are assumed to be the one that is, or the
    first one."""
    sizes = [x.shape[0] for x in leaves]
    known = {n for n in sizes if isinstance(n, int)}
    if len(known) > 1:
        rows = ", ".join(f"{name} has {n}" for name, n in zip(names, sizes, strict=True))
        raise ShapeError(
            f"associative_scan: {rows} rows; all must have the same number of rows, at "
            f"{format_locs(here())}"
        )
    length: Size = known.pop() if known else sizes[0]
    return length


def _with_rows(x: Any, rows: Size) -> Any:
    """``x`` with that number of rows, assumed where it is not known."""
    return x if same(x.shape[0], rows) else of_size(x, 0, rows)


def _rows(xs: Any, start: int, stop: int, step: int = 1) -> Any:
    def part(x: Any) -> Any:
        rest = x.ndim - 1
        return slice_op(
            x, start=(start, *(0,) * rest), size=(len(range(start, stop, step)), *x.shape[1:]),
            step=(step, *(1,) * rest),
        )  # fmt: skip

    return pytree.map_tree(part, xs)


def _in_pairs(fn: Callable[[Any, Any], Any], xs: Any, length: int) -> Any:
    """Prefixes of the pairs first; they are the odd rows, and give the even ones."""
    if length < 2:
        return xs
    pairs = fn(_rows(xs, 0, length - 1, 2), _rows(xs, 1, length, 2))
    half = length // 2
    odd = _in_pairs(fn, pairs, half)
    rest = (length - 1) // 2  # even rows after the first
    first = _rows(xs, 0, 1)
    if rest == 0:
        return pytree.map_tree(lambda a, b: cat([a, b]), first, odd)
    even = fn(_rows(odd, 0, rest), _rows(xs, 2, length, 2))
    return pytree.map_tree(_interleave, first, even, odd)


def _interleave(first: Any, even: Any, odd: Any) -> Any:
    """first, odd[0], even[0], odd[1] and so on."""
    n = even.shape[0]
    both = reshape(stack([narrow(odd, 0, 0, n), even], 1), (2 * n, *odd.shape[1:]))
    parts = [first, both]
    if odd.shape[0] > n:
        parts.append(narrow(odd, 0, n, 1))
    return cat(parts)


def _one_by_one(fn: Callable[[Any, Any], Any], xs: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        fresh, so_far = carry
        one = pytree.map_tree(lambda v: unsqueeze(v, 0), x)
        now = cond(fresh, lambda: one, lambda: fn(so_far, one))
        return (False, now), pytree.map_tree(lambda v: v[0], now)

    start = pytree.map_tree(lambda x: new_zeros(x, (1, *x.shape[1:])), xs)
    return scan(step, (True, start), xs)[1]
