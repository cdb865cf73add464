"""The kernels that the compiler makes of real graphs serve the second back end too: lowered and
scheduled for a GPU, rendered as CUDA, compiled as C++ and run by the emulator, they do to the bit
what the Kernel IR interpreter does, and what the ops' references say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_case import Case, assert_same, emulated, interpreted
from cuda_clusters import CLUSTERS, Cluster
from emulator import ORDERS, Module
from slices import by_days

from staticflow.codegen.cuda.render import render_cuda_module
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.graph import close
from staticflow.graph.interpret import interpret_graph

LONG = {
    "long_softmax", "all_mean", "scaled_by_all", "running_all", "some", "column_sums", "joined",
}  # fmt: skip
"""Programs that have loops worth a block."""

SKIPPED = {("pooled", 0), ("pooled", 1), ("convolved", 0)}
"""Programs that are defined for larger sizes only."""


def sizes_of(cluster: Cluster) -> tuple[int, ...]:
    """The sizes to run a kernel with: few for products, which the interpreter takes a second for."""
    if cluster.is_product:
        return (0, 3)
    return (0, 1, 33, 600) if cluster.program in LONG else (0, 1, 33)


CASES = [(c, n) for c in CLUSTERS for n in sizes_of(c) if (c.program, n) not in SKIPPED]


@pytest.fixture(scope="module")
def module() -> Module:
    return Module(render_cuda_module([c.lowered.kernel for c in CLUSTERS]))


def case_of(cluster: Cluster, size: int) -> tuple[Case, dict[str, Any]]:
    """The arrays that a kernel is given if the program is given random numbers, and what its
    outputs must be."""
    rng = np.random.default_rng(size)
    inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in ((size, 6), (6,))]
    params = cluster.graph.params  # which tell the sizes
    nodes = [*params, *cluster.args, *cluster.results.values()]
    values = interpret_graph(close(params, nodes), inputs)[len(params) :]
    given, found = values[: len(cluster.args)], values[len(cluster.args) :]
    arrays = {f"p{i}": np.asarray(a) for i, a in enumerate(given)}
    sizes = dict.fromkeys(cluster.lowered.kernel.sizes, size)
    for i, o in enumerate(cluster.body.outputs):
        shape = [evaluate_dim(d, sizes) for d in o.tensor_type.shape]
        arrays[f"o{i}"] = np.zeros(shape, o.tensor_type.dtype.numpy)
    expected = {f"o{i}": e for i, e in zip(cluster.results, found, strict=True)}
    for s in cluster.lowered.scratch:
        arrays[s.name] = np.zeros(evaluate_dim(s.size, sizes), s.dtype.numpy)
    flat = {k: np.ascontiguousarray(a).reshape(-1) for k, a in arrays.items()}
    return Case(cluster.name, cluster.lowered.kernel, flat, sizes), expected


@pytest.mark.parametrize(
    ("cluster", "size"),
    by_days(CASES, 50, "clusters"),
    ids=[f"{c.name}-{n}" for c, n in CASES],
)
def test_a_cluster_runs_as_cuda(module: Module, cluster: Cluster, size: int) -> None:
    case, expected = case_of(cluster, size)
    code, wanted = interpreted(case)
    assert code == 0
    for name, e in expected.items():
        np.testing.assert_allclose(wanted[name], e.reshape(-1), rtol=5e-5, atol=2e-5)
    for order in ORDERS:
        status, actual = emulated(module, case, order)
        assert status == 0
        assert_same(case, actual, wanted)
