"""Tests that are text: each ``.sf`` file under ``tests`` holds cases like this one.

    # What the case shows.
    RUN: vectorize i 16
    the input, in a text form of staticflow
    EXPECT:
    the output

Instead of ``EXPECT:``, a case that must fail has ``ERROR:`` with the whole message. A line of four
or more dashes separates cases, and commands separated by ``|`` run one after the other. What the
commands are depends on the folder of the file; `SUITES` has a function for each.
``pytest --bless`` rewrites what follows EXPECT and ERROR to what comes out: read the difference
before you commit it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from graph_ops import OPS

from staticflow.codegen.kernel import Kernel
from staticflow.codegen.lower.cluster import Lowered
from staticflow.codegen.schedule.gpu import schedule_gpu
from staticflow.codegen.schedule.loops import bind_grid, parallel, unroll, vectorize
from staticflow.codegen.schedule.streams import stream_stores
from staticflow.codegen.target import Target
from staticflow.codegen.text import parse_kernel, print_kernel
from staticflow.codegen.verify import verify_kernel
from staticflow.errors import StaticflowError
from staticflow.graph.dims import Sym
from staticflow.graph.graph import Graph
from staticflow.graph.parser import parse_graph
from staticflow.graph.printer import print_graph
from staticflow.graph.verify import verify_graph
from staticflow.ops import OPS as REAL_OPS
from staticflow.passes.choosing import FUSED
from staticflow.passes.pipeline import RUNS
from staticflow.passes.rewrite import Counts, each_region

Commands = list[list[str]]
Suite = Callable[[str, Commands], str]


# -- what the folders run ------------------------------------------------------------------------

KERNEL_COMMANDS: dict[str, Callable[..., Kernel]] = {
    "verify": lambda kernel: kernel,
    "vectorize": lambda kernel, var, width: vectorize(kernel, Sym(var), int(width)),
    "unroll": lambda kernel, var, factor: unroll(kernel, Sym(var), int(factor)),
    "parallel": lambda kernel, var: parallel(kernel, Sym(var)),
    "bind_grid": bind_grid,
    "stream": lambda kernel, least: stream_stores(
        kernel, Target(512, True, True, streamed_bytes=int(least))
    ),
    "gpu": lambda kernel: schedule_gpu(Lowered(kernel)).kernel,
}


def run_kernel(text: str, commands: Commands) -> str:
    """The kernel that ``text`` describes after the commands, verified after each of them."""
    kernel = verify_kernel(parse_kernel(text))
    for name, *args in commands:
        kernel = verify_kernel(KERNEL_COMMANDS[name](kernel, *args))
    return print_kernel(kernel)


GRAPH_COMMANDS: dict[str, Callable[..., Graph]] = {"verify": verify_graph}


def run_graph(text: str, commands: Commands) -> str:
    """The graph that ``text`` describes, of the ops of `graph_ops`, after the commands."""
    graph = parse_graph(text, OPS)
    for name, *args in commands:
        graph = GRAPH_COMMANDS[name](graph, *args)
    return print_graph(graph)


def run_passes(text: str, commands: Commands, counts: Counts | None = None) -> str:
    """The graph that ``text`` describes, of the ops of staticflow, after the passes; what they did
    is added to ``counts``."""
    counts = Counts() if counts is None else counts
    graph = verify_graph(parse_graph(text, {**REAL_OPS, **FUSED}))
    for (name,) in commands:
        graph = verify_graph(each_region(graph, RUNS[name], counts))
    return print_graph(graph)


def run_found(text: str, commands: Commands) -> str:
    """Whether all ways to run the case that ``text`` describes agree, or how they differ."""
    from graph_judge import find_difference, read_case

    ((_, *words),) = commands
    difference = find_difference(read_case(words, text))
    return "they agree" if difference is None else f"{difference.way}: {difference.what}"


SUITES: dict[str, Suite] = {
    "kernel": run_kernel, "passes": run_passes, "verify": run_graph, "found": run_found,
}  # fmt: skip


# -- the files -----------------------------------------------------------------------------------

_SEPARATOR = re.compile(r"^-{4,}\n", re.MULTILINE)
_CASE = re.compile(
    r"(?P<head>.*?^RUN:[ ]*(?P<run>[^\n]*)\n(?P<input>.*?)^)(?P<kind>EXPECT|ERROR):(?P<result>.*)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Case:
    """One case of a file; ``head`` is its text up to the expected result."""

    head: str
    commands: Commands
    input: str
    kind: str
    result: str

    def outcome(self, suite: Suite) -> tuple[str, str]:
        """What comes out: ``EXPECT`` and the output, or ``ERROR`` and the message."""
        try:
            return "EXPECT", suite(self.input, self.commands)
        except StaticflowError as error:
            return "ERROR", str(error)


def parse_case(text: str) -> Case:
    """The case that a piece of a file holds; ValueError if it is not one."""
    match = _CASE.fullmatch(text)
    if match is None:
        raise ValueError(f"this is no case with RUN:, and EXPECT: or ERROR:\n{text}")
    commands = [command.split() for command in match["run"].split("|")]
    return Case(match["head"], commands, match["input"], match["kind"], match["result"].strip())


def split_cases(text: str) -> list[str]:
    """The texts of the cases of a file."""
    return _SEPARATOR.split(text)


def blessed(text: str, index: int, kind: str, result: str) -> str:
    """The text of a file in which the case at ``index`` expects ``result``."""
    cases = split_cases(text)
    after = "\n" if kind == "EXPECT" else " "
    cases[index] = f"{parse_case(cases[index]).head}{kind}:{after}{result.strip()}\n"
    return ("-" * 80 + "\n").join(cases)


class FileOfCases(pytest.File):
    """A ``.sf`` file, collected as one test for each case."""

    def collect(self) -> Iterator[CaseItem]:
        for index, text in enumerate(split_cases(self.path.read_text())):
            case = parse_case(text)
            name = f"{index}: {' | '.join(map(' '.join, case.commands))}"
            yield CaseItem.from_parent(self, name=name, case=case, index=index)


class CaseItem(pytest.Item):
    """The test of one case."""

    def __init__(self, *, case: Case, index: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.case = case
        self.index = index

    def runtest(self) -> None:
        kind, result = self.case.outcome(SUITES[self.path.parent.name])
        if kind == self.case.kind and self.config.getoption("--bless"):
            self.path.write_text(blessed(self.path.read_text(), self.index, kind, result))
            return
        assert (kind, result.strip()) == (self.case.kind, self.case.result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if not isinstance(excinfo.value, AssertionError):
            return super().repr_failure(excinfo)
        kind, result = self.case.outcome(SUITES[self.path.parent.name])
        return (
            f"expected {self.case.kind}:\n{self.case.result}\n\ngot {kind}:\n{result}\n"
            "(pytest --bless accepts it)"
        )

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> FileOfCases | None:
    """Collect the ``.sf`` files of the folders that have a suite."""
    if file_path.suffix != ".sf" or file_path.parent.name not in SUITES:
        return None
    collected: FileOfCases = FileOfCases.from_parent(parent, path=file_path)
    return collected


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--bless``."""
    parser.addoption(
        "--bless", action="store_true", help="accept what text file tests give as their result"
    )
