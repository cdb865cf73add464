"""The order of matrix products in a row is the one with the fewest multiply-adds.

Products of real numbers associate; those of floats do but for rounding, and no order is more exact
than another. Where sizes are unknown and the cheapest order depends on them, the program has
several and takes the one that is the cheapest at the sizes of the call; within a loop or a branch
it has the one that is the nearest to the cheapest over all sizes tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import int64
from staticflow.graph.graph import Graph, close, new_param, rebuild
from staticflow.graph.locs import here, merge_locs, using
from staticflow.graph.node import Node, item, make_node
from staticflow.ops.basics.arithmetic import le, minimum
from staticflow.ops.basics.creation import size_value
from staticflow.ops.basics.view import reshape
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.matrices.contract import matmul, matmul_op
from staticflow.ops.symbols.symbol import STATIC, Symbol, to_node
from staticflow.passes.product_chains import THROUGH, Chain, Key, Tree, chain_of, turn, turned_key
from staticflow.passes.product_orders import Orders, Sizes
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["order_products"]

MOST_PRODUCTS = 32
"""Different products that a program has of one chain, to choose from: of five matrices there are 20
in all orders. Of 120 random chains of 3 to 7 matrices with unknown sizes 114 are multiplied in the
cheapest order; with 12 products they were 84, and chains of 7 were compiled in 0.7 of the time."""

_NEAR = 1.2
"""Times the least work that a single order takes at most, for there to be no others."""

_MOST_TRIALS = 24
"""Products that several others multiply which are tried to be looked through, in one graph."""


def order_products(graph: Graph, counts: Counts) -> Graph:
    """Multiply chains of matrices in the order that takes the fewest multiply-adds."""
    if sum(n.op is matmul_op for n in graph.nodes) < 2:
        return graph
    chains = _Search(graph).chains
    plans = {root: plan for root, o in chains.items() if (plan := _plan(o, root, counts))}
    if not plans:
        return graph
    new: dict[Node, Node] = {p: p for p in graph.params}
    products: dict[Key, Any] = {}

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node not in plans:
            new[node] = with_args(node, args)
        else:
            with using(reduce(merge_locs, (n.locs for n in chains[node].chain.absorbed))):
                new[node] = plans[node].build(node, new, products)
        return new[node]

    return rebuild(graph, visit)


class _Search:
    """The chains of a graph, and which of its products are looked through."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._kept = set(graph.outputs)
        users = graph.users
        self._through = {
            n for n in graph.nodes
            if (n.op is matmul_op or n.op in THROUGH) and n not in self._kept
            and len(users[n]) == 1 and users[n][0].args.count(n) == 1
        }  # fmt: skip
        self._sizes = Sizes()
        self.chains: dict[Node, Orders] = {}
        """The chain of each product whose value is needed."""
        self._readers: dict[Node, set[Node]] = {}
        """The products that have multiplied a node, by that: all that do, and some that did."""
        self._find_chains()
        self._look_through_shared()

    def _find_chains(self) -> None:
        needed = set(self._graph.outputs)
        for node in reversed(self._graph.nodes):
            if node in needed and node.op is matmul_op:
                chain = chain_of(node, self._through)
                self.chains[node] = Orders(chain, self._sizes)
                needed.update(chain.nodes())
            elif node in needed:
                needed.update(node.args)

    def _look_through_shared(self) -> None:
        """Look through products that several others multiply where all of these together are
        less work so."""
        tried = 0
        rank = {node: i for i, node in enumerate(self.chains)}
        for node, orders in self.chains.items():
            self._note_factors(node, orders.chain)
        for shared in [*self.chains]:
            readers = self._readers.get(shared, ())
            users = sorted(
                (r for r in readers if self._multiplies(r, shared)), key=rank.__getitem__
            )
            tried += bool(users)
            if tried > _MOST_TRIALS:
                return
            if users:
                self._try_through(shared, users)

    def _try_through(self, shared: Node, users: Sequence[Node]) -> None:
        own = self.chains[shared]
        through = self._through | {shared}
        chains = {r: chain_of(r, through) for r in users}
        absorbed = {n for c in chains.values() for n in c.absorbed}
        is_needed = shared in self._kept or not absorbed.issuperset(self._graph.users[shared])
        given = frozenset((own.chain.factors,)) if is_needed else frozenset()
        after = {r: Orders(c, self._sizes, given) for r, c in chains.items()}
        if not all(o.is_known for o in (own, *after.values())):
            return
        now = sum((self.chains[r].least for r in users), own.least)
        then = sum((o.least for o in after.values()), own.least if is_needed else 0.0)
        if np.all(then <= now * (1 + 1e-9)) and np.any(then < now * (1 - 1e-9)):
            self._through = through
            self.chains |= after
            for node, orders in after.items():
                self._note_factors(node, orders.chain)
            if not is_needed:
                del self.chains[shared]

    def _note_factors(self, node: Node, chain: Chain) -> None:
        for factor in chain.factors:
            self._readers.setdefault(factor.node, set()).add(node)

    def _multiplies(self, node: Node, factor: Node) -> bool:
        orders = self.chains.get(node)
        return orders is not None and any(f.node is factor for f in orders.chain.factors)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a chain is multiplied: in one order, or in one of several, chosen by their work."""

    orders: Orders
    trees: Sequence[Tree]

    def build(self, root: Node, new: dict[Node, Node], products: dict[Key, Any]) -> Node:
        """The node that stands for ``root``. ``products`` are those that there are."""
        factors = [f.build(new) for f in self.orders.chain.factors]
        if len(self.trees) > 1:
            value = self._choose(self.trees, self._is_cheapest(self.trees), factors)
        else:
            value = self._multiply(self.trees[0], factors, products)
        for op, by in self.orders.chain.scales:
            value = op(value) if by is None else op(value, reshape(Symbol(new[by]), ()))
        result: Node = reshape(value, root.tensor_type.shape).node
        return result

    def _multiply(self, tree: Tree, factors: Sequence[Any], products: dict[Key, Any]) -> Any:
        values = {(i, i): f for i, f in enumerate(factors)}
        for i, k, j in self.orders.products(tree):
            key = self.orders.key(i, j)
            if (turned := turned_key(key)) in products:
                values[i, j] = turn(products[turned])
            else:
                if key not in products:
                    products[key] = matmul(values[i, k], values[k + 1, j])
                values[i, j] = products[key]
        return values[0, len(factors) - 1]

    def _choose(
        self, trees: Sequence[Tree], is_first: Sequence[Any], factors: Sequence[Any]
    ) -> Any:
        """The product of ``factors`` in the first of the orders ``trees`` of which ``is_first`` is
        true; of the last one nothing is asked."""
        if len(trees) == 1:
            return self._multiply(trees[0], factors, {})
        attrs = {
            "true": self._region(trees[:1], is_first[1:], factors),
            "false": self._region(trees[1:], is_first[1:], factors),
        }
        node = make_node(cond_op, tuple(to_node(v) for v in (*is_first, *factors)), attrs, here())
        return Symbol(make_node(item, (node,), {"index": 0}, node.locs))

    def _region(
        self, trees: Sequence[Tree], is_first: Sequence[Any], factors: Sequence[Any]
    ) -> Graph:
        names = [f"order_{i}" for i in range(len(is_first))]
        names += [f"factor_{i}" for i in range(len(factors))]
        params = [
            new_param(v.node.tensor_type.dense, name)
            for v, name in zip((*is_first, *factors), names, strict=True)
        ]
        values = list(map(Symbol, params))
        result = self._choose(trees, values[: len(is_first)], values[len(is_first) :])
        return close(params, [result.node])

    def _is_cheapest(self, trees: Sequence[Tree]) -> list[Any]:
        """For each of ``trees`` but the last, whether it takes no more work than those behind."""
        works = [
            STATIC.apply(size_value, (), {"size": self.orders.work(tree), "dtype": int64})
            for tree in trees
        ]
        behind = [*accumulate(reversed(works), minimum)][-2::-1]
        return [le(work, least) for work, least in zip(works, behind, strict=False)]


def _plan(orders: Orders, root: Node, counts: Counts) -> _Plan | None:
    """How a chain is multiplied, if not as it is written."""
    if len(orders.chain.factors) < 3 or not orders.is_known or orders.is_written_best:
        return None
    steady = orders.steadiest()
    worst = float((orders.cost(steady) / orders.least).max())
    if worst <= _NEAR:
        tried = " at all sizes tried" if orders.symbols else ""
        counts.note(f"the cheapest order{tried}", root)
        return _Plan(orders, [steady])
    if counts.depth == 0 and not orders.given and not any(s.late for s in orders.symbols):
        trees = orders.several(MOST_PRODUCTS)
        if len(trees) > 1:
            counts.note("the cheapest of several orders, as the sizes are", root)
            return _Plan(orders, trees)
    if steady == orders.chain.written:
        return None
    counts.note("the order that is nearest to the cheapest, over all sizes tried", root)
    return _Plan(orders, [steady])
