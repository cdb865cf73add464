"""One LLVM text as several modules: what each of them holds and declares, and that programs which
are split are the same machine code, function by function, and give the same bits."""

from __future__ import annotations

import re

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.llvm import modules
from staticflow.codegen.llvm.modules import is_unoptimised, split_text
from staticflow.runtime.compiler import emit_assembly
from staticflow.static.compile import Program

TEXT = """
%Pair = type { i64, i64 }
; @ghost is only spoken of, and so is @shade
@told = global i64 9
@counted = internal global i64 1
@table = private constant [2 x i64] [i64 3, i64 4]
@outer = external global i8
declare i64 @given(i64)
declare i64 @unused(i64)

define internal i64 @small(i64 %x) nounwind alwaysinline {
  %y = call i64 @given(i64 %x)
  ret i64 %y
}

define internal i64 @one(ptr noalias readonly %p, i64 %x) nounwind !prof !{!"function_entry_count", i64 7} {
  %a = load i64, ptr @counted
  %b = call i64 @small(i64 %a)
  ret i64 %b
}

define internal i64 @two(i64 %x) nounwind {
  %a = load i64, ptr @counted
  %b = getelementptr i64, ptr @table, i64 %x
  %c = load i64, ptr @outer
  ret i64 %a
}

define i64 @run(ptr %p) nounwind {
  %a = call i64 @one(ptr %p, i64 1)
  %b = call i64 @two(i64 %a)
  %c = getelementptr i64, ptr @table, i64 %b
  ret i64 %b
}
"""


@pytest.fixture
def split_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "SMALL", 250)


@pytest.mark.usefixtures("split_small")
def test_what_modules_hold() -> None:
    parts = split_text(TEXT)
    assert len(parts) == 3
    by = {name: part for part in parts for name in re.findall(r"^define .*@(\w+)", part, re.M)}
    one, two, run = by["one"], by["two"], by["run"]
    assert all("%Pair = type" in part for part in parts)
    assert not any("unused" in part or "ghost" in part for part in parts)
    # what is inlined goes along, with what it names
    assert "define internal i64 @small" in one
    assert "declare i64 @given" in one
    assert "small" not in two + run
    # a variable lies in one module, a constant in each that names it
    assert sorted(re.findall("@counted = .*", one + two)) == [
        "@counted = external global i8", "@counted = global i64 1"
    ]  # fmt: skip
    assert "@table = private constant [2 x i64]" in two
    assert "@table = private constant [2 x i64]" in run
    assert "@outer = external global i8" in two
    # an export that no function names is not lost
    assert sum("@told = global i64 9" in part for part in parts) == 1
    assert "define hidden i64 @two(i64 %x) nounwind {" in two
    assert "declare i64 @one(ptr noalias readonly %p, i64 %x) nounwind\n" in run
    assert "define i64 @run(ptr %p)" in run


@pytest.mark.usefixtures("split_small")
def test_a_long_list_of_launches_is_alone_and_not_optimised() -> None:
    """The others stand together as before, and are optimised; what is inlined decides nothing."""
    steps = "".join(f"  %d{i} = call i64 @small(i64 {i})\n" for i in range(20))
    text = TEXT.replace("(ptr %p) nounwind {\n", f"(ptr %p) nounwind noinline optnone {{\n{steps}")
    parts = split_text(text)
    assert len(parts) > 1
    *others, last = parts
    assert is_unoptimised(last)
    assert re.findall(r"^define .*@(\w+)", last, re.M) == ["run", "small"]
    assert not any(is_unoptimised(part) or "@run" in part for part in others)
    assert not is_unoptimised(text)
    assert not is_unoptimised("declare i64 @given(i64)\n")


def test_what_stays_whole() -> None:
    assert split_text(TEXT) == [TEXT]  # it is small


@pytest.mark.usefixtures("split_small")
@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("private constant [2 x i64] [i64 3, i64 4]", "constant ptr @run"),
        TEXT.replace("define internal i64 @small", "define i64 @small"),
        "\n".join(f"  {line}" for line in TEXT.split("\n")),
    ],
)
def test_what_is_not_known_stays_whole(text: str) -> None:
    """A constant that names a function, an export that is to be inlined, another layout."""
    assert split_text(text) == [text]


def _functions(assembly: str) -> dict[str, str]:
    """The instructions of each function, without the names of labels, which are counted through."""
    found = {}
    for name, body in re.findall(r"^(\w[\w.]*):.*?\n(.*?)^\.Lfunc_end", assembly, re.M | re.S):
        lines = (line.split("#")[0].strip() for line in body.splitlines())
        plain = [re.sub(r"\.L\w+", ".L", line) for line in lines if line]
        found[name] = "\n".join(line for line in plain if not line.startswith((".", "#")))
    return found


def _program() -> tuple[Program, list[sf.Tensor]]:
    x, k = sf.placeholder((None, None, 32), name="x"), sf.placeholder((None, 32, None), name="k")
    w = sf.arange(32 * 32).reshape(32, 32) * 0.001
    y = ((x @ w) @ k).softmax(-1).sin().cumsum(1).sort(1)[0].softmax(1)
    args = [
        sf.randn(2, 9, 32, generator=sf.Generator(1)),
        sf.randn(2, 32, 5, generator=sf.Generator(2)),
    ]
    return sf.compile([x, k], [y, *sf.grad(y.sum(), [x, k])]), args


def test_a_split_program_is_the_same_code() -> None:
    program, _ = _program()
    text = program.source()
    parts = split_text(text)
    assert len(parts) > 2
    whole = _functions(emit_assembly(text))
    split = {name: body for part in parts for name, body in _functions(emit_assembly(part)).items()}
    assert whole.keys() == split.keys()
    assert [name for name in whole if whole[name] != split[name]] == []


def test_a_split_program_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    program, args = _program()
    found = program(*args)
    monkeypatch.setattr(modules, "SMALL", 10**9)
    monkeypatch.setenv("STATICFLOW_CACHE_DIR", "")
    again = _program()[0](*args)
    for a, b in zip(found, again, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
