"""Programs that must fail: the ``.py`` files beside this one.

Their first comments say with what: ``# raises`` an exception class of `staticflow.errors` or of
Python, whose message ``# says`` each of some texts, and names the line marked ``# <-- error``. A line
marked ``# <-- also`` is named too.
"""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest

import staticflow.errors

PROGRAMS = sorted(p for p in Path(__file__).parent.glob("*.py") if not p.name.startswith("test_"))


def wanted(source: str, key: str) -> list[str]:
    return [
        line.removeprefix(f"# {key} ")
        for line in source.splitlines()
        if line.startswith(f"# {key} ")
    ]


def marked(source: str, mark: str) -> list[int]:
    return [n for n, line in enumerate(source.splitlines(), 1) if line.endswith(f"# <-- {mark}")]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_program_fails_as_it_says(path: Path) -> None:
    source = path.read_text()
    (name,) = wanted(source, "raises")
    kind = getattr(staticflow.errors, name, None) or getattr(builtins, name)
    (line,) = marked(source, "error")
    code = compile(source, str(path), "exec")
    with pytest.raises(kind) as caught:
        exec(code, {"__name__": path.stem})
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert type(caught.value) is kind, text
    for fragment in wanted(source, "says"):
        assert fragment in text
    for n in [line, *marked(source, "also")]:
        assert f"{path}:{n}" in text


def test_there_are_programs_for_every_kind_of_error() -> None:
    raised = {wanted(p.read_text(), "raises")[0] for p in PROGRAMS}
    internal = {"StaticflowError", "VerifyError", "ParseError", "CompileError"}
    assert raised >= set(staticflow.errors.__all__) - internal


@pytest.mark.parametrize("name", staticflow.errors.__all__)
def test_whoever_catches_what_pytorch_raises_catches_it(name: str) -> None:
    assert issubclass(getattr(staticflow.errors, name), RuntimeError)
