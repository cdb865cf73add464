"""Files of programs whose structure somebody has changed: each is refused in one sentence, or runs
within its memory and gives what the interpreter gives. Processes of their own run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hostile_programs import file_of
from slices import today

import staticflow as sf
from staticflow.errors import ShapeError, VerifyError
from staticflow.graph.graph import Graph
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.parser import parse_graph
from staticflow.graph.verify import verify_graph
from staticflow.ops import OPS

TESTS = Path(__file__).parent.parent

A_DAY = 60


def check(seed: str, count: int) -> None:
    path = os.pathsep.join(map(str, (TESTS.parent, TESTS / "support", TESTS / "graph")))
    program = str(TESTS / "graph" / "hostile_structures.py")
    done = subprocess.run(
        [sys.executable, program, seed, str(count), "guard"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1:] == ["end"], (
        f"the process of {seed} ended with {done.returncode} at {lines[-1:]}: {done.stderr[-2000:]}"
    )
    faults = [line for line in lines if line.startswith("fault: ")]
    assert not faults, f"{seed}:\n" + "\n".join(faults[:20])


def test_changed_structures_are_refused_or_run() -> None:
    check(today(), A_DAY)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(100))
def test_many_changed_structures(part: int) -> None:
    check(f"campaign {part}", 100)


# -- sizes that are bound twice --------------------------------------------------------------------

TWICE = """
size K below 9
graph (%n: i64[], %m: i64[], %x: f32[8]) {
  %0: bool[K, 0] = measure(%n) {most=8, what="a", binds=[K]}
  %1: bool[K, 0] = measure(%m) {most=8, what="b", binds=[K]}
  %2: f32[K] = prefix(%x, %0)
  %3: f32[K] = prefix(%x, %1)
  %4: f32[K] = cumsum(%3) {dim=0, reverse=false}
  %5: f32[K] = add(%2, %4)
  return %5
}"""

LOOPS_TWICE = """
graph (%n: i64[], %m: i64[], %x: f32[8]) {
  %0: i64[] = constant 0
  %1: bool[] = lt(%0, %n)
  %2: (bool[], i64[], f32[8], f32[K, 8]) = while(%1, %0, %x, %n) {body=graph (%f: bool[], %i: i64[], %c: f32[8], %n: i64[]) {
    %0: i64[] = constant 1
    %1: i64[] = add(%i, %0)
    %2: bool[] = lt(%1, %n)
    %3: f32[8] = add(%c, %c)
    return %2, %1, %3, %c
  }, carries=3, xs=0, length=none, binds=[K]}
  %3: bool[] = lt(%0, %m)
  %4: (bool[], i64[], f32[8], f32[K, 8]) = while(%3, %0, %x, %m) {body=graph (%f: bool[], %i: i64[], %c: f32[8], %n: i64[]) {
    %0: i64[] = constant 1
    %1: i64[] = add(%i, %0)
    %2: bool[] = lt(%1, %n)
    %3: f32[8] = sub(%c, %x)
    return %2, %1, %c, %c
  }, carries=3, xs=0, length=none, binds=[K]}
  %5: f32[K, 8] = item(%2) {index=3}
  %6: f32[K, 8] = item(%4) {index=3}
  %7: f32[K, 8] = add(%5, %6)
  return %7
}""".replace("    %3: f32[8] = sub(%c, %x)\n", "")


@pytest.mark.parametrize("text", [TWICE, LOOPS_TWICE])
def test_a_size_that_two_nodes_bind_is_one(text: str) -> None:
    graph = verify_graph(parse_graph(text, OPS))
    program = sf.load_program(file_of(graph))
    for n in (0, 3, 8):
        (found,) = program(*given(n, n))
        (wanted,) = interpret_graph(graph, given(n, n))
        assert found.tolist() == wanted.tolist()
    for n, m in ((3, 7), (7, 3), (0, 8), (8, 0)):
        for _ in range(2):
            with pytest.raises(ShapeError, match="K is bound twice, and both must be equal"):
                program(*given(n, m))
        with pytest.raises(VerifyError):
            interpret_graph(graph, given(n, m))


def given(n: int, m: int) -> list[np.ndarray]:
    return [np.array(n), np.array(m), np.arange(8, dtype=np.float32)]


def refusal(text: str) -> str:
    graph: Graph = parse_graph(text, OPS)
    with pytest.raises(VerifyError) as caught:
        verify_graph(graph)
    return str(caught.value)


def test_a_region_binds_no_size_that_is_known_around_it() -> None:
    inner = """%0: bool[K, 0] = measure(%n) {most=8, what="b", binds=[K]}
      %1: f32[K] = prefix(%x, %0)
      %2: f32[] = sum(%1) {dims=[0], keepdim=false}
      return %2"""
    text = TWICE.replace("return %5", f"""%6: f32[] = sum(%5) {{dims=[0], keepdim=false}}
    %7: (f32[]) = scan(%6, %m, %x) {{body=graph (%c: f32[], %n: i64[], %x: f32[8]) {{
      {inner}
    }}, carries=1, xs=0, length=2, reverse=false}}
    %8: f32[] = item(%7) {{index=0}}
    return %8""")  # fmt: skip
    assert "the region binds K, which is known around it" in refusal(text)


def test_a_loop_binds_no_size_that_its_body_binds() -> None:
    text = """graph (%f: bool[], %n: i64[], %x: f32[8]) {
      %0: (bool[], f32[8]) = while(%f, %x, %n) {body=graph (%f: bool[], %c: f32[8], %n: i64[]) {
        %0: bool[K, 0] = measure(%n) {most=8, what="b", binds=[K]}
        %1: f32[K] = prefix(%c, %0)
        %2: f32[] = sum(%1) {dims=[0], keepdim=false}
        %3: f32[8] = add(%c, %2)
        return %f, %3
      }, carries=2, xs=0, length=none, binds=[K]}
      %1: f32[8] = item(%0) {index=1}
      return %1
    }"""
    assert "the region binds K, which is known around it" in refusal("size K below 9\n" + text)


def test_an_op_has_as_many_arguments_as_it_takes() -> None:
    text = "graph (%x: f32[2]) { %0: f32[2] = exp(%x, %x) return %0 }"
    assert "exp takes 1 argument, and has 2" in refusal(text)
