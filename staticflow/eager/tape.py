"""The walk back over the tape: ``backward`` and ``grad``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

import numpy as np

from staticflow.eager.anomaly import check_nan
from staticflow.eager.device import is_writeable
from staticflow.eager.overwrite import add_into
from staticflow.eager.ownership import OwnedArrays, owned_copy
from staticflow.eager.part_gradient import Parts, add_part, part_of, whole_of
from staticflow.eager.row_gradient import is_of_rows, to_dense
from staticflow.eager.vertex import Vertex
from staticflow.errors import AutogradError, DTypeError, ShapeError, StaticflowError
from staticflow.graph.articles import class_in_words
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.masked_arrays import refuse_masked
from staticflow.ops.basics.arithmetic import add, cast
from staticflow.ops.declaring.thread import thread
from staticflow.ops.tensors.methods import Methods

__all__ = ["WALK", "backward", "grad", "install_walk", "sum_cotangents"]


class _Walk:
    """What walks on as long as vertices are usual (`staticflow.eager.fast.walk`): native code, or
    None where there is none."""

    __slots__ = ("form",)

    def __init__(self) -> None:
        self.form: Callable[..., tuple[Any, Any]] | None = None


WALK = _Walk()


def install_walk(form: Callable[..., tuple[Any, Any]] | None) -> None:
    """Let native code walk from now on, where there is any."""
    WALK.form = form


def _walk(
    roots: Sequence[tuple[Vertex, Any]],
    retain: bool,
    wanted: dict[Vertex, Any] | None = None,
    followed: Mapping[Vertex, Sequence[Vertex | None]] | None = None,
) -> dict[Vertex, Any]:
    """The cotangents of the leaves that ``roots`` (vertices and their cotangents) lead to.

    A vertex has a larger serial number than those that it leads to, so in falling order each one
    comes after all its users, and contributions are added in an order that the recording gave.
    The cotangents of the vertices in ``wanted`` are put there. ``followed`` has the edges to follow
    of each vertex, all unless given.
    """
    leaves: dict[Vertex, Any] = {}
    waiting: dict[int, tuple[Vertex, Any]] = {}  # by serial
    order: list[int] = []  # a heap of the negative serials of those
    sums: set[int] = set()  # the ids of sums that were made here, to which one may add in place
    edges: Sequence[Vertex | None] = [vertex for vertex, _ in roots]
    pulled: Sequence[Any] = [ct for _, ct in roots]
    next_vertex: Vertex = None
    next_ct: Any = None
    anomaly = thread.state.anomaly
    walk_on = None if anomaly else WALK.form
    while True:
        if walk_on is not None:
            vertex, ct = walk_on(
                edges, pulled, retain, leaves, waiting, order, sums, wanted, followed
            )
            if vertex is None:
                return _through_hooks(leaves)
        else:
            first = 0  # the largest serial of these deposits, which mostly is the next
            for i, ct in enumerate(pulled):  # zip takes longer
                vertex = edges[i]
                if vertex is None or ct is None:
                    continue
                serial = vertex.serial
                if not serial:
                    before = leaves.get(vertex)
                    leaves[vertex] = ct if before is None else sum_cotangents(before, ct, sums)
                elif serial in waiting:
                    waiting[serial] = vertex, sum_cotangents(waiting[serial][1], ct, sums)
                elif serial > first:
                    if first:
                        waiting[first] = next_vertex, next_ct
                        heappush(order, -first)
                    first, next_vertex, next_ct = serial, vertex, ct
                elif serial == first:
                    next_ct = sum_cotangents(next_ct, ct, sums)
                else:
                    waiting[serial] = vertex, ct
                    heappush(order, -serial)
            if order and -order[0] > first:
                vertex, ct = waiting.pop(-heappop(order))
                if first:
                    waiting[first] = next_vertex, next_ct
                    heappush(order, -first)
            elif first:
                vertex, ct = next_vertex, next_ct
            else:
                return _through_hooks(leaves)
            if sums:
                sums.discard(id(ct))  # a vjp may pass it on as it is, to several
        if type(ct) in _OF_PARTS:
            ct = whole_of(ct)
        if vertex.hooks is not None:
            ct = vertex.hooks(ct)
        if wanted is not None and vertex in wanted:
            wanted[vertex] = ct
        if followed is None:
            edges = vertex.edges
        else:
            edges = followed[vertex]
            if not edges:
                pulled = ()
                continue
        try:
            pulled = vertex.pull(ct, edges, retain)
        except StaticflowError:
            raise
        except Exception as error:
            at = format_locs(vertex.locs)
            error.add_note(f"in the backward of {vertex.name()}, which was recorded at {at}")
            raise
        if anomaly:
            check_nan(vertex, pulled)


def _through_hooks(leaves: dict[Vertex, Any]) -> dict[Vertex, Any]:
    """The cotangents of leaves as the hooks of these make them."""
    made = {v: whole_of(ct) for v, ct in leaves.items()}
    return {v: ct if v._hooks is None else v._hooks(to_dense(ct)) for v, ct in made.items()}


_OF_PARTS = (tuple, Parts)
"""The classes of cotangents of parts that wait for others."""


def sum_cotangents(before: Any, ct: Any, sums: set[int]) -> Any:
    """Two cotangents of one vertex as one; those of several results by number."""
    if type(before) is dict:
        for index, more in ct.items():  # a saved result has an `Output` of its own
            had = before.get(index)
            before[index] = more if had is None else add(had, more)
        return before
    if type(ct) is tuple and type(before) in _OF_PARTS:
        parts = add_part(before, ct)
        if parts is not None:
            return parts
    if type(before) in _OF_PARTS:
        before = whole_of(before)
        sums.add(id(before))
    if type(ct) is tuple:
        part, more = part_of(before._data, ct), ct[1]._data
        if id(before) in sums and part.dtype is more.dtype:
            add_into(part, more)
            return before
        ct = whole_of(ct)
    state = thread.state
    if state.recording:
        return add(before, ct)
    if id(before) in sums and before._data.dtype is ct._data.dtype:
        add_into(before._data, ct._data)
        return before
    total = add(before, ct)
    sums.add(id(total))
    return total


def _roots(outputs: Sequence[Any], gradients: Sequence[Any]) -> list[tuple[Vertex, Any]]:
    roots = []
    for out, gradient in zip(outputs, gradients, strict=True):
        edge = _vertex_of(out)
        if edge is None:
            raise AutogradError(
                f"the tensor of shape {list(out.shape)} has no graph: nothing that it was computed "
                "from requires a gradient; set requires_grad=True on what it should be "
                "differentiated by, and compute it outside sf.no_grad(); a compiled program "
                f"records nothing either, let it give sf.grad(loss, w), at {format_locs(here())}"
            )
        roots.append((edge, _seed(out, gradient)))
    return roots


def _vertex_of(x: Any) -> Vertex:
    """The vertex of a tensor. Raises `DTypeError` for what is none."""
    if not hasattr(x, "_current_vertex"):
        raise DTypeError(
            f"gradients are of tensors by tensors, not of {type(x).__name__}, "
            f"at {format_locs(here())}"
        )
    return x._current_vertex()


def _seed(out: Any, gradient: Any) -> Any:
    """The cotangent that the walk begins with at ``out``."""
    if isinstance(gradient, np.ndarray):
        refuse_masked(gradient)
        dtype_of(gradient.dtype)  # which refuses others
        gradient = type(out)._wrap(np.asarray(gradient))
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
    return out._wrap(np.ones_like(out._data))


def backward(
    outputs: Sequence[Any],
    gradients: Sequence[Any],
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradient of ``outputs`` to the ``.grad`` of every leaf that they were computed from,
    or of ``inputs`` (a tensor or several) alone."""
    targets = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if inputs is not None:
        _check_inputs(targets)
    roots = _roots(outputs, gradients)
    retain = create_graph if retain_graph is None else retain_graph
    owned = OwnedArrays()
    for _, ct in roots:
        owned.mark(ct._data)
    state = thread.state
    before = state.recording, state.owned, state.autocast, state.usual
    try:
        state.recording, state.owned, state.autocast = create_graph, owned, None
        state.settle()
        state.last_backward = here()
        found: Iterable[tuple[Any, Any]]
        if inputs is None:
            found = _walk(roots, retain).items()
        else:
            found = zip(targets, _cotangents_of(roots, targets, retain), strict=True)
        for t, ct in found:
            if ct is None:
                continue
            _accumulate(t, ct, owned)
            if t._hooks is not None:
                t._hooks.call_after(t)
    finally:
        state.recording, state.owned, state.autocast, state.usual = before


