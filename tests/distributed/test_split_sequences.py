"""Attention whose queries, keys and values are split along the sequence: the numbers of one process, and
the messages that each way takes."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slices import by_days
from test_partition import collectives, numbers

import staticflow as sf
from staticflow import distributed
from staticflow.distributed import shard
from staticflow.nn import functional as F

# name: the axes of queries and keys, the mesh, and the collectives of the result and of gradients
WAYS: dict[str, tuple[str | None, str | None, dict[str, int], dict[str, int], dict[str, int]]] = {
    # keys and values are whole; the gradients of these are added up
    "queries": ("s", None, {"s": 4}, {}, {"all_reduce": 2}),
    # keys and values are gathered, and of the sums of their gradients each rank takes its part
    "all alike": ("s", "s", {"s": 4}, {"all_gather": 2}, {"all_gather": 2, "reduce_scatter": 2}),
    # the largest score of a query, the sum of exponentials, and the result
    "keys": (None, "s", {"s": 4}, {"all_reduce": 3}, {"all_reduce": 4}),
    "over two axes": ("a", "b", {"a": 2, "b": 2}, {"all_reduce": 3}, {"all_reduce": 6}),
}


def attend(
    name: str, queries: int, keys: int, causal: bool, mesh: Any = None
) -> tuple[list[Any], dict[str, int], dict[str, int]]:
    """The result and the gradients by queries, keys and values, and the collectives of either."""
    given = [numbers(2, 2, n, 4, seed=i) for i, n in enumerate((queries, keys, keys))]
    first, second = WAYS[name][:2]
    inputs = [
        sf.placeholder(a.shape, sf.float64, name=n) for a, n in zip(given, "qkv", strict=True)
    ]
    axes = (first, second, second)
    q, k, v = (shard(x, None, None, a, None) for x, a in zip(inputs, axes, strict=True))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    forward = sf.compile(inputs, shard(out, None, None, first, None), mesh=mesh)
    gradients = sf.grad((out**3).sum(), inputs)  # each split as its input
    back = sf.compile(inputs, gradients, mesh=mesh)
    whole = sf.compile(inputs, [out, *(g * 1.5 for g in gradients)], mesh=mesh)
    return [y.numpy() for y in whole(*given)], collectives(forward), collectives(back)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", by_days(list(WAYS), 2, "sequences"))
def test_attention_in_parts_of_the_sequence(name: str, causal: bool) -> None:
    """Of sizes that the ranks divide, and do not."""
    *_, axes, of_result, of_gradients = WAYS[name]
    for queries, keys in ((8, 8), (7, 9), (7, 7)):
        alone, *_ = attend(name, queries, keys, causal)
        for found, forward, back in distributed.simulate(
            lambda q=queries, k=keys: attend(name, q, k, causal, distributed.mesh(**axes)), 4
        ):
            for ours, theirs in zip(found, alone, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)
            if keys == 8 or name == "all alike":
                assert (forward, back) == (of_result, of_gradients)


def attend_with_bias(axes: tuple[str | None, str | None], mesh: Any = None) -> list[Any]:
    """Attention with capped scores and a bias, its result and the gradients by all four."""
    shapes = [(2, 2, 7, 4), (2, 2, 9, 4), (2, 2, 9, 4), (2, 7, 9)]
    given = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    inputs = [
        sf.placeholder(a.shape, sf.float64, name=n) for a, n in zip(given, "qkvb", strict=True)
    ]
    first, second = axes
    q, k, v = (
        shard(x, None, None, a, None)
        for x, a in zip(inputs[:3], (first, second, second), strict=True)
    )
    bias = shard(inputs[3], None, first, None)
    out = ((q @ k.mT / 2).tanh() * 2 + bias).softmax(-1) @ v
    gradients = sf.grad((out**3).sum(), inputs)
    whole = sf.compile(inputs, [out, *(g * 1.5 for g in gradients)], mesh=mesh)
    return [y.numpy() for y in whole(*given)]


@pytest.mark.parametrize("axes", [("s", None), ("s", "s"), (None, "s")])
def test_a_bias_and_its_gradient_in_parts_of_the_sequence(
    axes: tuple[str | None, str | None],
) -> None:
    alone = attend_with_bias(axes)
    for found in distributed.simulate(lambda: attend_with_bias(axes, distributed.mesh(s=2)), 2):
        for ours, theirs in zip(found, alone, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


EXAMPLE = Path(__file__).parents[2] / "examples" / "ring_attention.py"


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_example_attends_as_one_process_does(ranks: int) -> None:
    """Its results and gradients are those of attention, and its losses those of one process."""
    example = runpy.run_path(str(EXAMPLE))
    given = [numbers(16, 8, seed=i) for i in range(4)]
    inputs = [sf.placeholder((16, 8), sf.float64, name=n) for n in "qkvw"]
    out = F.scaled_dot_product_attention(*(x.unsqueeze(0) for x in inputs[:3]), is_causal=True)[0]
    gradients = sf.grad((out * inputs[3]).sum(), inputs[:3])
    whole = [y.numpy() for y in sf.compile(inputs, [out, *gradients])(*given)]

    def run() -> list[Any]:
        mesh = distributed.mesh(sequence=-1)
        own = slice(mesh.rank * 16 // ranks, (mesh.rank + 1) * 16 // ranks)
        parts = [sf.placeholder((16 // ranks, 8), sf.float64, name=n) for n in "qkvw"]
        found = example["attend_in_turns"](mesh, *parts[:3])
        gradients = sf.grad((found * parts[3]).sum(), parts[:3])
        results = sf.compile(parts, [found, *gradients])(*(g[own] for g in given))
        for ours, theirs in zip(results, whole, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs[own], rtol=1e-11, atol=1e-13)
        return example["main"](20)

    alone = example["main"](20)
    assert alone[-1] < alone[0]
    for losses in distributed.simulate(run, ranks):
        np.testing.assert_allclose(losses, alone, rtol=1e-12)
