"""What can be looked at between the passes: the command ``opt``, dumps, and who changed a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.config import config
from staticflow.errors import ArgumentError
from staticflow.graph.dtypes import int64
from staticflow.graph.graph import Graph, close, rebuild
from staticflow.graph.node import Node
from staticflow.graph.parser import parse_graph
from staticflow.ops import OPS
from staticflow.ops.elementwise.trig import cos, sin
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.pattern import rule
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes import pipeline
from staticflow.passes.rewrite import Counts, with_args
from staticflow.static.bisection import NATIVE, bisect_passes
from staticflow.tools.cli import main

Capture = pytest.CaptureFixture[str]

GRAPH = """graph (%x: f32[N, 3]) {
  %0: f32[N, 3] = neg(%x)
  %1: f32[N, 3] = neg(%0)
  %2: f32[N, 3] = exp(%1)
  %3: f32[] = constant 1.0
  %4: f32[N, 3] = add(%2, %3)
  %5: f32[N, 3] = log(%4)
  return %5
}
"""


GATHER = """graph (%x: f32[1], %i: i64[9]) {
  %0: f32[9] = gather(%x, %i) {dim=0}
  return %0
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "g.sf"
    path.write_text(GRAPH)
    return str(path)


def opt(*words: object) -> int:
    return main(["opt", *map(str, words)])


# -- the command ---------------------------------------------------------------------------------


def test_the_graph_after_passes_is_printed_and_can_be_read(file: str, capsys: Capture) -> None:
    assert opt(file, "--passes", "canonicalize") == 0
    after = capsys.readouterr().out
    assert "neg" not in after and "exp(%x)" in after
    assert str(parse_graph(after, OPS)) == after
    assert opt(file) == 0
    assert "cluster" in capsys.readouterr().out


def test_passes_run_as_they_are_named(file: str, tmp_path: Path, capsys: Capture) -> None:
    assert opt(file, "--passes", "fold,canonicalize,stabilize", "--dump", tmp_path / "d") == 0
    capsys.readouterr()
    written = sorted(p.name for p in (tmp_path / "d" / "graph_0001").iterdir())
    assert written == ["00_written.sf", "02_canonicalize.sf", "03_stabilize.sf"]


def test_a_diff_says_what_is_different(file: str, capsys: Capture) -> None:
    assert opt(file, "--passes", "canonicalize", "--diff") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"--- {file}" and "-  %1: f32[N, 3] = neg(%0)" in lines
    assert opt(file, "--passes", "hoist", "--diff") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "text", "says"),
    [
        (
            ["--passes", "fuse,fold"],
            GRAPH,
            "passes: 'fold' runs before 'fuse': it takes operations",
        ),
        (["--passes", "fuze"], GRAPH, "passes: there is no pass 'fuze'; did you mean 'fuse'?"),
        ([], "graph (%x f32", "found 'f32'\n"),
        ([], GRAPH.replace("exp(%1)", "exp(%9)"), "g.sf: "),
        ([], GRAPH.replace("%4: f32[N, 3]", "%4: f32[N, 4]"), "add"),
        (["--dump", "/dev/null"], GRAPH, "cannot be written into '/dev/null'"),
        (["--bisect"], GATHER, "bisect: the graph as it was written fails on these arrays ("),
        (["--bisect", "--size", "M=3"], GRAPH, "--size: the graph has no size 'M'; it has N"),
        (["--bisect", "--size", f"N={10**14}"], GRAPH, "Unable to allocate"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], text: str, says: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "g.sf"
    path.write_text(text)
    assert opt(path, *words) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1 and "unknown line" not in err


def test_files_that_are_none(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "b.sf").write_bytes(b"\xff\xfe")
    assert opt(tmp_path / "no.sf") == opt(tmp_path / "b.sf") == opt(tmp_path) == 2
    assert capsys.readouterr().err.count("\n") == 3


# -- dumps ---------------------------------------------------------------------------------------


def test_every_stage_is_written_with_the_users_lines(tmp_path: Path) -> None:
    x = sf.placeholder((3,), name="x")
    with config.change(dump=str(tmp_path)):
        sf.compile([x], x.abs().abs().sin())
        sf.compile([x], x.cos())
    first, second = sorted(tmp_path.iterdir())
    assert (first.name, second.name) == ("graph_0001", "graph_0002")
    names = sorted(p.name for p in first.iterdir())
    at = pipeline.passes_for("strict").index
    assert names == [
        "00_written.sf",
        f"{at('canonicalize') + 1:02}_canonicalize.sf",
        f"{at('fuse') + 1:02}_fuse.sf",
    ]
    assert "# test_stages.py:" in (first / names[0]).read_text()
    parse_graph((first / names[1]).read_text(), OPS)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    x = sf.placeholder((3,), name="x")
    with (
        config.change(dump=str(tmp_path / "file")),
        pytest.raises(ArgumentError, match="cannot be w"),
    ):
        sf.compile([x], x + 1)


# -- who changed a result ------------------------------------------------------------------------


def chain() -> Any:
    x = sf.placeholder((None,), name="x")
    y = x * 2 + 1
    z = (-(-y)).sin()  # the line
    return sf.compile([x], [z.sum() * 3, y.cos()])


def line_of(text: str) -> int:
    return next(
        i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line
    )


def test_nobody_changed_it() -> None:
    assert chain().bisect(np.float32([1, 2])) is None


def test_the_first_wrong_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = rule("wrong", "no identity", lambda x: sin(x), lambda x: cos(x))
    monkeypatch.setattr(pipeline, "CANONICAL", (*pipeline.CANONICAL, wrong))
    found = chain().bisect(np.float32([1, 2]))
    assert (found.name, found.rules) == ("canonicalize", ("wrong",))
    assert found.what == "sin(f32[x_0])" and found.locs[0].line == line_of("# the" + " line")
    assert str(found).startswith("canonicalize by wrong changes sin(f32[x_0]), at ")
    assert "-0.98" in found.difference and " instead of 0.14" in found.difference


def test_a_wrong_pass_that_is_no_set_of_rules_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(graph: Graph, counts: Counts) -> Graph:
        def visit(node: Node, args: tuple[Node, ...]) -> Node:
            node = with_args(node, args)
            if node.op is not sin:
                return node
            counts.note("no sine", node)
            return cos(Symbol(args[0])).node

        return rebuild(graph, visit)

    monkeypatch.setitem(pipeline.RUNS, "hoist", wrong)
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], [(x.sin() * 2 + 1).exp()], passes="-fold")
    found = program.bisect(np.float32([1, 2]))
    assert (found.name, found.rules, found.what) == ("hoist", ("no sine",), "sin(f32[x_0])")


