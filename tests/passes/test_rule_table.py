"""The table of rules in ``docs/passes.md`` is that of the rules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from staticflow.passes.order import NUMERICS, PASSES, least_numerics

SCRIPT = Path(__file__).parents[1] / "reference" / "make_rules.py"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("make_rules", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_rule() -> None:
    made = script()
    shown = made.PAGE.read_text().split(made.BEGIN)[1].split(made.END)[0]
    assert shown == made.table(), "run python tests/reference/make_rules.py"


def test_each_pass_says_which_numerics_it_needs() -> None:
    assert {least_numerics(name) for name in PASSES} == {*NUMERICS}
    assert least_numerics("order_products") == "strict"