def _check_inputs(inputs: Sequence[Any]) -> None:
    if not inputs:
        raise AutogradError(f"backward: inputs= must not be empty, at {format_locs(here())}")
    for i, t in enumerate(inputs):
        if not hasattr(t, "_current_vertex"):
            raise DTypeError(
                f"backward: entry {i} of inputs= must be a tensor, not {class_in_words(t)}, "
                f"at {format_locs(here())}"
            )
        if not t.requires_grad:
            raise AutogradError(
                f"backward: entry {i} of inputs= does not require a gradient, "
                f"at {format_locs(here())}"
            )


def _accumulate(leaf: Any, ct: Any, owned: OwnedArrays) -> None:
    """Add ``ct`` to the gradient of ``leaf``: in place, so that who holds it sees it, unless the
    addition is to be recorded."""
    state = thread.state
    grad = leaf._grad
    if is_of_rows(grad):
        grad = leaf._grad = to_dense(grad)
    if grad is None and is_of_rows(ct):
        leaf._grad = ct
    elif grad is None:
        data = ct._data
        if not owned.claim(data, leaf._data, whole=state.recording):
            ct = ct.clone() if state.recording else ct._wrap(owned_copy(data))
        elif data.base is not None:
            ct = ct._wrap(data)  # no view of what the walk computed
        leaf.grad = ct
    elif state.recording:
        leaf.grad = grad + ct
    elif grad.dtype is ct.dtype and is_writeable(grad._data):
        grad._bump()
        add_into(grad._data, ct._data)
    else:
        grad.add_(ct)


