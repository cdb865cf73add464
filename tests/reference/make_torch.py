"""Writes the table of ``docs/torch.md``: ``python tests/reference/make_torch.py``, with PyTorch.

``test_torch_table.py`` holds the page to it.
"""

from __future__ import annotations

from pathlib import Path

import torch

from staticflow.torch.table import ROWS, why_refused

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"
BEGIN, END = "<!-- of make_torch.py -->\n", "<!-- end of operations -->\n"


def core_operations() -> list[str]:
    """The overloads of ATen that are tagged as core."""
    found = set()
    for schema in torch._C._jit_get_all_schemas():
        room, _, name = schema.name.partition("::")
        packet = getattr(torch.ops.aten, name, None) if room == "aten" else None
        overload = getattr(packet, schema.overload_name or "default", None)
        if overload is not None and torch.Tag.core in overload.tags:
            found.add(str(overload))
    return sorted(found)


def _short(name: str) -> str:
    return f"`{name.removeprefix('aten.').removesuffix('.default')}`"


def table() -> str:
    """The table of operations as the page has it."""
    core = core_operations()
    known = [name for name in core if name in ROWS]
    beyond = sorted(ROWS.keys() - set(core))
    rows = [f"| of {len(core)} | operations |", "|---|---|"]
    rows.append(f"| {len(known)} have a row | {', '.join(map(_short, known))} |")
    refused = [(name, why_refused(name)) for name in core if name not in ROWS]
    for why in dict.fromkeys(reason for _, reason in refused):
        names = [_short(name) for name, reason in refused if reason == why]
        rows.append(f"| {len(names)} refused: {why} | {', '.join(names)} |")
    rows.append(f"| and {len(beyond)} beyond the core | {', '.join(map(_short, beyond))} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Put the table into the page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
