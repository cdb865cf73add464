"""Kernels that are compiled while the rest of their program is written, and modules on threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kept_programs import keeping

import staticflow as sf
from staticflow.config import config
from staticflow.errors import CompileError
from staticflow.runtime import ahead, compiler, drafting
from staticflow.runtime.compiler import Compilation, joins_objects
from staticflow.static.compile import Program

pytestmark = pytest.mark.skipif(
    not joins_objects(), reason="object files are not joined here: LLVM links a program whole"
)

SIZES = itertools.count(20)
"""A size for each program, so that none is found in a cache."""


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """The modules that are compiled, as they come. The recipes of programs are kept, as they are
    outside of the tests: of others the text may be on disk."""
    found: list[str] = []
    add = Compilation.add

    def note(self: Compilation, text: str, quick: bool = False) -> None:
        found.append(text)
        add(self, text, quick)

    monkeypatch.setattr(Compilation, "add", note)
    monkeypatch.setattr(ahead, "SMALL", 4_000)
    with keeping(tmp_path):
        yield found


def program(size: int) -> Program:
    x = sf.placeholder((None, size), name="x")
    w = sf.from_numpy(np.linspace(0, 1, size * size, dtype=np.float32).reshape(size, size))
    y = ((x @ w).softmax(1) @ w).sin().cumsum(0)
    return sf.compile([x], [y, sf.grad(y.sum(), x)])


def defined(text: str) -> set[str]:
    return {line.partition("@")[2].partition("(")[0] for line in text.splitlines()
            if line.startswith("define")}  # fmt: skip


def test_each_function_is_compiled_once_and_kernels_before_the_rest(added: list[str]) -> None:
    text = program(next(SIZES)).source()
    # beside them there is the entry, and what all programs are linked with
    names = [found for m in added if (found := defined(m)) <= defined(text)]
    assert sum(map(len, names)) == len(defined(text))
    assert set.union(*names) == defined(text)
    (rest,) = (i for i, n in enumerate(names) if "run" in n)
    assert rest > 1


@pytest.mark.parametrize("threads", [1, 3])
def test_results_are_the_same_bits(
    threads: int, added: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "get_num_threads", lambda: threads)
    size = next(SIZES)
    x = sf.randn(5, size, generator=sf.Generator(3))
    found = program(size)(x)
    assert len(added) > 2
    monkeypatch.setattr(config, "verify", True)  # then it is compiled when all of it is written
    monkeypatch.setattr(config, "cache_dir", "")
    monkeypatch.setattr(ahead, "Ahead", None)
    again = program(size)(x)
    for a, b in zip(found, again, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_subnormals_that_are_flushed_keep_a_program_whole(added: list[str]) -> None:
    x = sf.placeholder((None, next(SIZES)), name="x")
    text = sf.compile([x], x.softmax(1).sin(), flush_subnormals=True).source()
    assert [m for m in added if "define i64 @run(" in m] == [text]


def test_what_is_found_by_its_text_is_not_compiled(added: list[str]) -> None:
    """As a program is that writes over an input, of which no recipe is kept."""
    x = sf.placeholder((None, next(SIZES)), name="x")
    for count in (1, 0):
        added.clear()
        sf.compile([x], x.softmax(1).sin(), donate=x)
        assert len([m for m in added if "define i64 @run(" in m]) == count
    assert added == []


def helpers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "staticflow-compiler"]


@pytest.mark.parametrize("fault", [CompileError, KeyboardInterrupt])
def test_what_fails_on_the_way_leaves_no_threads(
    fault: type[BaseException], added: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor what was begun: another program compiles as if nothing had been."""

    def fail(*_: object) -> None:
        raise fault("on the way")

    plan = drafting.plan_memory
    monkeypatch.setattr(compiler, "get_num_threads", lambda: 3)
    monkeypatch.setattr(drafting, "plan_memory", fail)
    size = next(SIZES)
    with pytest.raises(fault, match="on the way"):
        program(size)
    assert added
    assert helpers() == []
    monkeypatch.setattr(drafting, "plan_memory", plan)
    program(size)(sf.ones(2, size))


def test_a_fault_of_one_module_is_told_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    good = "define i32 @f{}() {{\n  ret i32 {}\n}}\n"
    for threads in (1, 4):
        monkeypatch.setattr(compiler, "get_num_threads", lambda n=threads: n)
        with Compilation() as compilation:
            for i in range(5):
                compilation.add(good.format(i, i))
            compilation.add("define i32 @bad() {\n  ret i64 1\n}\n")
            with pytest.raises(CompileError, match=r"(?s)rejects.*>\s+2   ret i64 1"):
                compilation.finish()
        assert helpers() == []


def test_modules_are_given_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever thread makes them, and however long it takes."""
    together = threading.Barrier(3)

    def slowly(text: str, opt: int) -> bytes:
        if int(text) < 3:  # each of these on a thread of its own
            together.wait(timeout=10)
        return text.encode()

    monkeypatch.setattr(compiler, "_emit", slowly)
    monkeypatch.setattr(compiler, "get_num_threads", lambda: 3)
    with Compilation() as compilation:
        for i in range(9):
            compilation.add(str(i))
        assert compilation.finish() == [str(i).encode() for i in range(9)]


def test_where_no_thread_can_begin_this_one_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(compiler, "get_num_threads", lambda: 3)
    with Compilation() as compilation:
        compilation.add("define i32 @f() {\n  ret i32 1\n}\n")
        compilation.add("define i32 @g() {\n  ret i32 2\n}\n")
        assert len(compilation.finish()) == 2
