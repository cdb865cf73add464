"""Random native functions that hold, drop, take and hand on references: what the translator accepts
keeps nothing and loses nothing.

What it refuses is changed as its error says, and tried again, so that the advice is tested too.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import linecache
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from slices import today

from staticflow.native.language import Object
from staticflow.native.layout import Layout, structure
from staticflow.native.module import render_native
from staticflow.native.source import NativeError
from staticflow.runtime.native import compile_native

HEAD = """
from __future__ import annotations
from staticflow.native.language import *

class Box(Object):
    item: Object | None

class Holder(Record):
    thing: Owned[Object | None]

@external()
def make(thing: Object) -> Owned[Object | None]:
    raise NotImplementedError

@external()
def disturb(thing: Object) -> bool:
    raise NotImplementedError

@external(runs=False)
def look(thing: Object) -> bool:
    raise NotImplementedError

@native
def pick(box: Box, other: Object, n: int) -> Owned[Object | None]:
    if n > 2:
        return hold(other)
    return hold(box.item)

@native
def swallow(thing: Owned[Object | None], holder: Holder) -> bool:
    before = take(holder.thing)
    holder.thing = thing
    drop(before)
    return False

@inline
def held(holder: Holder) -> Inside[Object | None]:
    return holder.thing
"""

NAMES = ("a", "b", "c")
READ = ("box.item", "holder.thing", "held(holder)")
"""What is good only until Python runs, or until something is taken."""


class Writer:
    """A random function, line by line."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = self.counters = 0

    def write(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    def name(self) -> str:
        return self.random.choice(NAMES)

    def value(self) -> str:
        x, y = self.name(), self.name()
        return self.random.choice((
            *READ, *(f"hold({place})" for place in READ), "other", "hold(other)", "make(other)",
            "make(box)", "None", x, f"hold({x})", "take(holder.thing)", "pick(box, other, n)",
            f"{x} if n > 1 else {y}", f"hold({x}) if n > 1 else make(other)",
        ))  # fmt: skip

    def statement(self) -> None:
        kinds = [self.assign] * 3 + [self.drop] * 2 + [self.hand_on, self.use, self.leave]
        if self.depth < 2:
            kinds += [self.choose, self.repeat]
        self.random.choice(kinds)()

    def assign(self) -> None:
        self.write(f"{self.name()} = {self.value()}")

    def drop(self) -> None:
        self.write(f"drop({self.name()})")

    def hand_on(self) -> None:
        x = self.random.choice((self.name(), f"hold({self.name()})", "make(other)"))
        self.write(self.random.choice((f"swallow({x}, holder)", f"box.item = {x}")))

    def use(self) -> None:
        x = self.name()
        self.write(f"if {x} is not None:")
        self.write(f"    n += int({self.random.choice(('look', 'disturb'))}({x}))")

    def leave(self) -> None:
        self.write(f"if n > {self.random.randrange(5)}:")
        self.write(f"    return {self.value()}")

    def choose(self) -> None:
        x = self.name()
        test = self.random.choice((f"{x} is None", f"{x} is not None", "n > 2"))
        self.write(f"if {test}:")
        self.body()
        if self.random.random() < 0.5:
            self.write("else:")
            self.body()

    def repeat(self) -> None:
        self.counters += 1
        self.write(f"for i{self.counters} in range(n % 3):")
        self.body()
        if self.random.random() < 0.3:
            self.write("    if n > 2:")
            self.write(f"        {self.random.choice(('break', 'continue'))}")

    def body(self) -> None:
        self.depth += 1
        for _ in range(self.random.randrange(1, 3)):
            self.statement()
        self.depth -= 1

    def function(self, name: str) -> list[str]:
        self.write(self.random.choice(("a: Owned[Object | None] = None", "a = make(other)")))
        self.write(self.random.choice(("b: Object | None = other", "b = hold(other)")))
        self.write(self.random.choice(("c = box.item", "c = pick(box, other, n)")))
        for _ in range(self.random.randrange(2, 6)):
            self.statement()
        self.write(f"return {self.value()}")
        params = "box: Box, other: Object, holder: Holder, n: int"
        return ["@export", f"def {name}({params}) -> Owned[Object | None]:", *self.lines]


# -- what is accepted ----------------------------------------------------------------------------


def mend(lines: list[str], error: NativeError) -> bool:
    """Change the line that an error is about as it says; false where it says nothing so simple."""
    first, _, _ = str(error).partition("\n")
    _, number, said = first.split(":", 2)
    at, said = int(number) - 1, said.strip()
    line = lines[at]
    indent = line[: len(line) - len(line.lstrip())]
    opens = line.endswith(":")  # a block, which stays
    lost = re.match(r"([abc]), owned since line \d+, is (not dropped|lost here)", said)
    if lost and not line.endswith("else:"):
        lines.insert(at, f"{indent}drop({lost[1]})")
    elif (borrowed := re.match(r"(.+?) is borrowed and would be", said)) and "drop(" not in line:
        lines[at] = re.sub(rf"(= |return |\(){re.escape(borrowed[1])}\b", rf"\1hold({borrowed[1]})",
                           line, count=1)  # fmt: skip
    elif not opens and (borrowed or re.search(r"was (dropped|given|put|returned)", said)):
        lines[at] = f"{indent}pass"
    else:
        name = re.match(r"\w+", said)
        read = [i for i, text in enumerate(lines) if name and text.strip() in
                [f"{name[0]} = {place}" for place in READ]]  # fmt: skip
        for i in read:
            lines[i] = re.sub(r"= (.*)", r"= hold(\1)", lines[i])
        return bool(read)
    return lines[at] != line


def load(lines: list[str], path: Path) -> Any:
    path.write_text("\n".join(lines) + "\n")
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def layout_of(loaded: Any) -> Layout:
    return Layout({Object: {"type": 8}, loaded.Box: {"item": 16}}, {})


def accepted(seed: str, name: str, path: Path) -> list[str] | None:
    """A random function that the translator accepts, after at most a dozen changes."""
    lines = Writer(seed).function(name)
    head = HEAD.split("\n")
    for attempt in range(12):
        loaded = load([*head, *lines], path / f"{name}_{attempt}.py")
        try:
            render_native([getattr(loaded, name)], layout_of(loaded))
        except NativeError as error:
            whole = [*head, *lines]
            if not mend(whole, error):
                return None
            lines = whole[len(head) :]
        else:
            return lines
        finally:
            del sys.modules[loaded.__name__]
    return None


# -- what is run ---------------------------------------------------------------------------------


class Thing:
    """An object that is counted while it lives."""

    alive = 0

    def __init__(self) -> None:
        Thing.alive += 1

    def __del__(self) -> None:
        Thing.alive -= 1


class Slot:
    """The `Box` of the native functions, which others change."""

    __slots__ = ("item",)
    item: Thing | None


def externals(box: Slot, freed: list[Any]) -> dict[str, Any]:
    """What the native functions call. In ``freed`` they note what was lent to them and is gone:
    what a callback of ctypes raises, nobody is told."""

    def make(thing: Any) -> Thing:
        box.item = Thing()
        return Thing()

    def look(thing: Any) -> bool:
        if not (thing is None or isinstance(thing, Slot | Thing)):
            freed.append(repr(thing))
        return False

    def disturb(thing: Any) -> bool:
        box.item = None if getattr(box, "item", None) else Thing()
        gc.collect(0)
        return look(thing)

    taking = ctypes.PYFUNCTYPE(ctypes.c_bool, ctypes.py_object)
    giving = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)
    return {"make": giving(make), "look": taking(look), "disturb": taking(disturb)}


