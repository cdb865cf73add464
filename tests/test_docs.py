"""The documentation is code that runs: doctests of every module, and the README's program."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import pkgutil
import re
import textwrap
from fnmatch import fnmatch
from pathlib import Path

import pytest
from test_layers import LAYERS

import staticflow
from staticflow import errors
from staticflow.config import Config

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


def test_every_file_that_the_docs_name_exists() -> None:
    files = [f"/{p.relative_to(ROOT)}" for p in ROOT.glob("[!.]*/**/*.*")]
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for name in re.findall(r"`([\w/*]+\.(?:py|sf|md))`", page.read_text()):
            assert any(fnmatch(file, f"*/{name}") for file in files), f"{page.name} names {name}"


def test_every_folder_is_in_the_house() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page[page.index("| folder |") : page.index("## One expression")]
    named = re.findall(r"`(\w+)`", "".join(row.split(" | ")[0] for row in table.splitlines()))
    assert named == [name for names in LAYERS[:-1] for name in names]


def test_the_programs_on_debugging_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "debugging.md").read_text()
    programs = re.findall(r"^( *)```python\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    exec("".join(textwrap.dedent(text) for _, text in programs), {})
    said = page[page.index("print(error)  # ") + len("print(error)  # ") :].split(", at")[0]
    assert said in capsys.readouterr().out


def test_every_flag_is_on_the_page_on_debugging() -> None:
    page = (ROOT / "docs" / "debugging.md").read_text()
    for field in dataclasses.fields(Config):
        assert f"`STATICFLOW_{field.name.upper()}=" in page


PAGES = sorted(p for p in (ROOT / "docs").glob("*.md") if ">>>" in p.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_examples_of_a_page(page: Path) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testfile(str(page), module_relative=False, optionflags=flags).failed == 0


def test_every_class_of_error_has_its_place_on_the_page_on_errors() -> None:
    titles = " ".join(re.findall("^## (.*)", (ROOT / "docs" / "errors.md").read_text(), re.M))
    assert set(titles.replace(",", "").split()) == set(errors.__all__) - {"StaticflowError"}
