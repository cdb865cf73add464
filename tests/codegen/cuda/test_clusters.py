"""The kernels that the compiler makes of real graphs serve the second back end too: lowered, bound
to a grid, rendered as CUDA, compiled as C++ and run by the emulator, they do to the bit what the
Kernel IR interpreter does, and what the ops' references say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_case import Case, assert_same, emulated, interpreted
from emulator import ORDERS, Module

import staticflow as sf
from staticflow.codegen.cuda.render import render_cuda_module
from staticflow.codegen.lower.cluster import Lowered, lower_cluster
from staticflow.codegen.schedule.loops import bind_grid
from staticflow.codegen.target import Target
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Sym
from staticflow.graph.graph import Graph, close
from staticflow.graph.interpret import interpret_graph
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize

NO_TARGET = Target(vector_bits=128, fma=True, masks=False)
"""Only matrix products look at the target, and there are none here."""


def row_softmax(x: Any, b: Any) -> Any:
    return sf.softmax(x + b, dim=1)


def column_sums(x: Any, b: Any) -> Any:
    return (x * b).sum(dim=0)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "chain": lambda x, b: (1.7 * x + b).tanh() * x.sigmoid() + (-x * x).exp(),
    "row_softmax": row_softmax,
    "row_logsumexp": lambda x, b: sf.logsumexp(x - b, 1),
    "column_sums": column_sums,
    "row_max": lambda x, b: sf.amax(x, dim=1),
    "all_mean": lambda x, b: (x - b).pow(2).mean(),
    "transposed": lambda x, b: (x + b).t(),
    "stretched": lambda x, b: b.expand(4, 5, 6),
    "sliced": lambda x, b: x[1:, ::2] * 2,
    "compared": lambda x, b: sf.where(x > b, x, -b),
    "sorted": lambda x, b: sf.sort(x, 0),
    "running": lambda x, b: (sf.cumsum(x, 1), *sf.cummax(x, 0)),
    "highest": lambda x, b: sf.max(x, 1),
    "divisors": lambda x, b: sf.gcd((x * 9).to(sf.int32), (b * 9).to(sf.int32)),
    "parts": lambda x, b: (*sf.frexp(x), sf.nextafter(x, b), sf.nextafter(x.half(), b.half())),
    "bessel": lambda x, b: sf.i0(x * 9) + sf.special.i1e(b),
}
SIZES = (0, 1, 33)


def clusters_of(name: str) -> list[tuple[Graph, str]]:
    """The bodies of the kernels that a program compiles to, and their kinds."""
    x = sf.placeholder((None, 6), name="x")
    b = sf.placeholder((6,), name="b")
    out = PROGRAMS[name](x, b)
    outs = out if isinstance(out, tuple) else (out,)
    graph, _ = optimize(close([x.node, b.node], [o.node for o in outs]))
    return [(n.attrs["body"], n.attrs["kind"]) for n in graph.nodes if n.op is cluster]


def lowered_of(body: Graph, kind: str, name: str) -> Lowered:
    lowered = lower_cluster(body, kind, NO_TARGET)
    return replace(lowered, kernel=bind_grid(lowered.kernel).with_name(name))


LOWERED = [
    (f"{name}_{i}", body, lowered_of(body, kind, f"{name}_{i}"))
    for name in PROGRAMS
    for i, (body, kind) in enumerate(clusters_of(name))
]


@pytest.fixture(scope="module")
def module() -> Module:
    return Module(render_cuda_module([lowered.kernel for _, _, lowered in LOWERED]))


def case_of(name: str, body: Graph, lowered: Lowered, size: int) -> tuple[Case, list[Any]]:
    """Arrays of random numbers for a kernel, and what its outputs must be."""
    rng = np.random.default_rng(size)
    sizes: Mapping[Sym, int] = {s: size for s in lowered.kernel.sizes}
    arrays = {}
    for i, p in enumerate(body.params):
        shape = [evaluate_dim(d, sizes) for d in p.tensor_type.shape]
        arrays[f"p{i}"] = rng.standard_normal(shape, dtype=np.float32)
    expected = interpret_graph(body, [arrays[f"p{i}"] for i in range(len(body.params))])
    for i, e in enumerate(expected):
        arrays[f"o{i}"] = np.zeros(e.shape, e.dtype)
    for s in lowered.scratch:
        arrays[s.name] = np.zeros(evaluate_dim(s.size, sizes), s.dtype.numpy)
    flat = {k: np.ascontiguousarray(a).reshape(-1) for k, a in arrays.items()}
    return Case(name, lowered.kernel, flat, sizes), expected


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("entry", LOWERED, ids=lambda entry: entry[0])
def test_a_cluster_runs_as_cuda(
    module: Module, entry: tuple[str, Graph, Lowered], size: int
) -> None:
    name, body, lowered = entry
    case, expected = case_of(name, body, lowered, size)
    code, wanted = interpreted(case)
    assert code == 0
    for i, e in enumerate(expected):
        np.testing.assert_allclose(wanted[f"o{i}"], e.reshape(-1), rtol=2e-5, atol=1e-6)
    for order in ORDERS:
        status, actual = emulated(module, case, order)
        assert status == 0
        assert_same(case, actual, wanted)


def test_the_grid_is_really_used() -> None:
    """Elementwise work and row reductions run on as many threads as there are elements or rows."""
    bound = {name for name, _, lowered in LOWERED if "grid" in str(lowered.kernel.body)}
    assert {"chain_0", "row_softmax_0", "column_sums_0", "transposed_0", "sorted_0"} <= bound
