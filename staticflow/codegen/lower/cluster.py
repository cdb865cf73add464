"""From a cluster to a kernel.

The lowering writes the plain loops that the ops' index maps ask for, and says which of them are the
innermost whose iterations may share a register; schedules make them fast (`schedule_cpu`, and
`schedule_gpu` for a GPU). Matrix products alone are written for a target at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from staticflow.codegen.kernel import Buffer, Kernel
from staticflow.codegen.lower.attention import lower_attention
from staticflow.codegen.lower.contract import lower_contract
from staticflow.codegen.lower.loop_dims import choose_loops, runs_inward
from staticflow.codegen.lower.loops import LoopWriter, part_of
from staticflow.codegen.lower.nest import Nest, Scratch
from staticflow.codegen.lower.rows import lower_rows
from staticflow.codegen.lower.short_rows import ColumnsWriter
from staticflow.codegen.lower.split_reductions import SplitWriter
from staticflow.codegen.lower.state import lower_state
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.codegen.unused import innermost_loops, without_unused
from staticflow.data_classes import dataclass
from staticflow.errors import CompileError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, item
from staticflow.graph.types import TensorType, types_of
from staticflow.ops.declaring.lowering import Elementwise, Reduce

__all__ = ["Lowered", "lower_cluster"]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel and its buffers in order: params, then outputs that share no param, then scratch.

    ``inner`` are the variables of the loops to vectorise, ``bits`` the width of the elements
    there.
    """

    kernel: Kernel
    scratch: tuple[Scratch, ...] = ()
    inner: tuple[Sym, ...] = ()
    bits: int = 32


def lower_cluster(
    body: Graph,
    kind: str,
    target: Target,
    shared: Mapping[int, int] | None = None,
    lies: Mapping[int, TensorType] | None = None,
) -> Lowered:
    """The kernel that computes the outputs of ``body`` from its params.

    With ``shared`` an output is written over a param; the caller has made sure that each element
    of the param is read, if at all, before it is written. ``lies`` are the types of arrays that
    outputs are written to, where these have strides.
    """
    shared, lies = dict(shared or {}), dict(lies or {})
    over = set(shared.values())
    names = {p: f"p{i}" for i, p in enumerate(body.params)}
    buffers = [
        Buffer(names[p], p.tensor_type.dtype, "inout" if i in over else "in")
        for i, p in enumerate(body.params)
    ]
    outs, inner = [], body.bound_sizes
    for i, o in enumerate(body.outputs):
        if i in shared:
            outs.append(f"p{shared[i]}")
        else:
            outs.append(f"o{i}")
            grows = not symbols_of(o.tensor_type.size).isdisjoint(inner)
            access = "grows" if grows else "inout" if kind in ("nest", "attend") else "out"
            buffers.append(Buffer(f"o{i}", o.tensor_type.dtype, access))
    extents = {names[p]: p.tensor_type.size for p in body.params}
    sizes = _sizes(body).union(*map(_symbols, lies.values()))
    k = Scalars(buffers, sorted(sizes, key=lambda s: (s.name, s.serial)), extents)
    types = [lies.get(i, o.tensor_type) for i, o in enumerate(body.outputs)]
    return _LOWER[kind](_Cluster(k, body, names, outs, types, target))


@dataclass(frozen=True, slots=True)
class _Cluster:
    """A cluster that is being lowered for a ``target``: its ``body``, the writer ``k`` of the
    kernel that will compute it, and what stands for it there: the buffer ``names`` of the body's
    params, the buffers ``outs`` of its outputs, and the ``types`` of the arrays in the latter."""

    k: Scalars
    body: Graph
    names: Mapping[Node, str]
    outs: list[str]
    types: Sequence[TensorType]
    target: Target


def _sizes(body: Graph) -> frozenset[Sym]:
    """Every unknown size that the types and attributes of a cluster name and nothing in it
    binds."""
    found: frozenset[Sym] = frozenset()
    for node in body.nodes:
        for t in (node.type, *node.attrs.values()):
            found |= _symbols(t)
    return found - body.bound_sizes