def test_a_pass_behind_which_the_graph_fails_is_named() -> None:
    x = sf.placeholder((3,), name="x")
    graph = close([x.node], [x.sin().node])

    def fail(graph: Graph, counts: Counts) -> Graph:
        i = Symbol(constant_node(7, int64)).reshape(1)
        return close(graph.params, [Symbol(graph.params[0]).gather(0, i).expand(3).node])

    found = bisect_passes(
        graph, [("fails", fail)], [np.float32([1, 2, 3])], lambda value, expected: ""
    )
    assert found is not None and found.name == "fails" and "it fails: " in found.difference


def test_native_code_is_named_where_no_graph_differs() -> None:
    program, other = chain(), chain()
    x = sf.placeholder((None,), name="x")
    y = x * 2 + 1
    wrong = sf.compile([x], [y.cos().sum() * 3, y.cos()])
    program._executable, program._caller = wrong._executable, wrong._caller
    assert program.bisect(np.float32([1, 2])).name == NATIVE
    assert other.bisect(np.float32([1, 2])) is None


def test_nothing_is_trained() -> None:
    w = sf.ones(2)
    x = sf.placeholder((2,), name="x")
    program = sf.compile([x], (x * w).sum(), updates={w: sf.symbol(w) * 2})
    assert program.bisect(np.float32([1, 2])) is None
    assert w.tolist() == [1, 1]


def test_the_command_names_it_too(
    file: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert opt(file, "--bisect", "--size", "N=4") == 0
    assert capsys.readouterr().out == "no pass changes a result\n"
    wrong = rule("wrong", "no identity", lambda x: -x, lambda x: x * 2)
    monkeypatch.setattr(pipeline, "CANONICAL", (wrong,))
    assert opt(file, "--bisect", "--passes", "hoist,canonicalize") == 1
    assert capsys.readouterr().out.startswith("canonicalize by wrong changes neg(f32[N, 3])")
