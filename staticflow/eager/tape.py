"""The tape: what each recorded operation keeps, and the walk back over it.

A vertex is a `TapeEntry`, or a leaf `Tensor` itself, where the gradient is added up. Entries point
to what came before them and never to what they gave, so a graph is freed by reference counts alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.autodiff.reverse import reverse
from staticflow.eager.grad_mode import set_grad_enabled
from staticflow.eager.memory import Version
from staticflow.errors import AutogradError, DTypeError, ShapeError
from staticflow.graph.dtypes import DType
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.graph.op import OUT, Op
from staticflow.ops.arithmetic import add, cast
from staticflow.ops.methods import Methods

if TYPE_CHECKING:
    from staticflow.eager.tensor import Tensor

__all__ = ["TapeEntry", "backward", "grad"]

Vertex = Any  # TapeEntry | Tensor
Edge = tuple[Vertex, int]


class Shadow(Methods):
    """The shape and dtype of a tensor whose value the vjp does not need, and so is not kept."""

    __slots__ = ("__sf_mode__", "_dtype", "_shape")

    def __init__(self, tensor: Tensor) -> None:
        self._shape, self._dtype = tensor.shape, tensor.dtype
        self.__sf_mode__ = tensor.__sf_mode__

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> DType:
        return self._dtype


class Saved:
    """A tensor that a vjp needs: its array, where it came from, and which version it was."""

    __slots__ = ("array", "edge", "name", "seen", "version")

    def __init__(self, tensor: Tensor, edge: Edge | None, name: str) -> None:
        self.array = tensor._data
        self.version = tensor._version
        self.seen = tensor._version.count
        self.edge = edge
        self.name = name

    def unpack(self, entry: TapeEntry, tensor: type[Tensor]) -> Tensor:
        """The tensor again, on the tape where it was."""
        if self.version.count != self.seen:
            raise AutogradError(
                f"{entry.op.name}: {self.name}, {self.array.dtype}{list(self.array.shape)}, needed "
                f"for the gradient was changed in place after it was used: it is at version "
                f"{self.version.count}, version {self.seen} is needed; changed at "
                f"{format_locs(self.version.locs)}, used at {format_locs(entry.locs)}. Change a "
                "clone instead, or compute out of place (y = y + 1)"
            )
        edge = (entry, 0) if self.edge is None and self.name == "its output" else self.edge
        return tensor._on_tape(self.array, self.version, edge)


class TapeEntry:
    """One recorded operation. With ``several`` results its vjp takes the cotangents by index, and
    every argument is kept."""

    __slots__ = ("__weakref__", "attrs", "edges", "locs", "op", "saved", "several")

    def __init__(
        self,
        op: Op,
        args: Sequence[Any],
        attrs: Mapping[str, Any],
        edges: tuple[Edge | None, ...],
        several: bool = False,
    ) -> None:
        self.op = op
        self.several = several
        self.attrs = attrs
        self.edges = edges
        self.locs: Locs = here()
        keep = range(len(args)) if several else op.saves
        self.saved: list[Any] | None = [
            a if type(a) in _NUMBERS
            else Saved(a, edges[i], f"argument {i}") if i in keep
            else Shadow(a)
            for i, a in enumerate(args)
        ]  # fmt: skip

    def save_output(self, out: Tensor) -> None:
        """Keep the output (its array; the tensor itself would be a cycle) if the vjp needs it."""
        assert self.saved is not None
        keep = Saved(out, None, "its output") if OUT in self.op.saves else Shadow(out)
        self.saved.append(keep)

    def keep_before_change(self, version: Version) -> None:
        """Copy what is saved of the memory of ``version``, which this operation's result is about
        to overwrite."""
        for s in self.saved or ():
            if type(s) is Saved and s.version is version:
                s.array, s.version, s.seen = s.array.copy(), Version(), 0

    @property
    def name(self) -> str:
        """The name that ``grad_fn`` prints."""
        return self.op.grad_name

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """What the arguments came from, as in PyTorch."""
        return tuple((None, 0) if e is None else e for e in self.edges)

    def pull(self, cts: dict[int, Any], tensor: type[Tensor], keep: bool) -> Sequence[Any]:
        """The cotangents of the arguments."""
        if self.saved is None:
            raise AutogradError(
                f"backward goes through {self.op.name} (made at {format_locs(self.locs)}) a second "
                "time, but its saved values were freed by the first; call the first one with "
                "retain_graph=True"
            )
        values = [s.unpack(self, tensor) if type(s) is Saved else s for s in self.saved]
        needs = [e is not None for e in self.edges]
        if not keep and any(type(s) is Saved for s in self.saved):
            self.saved = None
        assert self.op.vjp is not None
        ct = cts if self.several else cts[0]
        return self.op.vjp(needs, ct, values[-1], *values[:-1], **self.attrs)

    def __repr__(self) -> str:
        return f"<{self.name}>"


_NUMBERS = {bool, int, float}


def _walk(
    outputs: Sequence[Any],
    cotangents: Sequence[Any],
    keep: bool,
    create_graph: bool,
    collect: Any,
) -> None:
    tensor = type(outputs[0])

    def parents(vertex: Vertex) -> Sequence[Edge | None]:
        return vertex.edges if type(vertex) is TapeEntry else ()

    def pull(vertex: Vertex, cts: dict[int, Any]) -> Sequence[Any]:
        collect(vertex, cts)
        return vertex.pull(cts, tensor, keep) if type(vertex) is TapeEntry else ()

    roots = []
    for out, ct in zip(outputs, cotangents, strict=True):
        edge = out._edge()
        if edge is None:
            raise AutogradError(
                f"the tensor of shape {list(out.shape)} has no graph: nothing that it was computed "
                "from requires a gradient; set requires_grad=True on what it should be "
                f"differentiated by, and compute it outside sf.no_grad(), at {format_locs(here())}"
            )
        roots.append((*edge, ct))
    with set_grad_enabled(create_graph):
        reverse(roots, parents, pull, add)


def _seed(out: Any, gradient: Any) -> Any:
    if isinstance(gradient, np.ndarray):
        gradient = type(out)._wrap(gradient)
    if gradient is not None:
        if not isinstance(gradient, Methods):
            raise DTypeError(
                f"the gradient is {type(gradient).__name__}; give a tensor or a NumPy array, "
                f"at {format_locs(here())}"
            )
        if gradient.shape != out.shape:
            raise ShapeError(
                f"the gradient has shape {list(gradient.shape)} and the tensor {list(out.shape)}, "
                f"at {format_locs(here())}"
            )
        return gradient if gradient.dtype is out.dtype else cast(gradient, dtype=out.dtype)
    if out.numel() != 1:
        raise AutogradError(
            f"backward of a tensor of shape {list(out.shape)}: only a single number has a gradient "
            "by itself; reduce it (loss.sum().backward()) or give the gradient of what follows, "
            f"backward(gradient), at {format_locs(here())}"
        )
    return type(out)._wrap(np.ones(out.shape, out.dtype.numpy))


def backward(
    out: Any, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """Add the gradient of ``out`` to the ``.grad`` of every leaf that it was computed from."""
    seed = _seed(out, gradient)
    taken = {id(seed._data)}  # arrays that are somebody's already

    def collect(vertex: Vertex, cts: dict[int, Any]) -> None:
        if type(vertex) is TapeEntry:
            return
        ct = cts[0]
        if vertex.grad is None:
            owned = ct._data.base is None and ct._data.flags.writeable
            vertex.grad = ct if owned and id(ct._data) not in taken else ct.clone()
            taken.add(id(vertex.grad._data))
        elif create_graph:
            vertex.grad = vertex.grad + ct
        else:
            vertex.grad.add_(ct)

    keep = create_graph if retain_graph is None else retain_graph
    _walk([out], [seed], keep, create_graph, collect)


def grad(
    outputs: Sequence[Any],
    wrt: Sequence[Any],
    cotangents: Sequence[Any],
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> list[Any]:
    """The gradients of ``outputs`` with respect to ``wrt``; None for what is not reached. Nobody's
    ``.grad`` is touched."""
    edges = [w._edge() for w in wrt]
    reached: dict[Edge | None, Any] = dict.fromkeys(edges)

    def collect(vertex: Vertex, cts: dict[int, Any]) -> None:
        for index, ct in cts.items():
            if (vertex, index) in reached:
                reached[vertex, index] = ct

    keep = create_graph if retain_graph is None else retain_graph
    seeds = [_seed(o, c) for o, c in zip(outputs, cotangents, strict=True)]
    _walk(outputs, seeds, keep, create_graph, collect)
    return [reached[e] for e in edges]
