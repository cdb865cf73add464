"""Writes the table of ``docs/onnx.md``: ``python tests/reference/make_onnx.py``.

``test_onnx_table.py`` holds the page to it.
"""

from __future__ import annotations

from pathlib import Path

from staticflow.onnx.table import way_of, why_refused
from staticflow.ops import OPS

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"
BEGIN, END = "<!-- of make_onnx.py -->\n", "<!-- end of operations -->\n"
WAYS = {
    "operator": "an operator of ONNX, or a few",
    "declaration": "what it declares of single elements, or of where they stand",
    "composed": "the operations that it is composed of",
}


def table() -> str:
    """The table of operations as the page has it."""
    rows = ["| written as | operations |", "|---|---|"]
    ops = sorted(OPS.items())
    for way, said in WAYS.items():
        names = ", ".join(f"`{name}`" for name, op in ops if way_of(op) == way)
        rows.append(f"| {said} | {names} |")
    refused = [(name, why_refused(op)) for name, op in ops if way_of(op) == "refused"]
    for why in dict.fromkeys(reason for _, reason in refused):
        names = ", ".join(f"`{name}`" for name, reason in refused if reason == why)
        rows.append(f"| refused: {why} | {names} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Put the table into the page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
