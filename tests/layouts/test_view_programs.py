"""Random programs of views and indexing: eager and native, with sizes known and unknown, and their
gradients, against NumPy and differences of the two modes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from view_programs import Program, draw_program, run

import staticflow as sf

ROUNDS = int(os.environ.get("VIEW_PROGRAMS", "2"))
TOGETHER = 12
"""Programs that are compiled as one."""


def drawn(seed: int) -> list[tuple[Program, np.ndarray]]:
    rng = np.random.default_rng(seed)
    programs = [draw_program(rng) for _ in range(TOGETHER)]
    return [(p, rng.normal(size=p.shape)) for p in programs]


def expected(program: Program, x: np.ndarray) -> np.ndarray:
    return np.asarray(run(program, x, tensors=False))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_eager(seed: int) -> None:
    for program, x in drawn(seed):
        before = x.copy()
        out = run(program, sf.from_numpy(x), tensors=True)
        np.testing.assert_array_equal(out.numpy(), expected(program, x), str(program))
        np.testing.assert_array_equal(x, before, f"changed by {program}")


def loss_of(program: Program, x: Any) -> Any:
    """A number that depends on every element that comes out, and on ``x`` in any case."""
    out = run(program, x, tensors=True)
    weights = np.linspace(0.5, 1.5, int(np.prod(out.shape))).reshape(out.shape)
    return (out * out * weights).sum() + (x * x * x).sum()


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_native(seed: int, unknown: bool) -> None:
    """Known sizes of steps (an index that lies inside, a shape that is written out) are assumed of
    the unknown ones, and hold."""
    cases = drawn(seed)
    inputs, outputs = [], []
    for i, (program, x) in enumerate(cases):
        shape = tuple(None if unknown and n > 1 else n for n in x.shape)
        inputs.append(sf.placeholder(shape, "float64", f"x{i}"))
        outputs.append(run(program, inputs[-1], tensors=True))
    compiled = sf.compile(inputs, outputs)
    for (program, x), out in zip(cases, compiled(*(x for _, x in cases)), strict=True):
        np.testing.assert_array_equal(out.numpy(), expected(program, x), str(program))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_gradients(seed: int) -> None:
    """Of first and second order: eager and native agree."""
    cases = drawn(seed)
    inputs, outputs, wanted = [], [], []
    for i, (program, x) in enumerate(cases):
        symbol, leaf = sf.placeholder(x.shape, "float64", f"x{i}"), sf.tensor(x, requires_grad=True)
        inputs.append(symbol)
        for handle, results in ((symbol, outputs), (leaf, wanted)):
            first = sf.grad(loss_of(program, handle), handle, create_graph=True)
            results.append([first, sf.grad((first * first).sum(), handle)])
    compiled = sf.compile(inputs, outputs)
    found = compiled(*(x for _, x in cases))
    for (program, _), native, eager in zip(cases, found, wanted, strict=True):
        for n, e in zip(native, eager, strict=True):
            np.testing.assert_allclose(
                n.numpy(), e.detach().numpy(), 1e-12, 1e-12, err_msg=str(program)
            )


def cheap(x: Any) -> Any:
    """What kernels work out again where they read it, rather than keep it."""
    return x * 2 - 0.5


def drawn_in_place(seed: int) -> list[tuple[Program, np.ndarray]]:
    """Programs whose results have as many elements as their arguments."""
    rng = np.random.default_rng(seed)
    found: list[tuple[Program, np.ndarray]] = []
    while len(found) < TOGETHER:
        program = draw_program(rng)
        x = rng.normal(size=program.shape)
        if program.steps and expected(program, x).size == x.size:
            found.append((program, x))
    return found


def rewritten(program: Program, x: Any, tensors: bool) -> Any:
    """A new value for ``x``, that reads it where it lies, and elsewhere."""
    out = run(program, cheap(x), tensors)
    return out.reshape(x.shape) + x


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_in_place(seed: int, unknown: bool) -> None:
    """What is read elsewhere than it is written, through whatever lies between, is not yet written
    over: of variables and of inputs that are given away."""
    cases = drawn_in_place(seed)
    inputs, outputs, updates = [], [], {}
    for i, (program, x) in enumerate(cases):
        shape = tuple(None if unknown and n > 1 else n for n in x.shape)
        given, variable = sf.placeholder(shape, "float64", f"x{i}"), sf.tensor(x)
        inputs.append(given)
        outputs += [rewritten(program, given, True), cheap(given).sum()]
        updates[variable] = rewritten(program, sf.symbol(variable), True)
    step = sf.compile(inputs, outputs, updates, donate=inputs)
    found = step(*(x.copy() for _, x in cases))[::2]
    for (program, x), out, variable in zip(cases, found, updates, strict=True):
        wanted = np.asarray(rewritten(program, x, False))
        np.testing.assert_array_equal(out.numpy(), wanted, str(program))
        np.testing.assert_array_equal(variable.numpy(), wanted, str(program))