def grad(
    outputs: Sequence[Any],
    wrt: Sequence[Any],
    cotangents: Sequence[Any],
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> list[Any]:
    """The gradients of ``outputs`` with respect to ``wrt``; None for what is not reached. Nobody's
    ``.grad`` is touched, and only what ``wrt`` needs is computed."""
    roots = _roots(outputs, cotangents)
    retain = create_graph if retain_graph is None else retain_graph
    state = thread.state
    before = state.recording, state.autocast, state.usual
    try:
        state.recording, state.autocast = create_graph, None
        state.settle()
        state.last_backward = here()
        return _cotangents_of(roots, wrt, retain)
    finally:
        state.recording, state.autocast, state.usual = before


def _cotangents_of(
    roots: Sequence[tuple[Vertex, Any]], wrt: Sequence[Any], retain: bool
) -> list[Any]:
    """The cotangents of ``wrt`` by a walk to them alone; None for what is not reached."""
    targets = [_vertex_of(w) for w in wrt]
    wanted: dict[Vertex, Any] = dict.fromkeys(targets)
    wanted.pop(None, None)
    followed = _edges_to(wanted, [v for v, _ in roots])
    starts = [(v, ct) for v, ct in roots if v in followed]
    leaves = _walk(starts, retain, wanted, followed)
    return [None if t is None else to_dense(leaves.get(t, wanted[t])) for t in targets]


def _edges_to(
    wanted: dict[Vertex, Any], roots: Sequence[Vertex]
) -> dict[Vertex, Sequence[Vertex | None]]:
    """The vertices from which one of ``wanted`` can be reached, with their edges on the way there:
    None in the place of others, and none at all of a vertex that is itself where ways end."""
    found = dict.fromkeys(roots)
    stack = list(found)
    while stack:
        vertex = stack.pop()
        for edge in vertex.edges if vertex.serial else ():
            if edge is not None and edge not in found:
                found[edge] = None
                stack.append(edge)
    followed: dict[Vertex, Sequence[Vertex | None]] = {}
    for vertex in sorted(found, key=attrgetter("serial")):
        leads, whole = False, True
        edges = vertex.edges if vertex.serial else ()
        for edge in edges:
            if edge in followed:
                leads = True
            elif edge is not None:
                whole = False
        if leads:
            followed[vertex] = (
                edges if whole else tuple([e if e in followed else None for e in edges])
            )
        elif vertex in wanted:
            followed[vertex] = ()
    return followed
