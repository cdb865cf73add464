"""What a ``finally`` puts back is changed inside its ``try``: where an exception comes in between, as
Ctrl-C may between any two lines, it would stay changed for ever."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import staticflow

PACKAGE = Path(staticflow.__file__).parent


def changed(statements: list[ast.stmt]) -> set[str]:
    """The attributes that statements assign, as they are written."""
    targets = [t for s in statements if isinstance(s, ast.Assign) for t in s.targets]
    each = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return {ast.unparse(e) for e in each if isinstance(e, ast.Attribute)}


def early(text: str) -> Iterator[str]:
    """The attributes that are put back behind a ``try``, and changed just before it."""
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for block in (body, getattr(node, "orelse", None)):
            for i, s in enumerate(block if isinstance(block, list) else []):
                if isinstance(s, ast.Try) and s.finalbody:
                    for name in sorted(changed(s.finalbody) & changed(block[max(0, i - 3) : i])):
                        yield f"line {s.lineno}: {name}"


def test_it_is_seen() -> None:
    text = "before, s.on = s.on, True\ntry:\n    f()\nfinally:\n    s.on = before\n"
    assert [*early(text)] == ["line 2: s.on"]
    assert not [*early("try:\n    s.on = True\nfinally:\n    s.on = False\n")]


@pytest.mark.parametrize("room", sorted(p.name for p in PACKAGE.iterdir() if p.is_dir()))
def test_a_switch_is_thrown_where_it_is_put_back(room: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)} {where}"
        for path in (PACKAGE / room).rglob("*.py")
        for where in early(path.read_text())
    ]
    assert not found, f"change it inside the try: {found}"
