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


def test_the_page_has_the_table() -> None:
    script = made()
    shown = script.PAGE.read_text().split(script.BEGIN)[1].split(script.END)[0]
    assert shown == script.table(script.stored()), "run python tests/reference/make_onnx_nodes.py"
