"""Attention by blocks of threads, and its derivative, in the emulator: what the ops' references say,
the same bits in every order of blocks and threads, and those of the Kernel IR interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cuda_case import Array, Case, assert_same, emulated, interpreted
from emulator import ORDERS, Module
from nvrtc import ARCHITECTURES, Nvrtc, nvrtc
from slices import by_days, daily

import staticflow as sf
import staticflow.nn.functional as F
from staticflow.codegen.cuda.render import launch_count, render_cuda_module
from staticflow.codegen.kernel import Kernel
from staticflow.codegen.lower.cluster import lower_cluster
from staticflow.codegen.schedule.gpu import schedule_gpu
from staticflow.codegen.target import GPU
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.graph import Graph, close
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.node import Node
from staticflow.ops.basics.creation import iota
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize

__all__ = ["nvrtc"]

Shapes = tuple[tuple[int, ...], ...]


def _rows(x: Any) -> Any:
    return iota.beside(x, shape=(x.shape[-2],), dim=0, dtype=sf.int64)


def _biased(q: Any, k: Any, v: Any, b: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, b)


def _causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _window(q: Any, k: Any, v: Any) -> Any:
    distance = _rows(q)[:, None] - _rows(k)
    return F.scaled_dot_product_attention(q, k, v, sf.logical_and(distance >= 0, distance < 20))


def _multiplied(q: Any, k: Any, v: Any, b: Any) -> Any:
    weights = sf.softmax(q @ k.mT, -1) * (b > 0)
    return weights @ v


def _empty_rows(q: Any, k: Any, v: Any, b: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, (b > 0) & (_rows(q) > 2)[:, None])


def _bounded(q: Any, k: Any, v: Any, b: Any) -> Any:
    return sf.softmax((q @ k.mT).tanh() * 1.5 * b, -1) @ v


def _bounded_and_biased(q: Any, k: Any, v: Any, b: Any) -> Any:
    scores = (q @ k.mT * 0.5).tanh() * 2 + b
    return sf.softmax(sf.where(_rows(q)[:, None] >= _rows(k), scores, -1e9), -1) @ v


def _across(q: Any, k: Any, v: Any) -> Any:
    return _causal(*(x.transpose(1, 2) for x in (q, k, v)))


def _of(queries: int, keys: int, inner: int, width: int, *lead: int) -> Shapes:
    return (*lead, queries, inner), (*lead, keys, inner), (*lead, keys, width)


PROGRAMS: dict[str, tuple[Callable[..., Any], Shapes, str]] = {
    "plain": (F.scaled_dot_product_attention, _of(70, 131, 20, 33, 2), "float32"),
    "double": (_causal, _of(70, 67, 24, 17), "float64"),
    "causal": (_causal, _of(130, 130, 16, 16, 1, 2), "float32"),
    "window": (_window, _of(100, 150, 8, 8), "float32"),
    "biased": (_biased, (*_of(33, 65, 70, 5, 2), (2, 33, 65)), "float32"),
    "wide": (F.scaled_dot_product_attention, _of(150, 160, 130, 140), "float32"),
    "bounded": (_bounded, (*_of(33, 65, 70, 5, 2), (33, 65)), "float32"),
    "bounded_and_biased": (_bounded_and_biased, (*_of(70, 67, 20, 5, 2), (70, 67)), "float32"),
    "multiplied": (_multiplied, (*_of(20, 70, 6, 6, 2), (20, 70)), "float32"),
    "empty_rows": (_empty_rows, (*_of(20, 70, 6, 6, 2), (20, 70)), "float32"),
    "across": (_across, _of(3, 3, 6, 6, 1, 40), "float32"),
    "short": (_causal, _of(3, 5, 2, 3), "float32"),
    "no_keys": (F.scaled_dot_product_attention, _of(3, 0, 2, 3), "float32"),
}
FEW_SCORES = ("short", "no_keys")
"""Programs that write their weights to memory where they know how few these are. The interpreter
takes its time for those of the others."""

BIAS_HAS_GRADIENT = ("bounded_and_biased",)
"""Programs in which the cotangents of the scores are results, too."""

KNOWN = ("double", "biased", "bounded", "bounded_and_biased", "wide", "multiplied", "across")
UNKNOWN = (
    "plain", "double", "causal", "window", "empty_rows", "bounded_and_biased", *FEW_SCORES,
)  # fmt: skip


@dataclass(frozen=True)
class Attended:
    """A kernel of a program, and the node of the program's graph that it computes."""

    program: str
    graph: Graph
    node: Node
    kernel: Kernel


