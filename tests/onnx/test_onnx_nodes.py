"""The node tests that onnx brings along, run by models that are loaded, in both modes: a share a
day, all as a campaign; and the table of those that are refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx.checker", reason="models of ONNX are read by onnx")

from onnx_cases import EXPLAINED, cases, outcome
from slices import daily

import staticflow as sf
from staticflow.onnx.reading.table import BY_FUNCTION, REASONS, ROWS

SCRIPT = Path(__file__).parents[1] / "reference" / "make_onnx_nodes.py"


def made() -> Any:
    spec = importlib.util.spec_from_file_location("make_onnx_nodes", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_share_of_the_nodes() -> None:
    refused = made().stored()
    for name in daily(sorted(cases()), 90, "nodes"):
        assert outcome(name) == refused.get(name, ""), name


@pytest.mark.campaign
def test_all_nodes() -> None:
    refused = made().stored()
    found = {name: why for name in sorted(cases()) if (why := outcome(name))}
    assert found == refused, "run python tests/reference/make_onnx_nodes.py"


def test_what_is_explained_is_refused() -> None:
    refused = made().stored()
    assert {name: refused.get(name) for name in EXPLAINED} == EXPLAINED


def test_each_operator_is_read_or_has_a_reason() -> None:
    from onnx import defs

    for schema in defs.get_all_schemas():
        key = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        known = key in ROWS or key in BY_FUNCTION or key == "Constant"
        assert schema.deprecated or known != (key in REASONS), key


def test_random_numbers_lie_where_they_must() -> None:
    from onnx import TensorProto, helper

    ends = [("x", TensorProto.FLOAT, [2, 3]), ("y", TensorProto.INT64, None)]
    graph = helper.make_graph(
        [helper.make_node("Multinomial", ["x"], ["y"], sample_size=50, dtype=TensorProto.INT64)],
        "made", *([helper.make_tensor_value_info(*e)] for e in ends),
    )  # fmt: skip
    model = sf.onnx.load(helper.make_model(graph).SerializeToString())
    logits = sf.tensor([[0.0, 0.0, -1e9], [-1e9, -1e9, 5.0]])
    x = model.placeholders()
    for drawn in (model(logits), sf.compile(x, model(*x))(logits)):
        assert drawn.dtype is sf.int64 and tuple(drawn.shape) == (2, 50)
        assert set(drawn[0].tolist()) == {0, 1} and set(drawn[1].tolist()) == {2}


def test_the_page_has_the_table() -> None:
    script = made()
    shown = script.PAGE.read_text().split(script.BEGIN)[1].split(script.END)[0]
    assert shown == script.table(script.stored()), "run python tests/reference/make_onnx_nodes.py"
