"""Programs made of loops whose answers are known by other means, run eagerly and compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import pytree
from staticflow.graph.dtypes import dtype_of

Array = np.ndarray[Any, Any]


def eagerly(fn: Callable[..., Any], *arrays: Array) -> list[Array]:
    return [np.asarray(v) for v in pytree.flatten(fn(*map(sf.tensor, arrays)))[0]]


def compiled(fn: Callable[..., Any], *arrays: Array) -> list[Array]:
    inputs = [
        sf.placeholder((None,) * a.ndim, dtype_of(a.dtype).name, name=f"x{i}")
        for i, a in enumerate(arrays)
    ]
    program = sf.compile(inputs, fn(*inputs))
    return [v.numpy() for v in pytree.flatten(program(*arrays))[0]]


both = pytest.mark.parametrize("run", [eagerly, compiled])
Run = Callable[..., list[Array]]
rng = np.random.default_rng(7)


@both
def test_kalman_filter(run: Run) -> None:
    """A constant-velocity model; after many steps the covariance solves the Riccati equation."""
    f, h = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    q, r = 0.01 * np.eye(2), np.array([[0.5]])
    zs = rng.normal(size=(200, 1, 1))

    def filtered(zs: Any, f: Any, h: Any, q: Any, r: Any) -> Any:
        def step(state: Any, z: Any) -> Any:
            x, p = state
            x, p = f @ x, f @ p @ f.T + q
            gain = p @ h.T / (h @ p @ h.T + r)[0, 0]
            x, p = x + gain @ (z - h @ x), p - gain @ h @ p
            return (x, p), x

        return sf.scan(step, (q @ h.T * 0, q * 0 + 1.0), zs)

    x, p = np.zeros((2, 1)), np.ones((2, 2))
    for z in zs:
        x, p = f @ x, f @ p @ f.T + q
        gain = p @ h.T / (h @ p @ h.T + r)
        x, p = x + gain @ (z - h @ x), p - gain @ h @ p
    got_x, got_p, xs = run(filtered, zs, f, h, q, r)
    np.testing.assert_allclose(got_x, x, 1e-9, 1e-12)
    np.testing.assert_allclose(got_p, p, 1e-9, 1e-12)
    np.testing.assert_allclose(xs[-1], x, 1e-9, 1e-12)
    prior = f @ p @ f.T + q
    gain = prior @ h.T / (h @ prior @ h.T + r)
    np.testing.assert_allclose(prior - gain @ h @ prior, p, 1e-6)


@both
def test_newton_solver_and_its_derivative(run: Run) -> None:
    """The cube root, and d/da a**(1/3) through as many steps as it takes."""

    def root(a: Any) -> Any:
        return sf.while_loop(
            lambda i, x: ((x * x * x - a).abs() > 1e-12 * a) & (i < 100),
            lambda i, x: (i + 1, x - (x * x * x - a) / (3 * x * x)),
            (0, a * 0 + 1.0),
        )[1]

    for a in (0.5, 2.0, 1000.0):
        (x,) = run(root, np.asarray(a))
        np.testing.assert_allclose(x, a ** (1 / 3), 1e-10)
    given = sf.placeholder((), "float64", name="a")
    slope = sf.compile([given], sf.grad(root(given), given))
    second = sf.compile([given], sf.grad(sf.grad(root(given), given), given))
    for a in (0.5, 2.0, 1000.0):
        np.testing.assert_allclose(slope(a).item(), a ** (-2 / 3) / 3, 1e-6)
        np.testing.assert_allclose(second(a).item(), -2 / 9 * a ** (-5 / 3), 1e-4)


def _solved(rate: Any, y0: Any, end: Any) -> Any:
    """dy/dt = rate * y by Heun's method with a step that adapts to the error of Euler's."""

    def going(t: Any, y: Any, dt: Any, steps: Any) -> Any:
        return (t < end - 1e-12) & (steps < 10_000)

    def step(t: Any, y: Any, dt: Any, steps: Any) -> Any:
        dt = sf.minimum(dt, end - t)
        k1 = rate * y
        k2 = rate * (y + dt * k1)
        error = (0.5 * dt * (k2 - k1)).abs().max()
        ok = error < 1e-7
        scale = (0.9 * (1e-7 / (error + 1e-30)) ** 0.5).clamp(0.2, 5.0)
        taken = sf.cond(ok, lambda: (t + dt, y + 0.5 * dt * (k1 + k2)), lambda: (t, y))
        return *taken, dt * scale.detach(), steps + 1

    return sf.while_loop(going, step, (end * 0, y0, end * 0 + 0.01, 0))


@both
def test_differential_equation_with_adaptive_steps(run: Run) -> None:
    y0 = np.array([1.0, -2.0])
    t, y, _, steps = run(lambda y0, r, e: _solved(r, y0, e), y0, np.asarray(-1.5), np.asarray(2.0))
    np.testing.assert_allclose(t, 2.0)
    np.testing.assert_allclose(y, y0 * np.exp(-3.0), 1e-4)
    assert 50 < steps < 10_000


def test_gradient_through_adaptive_steps() -> None:
    """dy/d(rate) = t y, through hundreds of steps of a number that is not known before."""
    y0 = sf.placeholder((None,), "float64", name="y0")
    rate, end = (sf.placeholder((), "float64", name=n) for n in ("rate", "end"))
    total = _solved(rate, y0, end)[1].sum()
    program = sf.compile([y0, rate, end], [total, *sf.grad(total, [rate, y0])])
    for start in ([1.0, -2.0, 4.0], [1.0]):
        value, by_rate, by_start = program(np.array(start), -1.5, 2.0)
        exact = sum(start) * np.exp(-3.0)
        np.testing.assert_allclose(value.item(), exact, 1e-4)
        np.testing.assert_allclose(by_rate.item(), 2 * exact, 1e-3)
        np.testing.assert_allclose(by_start.numpy(), np.full(len(start), np.exp(-3.0)), 1e-4)
    assert program.compile_count == 1


@both
def test_hidden_markov_model(run: Run) -> None:
    """The forward pass against the sum over all paths; as a product of matrices, too."""
    states, steps = 3, 5
    start = rng.dirichlet(np.ones(states))
    move = rng.dirichlet(np.ones(states), states)
    seen = rng.uniform(0.1, 1, (steps, states))
    total = 0.0
    for path in itertools.product(range(states), repeat=steps):
        p = start[path[0]] * seen[0, path[0]]
        for t in range(1, steps):
            p *= move[path[t - 1], path[t]] * seen[t, path[t]]
        total += p

    def forward(start: Any, move: Any, seen: Any) -> Any:
        def step(alpha: Any, row: Any) -> Any:
            alpha = (alpha.unsqueeze(1) + move.log()).logsumexp(0) + row
            return alpha, None

        alpha, _ = sf.scan(step, start.log() + seen[0].log(), seen[1:].log())
        return alpha.logsumexp(0)

    def by_products(start: Any, move: Any, seen: Any) -> Any:
        """Prefixes of an associative product."""
        rows = move * seen[1:].unsqueeze(1)
        return (start * seen[0]) @ sf.associative_scan(sf.matmul, rows)[-1]

    (log_total,) = run(forward, start, move, seen)
    np.testing.assert_allclose(log_total, np.log(total), 1e-9)
    (last,) = run(by_products, start, move, seen)
    np.testing.assert_allclose(last.sum(), total, 1e-9)


@both
def test_beam_search(run: Run) -> None:
    """With a beam as wide as there are sequences it finds the best of all; it stops at an end."""
    words, steps, width = 3, 4, 27
    scores = rng.normal(size=(words, words))

    first = np.full(width, -1e9)
    first[0] = 0.0
    best = max(
        sum(scores[a, b] for a, b in itertools.pairwise((0, *path)))
        for path in itertools.product(range(words), repeat=steps - 1)
    )

    def search(scores: Any, start: Any) -> Any:
        def step(t: Any, total: Any, last: Any) -> Any:
            grown = total.unsqueeze(1) + scores.index_select(0, last)
            best, at = grown.reshape(-1).topk(width)
            return t + 1, best, at % words

        last = (start * 0).long()
        return sf.while_loop(lambda t, total, last: t < steps, step, (1, start, last))[1]

    (totals,) = run(search, scores, first)
    np.testing.assert_allclose(totals[0], best, 1e-12)


# -- their derivatives -----------------------------------------------------------------------------


def gradients(fn: Callable[..., Any], *arrays: Array) -> list[list[Array]]:
    """The gradients of a number by every argument, eagerly and compiled for unknown sizes."""
    leaves = [sf.tensor(a, requires_grad=True) for a in arrays]
    fn(*leaves).backward()
    inputs = [
        sf.placeholder((None,) * a.ndim, dtype_of(a.dtype).name, name=f"x{i}")
        for i, a in enumerate(arrays)
    ]
    program = sf.compile(inputs, sf.grad(fn(*inputs), inputs))
    return [[v.grad.numpy() for v in leaves], [v.numpy() for v in program(*arrays)]]


def test_gradient_of_a_kalman_filter() -> None:
    """In one dim with a gain that has settled, the state is a sum of measurements with weights
    that fall by (1 - gain)."""
    gain, zs = 0.4, rng.normal(size=30)

    def last(zs: Any, gain: Any) -> Any:
        return sf.scan(lambda x, z: (x + gain * (z - x), None), zs[0], zs[1:])[0]

    for by_z, by_gain in gradients(last, zs, np.asarray(gain)):
        weights = gain * (1 - gain) ** np.arange(28, -1, -1)
        np.testing.assert_allclose(by_z, [(1 - gain) ** 29, *weights], 1e-9)
        ends = [last(sf.tensor(zs), sf.tensor(np.asarray(gain + d))).item() for d in (1e-6, -1e-6)]
        np.testing.assert_allclose(by_gain, (ends[0] - ends[1]) / 2e-6, 1e-6)


def test_gradient_of_a_hidden_markov_model() -> None:
    """By the log of what was seen, the gradient is the probability of each state at each step."""
    states, steps = 3, 5
    start, move = rng.dirichlet(np.ones(states)), rng.dirichlet(np.ones(states), states)
    seen = np.log(rng.uniform(0.1, 1, (steps, states)))
    wanted, total = np.zeros((steps, states)), 0.0
    for path in itertools.product(range(states), repeat=steps):
        p = start[path[0]] * np.exp(seen[range(steps), path].sum())
        p *= np.prod([move[a, b] for a, b in itertools.pairwise(path)])
        wanted[range(steps), path] += p
        total += p

    def likelihood(seen: Any) -> Any:
        logs = sf.tensor(np.log(move))
        alpha, _ = sf.scan(
            lambda alpha, row: ((alpha.unsqueeze(1) + logs).logsumexp(0) + row, None),
            sf.tensor(np.log(start)) + seen[0], seen[1:],
        )  # fmt: skip
        return alpha.logsumexp(0)

    for (found,) in gradients(likelihood, seen):
        np.testing.assert_allclose(found, wanted / total, 1e-9)


def test_gradient_of_the_best_sequence() -> None:
    """By the scores of its steps, a sequence's score grows as often as it makes them."""
    words, steps = 3, 4
    width = words ** (steps - 2)  # enough for every sequence that the last step can go on from
    scores = rng.normal(size=(words, words))
    best = max(
        itertools.product(range(words), repeat=steps - 1),
        key=lambda path: sum(scores[a, b] for a, b in itertools.pairwise((0, *path))),
    )
    counts = np.zeros((words, words))
    for a, b in itertools.pairwise((0, *best)):
        counts[a, b] += 1

    def search(scores: Any) -> Any:
        def step(t: Any, total: Any, last: Any) -> Any:
            grown = total.unsqueeze(1) + scores.index_select(0, last)
            found, at = grown.reshape(-1).topk(width)
            return t + 1, found, at % words

        first = sf.tensor([1e9] + [0.0] * (width - 1), dtype="float64")
        total = scores.new_full((width,), -1e9) + first
        last = sf.tensor([0] * width)
        return sf.while_loop(lambda t, total, last: t < steps, step, (1, total, last))[1][0]

    for (found,) in gradients(search, scores):
        np.testing.assert_array_equal(found, counts)
