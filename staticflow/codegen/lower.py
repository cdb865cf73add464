"""From a cluster to a kernel.

The lowering writes the plain loops that the ops' index maps ask for, and says which of them are the
innermost whose iterations may share a register; schedules make them fast (`schedule_cpu`, and
`bind_grid` for a GPU). Matrix products alone are written for a target at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from staticflow.codegen.kernel import Buffer, Kernel
from staticflow.codegen.lower_contract import lower_contract
from staticflow.codegen.lower_loops import lower_loops
from staticflow.codegen.math import Scalars
from staticflow.codegen.nest import Nest
from staticflow.codegen.target import Target
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import DType
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType

__all__ = ["Lowered", "Scratch", "lower_cluster"]


@dataclass(frozen=True, slots=True)
class Scratch:
    """Working memory that a kernel wants: elements of a dtype."""

    dtype: DType
    size: Size


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel and its buffers in order: params, then outputs that share no param, then scratch.

    ``inner`` are the variables of the loops to vectorise, ``bits`` the width of the widest element
    there.
    """

    kernel: Kernel
    scratch: Scratch | None = None
    inner: tuple[Sym, ...] = ()
    bits: int = 32


def lower_cluster(
    body: Graph, kind: str, target: Target, shared: Mapping[int, int] | None = None
) -> Lowered:
    """The kernel that computes the outputs of ``body`` from its params.

    With ``shared`` an output is written over a param; the caller has made sure that each element
    of the param is read, if at all, before it is written.
    """
    shared = dict(shared or {})
    over = set(shared.values())
    names = {p: f"p{i}" for i, p in enumerate(body.params)}
    buffers = [
        Buffer(names[p], p.tensor_type.dtype, "inout" if i in over else "in")
        for i, p in enumerate(body.params)
    ]
    outs = []
    for i, o in enumerate(body.outputs):
        if i in shared:
            outs.append(f"p{shared[i]}")
        else:
            outs.append(f"o{i}")
            buffers.append(
                Buffer(f"o{i}", o.tensor_type.dtype, "inout" if kind == "nest" else "out")
            )
    extents = {names[p]: p.tensor_type.size for p in body.params}
    k = Scalars(buffers, sorted(_sizes(body), key=lambda s: (s.name, s.serial)), extents)
    return _LOWER[kind](k, body, names, outs, target)


def _sizes(body: Graph) -> frozenset[Sym]:
    """Every unknown size that the types and attributes of a cluster name."""
    found: frozenset[Sym] = frozenset()
    for node in body.nodes:
        for t in (node.type, *node.attrs.values()):
            found |= _symbols(t)
    return found


def _symbols(value: Any) -> frozenset[Sym]:
    if isinstance(value, TensorType):
        value = value.shape
    if isinstance(value, tuple):
        return frozenset().union(*map(_symbols, value))
    return symbols_of(value) if hasattr(value, "terms") else frozenset()


def _lower_loops(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], target: Target
) -> Lowered:
    kernel, inner = lower_loops(k, body, names, outs)
    bits = max(n.tensor_type.dtype.bits for n in body.nodes)
    return Lowered(kernel, inner=tuple(inner), bits=bits)


def _lower_nest(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], target: Target
) -> Lowered:
    (node,) = body.outputs
    args = [a.tensor_type for a in node.args]
    nest = Nest(k, node.attrs, args, [node.tensor_type], [names[a] for a in node.args], outs)
    node.op.lowering.emit(nest)
    return Lowered(k.kernel("nest"), inner=tuple(nest.innermost), bits=node.tensor_type.dtype.bits)


def _lower_contract(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], target: Target
) -> Lowered:
    kernel, dtype, size = lower_contract(k, body, names, outs, target)
    return Lowered(kernel, Scratch(dtype, size) if size != 0 else None)


_LOWER: dict[str, Callable[..., Lowered]] = {
    "map": _lower_loops,
    "reduce": _lower_loops,
    "contract": _lower_contract,
    "nest": _lower_nest,
}
