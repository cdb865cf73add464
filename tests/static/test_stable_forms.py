"""What overflows as it is written is right in a graph: value, gradient and second derivative."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ArgumentError
from tests.reference.stable_cases import CASES, PICKED, WEIGHTS, Case

STORED = json.loads(Path("tests/reference/stable.json").read_text())
LEAST = 1e-36
every_case = pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])


def names(of: Any = sf) -> Any:
    """The functions that the cases are written in."""
    taken = ("exp", "log", "log1p", "sqrt", "sin", "cosh", "erfc", "sigmoid", "logaddexp")
    indices = sf.tensor([[p] for p in PICKED])
    return types.SimpleNamespace(
        **{n: getattr(of, n) for n in taken},
        softmax=lambda x: x.softmax(1), gather=lambda x: x.gather(1, indices),
        sum=lambda x, keep: x.sum(1, keepdim=keep), mean=lambda x: x.mean(1),
        one_hot=lambda: sf.tensor(np.eye(3, dtype=np.float32)[list(PICKED)]),
    )  # fmt: skip


def derive(out: Any, x: Any, order: int, **options: Any) -> Any:
    """The derivative of the order of the weighted elements."""
    weights = sf.tensor(WEIGHTS[: x.shape[1]])
    for _ in range(order):
        scaled = out * weights if out.ndim == 2 and out.shape[1] == len(WEIGHTS) else out
        out = sf.grad(scaled.sum(), x, create_graph=True, **options)
    return out


def assert_right(got: Any, case: Case, order: int) -> None:
    with np.errstate(over="ignore"):
        wanted = np.array(STORED["cases"][case.name][order]).astype(np.float32)
    values = got.numpy().reshape(wanted.shape)
    slack = np.maximum(1e-3 * np.abs(wanted).max(1, keepdims=True), LEAST)
    with np.errstate(invalid="ignore"):
        right = (np.abs(values - wanted) <= slack) | (values == wanted)
    assert right.all(), (values, wanted)


@every_case
def test_a_compiled_form_is_right(case: Case) -> None:
    rows = np.array(case.rows, np.float32)
    x = sf.placeholder((None, rows.shape[1]), name="x")
    out = case.compute(names(), x)
    program = sf.compile([x], [derive(out, x, order) for order in range(case.orders)])
    for order, got in enumerate(program(rows)):
        assert_right(got, case, order)


@every_case
def test_a_jitted_form_is_right(case: Case) -> None:
    rows = np.array(case.rows, np.float32)
    x = sf.tensor(rows, requires_grad=True)
    out = sf.jit(lambda x: case.compute(names(), x))(x)
    for order in range(case.orders):
        assert_right(derive(out, x, order).detach(), case, order)


def test_in_a_loop_and_a_branch() -> None:
    x = sf.placeholder((3,), name="x")
    total, _ = sf.scan(lambda c, v: (c + sf.log(1 + sf.exp(v)), v), x.sum() * 0, x)
    chosen = sf.cond(x.sum() > 0, lambda: sf.sqrt((x * x).sum()), lambda: x.sum())
    program = sf.compile([x], [sf.grad(total, x), sf.grad(chosen, x)])
    loop, branch = program(np.array([1000, -1000, 0], np.float32) + np.float32([1, 0, 0]))
    assert loop.tolist() == [1.0, 0.0, 0.5]
    np.testing.assert_allclose(branch.numpy(), [0.7074603, -0.7067531, 0.0], rtol=1e-6)
    _, branch = program(np.array([1e-30, 0, 0], np.float32))
    assert branch.tolist() == [1.0, 0.0, 0.0]


def test_what_was_written_can_be_had() -> None:
    x = sf.placeholder((1,), name="x")
    y = sf.log(1 + sf.exp(x))
    as_written = sf.compile([x], [y, sf.grad(y.sum(), x, stabilize=False)], stabilize=False)
    value, slope = (t.item() for t in as_written(np.float32([100])))
    assert np.isinf(value) and np.isnan(slope)
    assert (
        sf.compile([x], y, passes="-stabilize,-stabilize_more")(np.float32([100])).item() == value
    )
    given = sf.tensor([100.0], requires_grad=True)
    sf.jit(lambda x: sf.log(1 + sf.exp(x)), stabilize=False)(given).sum().backward()
    assert np.isnan(given.grad.item())
    eager = sf.tensor([100.0], requires_grad=True)
    sf.log(1 + sf.exp(eager)).sum().backward()
    assert np.isnan(eager.grad.item())
    with pytest.raises(ArgumentError, match="there is no pass 'stable'"):
        sf.compile([x], y, passes="-stable")


def test_no_form_reaches_over_what_is_differentiated_or_watched() -> None:
    x = sf.placeholder((2,), name="x")
    inner = sf.softmax(x, 0)
    seen = []
    inner.register_hook(lambda ct: seen.append(ct) or ct * 2)
    y = sf.log(inner).sum()
    by_inner, by_x = sf.compile([x], sf.grad(y, [inner, x]))(np.float32([0.0, 0.0]))
    assert by_inner.tolist() == [4.0, 4.0] and by_x.tolist() == [0.0, 0.0] and len(seen) == 1
    z = sf.sigmoid(x)
    assert sf.compile([x], sf.grad(sf.log(z).sum(), z))(np.float32([0, 0])).tolist() == [2.0, 2.0]


def test_a_form_computes_nothing_twice() -> None:
    """The value and the gradient of a loss are written in one form, and share it."""
    x, w = sf.placeholder((None, 5), name="x"), sf.randn(5, 3)
    by_hand = -sf.log(sf.softmax(x @ w, 1)).mean()
    by_name = -sf.log_softmax(x @ w, 1).mean()
    counts = [sf.compile([x], [y, sf.grad(y, w)]).kernel_count for y in (by_hand, by_name)]
    assert counts[0] == counts[1]


def test_the_page_shows_what_was_stored() -> None:
    page = Path("docs/passes.md").read_text()
    for case in CASES:
        rights = [right[case.name] for right in STORED["right"].values()]
        marks = ["".join(m if ok else "-" for m, ok in zip("vgs", r, strict=False)) for r in rights]
        assert f"| `{case.name}` | {' | '.join(marks)} |" in page


EDGES = (-np.inf, -3e38, -1.0, -1e-30, -1e-45, -0.0, 0.0, 1e-45, 1e-30, 1.0, 3e38, np.inf)


def test_ratios_at_the_edges() -> None:
    x = sf.placeholder((None, 2), name="x")
    rows = np.array([(a, b) for a in EDGES for b in EDGES], np.float32)
    found = sf.compile([x], sf.log(x[:, 0] / x[:, 1]))(rows).numpy()
    with np.errstate(all="ignore"):
        wide = rows.astype(np.float64)
        wanted = np.log(wide[:, 0] / wide[:, 1])
    np.testing.assert_allclose(found, wanted, 1e-5)
