"""Random chains of matrix products, and how many multiply-adds a graph of products takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import staticflow as sf
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import Graph
from staticflow.ops.basics.creation import size_value
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.matrices.contract import matmul_op

__all__ = ["RandomChain", "multiply_adds"]

SIZES = (1, 2, 3, 5, 8, 16, 50, 128, 300, 1000)


@dataclass
class RandomChain:
    """A chain of 3 to 7 factors, multiplied in a random order, with transposes, scales, batches and
    an unknown size here and there."""

    inputs: list[Any]
    result: Any
    shapes: list[tuple[int, ...]]
    """Of the arrays of a call."""
    least: int
    """The multiply-adds of the cheapest order at these sizes."""

    @staticmethod
    def draw(seed: int) -> RandomChain:
        rng = np.random.default_rng(seed)
        count = int(rng.integers(3, 8))
        edges = [int(n) for n in rng.choice(SIZES, count + 1)]
        is_open = [bool(o) for o in rng.random(count + 1) < (0.6 if seed % 2 else 0)]
        batched = [bool(b) for b in rng.random(count) < (0.4 if seed % 3 == 0 else 0)]
        batch = int(rng.integers(2, 5))
        inputs, values, shapes = [], [], []
        for i in range(count):
            turned = bool(rng.random() < 0.3)
            sizes = edges[i : i + 2]
            kinds = [f"n{j}" if is_open[j] else edges[j] for j in (i, i + 1)]
            lead = (batch,) if batched[i] else ()
            if turned:
                sizes, kinds = sizes[::-1], kinds[::-1]
            x = sf.placeholder((*lead, *kinds), name=f"x{i}")
            inputs.append(x)
            shapes.append((*lead, *sizes))
            values.append(x.mT if turned else x)
        result = _in_random_order(values, rng)
        return RandomChain(inputs, result, shapes, _least(edges, batched, batch))

    def sizes(self, graph: Graph) -> dict[Any, int]:
        """What the symbols of the graph of the chain are at the call."""
        found: dict[Any, int] = {}
        for p, shape in zip(graph.params, self.shapes, strict=True):
            for d, n in zip(p.tensor_type.shape, shape, strict=True):
                if not isinstance(d, int):
                    ((((symbol,), _),)) = d.terms
                    found[symbol] = n
        return found


def _in_random_order(values: list[Any], rng: np.random.Generator) -> Any:
    while len(values) > 1:
        at = int(rng.integers(len(values) - 1))
        product = values[at] @ values[at + 1]
        kind = rng.random()
        if kind < 0.15:
            product = product * 0.5
        elif kind < 0.25:
            product = -product
        elif kind < 0.4:
            product = (values[at + 1].mT @ values[at].mT).mT
        values = [*values[:at], product, *values[at + 2 :]]
    return values[0]


def _least(edges: Sequence[int], batched: Sequence[bool], batch: int) -> int:
    """By trying every order, of every interval."""
    best: dict[tuple[int, int], int] = {(i, i): 0 for i in range(len(batched))}
    for length in range(1, len(batched)):
        for i in range(len(batched) - length):
            j = i + length
            outer = (batch if any(batched[i : j + 1]) else 1) * edges[i] * edges[j + 1]
            best[i, j] = min(
                best[i, k] + best[k + 1, j] + outer * edges[k + 1] for k in range(i, j)
            )
    return best[0, len(batched) - 1]


def multiply_adds(
    graph: Graph, sizes: Mapping[Any, int], flags: Mapping[Any, Any] | None = None
) -> int:
    """The multiply-adds of the products of a graph at ``sizes``, of the taken branches."""
    total, flags = 0, flags or {}
    for node in graph.nodes:
        if node.op is matmul_op:
            work = [*node.tensor_type.shape, node.args[0].tensor_type.shape[-1]]
            total += math.prod(evaluate_dim(d, sizes) for d in work)
        elif node.op is cond_op:
            taken = node.attrs["true" if _value(node.args[0], sizes, flags) else "false"]
            inner = {
                p: _value(a, sizes, flags)
                for p, a in zip(taken.params, node.args[1:], strict=True)
                if p.tensor_type.dtype is bool_
            }
            total += multiply_adds(taken, sizes, inner)
    return total


def _value(node: Any, sizes: Mapping[Any, int], flags: Mapping[Any, Any]) -> Any:
    if node in flags:
        return flags[node]
    if node.op is size_value:
        return evaluate_dim(node.attrs["size"], sizes)
    return node.op.reference(np, *(_value(a, sizes, flags) for a in node.args), **node.attrs)
