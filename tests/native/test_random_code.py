"""Random native functions of ints, bools, records and references: the same as Python."""

from __future__ import annotations

import ctypes
import importlib.util
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from slices import today

from staticflow.native.language import Row
from staticflow.native.layout import Layout, structure
from staticflow.native.module import render_native
from staticflow.runtime.native import compile_native

HEAD = """
from __future__ import annotations
from staticflow.native.language import *

YES, NO = True, False

class Pair(Record):
    first: int
    small: Int32
    flag: bool
    words: Row[int]

@inline
def mixed(a: int, b: int) -> int:
    return (a * 3 ^ b) & 1023

@native
def fewer(p: Pair, n: int) -> bool:
    p.first = p.first + 1 & 255
    return p.first < n
"""

WORDS = 4
NAMES = ("a", "b", "c")


class Writer:
    """A random function, line by line."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = self.loops = self.counters = 0
        self.may_decide = True  # a constant, which leaves code that is never reached
        self.readable = [*NAMES]

    def pick(self, *choices: Callable[[], str]) -> str:
        return self.random.choice(choices)()

    def number(self, depth: int = 0) -> str:
        if depth > 2 or self.random.random() < 0.3:
            return self.pick(
                lambda: self.random.choice(self.readable),
                lambda: str(self.random.choice((-7, -1, 0, 1, 2, 5, 64, 1000))),
                lambda: "p.first", lambda: "p.small",
                lambda: f"p.words[{self.random.choice(self.readable)} % {WORDS}]",
            )  # fmt: skip
        x, y = (lambda: self.number(depth + 1)), (lambda: self.number(depth + 1))
        op = self.random.choice(("+", "-", "&", "|", "^"))
        return self.pick(
            lambda: f"({x()} {op} {y()})",
            lambda: f"({x()} % 512 * ({y()} % 64))",
            lambda: f"({x()} {self.random.choice(('//', '%'))} {self.random.choice((-7, 2, 3, 16))})",
            lambda: f"({x()} % 4096 << {self.random.randrange(5)} >> {self.random.randrange(9)})",
            lambda: f"({x()} if {self.truth(depth + 1)} else {y()})",
            lambda: f"{self.random.choice(('min', 'max', 'mixed'))}({x()}, {y()})",
            lambda: f"int({self.truth(depth + 1)})", lambda: f"-{x()}", lambda: f"~{x()}",
            lambda: f"({self.random.choice(NAMES)} := {x()} % 97)",
        )  # fmt: skip

    def truth(self, depth: int = 0) -> str:
        x, y = (lambda: self.number(depth + 1)), (lambda: self.number(depth + 1))
        compare = self.random.choice(("<", "<=", ">", ">=", "==", "!="))
        if depth > 2:
            return f"({x()} {compare} {y()})"
        t, u = (lambda: self.truth(depth + 1)), (lambda: self.truth(depth + 1))
        if self.may_decide and self.random.random() < 0.1:
            return (
                f"({self.random.choice(('YES', 'NO'))} {self.random.choice(('and', 'or'))} {t()})"
            )
        return self.pick(
            lambda: f"({x()} {compare} {y()})", lambda: f"({t()} and {u()})",
            lambda: f"({t()} or {u()})", lambda: f"(not {t()})", lambda: "p.flag",
            lambda: f"({t()} ^ {u()})", lambda: f"fewer(p, {x()})",
        )  # fmt: skip

    def write(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    def body(self) -> None:
        self.depth += 1
        readable = [*self.readable]
        for _ in range(self.random.randrange(1, 4)):
            self.statement()
        self.readable = readable
        self.depth -= 1

    def statement(self) -> None:
        kinds = [self.assign] * 4 + [self.store] * 2
        if self.depth < 4:
            kinds += [self.choose] * 2 + [self.repeat]
        self.random.choice(kinds)()

    def assign(self) -> None:
        name = self.random.choice(NAMES)
        self.write(f"{name} = {self.number()} % 100003")

    def store(self) -> None:
        place = self.random.choice(NAMES)
        self.write(self.pick(
            lambda: f"p.first = {self.number()} % 1000", lambda: f"p.small = {self.number()} % 77",
            lambda: f"p.flag = {self.truth()}", lambda: f"{place} += {self.number()} & 63",
            lambda: f"p.words[{place} % {WORDS}] = {self.number()} % 999",
            lambda: f"p.words[int(fewer(p, {place}))] += {self.number()} & 63",
            lambda: f"p.words[p.first % {WORDS}] ^= {self.number()} & 63",
        ))  # fmt: skip

    def choose(self) -> None:
        self.write(f"if {self.truth()}:")
        self.body()
        if self.random.random() < 0.4:
            self.write(f"elif {self.truth()}:")
            self.body()
        if self.random.random() < 0.6:
            self.write("else:")
            self.body()

    def repeat(self) -> None:
        self.counters += 1
        counter = f"i{self.counters}"
        turns = self.random.randrange(1, 6)
        if self.random.random() < 0.5:
            self.write(f"for {counter} in range({self.pick(lambda: str(turns), lambda: 'b % 5')}):")
            readable = [*self.readable]
            self.readable.append(counter)
        else:
            self.write(f"{counter} = 0")
            readable = [*self.readable, counter]
            self.readable = [*readable]
            self.write(f"while {counter} < {turns} and {self.truth(2)}:")
            self.write(f"    {counter} += 1")
        self.body()
        if self.random.random() < 0.5:
            self.may_decide = False
            self.write(f"    if {self.truth(1)}:")
            self.may_decide = True
            self.write(f"        {self.random.choice(('break', 'continue', 'return c'))}")
            self.write(f"    a = {self.number(1)} % 100003")
        self.readable = readable

    def function(self, name: str) -> str:
        for _ in range(self.random.randrange(3, 9)):
            self.statement()
        body = "\n".join(self.lines)
        head = f"@export\ndef {name}(p: Pair, a: int, b: int) -> int:\n    c = a ^ b\n"
        return f"\n{head}{body}\n    return a * 3 + b ^ c\n"


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    def load(text: str) -> Any:
        path = tmp_path / f"random_code_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = loaded
        spec.loader.exec_module(loaded)
        names.append(path.stem)
        return loaded

    names: list[str] = []
    yield load
    for name in names:
        del sys.modules[name]


def run(loaded: Any, count: int) -> None:
    functions = [getattr(loaded, f"random_{i}") for i in range(count)]
    text = render_native(functions, Layout())
    code = compile_native(text, [f.__name__ for f in functions])
    memory_of = structure(loaded.Pair)
    for fn in functions:
        native = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 2)(
            code.address(fn.__name__)
        )
        for a, b, flag in ((0, 0, False), (5, -3, True), (-77, 1000, False), (12, 12, True)):
            words = (ctypes.c_int64 * WORDS)(1, -2, 30, 400)
            memory = memory_of(9, -9, flag, ctypes.addressof(words))
            pair = loaded.Pair(first=9, small=-9, flag=flag, words=Row([1, -2, 30, 400]))
            expected = fn(pair, a, b)
            assert native(ctypes.addressof(memory), a, b) == expected, (fn.__name__, a, b)
            assert [*words] == pair.words.items
            assert (memory.first, memory.small, memory.flag) == (pair.first, pair.small, pair.flag)


def test_a_day_of_random_functions(module: Callable[[str], Any]) -> None:
    day = today()
    count = 25
    functions = [Writer(f"{day} {i}").function(f"random_{i}") for i in range(count)]
    run(module(f'"""Of {day}."""\n{HEAD}{"".join(functions)}'), count)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(40))
def test_random_functions(module: Callable[[str], Any], seed: int) -> None:
    functions = [Writer(f"{seed} {i}").function(f"random_{i}") for i in range(25)]
    run(module(f"{HEAD}{''.join(functions)}"), 25)
