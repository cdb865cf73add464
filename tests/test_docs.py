"""The documentation is code that runs: doctests of every module, and the README's program."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import staticflow

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(staticflow.__path__, "staticflow.")
    if not m.name.endswith("__main__")
)


@pytest.mark.parametrize("name", ["staticflow", *MODULES])
def test_examples_of_a_module(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_the_program_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "SumBackward0" in printed and "fuse" in printed and "arena" in printed


def test_every_path_that_the_docs_name_exists() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} names {target}"
