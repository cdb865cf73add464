"""Files of programs whose graphs have other attributes than any op of ours would give them: each is
refused in a sentence, or runs and gives what the interpreter gives. A process of its own runs those
of an op, so that one that ends it is seen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from opinfo import ROWS
from opinfo.modes import graph_of
from slices import daily

from staticflow.errors import VerifyError
from staticflow.graph.attr_kinds import KINDS
from staticflow.graph.node import constant, param
from staticflow.graph.parser import parse_graph
from staticflow.graph.verify import verify_graph
from staticflow.ops import OPS

TESTS = Path(__file__).parent.parent

A_DAY = 12


def check(names: Sequence[str], samples: int) -> None:
    path = os.pathsep.join(map(str, (TESTS.parent, TESTS / "support")))
    program = str(TESTS / "graph" / "hostile_programs.py")
    words = [sys.executable, program, str(samples), *names]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1:] == ["end"], (
        f"the process ended with {done.returncode} at {lines[-1:]}: {done.stderr[-2000:]}"
    )
    faults = [line for line in lines if line.startswith("fault: ")]
    assert not faults, "\n".join(faults[:20])


def test_changed_attributes_are_refused_or_run() -> None:
    check(daily(sorted(OPS), A_DAY, "hostile attributes"), 1)


@pytest.mark.campaign
@pytest.mark.parametrize("name", sorted(OPS))
def test_changed_attributes_of_every_op(name: str) -> None:
    check([name], 3)


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_attribute_has_a_kind(name: str) -> None:
    info = ROWS[name]
    for sample in info.samples(info.dtypes[0], False):
        for node in verify_graph(graph_of(info, sample)).nodes:
            if node.op not in (param, constant):
                assert node.attrs.keys() <= KINDS.keys(), "a name that graph/attr_kinds.py lacks"


MEASURED = "graph (%n: i64[]) {{ %0: bool[K, 0] = measure(%n) {{{}}} return %0 }}"
CHOSEN = "graph (%x: f32[4]) {{ %0: (f32[2], i64[2]) = topk(%x) {{{}}} %1: f32[2] = item(%0) {{{}}} return %1 }}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "size K below 3 " + MEASURED.format('most=5, what="a", binds=[K]'),
            "K below 3, and it may be 5",
        ),
        (MEASURED.format('most=-5, what="a", binds=[K]'), "the attribute most of measure is -5"),
        (MEASURED.format('most=5, what="a", binds=[K, K]'), "the attribute binds of measure"),
        (MEASURED.format('most=5, what="a", binds=[K + 1]'), "binds K + 1, which is no name"),
        (CHOSEN.format("k=2, dim=0, largest=2", "index=0"), "the attribute largest of topk is 2"),
        (CHOSEN.format("k=2, dim=0, largest=true", "index=-1"), "the item -1 is none of the 2"),
        (CHOSEN.format("k=2, dim=0, largest=true", "index=2"), "the item 2 is none of the 2"),
        (CHOSEN.format("k=2, largest=true", "index=0"), "dim is left out or unknown"),
    ],
)
def test_what_reached_memory_is_refused(text: str, why: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(why)):
        verify_graph(parse_graph(text, OPS))
