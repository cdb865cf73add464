"""One LLVM text as several, which are compiled at the same time and linked together.

A function is in one of them, and so is a variable; the others declare what they name of it. What
only one of them names stays internal to it. Constants, and functions that are to be inlined, are in
each that names them. Each function is the same text as before, and so the same machine code.

The text is one of ours: what stands outside of functions is a line, a function begins with
``define`` at the start of a line and ends with ``}`` alone on one. Another text stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from staticflow.data_classes import dataclass

__all__ = ["SMALL", "is_unoptimised", "show_functions", "split_text", "without_functions"]

SMALL = 60_000
"""Characters of text that are not worth a module of their own. LLVM takes 25 ms for so much text,
and about a millisecond more for each module."""

_MOST = 16
"""Modules of one text, at most."""

_NAME = re.compile(r'@([\w.$-]+|"[^"]*")')
_HEAD = re.compile(r"^define internal ([^@\n]*)@([\w.$-]+)\(", re.MULTILINE)
_DEFINED = re.compile(r"^define .*", re.MULTILINE)
_VARIABLE = re.compile(r"(@\S+ = )(?:internal |private )?(?=global )")


@dataclass(frozen=True, slots=True)
class _Function:
    """A function and its name."""

    name: str
    text: str

    @property
    def names(self) -> frozenset[str]:
        """The names in it, its own among them."""
        return frozenset(_NAME.findall(self.text))

    @property
    def head(self) -> str:
        """The line that it begins with."""
        return self.text[: self.text.index("\n")]

    @property
    def is_inlined(self) -> bool:
        """Whether each module that calls it is to hold it."""
        return "alwaysinline" in self.head

    @property
    def is_long_list(self) -> bool:
        """Whether it is long and not to be optimised, as what only goes from launch to launch is:
        one of those for a module of its own, which is compiled without (`is_unoptimised`)."""
        return "optnone" in self.head and len(self.text) >= SMALL

    def declaration(self) -> str:
        """What another module says of it."""
        head = self.head.removesuffix("{").partition(" !prof ")[0]
        return head.replace("define internal ", "declare ", 1).replace("define ", "declare ", 1)

    def as_callee(self) -> str:
        """Its text where other modules call it."""
        return self.text.replace("define internal ", "define hidden ", 1)


def split_text(text: str) -> list[str]:
    """The modules of a text, those first that LLVM takes longest for; the text alone where it is
    small, or where it cannot be split."""
    count = min(len(text) // SMALL, _MOST)
    functions, lines = _take_apart(text) if count > 1 else ([], [])
    apart = [f for f in functions if not f.is_inlined]
    if len(apart) < 2 or not _is_plain(functions, lines):
        return [text]
    inlined = {f.name: f for f in functions if f.is_inlined}
    lists = [[f] for f in apart if f.is_long_list]
    others = [f for f in apart if not f.is_long_list]
    shared = _share_out(others, min(max(count - len(lists), 1), len(others))) if others else []
    groups = [_with_inlined(g, inlined) for g in shared + lists]
    named = [frozenset[str]().union(*(f.names for f in group)) for group in groups]
    return [_module(i, groups, named, lines) for i in range(len(groups))]


def is_unoptimised(text: str) -> bool:
    """Whether no function of a module is to be optimised but those that are inlined: LLVM takes a
    twentieth of the time then for one that goes through 2,000 launches, where it allocates
    registers as for a module that is (6 s, of which half is the square of what is alive)."""
    heads = [line for line in _DEFINED.findall(text) if "alwaysinline" not in line]
    return bool(heads) and all("optnone" in line for line in heads)


def show_functions(text: str, names: Collection[str]) -> str:
    """A text whose functions of these names other modules may call."""
    return _HEAD.sub(lambda m: f"define hidden {m[1]}@{m[2]}(" if m[2] in names else m[0], text)


def without_functions(text: str, apart: str) -> str:
    """A text without the functions of one that is compiled ``apart``, whose names it declares."""
    (functions, lines), (others, _) = _take_apart(text), _take_apart(apart)
    there = {f.name for f in others}
    groups = [[f for f in functions if f.name not in there], others]
    named = [frozenset[str]().union(*(f.names for f in groups[0]))]
    return _module(0, groups, named, lines)


def _take_apart(text: str) -> tuple[list[_Function], list[str]]:
    """The functions of a text, and the lines outside of them, without comments."""
    functions: list[_Function] = []
    outside: list[str] = []
    rest = f"\n{text}"
    at = 0
    while (start := rest.find("\ndefine ", at)) >= 0:
        end = rest.find("\n}\n", start)
        if end < 0:
            break
        name = _NAME.search(rest, start)
        assert name is not None, "a function has a name"
        outside.append(rest[at:start])
        functions.append(_Function(name[1], rest[start + 1 : end + 3]))
        at = end + 2  # the end of the line, where another function may begin
    outside.append(rest[at:])
    lines = "".join(outside).split("\n")
    return functions, [s for s in lines if s and not s.startswith(";")]


def _is_plain(functions: Sequence[_Function], lines: Iterable[str]) -> bool:
    """Whether what stands outside of functions names no more than itself, and what is inlined is
    no export."""
    return all(len(_NAME.findall(line)) < 2 for line in lines) and all(
        f.head.startswith("define internal ") for f in functions if f.is_inlined
    )


def _share_out(functions: Sequence[_Function], count: int) -> list[list[_Function]]:
    """The functions in groups of about as much text, each in their order, the longest group
    first."""
    groups: list[list[int]] = [[] for _ in range(count)]
    sizes = [0] * count
    for i in sorted(range(len(functions)), key=lambda i: -len(functions[i].text)):
        least = sizes.index(min(sizes))
        groups[least].append(i)
        sizes[least] += len(functions[i].text)
    order = sorted(range(count), key=lambda k: -sizes[k])
    return [[functions[i] for i in sorted(groups[k])] for k in order]


def _with_inlined(group: Sequence[_Function], inlined: dict[str, _Function]) -> list[_Function]:
    """A group with the functions that are inlined in it, and in those in turn."""
    found = list(group)
    there: set[str] = set()
    for function in found if inlined else ():  # which grows
        for name in sorted(function.names & inlined.keys() - there):
            there.add(name)
            found.append(inlined[name])
    return found


def _module(
    own: int,
    groups: Sequence[Sequence[_Function]],
    named: Sequence[frozenset[str]],
    lines: Iterable[str],
) -> str:
    """The text of the group of that number."""
    here = {f.name for f in groups[own]}
    elsewhere = frozenset[str]().union(*(n for i, n in enumerate(named) if i != own))
    parts = []
    for line in lines:
        name = _NAME.search(line)
        if name is None:
            parts.append(line)
        elif _VARIABLE.match(line):
            parts += _variable(line, name[1], own, named)
        elif name[1] in named[own]:  # a constant, or a declaration
            parts.append(line)
    for i, group in enumerate(groups):
        if i != own:
            parts += [f.declaration() for f in group if f.name in named[own] - here]
    parts += [
        f.as_callee() if f.name in elsewhere and not f.is_inlined else f.text for f in groups[own]
    ]
    return "\n".join(parts) + "\n"


def _variable(line: str, name: str, own: int, named: Sequence[frozenset[str]]) -> Iterable[str]:
    """What a module says of a variable, which lies in the first of those that name it."""
    naming = [i for i, names in enumerate(named) if name in names] or [0]
    if own not in naming:
        return ()
    if own != naming[0]:
        return (f"@{name} = external global i8",)
    return (line if len(naming) == 1 else _VARIABLE.sub(r"\1", line),)
