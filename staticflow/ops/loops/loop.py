"""The ops that loop: a body is run again and again on what it carries.

Their operands are laid out as carries, xs (of which each iteration gets a row) and captured values,
and so are the params of the body; the results, and the outputs of the body, are carries and ys (of
which each iteration gives a row).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from staticflow.data_classes import dataclass
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, is_provably_ge, same
from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.locs import Locs, format_locs
from staticflow.graph.node import Node, make_node, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.creation import full, zeros_like
from staticflow.ops.basics.slicing import embed_op
from staticflow.ops.declaring.late import ties_among
from staticflow.ops.declaring.lowering import Region
from staticflow.ops.loops.region import close_over, trace
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.flow import flow_through
from staticflow.ops.symbols.gradient import pullback, pushforward
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["Loop", "loop_ops", "scan_op", "while_op"]

T = TypeVar("T")
Pair = tuple[Node, Node]


@dataclass(frozen=True, slots=True)
class Loop:
    """What the attributes of a loop say.

    ``length`` is the number of iterations; a *guarded* loop, which asks its first carry before each
    iteration, makes at most that many if it is not None. ``binds`` is the number of iterations that
    a guarded loop turns out to make. The xs have as many rows as there are iterations, or more.
    """

    body: Graph
    carries: int
    xs: int
    length: Size | None
    reverse: bool = False
    binds: tuple[Dim, ...] = ()

    @staticmethod
    def of(node: Node) -> Loop:
        """The loop that a node is."""
        return Loop(**node.attrs)

    @property
    def op(self) -> Op:
        """`scan_op`, or `while_op` for a guarded loop."""
        return while_op if self.binds else scan_op

    @property
    def iterations(self) -> Size:
        """The number of iterations, known before the loop or only after it."""
        if self.binds:
            return self.binds[0]
        assert self.length is not None
        return self.length

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of a node that is this loop."""
        found = {
            "body": self.body, "carries": self.carries, "xs": self.xs, "length": self.length,
        }  # fmt: skip
        return found | ({"binds": self.binds} if self.binds else {"reverse": self.reverse})

    def operands(self, values: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
        """Operands, or params of the body: carries, xs, captured values."""
        first, second = self.carries, self.carries + self.xs
        return values[:first], values[first:second], values[second:]

    def pairs(self, args: Sequence[Node]) -> tuple[Sequence[Pair], Sequence[Pair], Sequence[Pair]]:
        """Carries, xs, captured values: each param of the body with its operand among ``args``."""
        return self.operands(list(zip(self.body.params, args, strict=True)))

    def results(self, values: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
        """Results, or outputs of the body: carries, ys."""
        return values[: self.carries], values[self.carries :]

    def remade(
        self,
        outputs: Sequence[Node],
        carries: Sequence[Pair],
        xs: Sequence[Pair],
        captured: Sequence[Pair],
        locs: Locs,
    ) -> Node:
        """This loop with another body, which gives ``outputs``, on other operands, each behind the
        param that stands for it. Of xs and captured values it keeps what the body needs, and
        what nobody reads but ties it to what binds its length."""
        needed = set(toposort(outputs))
        rows = [(p, a) for p, a in xs if p in needed or p.tensor_type.size == 0]
        pairs = [*carries, *rows, *((p, a) for p, a in captured if p in needed)]
        everything = [a for _, a in (*carries, *xs, *captured)]
        ties = ties_among(everything, [a for _, a in pairs], {"length": self.length})
        own = {a: p for p, a in captured}
        pairs += [(own.get(tie) or new_param(tie.tensor_type, "tie"), tie) for tie in ties]
        params, body = tuple(p for p, _ in pairs), self.body
        if (params, tuple(outputs)) != (body.params, body.outputs):
            body = close(params, outputs, body.equalities)
        new = replace(self, body=body, carries=len(carries), xs=len(rows))
        return make_node(self.op, tuple(a for _, a in pairs), new.attrs, locs)


def loop_ops() -> tuple[Op, ...]:
    """The ops whose nodes `Loop` reads."""
    return (scan_op, while_op)


# -- types ---------------------------------------------------------------------------------------


def _infer(facts: Facts, *args: TensorType, **attrs: Any) -> tuple[TensorType, ...]:
    loop = Loop(**attrs)
    body = loop.body
    if len(args) != len(body.params):
        raise ShapeError(f"the body takes {len(body.params)} values, {len(args)} are given")
    if loop.carries > len(body.outputs) or loop.carries + loop.xs > len(args):
        raise ShapeError(
            f"of {loop.carries} carries and {loop.xs} xs the body takes {len(args)}, and gives "
            f"{len(body.outputs)} carries"
        )
    for position, (given, inner) in enumerate(zip(args, body.params, strict=True)):
        wanted = inner.tensor_type
        if loop.carries <= position < loop.carries + loop.xs:
            wanted = TensorType(wanted.dtype, (_rows(given, loop), *wanted.shape))
        same_type(facts, given, wanted, f"operand {position}")
    assume_inside(facts, body)
    carries, ys = loop.results([o.tensor_type for o in body.outputs])
    for position, (given, out) in enumerate(zip(args, carries, strict=False)):
        same_type(facts, out, given, f"carry {position}")
    if loop.binds and (not carries or carries[0] != TensorType(bool_, ())):
        raise DTypeError("the first carry of a guarded loop, its flag, is a bool of no dims")
    return (*carries, *(TensorType(y.dtype, (loop.iterations, *y.shape)) for y in ys))


def _rows(x: TensorType, loop: Loop) -> Size:
    """How many rows an operand among the xs must have: enough for the iterations."""
    needed = loop.iterations if loop.length is None else loop.length
    return x.shape[0] if x.shape and is_provably_ge(x.shape[0], needed) else needed


def same_type(facts: Facts, given: TensorType, wanted: TensorType, what: str) -> None:
    """Two types must be one; sizes that are not known yet are assumed equal."""
    if given.dtype is not wanted.dtype or given.ndim != wanted.ndim:
        raise ShapeError(f"{what} is {given} where {wanted} is needed")
    for a, b in zip(given.shape, wanted.shape, strict=True):
        facts.equal(a, b, f"the sizes of {what}, {given}, and of what is needed, {wanted}")


def assume_inside(facts: Facts, body: Graph) -> None:
    """What a region assumes is assumed around it, unless it names sizes that only the region
    knows: those are checked inside."""
    inner = body.bound_sizes
    for out in body.outputs:
        if any(not inner.isdisjoint(symbols_of(d)) for d in out.tensor_type.shape):
            raise ShapeError(
                f"a result is {out.type}, of a size that only the inside can tell, at "
                f"{format_locs(out.locs)}; reduce it, or write it into a tensor of a known size"
            )
    for equality in body.equalities:
        if inner.isdisjoint(symbols_of(equality.a) | symbols_of(equality.b)):
            facts.equal(equality.a, equality.b, equality.reason)


# -- references ------------------------------------------------------------------------------------


def _scan_reference(
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


def _while_reference(
    xp: Any, *args: Any, body: Any, carries: int, xs: int, length: int | None, binds: Any
) -> tuple[Any, ...]:
    carry, rows, rest = args[:carries], args[carries : carries + xs], args[carries + xs :]
    ys: list[tuple[Any, ...]] = []
    while carry[0] and (length is None or len(ys) < length):
        outs = body(*carry, *(x[len(ys)] for x in rows), *rest)
        carry = outs[:carries]
        ys.append(outs[carries:])
    columns = [xp.asarray(c) for c in zip(*ys, strict=True)] or [
        xp.empty((0, *t.shape), dtype=t.dtype.numpy) for t in body.output_types[carries:]
    ]
    return (*carry, *columns)


# -- where gradients go ----------------------------------------------------------------------------


def _flows(**attrs: Any) -> list[set[int]]:
    """A carry leads back to what it began with, and to all that an iteration makes it of, in as
    many iterations as it takes."""
    loop = Loop(**attrs)
    through = flow_through(loop.body)
    runs = isinstance(loop.length, int) and loop.length > 0 and not loop.binds
    ways = [set(through[i]) if runs else {i, *through[i]} for i in range(loop.carries)]

    def grow(own: set[int]) -> bool:
        before = len(own)
        own.update(*(ways[i] for i in range(loop.carries) if i in own))
        return len(own) > before

    while any([grow(own) for own in ways]):
        pass
    ys = [set(through[i]) for i in range(loop.carries, len(through))]
    for own in ys:
        grow(own)
    return [*ways, *ys]


# -- the derivative, backward ---------------------------------------------------------------------


def _vjp(
    needs: Sequence[bool], cts: Sequence[Any], out: Any, *args: Any, **attrs: Any
) -> list[Any]:
    """A scan the other way round, of as many iterations.

    It reads the carries that each iteration began with, which a first loop stacks (the pass
    ``merge`` makes that one with the loop that is differentiated), computes the iteration again
    and pulls the cotangents through it. Cotangents of captured values are summed in the carry.
    """
    loop = Loop(**attrs)
    params = loop.body.params
    args = tuple(Symbol(to_node(a, p.tensor_type.dtype)) for a, p in zip(args, params, strict=True))
    begun, tie = _stack_starts(loop, args)
    always = (
        [Symbol(constant_node(True, bool_))] if loop.binds else []
    )  # the flag, as iterations begin
    _, xs, captured = loop.operands(args)
    real = [i for i, p in enumerate(params) if p.tensor_type.dtype.is_floating]
    carry_at = [i for i in real if i < loop.carries]
    x_at = [i for i in real if loop.carries <= i < loop.carries + loop.xs and needs[i]]
    captured_at = [i for i in real if i >= loop.carries + loop.xs and needs[i]]
    start = [cts[i] if cts[i] is not None else zeros_like(args[i]) for i in carry_at]
    sums = [zeros_like(args[i]) for i in captured_at]
    y_at = [
        i for i in range(loop.carries, len(loop.body.outputs))
        if cts[i] is not None and loop.body.outputs[i].tensor_type.dtype.is_floating
    ]  # fmt: skip

    def step(state: Sequence[Any], row: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        ct_carry, ct_captured = state[: len(carry_at)], state[len(carry_at) :]
        inside, ct_y = [*always, *row[: len(begun) + loop.xs]], row[len(begun) + loop.xs :]
        mapping = {p: to_node(v) for p, v in zip(params, [*inside, *captured], strict=True)}
        # fresh handles, so that two params that stand for one value keep their own cotangents
        leaves = {p: new_param(p.tensor_type, "at") for p in params}
        outs = substitute_nodes(loop.body.outputs, leaves)
        wanted = [*carry_at, *x_at, *captured_at]
        pulled = pullback(
            [Symbol(outs[i]) for i in [*carry_at, *y_at]],
            [*ct_carry, *ct_y],
            [Symbol(leaves[params[i]]) for i in wanted],
        )
        back = {leaf: mapping[p] for p, leaf in leaves.items()}
        settled = {
            i: zeros_like(Symbol(mapping[params[i]])) if g is None
            else Symbol(substitute_nodes([g.node], back)[0])
            for i, g in zip(wanted, pulled, strict=True)
        }  # fmt: skip
        totals = [s + settled[i] for s, i in zip(ct_captured, captured_at, strict=True)]
        return [*(settled[i] for i in carry_at), *totals], [settled[i] for i in x_at]

    rows = [*begun, *xs, *(cts[i] for i in y_at)]
    last, ct_xs = _reverse_scan(step, [*start, *sums], rows, tie, loop)
    ct_xs = [_among_rows(ct, args[i]) for ct, i in zip(ct_xs, x_at, strict=True)]
    ct_init, ct_captured = last[: len(carry_at)], last[len(carry_at) :]
    found = dict(
        zip([*carry_at, *x_at, *captured_at], [*ct_init, *ct_xs, *ct_captured], strict=True)
    )
    return [found.get(i) if need else None for i, need in enumerate(needs)]


def _among_rows(ct: Any, x: Any) -> Any:
    """The cotangent of ``x``, of which a loop has read its first rows, or all."""
    if same(ct.shape[0], x.shape[0]):
        return ct
    return embed_op(ct, shape=x.shape, start=(0,) * ct.ndim, step=(1,) * ct.ndim)


def _stack_starts(loop: Loop, args: Sequence[Symbol]) -> tuple[list[Any], list[Any]]:
    """The carries that each iteration began with, stacked, but for the flag of a guarded loop. That
    has a *tie* instead, a stack of nothing: it has the number of iterations for a size, and no
    memory."""
    params = loop.body.params
    began: list[Node] = list(params[: loop.carries])
    if loop.binds:
        began[0] = full.beside(args[0], shape=(0,), value=False, dtype=bool_).node
    body = close(params, (*loop.body.outputs[: loop.carries], *began), loop.body.equalities)
    stacked = list(loop.op(*args, **(loop.attrs | {"body": body}))[loop.carries :])
    return (stacked[1:], stacked[:1]) if loop.binds else (stacked, [])


def _reverse_scan(
    step: Any, start: Sequence[Any], rows: Sequence[Any], tie: Sequence[Any], loop: Loop
) -> tuple[list[Any], list[Any]]:
    """The scan of ``step`` over ``rows`` from the end (or from the front, where ``loop`` ran from
    the end). The ``tie`` goes along, so that the loop stands behind what binds its length."""
    split = len(start)
    inner = [TensorType(r.dtype, r.__sf_shape__[1:]) for r in (*rows, *tie)]
    own, (carries, ys), began = trace(
        lambda values: step(values[:split], values[split : split + len(rows)]),
        [*(to_node(s).tensor_type for s in start), *inner],
    )
    region = close_over(own, [to_node(v) for v in (*carries, *ys)], began)
    values = scan_op(
        *start, *rows, *tie, *map(Symbol, region.captured),
        body=region.graph(), carries=split, xs=len(inner), length=loop.iterations,
        reverse=not loop.reverse,
    )  # fmt: skip
    return list(values[:split]), list(values[split:])


# -- the derivative, forward -----------------------------------------------------------------------


def _jvp(tangents: Sequence[Any], out: Any, *args: Any, **attrs: Any) -> list[Any]:
    """A loop of the same kind that carries tangents beside the values, and keeps nothing.

    A carry has a tangent if it starts with one or if an iteration gives it one from those of
    others. Values and tangents are computed together; the pass ``merge`` makes the loop that was
    there one with this.
    """
    loop = Loop(**attrs)
    params = loop.body.params
    args = tuple(Symbol(to_node(a, p.tensor_type.dtype)) for a, p in zip(args, params, strict=True))
    seeds = {
        i: new_param(params[i].tensor_type, "tangent")
        for i, t in enumerate(tangents) if t is not None
    }  # fmt: skip
    while True:
        moved = pushforward(
            list(map(Symbol, loop.body.outputs)),
            [Symbol(params[i]) for i in seeds],
            [Symbol(s) for s in seeds.values()],
        )
        late = [i for i, t in enumerate(moved[: loop.carries]) if t is not None and i not in seeds]
        if not late:
            break
        seeds |= {i: new_param(params[i].tensor_type, "tangent") for i in late}
    at = sorted(seeds)
    kinds = [[i for i in at if i in kind] for kind in map(set, loop.operands(range(len(params))))]
    carries, xs, _ = kinds
    ys = [i for i in range(loop.carries, len(moved)) if moved[i] is not None]
    ends = [zeros_like(Symbol(params[i])) if moved[i] is None else moved[i] for i in carries]
    body = close(
        _interleave(loop.operands(params), [[seeds[i] for i in kind] for kind in kinds]),
        _interleave(
            loop.results(loop.body.outputs),
            [[t.node for t in ends], [moved[i].node for i in ys]],
        ),
        loop.body.equalities,
    )
    given = [[zeros_like(args[i]) if tangents[i] is None else tangents[i] for i in kind]
             for kind in kinds]  # fmt: skip
    new = replace(loop, body=body, carries=loop.carries + len(carries), xs=loop.xs + len(xs))
    values = new.op(*_interleave(loop.operands(args), given), **new.attrs)
    last, stacked = new.results(values)
    found = dict(zip(carries, last[loop.carries :], strict=True))
    found |= dict(zip(ys, stacked[len(stacked) - len(ys) :], strict=True))
    return [found.get(i) for i in range(len(loop.body.outputs))]


def _interleave(values: Sequence[Sequence[T]], tangents: Sequence[Sequence[T]]) -> list[T]:
    """Values and tangents in one list: of each kind first the values, then the tangents."""
    return [v for kind in zip(values, tangents, strict=True) for part in kind for v in part]


scan_op = Op(
    name="scan",
    doc="A loop of ``length`` iterations over a body. Arguments: carries, xs, captured values; "
    "results: the last carries, then the stacked ys.",
    infer=_infer,
    reference=_scan_reference,
    vjp=_vjp,
    jvp=_jvp,
    flows=_flows,
    lowering=Region(),
    grad_name="ScanBackward",
)

while_op = Op(
    name="while",
    doc="A loop that goes on while its first carry is true, for ``length`` iterations at most if "
    "there is one. Arguments and results as those of scan; ``binds`` is the number of iterations.",
    infer=_infer,
    reference=_while_reference,
    vjp=_vjp,
    jvp=_jvp,
    flows=_flows,
    lowering=Region(),
    grad_name="WhileBackward",
)