def address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def counts(*things: Any) -> list[int]:
    return [sys.getrefcount(thing) for thing in things]


def check(native: Any, holder_of: Any, box: Slot, n: int) -> None:
    """Call a native function, and count what it left: what it gave, what the holder has and what
    lies in the box, and nothing else."""
    before = Thing.alive
    other, first, kept = Thing(), Thing(), Thing()
    box.item = first
    holder = holder_of(id(kept))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    own = [n - had for n, had in zip(counts(other, first, kept), (0, 1, 1), strict=True)]
    result = native(box, other, ctypes.addressof(holder), n)
    there = (result, holder.thing, id(getattr(box, "item", None)))
    had = [there.count(id(thing)) for thing in (other, first, kept)]
    assert counts(other, first, kept) == [n + m for n, m in zip(own, had, strict=True)]
    every = {id(other), id(first), id(kept), *filter(None, there)}
    assert Thing.alive - before == len(every - {id(box), id(None)})
    for place in (result, holder.thing):
        if place:
            ctypes.pythonapi.Py_DecRef(ctypes.cast(place, ctypes.py_object))
    box.item = None


def run(seed: str, count: int, path: Path) -> int:
    """Check the functions of ``count`` that are accepted; how many they were."""
    functions = [accepted(f"{seed} {i}", f"random_{i}", path) for i in range(count)]
    lines = [line for function in functions if function for line in function]
    loaded = load([*HEAD.split("\n"), *lines], path / "accepted.py")
    known = [fn for name, fn in vars(loaded).items() if name.startswith("random_")]
    box, freed = Slot(), list[Any]()
    called = externals(box, freed)
    symbols = {name: address(function) for name, function in called.items()}
    symbols |= {n: address(getattr(ctypes.pythonapi, n)) for n in ("Py_IncRef", "Py_DecRef")}
    text = render_native(known, layout_of(loaded))
    code = compile_native(text, [fn.__name__ for fn in known], symbols)
    del sys.modules["accepted"]
    kind = ctypes.PYFUNCTYPE(
        ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_int64
    )
    for fn in known:
        for n in range(5):
            check(kind(code.address(fn.__name__)), structure(loaded.Holder), box, n)
    assert not freed
    return len(known)


def test_a_day_of_random_references(tmp_path: Path) -> None:
    assert run(today(), 60, tmp_path) > 0


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(20))
def test_random_references(tmp_path: Path, seed: int) -> None:
    assert run(str(seed), 150, tmp_path) > 10
