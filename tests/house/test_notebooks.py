"""The notebooks run from the first cell to the last, as in Jupyter, and are kept without outputs."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells_of(path: Path, kind: str) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def run_cell(source: str, name: str, names: dict[str, Any]) -> None:
    """Run a cell; the value of an expression at its end is shown as a notebook shows it."""
    body = ast.parse(source, name).body
    shown = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), name, "exec"), names)
    if shown is not None:
        value = eval(compile(ast.Expression(shown.value), name, "eval"), names)
        for way in ("_repr_html_", "_repr_svg_", "__repr__"):
            assert getattr(value, way, lambda: "none")()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    names: dict[str, Any] = {"__name__": path.stem}
    for cell in cells_of(path, "code"):
        run_cell("".join(cell["source"]), f"{path.name}:{cell['id']}", names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs_and_its_links_lead_somewhere(path: Path) -> None:
    for cell in cells_of(path, "code"):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
    for cell in cells_of(path, "markdown"):
        for target in re.findall(r"\]\(([^)#:]+)\)", "".join(cell["source"])):
            assert (path.parent / target).exists(), f"{path.name} names {target}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_exercise_has_a_solution(path: Path) -> None:
    asked = re.findall(r"✎ \*\*Exercise (\d)\.\*\*", path.read_text())
    solved = re.findall(r"^# (\d)$", "\n".join(
        "".join(cell["source"]) for cell in cells_of(path, "code")
    ), re.MULTILINE)  # fmt: skip
    assert asked == solved and len(asked) >= 5
