"""Products and convolutions by tiles, larger than one tile, in the emulator: what the ops'
references say, and the same bits in every order of blocks and threads.

That the tiles do what the Kernel IR interpreter does is shown on small ones by `test_clusters`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_case import Case, emulated
from emulator import ORDERS, Module

import staticflow as sf
import staticflow.nn.functional as F
from staticflow.codegen.cuda.render import render_cuda_module
from staticflow.codegen.lower.cluster import lower_cluster
from staticflow.codegen.schedule.gpu import schedule_gpu
from staticflow.codegen.target import GPU
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.graph import Graph, close
from staticflow.graph.interpret import interpret_graph
from staticflow.passes.cluster import cluster
from staticflow.passes.order import PASSES
from staticflow.passes.pipeline import optimize

Program = tuple[Callable[..., Any], tuple[tuple[int, ...], ...], str]

PROGRAMS: dict[str, Program] = {
    "edges": (lambda x, y: x @ y, ((65, 33), (33, 130)), "float32"),
    "transposed": (lambda x, y: x.t() @ y.t(), ((40, 70), (66, 40)), "float32"),
    "batches": (lambda x, y: x @ y, ((2, 1, 9, 20), (3, 20, 65)), "float32"),
    "deep": (lambda x, y: x @ y, ((3, 3000), (3000, 5)), "float32"),
    "deep_whole_numbers": (lambda x, y: x @ y, ((2, 3, 2100), (2, 2100, 4)), "int32"),
    "deep_by_weight": (
        lambda x, w: sf.grad(F.conv2d(x, w, groups=2).sum(), [w])[0].tanh(),
        ((9, 4, 17, 18), (2, 2, 2, 3)),
        "float32",
    ),
    "by_vector": (lambda x, y: x @ y, ((70, 20), (20,)), "float32"),
    "double": (lambda x, y: x @ y, ((70, 20), (20, 70)), "float64"),
    "half": (lambda x, y: x @ y, ((66, 40), (40, 3)), "float16"),
    "half_transposed": (lambda x, y: x.t() @ y.t(), ((40, 70), (66, 40)), "float16"),
    "half_convolution": (
        lambda x, w: F.conv2d(x, w, stride=2, dilation=(1, 2), padding=1).relu(),
        ((2, 3, 13, 16), (5, 3, 3, 3)),
        "bfloat16",
    ),
    "half_groups": (
        lambda x, w: F.conv2d(x, w, groups=2),
        ((1, 4, 9, 9), (6, 2, 2, 2)),
        "float16",
    ),
    "half_by_weight": (
        lambda x, w: sf.grad(F.conv2d(x, w, stride=2).sum(), [w])[0],
        ((2, 3, 9, 11), (4, 3, 3, 2)),
        "float16",
    ),
    "deep_halves": (lambda x, y: x @ y, ((3, 3000), (3000, 5)), "float16"),
    "deep_brain_halves": (lambda x, y: x @ y, ((2, 3, 2100), (2, 2100, 4)), "bfloat16"),
    "layer": (
        lambda x, w, b: sf.relu(x @ w.t() + b),
        ((70, 30), (20, 30), (20,)),
        "float32",
    ),
    "convolution": (
        lambda x, w: F.conv2d(x, w, stride=2, dilation=(1, 2), padding=1),
        ((2, 3, 13, 16), (5, 3, 3, 3)),
        "float32",
    ),
    "groups": (
        lambda x, w: F.conv2d(x, w, groups=2),
        ((1, 4, 9, 9), (6, 2, 2, 2)),
        "float32",
    ),
    "by_weight": (
        lambda x, w: sf.grad(F.conv2d(x, w, stride=2).sum(), [w])[0],
        ((2, 3, 9, 11), (4, 3, 3, 2)),
        "float32",
    ),
    "by_input": (
        lambda x, w: sf.grad(F.conv2d(x, w).pow(2).sum(), [x])[0],
        ((1, 2, 7, 8), (3, 2, 3, 3)),
        "float32",
    ),
}
TOLERANCES = {
    "int32": 0.0, "float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-4, "float64": 1e-12,
}  # fmt: skip


def product_of(name: str, unknown: bool) -> tuple[Graph, Any]:
    """The graph of a program, and its one product."""
    fn, shapes, dtype = PROGRAMS[name]
    inputs = [
        sf.placeholder(
            tuple(f"d{n}" if unknown and n > 1 else n for n in shape), dtype, name=f"x{i}"
        )
        for i, shape in enumerate(shapes)
    ]
    passes = tuple(p for p in PASSES if p != "widen_products")  # which is for a CPU
    graph, _ = optimize(close([i.node for i in inputs], [fn(*inputs).node]), passes=passes)
    found = [n for n in graph.nodes if n.op is cluster and n.attrs["kind"] == "contract"]
    return graph, found[-1]


CASES = [(name, False) for name in PROGRAMS] + [
    (n, True) for n in ("edges", "batches", "layer", "deep", "half")
]
PRODUCTS = [product_of(*case) for case in CASES]
LOWERED = [schedule_gpu(lower_cluster(node.attrs["body"], "contract", GPU)) for _, node in PRODUCTS]
KERNELS = [
    verify_kernel(lowered.kernel.with_name(f"{name}_{'open' if unknown else 'known'}"))
    for (name, unknown), lowered in zip(CASES, LOWERED, strict=True)
]


@pytest.fixture(scope="module")
def module() -> Module:
    return Module(render_cuda_module(KERNELS))


@pytest.mark.parametrize("number", range(len(CASES)), ids=[k.name for k in KERNELS])
def test_a_product_by_tiles(module: Module, number: int) -> None:
    (name, _), (graph, node), kernel = CASES[number], PRODUCTS[number], KERNELS[number]
    _, shapes, dtype = PROGRAMS[name]
    sizes = {s: int(s.name[1:]) for s in kernel.sizes}
    rng = np.random.default_rng(number)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    given = interpret_graph(close(graph.params, list(node.args)), arrays)
    expected = interpret_graph(node.attrs["body"], given)
    flat = {f"p{i}": np.ascontiguousarray(a).reshape(-1) for i, a in enumerate(given)}
    flat |= {f"o{i}": np.zeros(e.size, e.dtype) for i, e in enumerate(expected)}
    for s in LOWERED[number].scratch:
        flat[s.name] = np.zeros(evaluate_dim(s.size, sizes), s.dtype.numpy)
    case = Case(kernel.name, kernel, flat, sizes)
    assert bool(flat.get("scratch", np.empty(0)).size) == name.startswith("deep")
    first = None
    for order in ORDERS:
        status, actual = emulated(module, case, order)
        assert status == 0
        scale = max(float(np.abs(expected[0]).max()), 1.0)
        for i, e in enumerate(expected):
            np.testing.assert_allclose(
                actual[f"o{i}"], e.reshape(-1), atol=scale * TOLERANCES[dtype]
            )
        first = actual if first is None else first
        assert all((actual[k] == first[k]).all() for k in actual)
