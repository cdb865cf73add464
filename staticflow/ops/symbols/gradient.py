"""Gradients of symbols, giving more nodes: the reverse walk, and the forward one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

from staticflow.errors import AutogradError
from staticflow.graph.graph import new_param, substitute_nodes
from staticflow.graph.locs import format_locs, here, using
from staticflow.graph.node import Node, constant, item, toposort
from staticflow.ops.basics.arithmetic import add, stop_gradient
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.declaring.late import behind
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.declaring.thread import for_itself, thread
from staticflow.ops.symbols.attention import attend_nodes
from staticflow.ops.symbols.calls import hand_on
from staticflow.ops.symbols.flow import flow, is_real, operands, ways_of
from staticflow.ops.symbols.stable import stabilize_nodes
from staticflow.ops.symbols.symbol import Symbol, results_of, to_node
from staticflow.ops.symbols.watching import has_hooks, run_hooks

__all__ = ["pullback", "pushforward"]


def pullback(
    outputs: Sequence[Symbol], cotangents: Sequence[Any], wrt: Sequence[Symbol]
) -> list[Any]:
    """The cotangents of ``wrt`` that those of ``outputs`` give rise to; None where an entry of
    ``wrt`` is not reached. ``cotangents`` may have None for an output that takes no part.

    What does not depend on ``wrt`` is not differentiated, and stays as it was written: a derivative
    of these cotangents by a node of it, as by the parameters of a second step, finds it in them.
    """
    written = toposort(o.node for o in outputs)
    targets = {w.node for w in wrt}
    _refuse_lost(written, [o.node for o in outputs], targets)
    with behind([o.node for o in outputs]), for_itself():
        watched = {node for node in written if has_hooks(node)}
        closed = watched | targets & set(written)
        outside = _independent(written, targets)
        stable = stabilize_nodes([o.node for o in outputs], closed, outside)
        ends = [stable[o.node] for o in outputs]
        attended = attend_nodes(ends, {stable[node] for node in closed}, outside)
        stable = {node: attended.get(now, now) for node, now in stable.items()}
        hooked = {stable[node]: node for node in watched}
        wanted = {stable.get(node, node) for node in targets}
        ends = [stable[o.node] for o in outputs]
        found = _walk(ends, cotangents, wanted, hooked)
        found = _by_closed(found, {stable[node]: node for node in closed})
    _note_forms(found.values(), stable, {*closed, *outside})
    hand_on([ct.node for ct in found.values()], written)
    return [_detach_unrecorded(found.get(stable.get(w.node, w.node))) for w in wrt]


def _independent(written: Sequence[Node], targets: Collection[Node]) -> set[Node]:
    """Those of some nodes, each behind its arguments, that depend on none of the ``targets``."""
    found: set[Node] = set()
    for node in written:
        if node not in targets and all(a in found for a in node.args):
            found.add(node)
    return found


def _walk(
    ends: Sequence[Node],
    cotangents: Sequence[Any],
    wanted: Collection[Node],
    hooked: Mapping[Node, Node],
) -> dict[Node, Any]:
    """The reverse walk: the cotangents of those ``wanted`` nodes that it reaches from ``ends``.
    ``hooked`` are the nodes whose hooks a cotangent goes through, each with the node that has
    them."""
    leading = flow(toposort(ends), dict.fromkeys(wanted, 1))
    reaching = {node for node, bits in leading.items() if any(bits)}
    waiting: dict[Node, dict[int, Any]] = {}  # the cotangents of the results of each node
    found: dict[Node, Any] = {}
    for end, ct in zip(ends, cotangents, strict=True):
        if ct is not None and end in reaching:
            _deposit(waiting, end, 0, ct)
    for node in sorted(reaching, key=attrgetter("serial"), reverse=True):  # users come first
        if (cts := waiting.pop(node, None)) is None:
            continue
        if 0 in cts and node in hooked:
            cts[0] = run_hooks(hooked[node], cts[0])
        if node in wanted:
            found[node] = cts[0]
        for argument, index, ct in _handed_on(node, cts, reaching):
            _deposit(waiting, argument, index, ct)
    return found


def _by_closed(found: dict[Node, Any], own: Mapping[Node, Node]) -> dict[Node, Any]:
    """Cotangents, told by closed nodes themselves, where others of the same value stood for
    them: whoever asks for a derivative by these asks by the nodes that there are."""
    changed = {now: node for now, node in own.items() if now is not node}
    if not changed:
        return found
    told = substitute_nodes([ct.node for ct in found.values()], changed)
    return dict(zip(found, map(Symbol, told), strict=True))


# -- what forms left out ---------------------------------------------------------------------------

_FORMED: WeakKeyDictionary[Node, _Forms] = WeakKeyDictionary()
"""By which forms the gradients were taken that are nodes of graphs."""


class _Forms:
    """What stood for each node of what was differentiated; for those that were ``kept`` that was no
    other."""

    __slots__ = ("kept", "stable")

    def __init__(self, stable: Mapping[Node, Node], kept: Collection[Node]) -> None:
        self.stable, self.kept = stable, kept

    def loses(self, node: Node) -> bool:
        """Whether the gradient is not told by ``node``, as it would be if it were taken as it is
        written: something else stood for it, or for what was made of it."""
        stable = self.stable
        if node not in stable or node in self.kept:
            return False
        if stable[node] is not node:
            return True
        made_of_it = {node}
        for n, now in stable.items():  # arguments before users
            if not made_of_it.isdisjoint(n.args):
                made_of_it.add(n)
                is_formed = now.op is not n.op or now.args != tuple(stable[a] for a in n.args)
                if is_formed and node not in toposort([now]):
                    return True
        return False


def _note_forms(found: Iterable[Any], stable: Mapping[Node, Node], kept: Collection[Node]) -> None:
    """Keep in mind by which forms gradients were taken, if by any."""
    if any(now is not node for node, now in stable.items()):
        forms, known = _Forms(stable, kept), {*stable, *stable.values()}
        for ct in found:
            if ct.node not in known:  # a factor that stands in what was written is what it was
                _FORMED[ct.node] = forms


def _refuse_lost(
    written: Sequence[Node], outputs: Sequence[Node], targets: Collection[Node]
) -> None:
    """Refuse to differentiate ``outputs``, which are made of the nodes that are ``written``, by one
    of the ``targets`` where that goes by a gradient which is not told by it."""
    for taken in [node for node in written if node in _FORMED]:
        lost = [t for t in targets if _FORMED[taken].loses(t)]
        if lost and any(any(flow(written, {taken: 1})[o]) for o in outputs):
            raise AutogradError(
                f"grad: {lost[0].op.name} {lost[0].type}, made at {format_locs(lost[0].locs)}, "
                "does not occur in a gradient that is differentiated, which a stable form has told "
                "without it; have that gradient taken by it, too, as in grad(y, [x, it], "
                "create_graph=True), or as y is written, by sf.grad(y, x, stabilize=False), at "
                f"{format_locs(here())}"
            )


def _deposit(waiting: dict[Node, dict[int, Any]], node: Node, index: int, ct: Any) -> None:
    """Add ``ct`` to what waits for the result ``index`` of ``node``."""
    cts = waiting.setdefault(node, {})
    cts[index] = add(cts[index], ct) if index in cts else ct


def _handed_on(
    node: Node, cts: dict[int, Any], reaching: Collection[Node]
) -> Iterator[tuple[Node, int, Any]]:
    """What the cotangents of a node give to those of its arguments that are in ``reaching``: the
    argument, which of its results, the cotangent."""
    if node.op is item:
        yield node.args[0], node.attrs["index"], cts[0]
        return
    args = operands(node)
    led = _arguments_of(node, cts)
    needs = [i in led and a in reaching and is_real(a) for i, a in enumerate(args)]
    if any(needs):
        for a, needed, ct in zip(args, needs, _pull(node, needs, cts), strict=True):
            if needed and ct is not None:
                yield a, 0, ct


def pushforward(
    outputs: Sequence[Symbol], wrt: Sequence[Symbol], tangents: Sequence[Any]
) -> list[Any]:
    """The tangents of ``outputs`` where ``wrt`` change by ``tangents`` (of their shapes); None for
    an output that does not depend on them."""
    found: dict[Node, Any] = {
        w.node: Symbol(to_node(t)) for w, t in zip(wrt, tangents, strict=True)
    }
    with behind([o.node for o in outputs]), for_itself():
        for node in toposort((o.node for o in outputs), known=set(found)):
            moved = [found.get(a) if is_real(a) else None for a in operands(node)]
            if all(t is None for t in moved):
                continue
            if node.op is item:
                found[node] = found[node.args[0]][node.attrs["index"]]
            elif is_real(node):
                found[node] = _push(node, moved)
    return [_detach_unrecorded(found.get(o.node)) for o in outputs]


def _detach_unrecorded(x: Any) -> Any:
    """A derivative, to be differentiated again only if operations are recorded."""
    return x if x is None or thread.state.recording else stop_gradient(x)


def _arguments_of(node: Node, results: Iterable[int]) -> set[int]:
    """The positions of the arguments that a gradient of one of the ``results`` may go to."""
    ways = ways_of(node)
    return {position for i in results for position in ways[i]}


def _push(node: Node, moved: Sequence[Any]) -> Any:
    """The tangent of a node from those of its arguments."""
    if node.op.jvp is not None:
        with using(node.locs):
            out = results_of(node) if isinstance(node.type, tuple) else Symbol(node)
            return node.op.jvp(moved, out, *_arguments(node), **node.attrs)
    types = node.type if isinstance(node.type, tuple) else (node.type,)
    seeds = [Symbol(new_param(t, "seed")) for t in types]
    cts = {i: s for i, s in enumerate(seeds) if s.dtype.is_floating}
    pulled = _pull(node, [t is not None for t in moved], cts)
    ways = [(ct, t) for ct, t in zip(pulled, moved, strict=True) if ct is not None]
    if not ways:
        return None
    with using(node.locs):
        tangents = pullback([ct for ct, _ in ways], [t for _, t in ways], seeds)
        # it does not depend on the seeds, which the vjp is linear in, but may still mention them
        zeros = {s.node: zeros_like(s).node for s in seeds}
    settled = [
        None if t is None else Symbol(substitute_nodes([t.node], zeros)[0]) for t in tangents
    ]
    return settled if isinstance(node.type, tuple) else settled[0]


def _pull(node: Node, needs: Sequence[bool], cts: dict[int, Any]) -> Sequence[Any]:
    if node.op.vjp is None:
        raise AutogradError(
            f"{node.op.name} has no derivative, made at {format_locs(node.locs)}; keep it out of "
            "what is differentiated, or pass its argument through .detach()"
        )
    with using(node.locs):
        args = _arguments(node)
        if isinstance(node.type, tuple):
            many = [cts.get(i) for i in range(len(node.type))]
            return node.op.vjp(needs, many, results_of(node), *args, **node.attrs)
        return node.op.vjp(needs, cts[0], Symbol(node), *args, **node.attrs)


def _arguments(node: Node) -> list[Any]:
    """The arguments of a node as its vjp takes them: symbols, and numbers for the 0-d constants of
    an elementwise op, so that a rule can tell ``x ** 2`` from ``x ** y`` in both modes."""
    takes_numbers = isinstance(node.op.lowering, Elementwise)
    return [
        arg.attrs["value"].array.item()
        if takes_numbers and arg.op is constant and not arg.tensor_type.shape
        else Symbol(arg)
        for arg in node.args
    ]
