"""The test mode that spoils memory: right programs do not see it, wrong plans do.

``STATICFLOW_POISON=1 python -m pytest`` runs the whole suite in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from slices import daily
from static_programs import PROGRAMS

import staticflow as sf
from staticflow import pytree
from staticflow.codegen.program.routine import Routine
from staticflow.config import config
from staticflow.graph.interpret import interpret_graph
from staticflow.runtime.draft import Draft
from staticflow.runtime.drafting import compile_draft
from staticflow.runtime.executable import Executable
from staticflow.runtime.plan import Plan
from staticflow.runtime.poison import plan_poison


@pytest.fixture(autouse=True)
def poison_all() -> Iterator[None]:
    with config.change(poison=True):
        yield


def with_plan(program: Any, change: Callable[[Plan], Plan]) -> Executable:
    """The code of a program without variables, on another plan."""
    executable = program._executable
    return compile_draft(replace(executable.draft, plan=change(executable.plan)))


def with_routine(draft: Draft, routine: Routine) -> Draft:
    """A draft of other steps."""
    return replace(draft, routine=routine, plan=replace(draft.plan, routine=routine))


def chain() -> Any:
    x = sf.placeholder((None, 4), name="x")
    w = np.eye(4, dtype=np.float32)
    return sf.compile([x], (((x @ w).sin() @ w).cos() @ w).softmax(1))


def test_what_is_freed_too_early_is_no_number() -> None:
    program = chain()
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    (wanted,) = with_plan(program, lambda plan: plan)([x])
    (expected,) = interpret_graph(program.graph, [x])
    np.testing.assert_allclose(wanted, expected, 1e-5, 1e-6)

    def free_early(plan: Plan) -> Plan:
        return replace(plan, live=((plan.live[0][0],) * 2, *plan.live[1:]))

    (found,) = with_plan(program, free_early)([x])
    assert np.isnan(found).all()
    with config.change(poison=False):  # it is right by chance, and only here it shows
        (found,) = with_plan(program, free_early)([x])
    np.testing.assert_array_equal(found, wanted)


def test_what_a_call_before_has_left_is_no_number() -> None:
    """Of a routine that leaves out its first step: it reads what that wrote in an earlier call."""
    executable = chain()._executable
    skips = replace(executable.program, steps=executable.program.steps[1:])
    program = compile_draft(with_routine(executable.draft, skips))
    (found,) = program([np.ones((3, 4), np.float32)])
    assert np.isnan(found).all()


def test_an_output_that_nobody_writes_is_no_number() -> None:
    executable = chain()._executable
    nothing = replace(executable.program, steps=())
    program = compile_draft(with_routine(executable.draft, nothing))
    (found,) = program([np.ones((3, 4), np.float32)])
    assert np.isnan(found).all()


def test_code_has_no_trace_of_it_unless_it_is_asked_for() -> None:
    fills = "call void @llvm.memset.p0.i64(ptr %t"
    assert chain().source().count(fills) == 2 + len(chain().plan.live)
    with config.change(poison=False):
        assert fills not in chain().source()


def test_each_buffer_is_freed_once_behind_the_last_step_that_touches_it() -> None:
    program = chain()
    plan = program.plan
    freed = plan_poison(plan, program._executable.signature.outputs).freed
    assert sorted(b for buffers in freed.values() for b in buffers) == list(range(len(plan.live)))
    for step, buffers in freed.items():
        assert all(plan.live[b][1] == step for b in buffers)  # without loops both count alike


def draw(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape)


@pytest.mark.parametrize("name", daily(list(PROGRAMS), 2, "poison"))
def test_right_programs_do_not_see_it(name: str) -> None:
    f, shapes = PROGRAMS[name]
    inputs = [sf.placeholder(tuple(s), "float64", name=f"p{i}") for i, s in enumerate(shapes)]
    flat = pytree.flatten(f(*inputs))[0]
    program = sf.compile(inputs, flat)
    for size in (3, 1, 17):
        given = [draw(tuple(size + "nmk".index(d) for d in s)) for s in shapes]
        wanted = interpret_graph(program.graph, given)
        for _ in range(2):
            for a, b in zip(program(*given), wanted, strict=True):
                np.testing.assert_allclose(a.numpy(), b, 1e-9, 1e-12)


def test_loops_whose_memory_grows_do_not_see_it() -> None:
    n, z = sf.placeholder((), "int64", name="n"), sf.placeholder((), "float64", name="z")
    last, ys = sf.scan(lambda c, i: ((c + 1).sin(), c * i), z, sf.arange(n).double())
    until = sf.while_loop(lambda i, c: i < n, lambda i, c: (i + 1, (c + 1).sin()), (0, z))[1]
    program = sf.compile([n, z], [last, ys, *sf.grad(until + (ys * ys).sum(), [z])])
    for count in (3, 0, 700, 5):
        given = [np.asarray(count), np.asarray(0.3)]
        wanted = interpret_graph(program.graph, given)
        for a, b in zip(program(*given), wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b, 1e-9, 1e-12)
