"""Writes the table of rules of ``docs/passes.md``: ``python tests/reference/make_rules.py``.

``test_rule_table.py`` holds the page to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from staticflow.ops.symbols.stable_forms import STABLE_FORMS
from staticflow.passes.rules import CANONICAL, FAST, PARTS, REORDER

PAGE = Path(__file__).parents[2] / "docs" / "passes.md"
BEGIN, END = "<!-- of make_rules.py -->\n", "<!-- end of rules -->\n"
SETS = {
    "stabilize": STABLE_FORMS, "stabilize_parts": PARTS, "canonicalize": CANONICAL,
    "reorder": REORDER, "relax": FAST,
}  # fmt: skip
"""The rules of each pass that consists of some."""


def table() -> str:
    """The table of rules as the page has it."""
    head = ["| rule | identity | pass |", "|---|---|---|"]
    return "\n".join([*head, *_rules()]) + "\n"


def _rules() -> Iterator[str]:
    for name, rules in SETS.items():
        for r in dict.fromkeys((r.name, r.identity) for r in rules):
            identity = r[1].replace("|", "\\|")
            yield f"| `{r[0]}` | {identity} | `{name}` |"


def main() -> None:
    """Put the table into the page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
