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
from test_layers import LAYERS, ROOMS

import staticflow
import staticflow as sf
from staticflow import errors
from staticflow.config import Config
from staticflow.graph.graph import close
from staticflow.graph.op import Op
from staticflow.ops.basics import arithmetic
from staticflow.ops.declaring import declare, lowering
from staticflow.ops.elementwise import maths
from staticflow.ops.symbols.pattern import rule
from staticflow.passes.rewrite import Counts, rewrite

ROOT = Path(__file__).resolve().parents[2]
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
    assert "SumBackward0" in printed and "fuse" in printed and "KiB at the peak" in printed


def test_the_program_of_the_package_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "package.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(program, "package.md", "exec"), {})
    assert float(capsys.readouterr().out) > 0


def test_every_path_that_the_docs_name_exists() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} names {target}"


def test_every_file_and_folder_that_the_docs_name_exists() -> None:
    files = [f"/{p.relative_to(ROOT)}" for p in ROOT.glob("[!.]*/**/*.*")]
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for name in re.findall(r"`([\w*][\w/*]*(?:\.(?:py|sf|md)|/))`", page.read_text()):
            pattern = f"*/{name}" + "*" * name.endswith("/")
            assert any(fnmatch(file, pattern) for file in files), f"{page.name} names {name}"


def test_every_folder_is_in_the_house() -> None:
    """In the order in which they may import, each with its rooms in rows of their own."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page[page.index("| folder |") : page.index("## One expression")]
    first = [row.split(" | ")[0] for row in table.splitlines()]
    words = [
        f"{'.' * row.startswith('| ·')}{w}" for row in first for w in re.findall(r"`(\w+)`", row)
    ]
    expected = []
    for layer in (name for names in LAYERS[:-1] for name in names):
        rooms = (name for names in ROOMS.get(layer, ()) for name in names if name)
        expected += [layer, *(f".{room}" for room in rooms)]
    assert words == expected


def test_the_programs_on_debugging_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "debugging.md").read_text()
    programs = re.findall(r"^( *)```python\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    exec("".join(textwrap.dedent(text) for _, text in programs), {})
    said = page[page.index("print(error)  # ") + len("print(error)  # ") :].split(", at")[0]
    assert said in capsys.readouterr().out


def test_the_program_on_drawing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec("".join(_programs_of("drawing.md")), {})
    assert {p.name for p in tmp_path.iterdir()} == {"step.html", "step.svg", "written.dot"}


def _programs_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def test_the_ops_on_adding_one_work() -> None:
    names = {**vars(declare), **vars(lowering), "Op": Op, "pow": maths.pow}
    exec("".join(_programs_of("add-an-op.md")), names)
    x = sf.tensor([-1.0, 0.0, 3.0], requires_grad=True)
    y = names["flip_op"](names["halfsign"](x), dims=(0,))
    y.sum().backward()
    assert y.tolist() == [0.75, 0.0, -0.5]
    assert x.grad is not None and x.grad.tolist() == [0.25, 1.0, 0.0625]
    s = sf.placeholder((None,), name="s")
    assert (
        sf.compile([s], names["flip_op"](names["halfsign"](s), dims=(0,)))(x).tolist() == y.tolist()
    )
    rows = sf.vmap(lambda r: names["flip_op"](names["halfsign"](r), dims=(0,)))(sf.stack([x, -x]))
    assert rows.tolist() == [y.tolist(), (-y).tolist()]


def test_autograd_from_scratch_agrees_with_ours() -> None:
    names: dict[str, object] = {}
    exec("".join(_programs_of("autograd-from-scratch.md")), names)
    assert "message" in names  # the page compares the numbers itself


def test_the_rule_on_adding_a_pass_fires() -> None:
    names = {"rule": rule, "sub": arithmetic.sub}
    added = eval(_programs_of("add-a-pass.md")[0], names)
    x, y = sf.placeholder((2,), name="x"), sf.placeholder((2,), name="y")
    graph = close([x.node, y.node], [(x - (-y)).node])
    counts = Counts()
    assert "add(%x, %y)" in str(rewrite(graph, [added], counts)) and counts == {"sub_neg": 1}


def test_every_flag_is_on_the_page_on_debugging() -> None:
    page = (ROOT / "docs" / "debugging.md").read_text()
    for field in dataclasses.fields(Config):
        assert f"`STATICFLOW_{field.name.upper()}=" in page


PAGES = sorted(p for p in (ROOT / "docs").glob("*.md") if ">>>" in p.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_examples_of_a_page(page: Path) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testfile(str(page), module_relative=False, optionflags=flags).failed == 0


def _is_shown(name: str) -> bool:
    """Whether it is among what an example is to show: no module, class of errors or internal."""
    value = getattr(sf, name, None)
    is_error = isinstance(value, type) and issubclass(value, Exception)
    return not is_error and name not in ("cast", "constant", "serial")


def test_every_name_of_the_package_and_of_tensors_is_in_an_example() -> None:
    lines = [
        line.strip()
        for path in (*(ROOT / "staticflow").rglob("*.py"), *(ROOT / "docs").glob("*.md"))
        for line in path.read_text().splitlines()
    ]
    shown = "\n".join(line for line in lines if line.startswith((">>>", "...")))
    shown += "".join(p.read_text() for p in (ROOT / "examples").glob("*.py"))
    words = set(re.findall(r"\w+", shown))
    public = {*sf.__all__, *(n for n in dir(sf.Tensor) if not n.startswith("_"))}
    assert sorted(n for n in public - words if _is_shown(n)) == []


def test_every_class_of_error_has_its_place_on_the_page_on_errors() -> None:
    titles = " ".join(re.findall("^## (.*)", (ROOT / "docs" / "errors.md").read_text(), re.M))
    assert set(titles.replace(",", "").split()) == set(errors.__all__) - {"StaticflowError"}