def _symbols(value: Any) -> frozenset[Sym]:
    if isinstance(value, TensorType):
        value = value.sizes
    if isinstance(value, tuple):
        return frozenset().union(*map(_symbols, value))
    if isinstance(value, Graph):
        return _sizes(value)
    return symbols_of(value) if hasattr(value, "terms") else frozenset()


def _lower_loops(c: _Cluster) -> Lowered:
    """The kernel of a ``map`` or ``reduce`` cluster."""
    reductions = [n for n in c.body.nodes if isinstance(n.op.lowering, Reduce)]
    domain, dims = c.body.outputs[0].tensor_type.shape, ()
    if reductions:
        domain = reductions[0].args[0].tensor_type.shape
        dims = reductions[0].attrs["dims"]
    nest = choose_loops(c.body, c.types, domain, dims)
    inward, bits = runs_inward(c.body, c.types, nest), _bits(c.body)
    make: Callable[..., LoopWriter] = LoopWriter
    if reductions and c.target.teams:
        make = partial(SplitWriter, inward)
    elif reductions and not inward:
        make = partial(ColumnsWriter, c.target.vector_bits // bits)
    writer = make(
        c.k, c.body, c.names, [*zip(c.outs, c.body.outputs, strict=True)], nest, reductions,
        dict(zip(c.outs, c.types, strict=True)), part_of(inward, c.target), c.target,
    )  # fmt: skip
    writer.write()
    inner = (*writer.check_vars, *(writer.inner_vars if inward else writer.outer_vars))
    return Lowered(
        c.k.kernel("reduce" if reductions else "map"), tuple(writer.scratch), inner, bits
    )


def _lower_rows(c: _Cluster) -> Lowered:
    kernel, inner, scratch = lower_rows(c.k, c.body, c.names, c.outs, c.types, c.target)
    return Lowered(kernel, tuple(scratch), tuple(inner), _bits(c.body))


def _bits(body: Graph) -> int:
    """The width of the narrowest number that the kernel works with, which is what most of the work
    is done in; of fewer than 32 bits, and of bools, only where there is nothing wider."""
    widths = {n.tensor_type.dtype.bits for n in body.nodes if n.tensor_type.dtype is not bool_}
    return min((w for w in widths if w >= 32), default=max(widths, default=8))


def _lower_nest(c: _Cluster) -> Lowered:
    first = c.body.outputs[0]
    node = first.args[0] if first.op is item else first  # of several results, all are outputs
    nest = Nest(c.k, node, c.names, c.outs, c.types, c.target)
    nest.emit(node.op.lowering)
    works = any(isinstance(n.op.lowering, Elementwise) for n in c.body.nodes)
    bits = _bits(c.body) if works else max(t.dtype.bits for t in types_of(node.type))
    kernel = c.k.kernel("nest")
    if nest.looks:
        kernel = kernel.with_body(without_unused(kernel.body))
        loops = innermost_loops(kernel.body)
        nest.innermost += [loop.var for loop in loops if loop.var in nest.looks]
    return Lowered(kernel, tuple(nest.wanted), tuple(nest.innermost), bits)


def _lower_contract(c: _Cluster) -> Lowered:
    _row_major(c.types)
    kernel, dtype, size = lower_contract(c.k, c.body, c.names, c.outs, c.target)
    return Lowered(kernel, (Scratch("scratch", dtype, size),) if size != 0 else ())


def _lower_attention(c: _Cluster) -> Lowered:
    _row_major(c.types)
    kernel, scratch = lower_attention(c.k, c.body, c.names, c.outs, c.target)
    return Lowered(kernel, tuple(scratch))


def _lower_state(c: _Cluster) -> Lowered:
    _row_major(c.types)
    kernel, scratch = lower_state(c.k, c.body, c.names, c.outs)
    return Lowered(kernel, tuple(scratch))


def _row_major(types: Sequence[TensorType]) -> None:
    for t in types:
        if t.strides is not None:
            raise CompileError(f"products and loops write row-major arrays, not {t}")


_LOWER: dict[str, Callable[..., Lowered]] = {
    "map": _lower_loops,
    "reduce": _lower_loops,
    "rows": _lower_rows,
    "contract": _lower_contract,
    "attend": _lower_attention,
    "loop": _lower_state,
    "nest": _lower_nest,
}
