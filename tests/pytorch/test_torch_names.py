"""``docs/torch-names.md`` has every public name of PyTorch, and a reason for each that is missing."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="which names there are is said by PyTorch")

SCRIPT = Path(__file__).parents[1] / "reference" / "make_torch_names.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("make_torch_names", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_missing_has_a_reason(script: Any) -> None:
    for title, (theirs, ours) in script.ROOMS.items():
        missing = [name for name in script.names_of(theirs) if not script.has(ours, name)]
        unsaid = [name for name in missing if script.reason_of(name) == script.REST]
        assert not unsaid, f"{title}: say in GROUPS why these are missing: {unsaid}"


@pytest.mark.skipif(torch.__version__.split("+")[0] != "2.13.0", reason="the page is of 2.13")
def test_the_page_has_every_name(script: Any) -> None:
    """A name that came since then is said to be missing until the page is written again."""
    text = script.PAGE.read_text()
    for title, (theirs, ours) in script.ROOMS.items():
        part = text.split(f"## {title}\n")[1].split("\n## ")[0]
        found = re.findall(r"^\| (here|missing).*?\| (`.*) \|$", part, re.MULTILINE)
        listed = {name for _, names in found for name in re.findall(r"`(\w+)`", names)}
        assert listed == set(script.names_of(theirs)), "run tests/reference/make_torch_names.py"
        here = next(names for kind, names in found if kind == "here")
        gone = [name for name in re.findall(r"`(\w+)`", here) if not script.has(ours, name)]
        assert not gone, f"{title}: the page says that these are here: {gone}"
