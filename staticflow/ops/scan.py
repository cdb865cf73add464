"""Loops over the first dim, with a carried state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow import pytree
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import weak_dtype
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node, constant, param
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.creation import zeros_like
from staticflow.ops.gradient import pullback
from staticflow.ops.lowering import Region
from staticflow.ops.slicing import stack
from staticflow.ops.symbol import Symbol, symbolic, to_node, tracing

__all__ = ["scan", "scan_op"]


def _infer(
    facts: Facts, *args: TensorType, body: Graph, carries: int, xs: int, length: Size, reverse: bool
) -> tuple[TensorType, ...]:
    if len(args) != len(body.params):
        raise ShapeError(f"the body takes {len(body.params)} values, {len(args)} are given")
    for position, (given, inner) in enumerate(zip(args, body.params, strict=True)):
        wanted = inner.tensor_type
        if carries <= position < carries + xs:
            wanted = TensorType(wanted.dtype, (length, *wanted.shape))
        _same_type(facts, given, wanted, f"operand {position}")
    for equality in body.equalities:
        facts.equal(equality.a, equality.b, equality.reason)
    outs = [o.tensor_type for o in body.outputs]
    for position, (given, out) in enumerate(zip(args[:carries], outs, strict=False)):
        _same_type(facts, out, given, f"carry {position}")
    return (
        *outs[:carries],
        *(TensorType(y.dtype, (length, *y.shape)) for y in outs[carries:]),
    )


def _same_type(facts: Facts, given: TensorType, wanted: TensorType, what: str) -> None:
    if given.dtype is not wanted.dtype or given.ndim != wanted.ndim:
        raise ShapeError(f"{what} is {given} where {wanted} is needed")
    for a, b in zip(given.shape, wanted.shape, strict=True):
        facts.equal(a, b, f"{what} is {given} where {wanted} is needed")


def _reference(
    xp: Any, *args: Any, body: Any, carries: int, xs: int, length: int, reverse: bool
) -> tuple[Any, ...]:
    """``body`` is callable here: the interpreter hands regions over as functions of arrays."""
    carry, rows, rest = args[:carries], args[carries : carries + xs], args[carries + xs :]
    ys = [xp.empty((length, *o.shape), dtype=o.dtype.numpy) for o in body.output_types[carries:]]
    for step in reversed(range(length)) if reverse else range(length):
        outs = body(*carry, *(x[step] for x in rows), *rest)
        carry = outs[:carries]
        for y, value in zip(ys, outs[carries:], strict=True):
            y[step] = value
    return (*carry, *ys)


def _vjp(
    needs: Sequence[bool],
    cts: Sequence[Any],
    out: Any,
    *args: Any,
    body: Graph,
    carries: int,
    xs: int,
    length: Size,
    reverse: bool,
) -> list[Any]:
    """Another scan, the other way round.

    It reads the carries that each step began with, which a first scan stacks (the pass
    ``merge_scans`` makes that one with the loop that is differentiated), computes the step again
    and pulls the cotangents through it. Cotangents of captured values are summed in the carry.
    """
    params = body.params
    args = tuple(Symbol(to_node(a, p.tensor_type.dtype)) for a, p in zip(args, params, strict=True))
    stacking = close(params, (*body.outputs[:carries], *params[:carries]), body.equalities)
    attrs = {"carries": carries, "xs": xs, "length": length, "reverse": reverse}
    begun = scan_op(*args, body=stacking, **attrs)[carries:]
    captured = args[carries + xs :]
    real = [i for i, p in enumerate(params) if p.tensor_type.dtype.is_floating]
    carry_at = [i for i in real if i < carries]
    x_at = [i for i in real if carries <= i < carries + xs and needs[i]]
    captured_at = [i for i in real if i >= carries + xs and needs[i]]
    start = [cts[i] if cts[i] is not None else zeros_like(args[i]) for i in carry_at]
    sums = [zeros_like(args[i]) for i in captured_at]
    y_at = [i for i in range(carries, len(body.outputs)) if cts[i] is not None]

    def step(state: Any, row: Any) -> Any:
        ct_carry, ct_captured = state
        old, x_t, ct_y = row
        inside = [*old, *x_t, *captured]
        mapping = {p: to_node(v) for p, v in zip(params, inside, strict=True)}
        # fresh handles, so that two params that stand for one value keep their own cotangents
        leaves = {i: new_param(params[i].tensor_type, "at") for i in range(len(params))}
        outs = substitute_nodes(body.outputs, {params[i]: leaves[i] for i in leaves})
        wanted = [*carry_at, *x_at, *captured_at]
        pulled = pullback(
            [Symbol(outs[i]) for i in [*carry_at, *y_at]],
            [*ct_carry, *ct_y],
            [Symbol(leaves[i]) for i in wanted],
        )
        back = {leaves[i]: mapping[params[i]] for i in leaves}
        settled = {
            i: zeros_like(Symbol(mapping[params[i]])) if g is None
            else Symbol(substitute_nodes([g.node], back)[0])
            for i, g in zip(wanted, pulled, strict=True)
        }  # fmt: skip
        totals = [s + settled[i] for s, i in zip(ct_captured, captured_at, strict=True)]
        return ([settled[i] for i in carry_at], totals), [settled[i] for i in x_at]

    rows = (list(begun), list(args[carries : carries + xs]), [cts[i] for i in y_at])
    (ct_init, ct_captured), ct_xs = scan(
        step, (start, sums), rows, length=length, reverse=not reverse
    )
    found = dict(
        zip([*carry_at, *x_at, *captured_at], [*ct_init, *ct_xs, *ct_captured], strict=True)
    )
    return [found.get(i) if need else None for i, need in enumerate(needs)]


scan_op = Op(
    name="scan",
    doc="A loop of ``length`` steps over a body. Arguments: carries, xs, captured values; results: "
    "the last carries, then the stacked ys.",
    infer=_infer,
    reference=_reference,
    vjp=_vjp,
    lowering=Region(),
    grad_name="ScanBackward",
)


def scan(
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Size | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Call ``carry, y = fn(carry, x)`` for each x along the first dim of ``xs``, from ``init`` on.

    ``init``, ``xs`` and the ys are trees (tuples, lists, dicts) of tensors; ``fn`` gives the carry
    back in the structure, shapes and dtypes that it got. With ``xs`` None, ``length`` says how many
    steps there are. Returns the last carry and the ys stacked along a new first dim, in the order
    of ``xs`` also where ``reverse`` runs it from the end. On symbols this is one loop of the graph,
    whatever the length; on tensors it runs now.

    >>> import staticflow as sf
    >>> xs = sf.tensor([1.0, 2.0, 3.0])
    >>> total, sums = sf.scan(lambda c, x: (c + x, c + x), sf.tensor(0.0), xs)
    >>> total.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    init_leaves, carry_tree = pytree.flatten(init)
    xs_leaves, xs_tree = pytree.flatten(xs)
    length = _common_length(xs_leaves, pytree.paths(xs_tree, "xs"), length)
    if symbolic(*init_leaves, *xs_leaves, length):
        return _scan_static(fn, init_leaves, carry_tree, xs_leaves, xs_tree, length, reverse)
    carry, ys = init, []
    for step in reversed(range(int(length))) if reverse else range(int(length)):
        x = pytree.unflatten(xs_tree, [leaf[step] for leaf in xs_leaves])
        carry, y = _checked_pair(fn(carry, x))
        _check_carry(carry_tree, init_leaves, carry)
        ys.append(y)
    if not ys:
        raise ShapeError(
            "scan: of length 0 on eager tensors: the shapes of the ys are unknown, since fn never "
            f"ran; compile it, or guard the empty case, at {format_locs(here())}"
        )
    if reverse:
        ys.reverse()
    return carry, pytree.map_tree(lambda *rows: stack(rows), ys[0], *ys[1:])


def _checked_pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ShapeError(
            f"scan: fn must return (carry, y), not {type(result).__name__}; return (carry, None) "
            f"if there is no y, at {format_locs(here())}"
        )
    return result


def _common_length(leaves: Sequence[Any], names: Sequence[str], length: Size | None) -> Size:
    for leaf, name in zip(leaves, names, strict=True):
        if not leaf.shape:
            raise ShapeError(
                f"scan: {name} is 0-d; it has no first dim to loop over, at {format_locs(here())}"
            )
        own = leaf.shape[0]
        if length is None:
            length = own
        elif isinstance(length, int) and isinstance(own, int) and own != length:
            raise ShapeError(
                f"scan: {name} has {own} rows where {length} are needed, at {format_locs(here())}"
            )
    if length is None:
        raise ShapeError(f"scan: give xs or length, at {format_locs(here())}")
    if isinstance(length, int) and length < 0:
        raise ShapeError(f"scan: a loop of length {length}, at {format_locs(here())}")
    return length


def _scan_static(
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init_leaves: Sequence[Any],
    carry_tree: pytree.TreeDef,
    xs_leaves: Sequence[Any],
    xs_tree: pytree.TreeDef,
    length: Size,
    reverse: bool,
) -> tuple[Any, Any]:
    carries = [to_node(x) for x in init_leaves]
    rows = [to_node(x) for x in xs_leaves]
    began = new_param(TensorType(weak_dtype(True, None), ()), "").serial
    inner_carry = [new_param(c.tensor_type, "carry", locs=here()) for c in carries]
    inner_rows = [
        new_param(TensorType(r.tensor_type.dtype, r.tensor_type.shape[1:]), "x", locs=here())
        for r in rows
    ]
    with tracing():
        result = fn(
            pytree.unflatten(carry_tree, map(Symbol, inner_carry)),
            pytree.unflatten(xs_tree, map(Symbol, inner_rows)),
        )
    carry_out, y = _checked_pair(result)
    out_leaves = _leaves_as(carry_tree, carry_out)
    outs = [to_node(o, c.tensor_type.dtype) for o, c in zip(out_leaves, carries, strict=True)]
    for name, before, after in zip(pytree.paths(carry_tree, "carry"), carries, outs, strict=True):
        _same_carry(name, before.tensor_type, after.tensor_type)
    y_leaves, y_tree = pytree.flatten(y)
    own = (*inner_carry, *inner_rows)
    body, captured = _close_over(own, [*outs, *(to_node(v) for v in y_leaves)], began)
    values = scan_op(
        *(Symbol(n) for n in (*carries, *rows, *captured)),
        body=body, carries=len(carries), xs=len(rows), length=length, reverse=reverse,
    )  # fmt: skip
    split = len(carries)
    return (
        pytree.unflatten(carry_tree, values[:split]),
        pytree.unflatten(y_tree, values[split:]),
    )


def _leaves_as(tree: pytree.TreeDef, carry: Any) -> list[Any]:
    """The leaves of a carry, of the structure that it came in with."""
    leaves, own = pytree.flatten(carry)
    if own != tree:
        raise ShapeError(
            f"scan: the carry came in as {tree} and went out as {own}, at {format_locs(here())}"
        )
    return leaves


def _check_carry(tree: pytree.TreeDef, before: Sequence[Any], carry: Any) -> None:
    """What a step on tensors gives back must be what the same step could give back in a graph."""
    after = _leaves_as(tree, carry)
    for name, a, b in zip(pytree.paths(tree, "carry"), before, after, strict=True):
        if hasattr(a, "dtype") and hasattr(b, "dtype"):  # numbers take the dtype of the other
            _same_carry(name, TensorType(a.dtype, a.shape), TensorType(b.dtype, b.shape))


def _same_carry(name: str, before: TensorType, after: TensorType) -> None:
    """Sizes unknown on either side are left to the graph's assumptions."""
    fits = before.dtype is after.dtype and before.ndim == after.ndim
    if not fits or any(
        isinstance(a, int) and isinstance(b, int) and a != b
        for a, b in zip(before.shape, after.shape, strict=True)
    ):
        error = DTypeError if before.dtype is not after.dtype else ShapeError
        raise error(
            f"scan: {name} came in as {before} and went out as {after}; every step must give it "
            f"back as it was, at {format_locs(here())}"
        )


def _close_over(
    own: Sequence[Node], outputs: Sequence[Node], began: int
) -> tuple[Graph, list[Node]]:
    """The region that computes ``outputs``, and the outer values that it takes as operands.

    Outer are the params that are not ``own`` and whatever was made before the body was traced;
    what the body makes itself stays inside, even if it does not depend on the carry.
    """
    known = set(own)
    captured: dict[Node, Node] = {}
    seen: set[Node] = set()
    stack = list(reversed(outputs))
    while stack:
        node = stack.pop()
        if node in known or node in seen:
            continue
        seen.add(node)
        if node.op is param or (node.serial < began and node.op is not constant):
            captured[node] = new_param(
                node.tensor_type, node.attrs.get("name", "outer"), locs=node.locs
            )
        else:
            stack.extend(reversed(node.args))
    inside = substitute_nodes(outputs, captured)
    return close((*own, *captured.values()), inside), list(captured)
