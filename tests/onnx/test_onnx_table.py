"""The table of operations in ``docs/onnx.md`` is that of the rows."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "reference" / "make_onnx.py"


def test_the_page_has_every_operation() -> None:
    spec = importlib.util.spec_from_file_location("make_onnx", SCRIPT)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    shown = made.PAGE.read_text().split(made.BEGIN)[1].split(made.END)[0]
    assert shown == made.table(), "run python tests/reference/make_onnx.py"
