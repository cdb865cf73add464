"""Writes what becomes of the node tests of onnx: ``python tests/reference/make_onnx_nodes.py``.

It runs all of them in both modes, and writes those that are refused to ``onnx_nodes.json``, each
with the reason, and as a table into ``docs/onnx.md``. ``test_onnx_nodes.py`` holds both to the truth.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from onnx_cases import cases, outcome

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"
STORED = Path(__file__).parent / "onnx_nodes.json"
BEGIN, END = "<!-- of make_onnx_nodes.py -->\n", "<!-- end of nodes -->\n"


def stored() -> dict[str, str]:
    """The refused tests by name."""
    found: dict[str, str] = json.loads(STORED.read_text())
    return found


def table(refused: dict[str, str]) -> str:
    """The table of what is refused as the page has it."""
    total = len(cases())
    rows = [
        f"Of {total} tests {total - len(refused)} pass in both modes. The others:", "",
        "| tests | why they do not pass | of the operators |", "|---|---|---|",
    ]  # fmt: skip
    for why, count in Counter(refused.values()).most_common():
        names = {_operator(n) for n, reason in refused.items() if reason == why}
        rows.append(f"| {count} | {why} | {', '.join(f'`{n}`' for n in sorted(names))} |")
    return "\n".join(rows) + "\n"


def _operator(name: str) -> str:
    """The operator that a test is of; of several, the one that it is called by."""
    kinds = [n.op_type for n in cases()[name].model.graph.node]
    return kinds[0] if len(set(kinds)) == 1 else kinds[-1]


def main() -> None:
    """Run all, and write both."""
    refused = {name: why for name in sorted(cases()) if (why := outcome(name))}
    STORED.write_text(json.dumps(refused, indent=0) + "\n")
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + table(refused) + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
