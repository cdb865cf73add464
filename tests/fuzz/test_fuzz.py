"""Random programs run in every way: by the interpreter as they were written and after each pass,
and as native code.

``STATICFLOW_FUZZ=5000 pytest tests/fuzz`` runs that many other ones.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import random_programs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import Drawn, Step, arrays_for, programs, sizes, steps

import staticflow as sf
from staticflow.config import config
from staticflow.errors import ShapeError, StaticflowError
from staticflow.graph.interpret import interpret_graph

CAMPAIGN = int(os.environ.get("STATICFLOW_FUZZ", "0"))
fuzzed = settings(
    max_examples=CAMPAIGN or 60,
    derandomize=not CAMPAIGN,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "verify", True)


def outcome(run: Any, *args: Any) -> list[np.ndarray] | type[Exception]:
    """What comes out: arrays, or the class of the error."""
    try:
        return [np.asarray(a) for a in run(*args)]
    except StaticflowError as error:
        return type(error)


def assert_same_outcome(got: Any, expected: Any, what: str) -> None:
    if isinstance(expected, type):
        assert got is expected, what
        return
    assert not isinstance(got, type), (what, got)
    for g, e in zip(got, expected, strict=True):
        assert (g.dtype, g.shape) == (e.dtype, e.shape), what
        if e.dtype.kind == "f":
            np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-9, equal_nan=True, err_msg=what)
        else:
            np.testing.assert_array_equal(g, e, err_msg=what)


def is_finite(found: Any) -> bool:
    return isinstance(found, type) or all(np.isfinite(a).all() for a in found)


@fuzzed
@given(
    programs(), st.lists(sizes, min_size=2, max_size=2), st.integers(0, 2**32),
    st.sampled_from(["strict", "strict", "strict", "fast"]),
)  # fmt: skip
def test_every_way_to_run_a_program_agrees(
    drawn: Drawn, calls: Any, seed: int, numerics: str
) -> None:
    try:
        program = sf.compile(drawn.inputs, drawn.outputs, numerics=numerics)
    except ShapeError as error:  # what is assumed of the sizes contradicts itself
        assert f"differ, at {random_programs.__file__}" in str(error)
        return
    graphs = {r.name: r.after for r in program.passes if r.after is not r.before}
    for values in calls:
        arrays = arrays_for(drawn, values, seed)
        expected = outcome(interpret_graph, program.graph, arrays)
        if numerics == "fast" and not is_finite(expected):
            continue
        for name, graph in graphs.items():
            assert_same_outcome(outcome(interpret_graph, graph, arrays), expected, f"after {name}")
        assert_same_outcome(outcome(program, *arrays), expected, "compiled")


@fuzzed
@given(steps(), st.lists(sizes, min_size=2, max_size=2), st.integers(0, 2**32))
def test_updates_see_the_values_before(step: Step, calls: Any, seed: int) -> None:
    """Whatever is stored in place, and in whichever order."""
    try:
        program = sf.compile(step.inputs, step.outputs, updates=step.updates)
    except ShapeError:
        return
    for values in calls:
        arrays = arrays_for(step, values, seed)
        before = [v.numpy().copy() for v in program._caller.variables]
        expected = outcome(interpret_graph, program.graph, [*arrays, *before])
        got = outcome(program, *arrays)
        if isinstance(expected, type):
            assert got is expected
            after = before
            found = [v.numpy() for v in program._caller.variables]
        else:
            count = len(step.outputs)
            assert_same_outcome(got, expected[:count], "outputs")
            after, found = expected[count:], [v.numpy() for v, _ in step.updates]
        assert_same_outcome(found, after, "variables")
