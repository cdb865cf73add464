"""SciPy and scikit-learn on tensors, by the array API, held to what they give of NumPy's arrays."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy", "1.17", reason="what SciPy computes by the array API is of 1.17")
pytest.importorskip("sklearn", "1.9", reason="what scikit-learn computes so is of 1.9")

SCRIPT = Path(__file__).parents[1] / "reference" / "make_consumers.py"


def made() -> Any:
    spec = importlib.util.spec_from_file_location("make_consumers", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("library", ["scipy", "sklearn"])
def test_calls_give_what_they_give_of_numpys_arrays(library: str) -> None:
    script = made()
    found, wanted = script.run(library), script.stored()[library]
    differ = {c: (why, wanted.get(c)) for c, why in found.items() if wanted.get(c) != why}
    assert not differ, "run python tests/reference/make_consumers.py"
    assert found.keys() == wanted.keys()
    assert not any("too: " in why for why in found.values()), "NumPy's arrays are refused, too"


def test_the_page_has_the_table() -> None:
    script = made()
    shown = script.PAGE.read_text().split(script.BEGIN)[1].split(script.END)[0]
    assert shown == script.table(script.stored()), "run python tests/reference/make_consumers.py"
