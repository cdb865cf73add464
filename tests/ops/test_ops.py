"""Every op against its row of `opinfo`: what it gives, eagerly, interpreted and decomposed, and what
it refuses. Its derivatives and its native code have files of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from opinfo import ROWS
from opinfo.core import Failure, OpInfo, Sample
from opinfo.modes import arrays_of, assert_agree, expected_of, graph_of, run_eagerly
from slices import daily

import staticflow as sf
from staticflow.graph.dtypes import DTYPES, DType, dtype_of, float64
from staticflow.graph.graph import Graph, close
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.node import Node, item
from staticflow.graph.types import TensorType
from staticflow.ops import OPS
from staticflow.ops.symbols.symbol import Symbol

every_op = pytest.mark.parametrize("name", list(OPS))
decomposed = pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.decompose])


# -- completeness ---------------------------------------------------------------------------------


@every_op
def test_declaration_is_complete(name: str) -> None:
    op = OPS[name]
    assert name in ROWS, "add a row to a table of tests/support/opinfo"
    info = ROWS[name]
    assert op.doc.strip().endswith((".", "stays.")), "the doc is a sentence"
    assert callable(op.infer) and callable(op.reference)
    assert (op.lowering is None) != (op.decompose is None), "one of lowering and decompose"
    assert info.grad == (op.vjp is not None)
    assert op.vjp is not None or op.saves is None, "without a vjp nothing is saved"
    assert op.vjp is None or op.grad_name.endswith(("Backward", "Backward0", "Backward1")), (
        "grad_fn has a name"
    )
    assert op.promote in ("none", "common", "float", "tail")
    for dtype in info.dtypes:
        assert list(info.samples(dtype, False)), dtype
    assert not info.grad or list(info.samples(float64, True))
    assert info.sized is not None


@every_op
def test_row_leads_to_its_op(name: str) -> None:
    info = ROWS[name]
    dtype = info.dtypes[0]
    graphs = [graph_of(info, s) for s in info.samples(dtype, False)]
    assert any(n.op is OPS[name] for g in graphs for n in g.nodes)


def test_every_dtype_is_sampled() -> None:
    """By the tables as a whole."""
    assert {d for row in ROWS.values() for d in row.dtypes} >= set(DTYPES) - {sf.int16}


# -- forward --------------------------------------------------------------------------------------


Described = tuple[DType, Sample, str]


def each_sample(info: OpInfo) -> list[Described]:
    return [
        (dtype, sample, f"{info.op.name}({sample})")
        for dtype in info.dtypes
        for sample in info.samples(dtype, False)
    ]


@every_op
def test_eager_and_interpreted_give_what_is_expected(name: str) -> None:
    """On a third of the samples a day; the campaign takes all."""
    samples = each_sample(ROWS[name])
    check_modes(ROWS[name], daily(samples, -(-len(samples) // 3), f"eager {name}"))


@pytest.mark.campaign
@every_op
def test_eager_and_interpreted_give_on_all_samples_what_is_expected(name: str) -> None:
    check_modes(ROWS[name], each_sample(ROWS[name]))


def check_modes(info: OpInfo, samples: Sequence[Described]) -> None:
    """Also: the type that was inferred is the type that came out."""
    for _, sample, what in samples:
        wanted = expected_of(info, sample)
        eager = run_eagerly(info, sample)
        assert_agree(info, eager, wanted, what)
        graph = graph_of(info, sample)
        for node, out in zip(graph.outputs, eager, strict=True):
            assert node.tensor_type == TensorType(dtype_of(out.dtype), out.shape), what
        assert_agree(info, interpret_graph(graph, arrays_of(sample)), eager, what)


@every_op
def test_unknown_sizes(name: str) -> None:
    """One graph, whatever the size that it was built without; 0 and 1 are sizes like any other."""
    info = ROWS[name]
    assert info.sized is not None
    dtype = info.dtypes[0]
    graph = graph_of(info, info.sized(dtype, 7), unknown=7)
    for n in (0, 1, 5):
        sample = info.sized(dtype, n)
        actual = interpret_graph(graph, arrays_of(sample))
        assert_agree(info, actual, expected_of(info, sample), f"{name}({sample})")


@every_op
def test_failures(name: str) -> None:
    info = ROWS[name]
    for failure in info.failures:
        refuse(failure, lambda f: run_eagerly(info, f.sample))
        if not failure.eager:
            refuse(failure, lambda f: graph_of(info, f.sample))


def refuse(failure: Failure, run: Callable[[Failure], Any]) -> None:
    with pytest.raises(failure.error, match=re.escape(failure.says)) as caught:
        run(failure)
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert re.search(r"\.py:\d+", text), f"no line of the user's in: {text}"


# -- decompositions -------------------------------------------------------------------------------


def decomposed_graph(info: OpInfo, sample: Sample, unknown: int | None = None) -> Graph:
    """The graph of a sample with the op replaced by its decomposition."""
    graph = graph_of(info, sample, unknown)
    new: dict[Node, Node] = {}
    parts: dict[Node, tuple[Symbol, ...]] = {}
    for node in graph.nodes:
        args = [new.get(a, a) for a in node.args]
        if node.op is info.op:
            assert info.op.decompose is not None
            result = info.op.decompose(*map(Symbol, args), **node.attrs)
            if isinstance(result, tuple):
                parts[node] = result
            else:
                new[node] = result.node
        elif node.op is item and node.args[0] in parts:
            new[node] = parts[node.args[0]][node.attrs["index"]].node
        elif node.args:
            new[node] = Node(node.op, tuple(args), node.attrs, node.type, node.locs)
    return close(graph.params, [new.get(o, o) for o in graph.outputs], graph.equalities)


@decomposed
def test_decomposition(name: str) -> None:
    info = ROWS[name]
    for _, sample, what in each_sample(info):
        graph = decomposed_graph(info, sample)
        assert all(n.op is not info.op for n in graph.nodes)
        wanted = expected_of(info, sample)
        assert_agree(info, interpret_graph(graph, arrays_of(sample)), wanted, what)


@decomposed
def test_decomposition_with_unknown_sizes(name: str) -> None:
    info = ROWS[name]
    assert info.sized is not None
    dtype = info.dtypes[0]
    graph = decomposed_graph(info, info.sized(dtype, 7), unknown=7)
    for n in (0, 1, 5):
        sample = info.sized(dtype, n)
        actual = interpret_graph(graph, arrays_of(sample))
        assert_agree(info, actual, expected_of(info, sample), f"{name}({sample})")