def kernels_of(name: str, unknown: bool) -> list[Attended]:
    fn, shapes, dtype = PROGRAMS[name]
    inputs = [
        sf.placeholder(
            tuple(f"d{n}" if unknown and n > 1 else n for n in shape), dtype, name=f"x{i}"
        )
        for i, shape in enumerate(shapes)
    ]
    out = fn(*inputs)
    wrt = inputs if name in BIAS_HAS_GRADIENT else inputs[:3]
    outs = [out, *sf.grad((out * out).sum(), wrt)]
    graph, _ = optimize(close([i.node for i in inputs], [o.node for o in outs]))
    nodes = [n for n in graph.nodes if n.op is cluster and n.attrs["kind"] == "attend"]
    kernels = [schedule_gpu(lower_cluster(n.attrs["body"], "attend", GPU)).kernel for n in nodes]
    sizes = "open" if unknown else "known"
    return [
        Attended(name, graph, node, verify_kernel(kernel.with_name(f"{name}_{sizes}_{i}")))
        for i, (node, kernel) in enumerate(zip(nodes, kernels, strict=True))
    ]


ATTENDED = [
    attended
    for unknown, names in ((False, KNOWN), (True, UNKNOWN))
    for name in names
    for attended in kernels_of(name, unknown)
]


def case_of(attended: Attended) -> tuple[Case, list[Array]]:
    """The arrays that a kernel is given if the program is given random numbers, and what its
    outputs must be."""
    _, shapes, dtype = PROGRAMS[attended.program]
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    node, graph = attended.node, attended.graph
    given = interpret_graph(close(graph.params, [*graph.params, *node.args]), arrays)
    expected = interpret_graph(node.attrs["body"], given[len(arrays) :])
    flat = {
        f"p{i}": np.ascontiguousarray(a).reshape(-1) for i, a in enumerate(given[len(arrays) :])
    }
    flat |= {f"o{i}": np.full(e.size, np.nan, e.dtype) for i, e in enumerate(expected)}
    sizes = {s: int(s.name[1:]) for s in attended.kernel.sizes}
    return Case(attended.kernel.name, attended.kernel, flat, sizes), expected


@pytest.fixture(scope="module")
def module() -> Module:
    return Module(render_cuda_module([a.kernel for a in ATTENDED]))


@pytest.mark.parametrize(
    "attended", by_days(ATTENDED, 8, "attention by blocks"), ids=lambda a: a.kernel.name
)
def test_attention_by_blocks(module: Module, attended: Attended) -> None:
    case, expected = case_of(attended)
    first = None
    for order in ORDERS:
        status, actual = emulated(module, case, order)
        assert status == 0
        for i, e in enumerate(expected):
            wanted, found = e.reshape(-1), actual[f"o{i}"]
            tolerance = 2e-5 if e.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
        first = first or actual
        assert_same(case, actual, first)
    if attended.program in FEW_SCORES:
        assert interpreted(case)[0] == 0
        assert_same(case, actual, interpreted(case)[1])


def test_there_is_a_kernel_of_each_program_and_one_of_its_derivative() -> None:
    assert len(ATTENDED) == 2 * (len(KNOWN) + len(UNKNOWN))
    launches = [launch_count(a.kernel) for a in ATTENDED]
    assert launches == [1, 2] * (len(ATTENDED) // 2)


def check_spills(nvrtc: Nvrtc, architecture: str) -> None:
    spilled = nvrtc.spilled(render_cuda_module([a.kernel for a in ATTENDED]), architecture)
    assert len(spilled) >= len(ATTENDED) and set(spilled) == {0}


@pytest.mark.parametrize("architecture", daily(ARCHITECTURES, 1, "attention"))
def test_attention_compiles_without_spills(nvrtc: Nvrtc, architecture: str) -> None:
    check_spills(nvrtc, architecture)


@pytest.mark.campaign
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_attention_compiles_everywhere(nvrtc: Nvrtc, architecture: str) -> None:
    check_spills(nvrtc, architecture)
