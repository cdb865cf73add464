"""Random graphs run in every way: by the interpreter, as native code after all passes and after some
of them in an order of their own, by `jit` and eagerly, forward and back.

``STATICFLOW_FUZZ=10000 python -m pytest -m campaign tests/fuzz/test_fuzz.py`` runs that many others;
what it finds it reduces, and saves in ``tests/fuzz/found``, whose cases run with the suite.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import zlib
from typing import Any

import campaign
import pytest
from filetests import parse_case, run_found
from graph_judge import draw_passes, find_difference, print_case, read_case
from reduce_graph import count_nodes
from slices import today

from staticflow.graph.graph import Graph, regions_of
from staticflow.ops.elementwise.trig import cos, sin
from staticflow.ops.symbols.pattern import rule
from staticflow.passes import pipeline
from staticflow.passes.order import PASSES, arrange_passes

COUNT = int(os.environ.get("STATICFLOW_FUZZ", "2000"))
A_DAY = 10
IN_A_PROCESS = 200
FIRST = zlib.crc32(today().encode())


def test_graphs_of_the_day() -> None:
    for seed in range(FIRST, FIRST + A_DAY):
        case = campaign.draw_case(seed)
        found = None if case is None else find_difference(case)
        assert found is None, f"python tests/fuzz/campaign.py {seed} 1: {found}"


@pytest.mark.campaign
def test_many_graphs() -> None:
    said: list[str] = []
    for first in range(FIRST, FIRST + COUNT, IN_A_PROCESS):
        count = min(IN_A_PROCESS, FIRST + COUNT - first)
        words = [sys.executable, campaign.__file__, str(first), str(count)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        said += done.stdout.splitlines()
        if done.returncode not in (0, 1):
            said.append(f"a process ended with {done.returncode}: {done.stderr[-2000:]}")
    assert not said, "\n".join(said)


SINES = (34, 229)
"""Seeds of small graphs that take a sine."""

# -- what the campaign stands on -----------------------------------------------------------------


def test_a_wrong_rule_is_found_and_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = rule("wrong", "no identity", lambda x: sin(x), lambda x: cos(x))
    monkeypatch.setattr(pipeline, "CANONICAL", (*pipeline.CANONICAL, wrong))
    text = next(filter(None, map(campaign.look_at, SINES)))
    case = parse_case(text)
    ((_, *words),) = case.commands
    smallest = read_case(words, case.input).graph
    assert count_nodes(smallest) <= 2 and "sin" in case.input
    assert run_found(case.input, case.commands).startswith(text.split(": ")[1])
    monkeypatch.undo()
    assert run_found(case.input, case.commands) == "they agree"


def test_memory_that_is_read_too_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from staticflow.runtime import drafting

    def free_at_once(program: Any, given: Any) -> Any:
        plan = plan_memory(program, given)
        object.__setattr__(plan, "live", tuple((first, first) for first, _ in plan.live))
        return plan

    plan_memory = drafting.plan_memory
    monkeypatch.setattr(drafting, "plan_memory", free_at_once)
    cases = filter(None, map(campaign.draw_case, range(40)))
    assert any(find_difference(case, "compiled") for case in cases)


def test_a_case_is_its_text() -> None:
    for seed in range(20):
        case = campaign.draw_case(seed)
        assert case is not None
        command, graph = print_case(case)
        again = read_case(command.split()[1:], graph)
        assert print_case(again) == (command, graph)
        assert (again.sizes, again.seed, again.updates) == (case.sizes, case.seed, case.updates)


def test_orders_by_chance_are_legal_and_differ() -> None:
    orders = {draw_passes(random.Random(seed)) for seed in range(50)}
    assert len(orders) > 40
    for names in orders:
        arrange_passes(names)
    pipeline_order = PASSES.index
    assert any(list(o) != sorted(o, key=pipeline_order) for o in orders)


def test_programs_are_of_many_kinds() -> None:
    """Most ops of the tables of forms come up, loops in loops, several dtypes and sizes."""
    graphs = [case.graph for seed in range(80) if (case := campaign.draw_case(seed))]
    names = {n.op.name for g in graphs for n in nodes_of(g)}
    assert {"scan", "while", "cond", "matmul", "gather", "cat", "softmax", "cumsum"} <= names
    assert {"uniform", "slice_scatter", "remainder"} <= names
    assert {str(p.tensor_type.dtype) for g in graphs for p in g.params} >= {
        "f64",
        "f32",
        "i64",
        "bool",
    }


def nodes_of(graph: Graph) -> list[Any]:
    inner = [n for node in graph.nodes for r in regions_of(node) for n in nodes_of(r)]
    return [*graph.nodes, *inner]
