"""Gradients of what puts, adds or takes elements where indices repeat: those of finite differences.

Of elements that are put in one place the last stays, so it alone has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_derivatives import numerical_gradient

import staticflow as sf

RNG = np.random.default_rng(14)
X, ROWS = RNG.standard_normal((5, 4)), RNG.standard_normal((4, 4))
ONE, ROW, COLUMNS = np.array(1.5), RNG.standard_normal(4), RNG.standard_normal((5, 4))
CUBE = RNG.standard_normal((3, 2, 4))
AT = sf.tensor([0, 2, 0, 2])
PAIR = (AT, sf.tensor([1, 1, 1, 2]))
EACH = sf.tensor(RNG.integers(0, 3, (4, 4)))

Case = tuple[Callable[..., Any], list[Any]]


def assigned(x: Any, key: Any, value: Any) -> Any:
    out = x.clone()
    out[key] = value
    return out


def changed(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """An in-place form, on a copy."""

    def call(x: Any, source: Any) -> Any:
        out = x.clone()
        getattr(out, name)(*args, source, **kwargs)
        return out

    return call


PUT: dict[str, Case] = {
    "index_fill": (lambda x, v: sf.index_fill(x, 0, AT, v), [X, ONE]),
    "index_fill of columns": (lambda x, v: sf.index_fill(x, 1, AT, v), [X, ONE]),
    "index_fill_": (changed("index_fill_", 0, AT), [X, ONE]),
    "index_copy": (lambda x, s: sf.index_copy(x, 0, AT, s), [X, ROWS]),
    "index_copy of columns": (lambda x, s: sf.index_copy(x, 1, AT, s), [X, COLUMNS]),
    "index_copy_": (changed("index_copy_", 0, AT), [X, ROWS]),
    "index_put": (lambda x, s: sf.index_put(x, (AT,), s), [X, ROWS]),
    "index_put from the end": (lambda x, s: sf.index_put(x, (AT - 5,), s), [X, ROWS]),
    "index_put of a number": (lambda x, s: sf.index_put(x, (AT,), s), [X, ONE]),
    "index_put of a row": (lambda x, s: sf.index_put(x, (AT,), s), [X, ROW]),
    "index_put of pairs": (lambda x, s: sf.index_put(x, PAIR, s), [X, ROW]),
    "index_put of all pairs": (
        lambda x, s: sf.index_put(x, (AT.unsqueeze(1), PAIR[1]), s), [X, ROWS]),
    "scatter of rows": (lambda x, s: sf.scatter(x, 0, EACH, s), [X, ROWS]),
    "scatter of columns": (lambda x, s: sf.scatter(x, 1, EACH, s), [X, ROWS]),
    "scatter of a part": (lambda x, s: sf.scatter(x, 1, EACH[:2, :3], s), [X, ROWS]),
    "scatter_": (changed("scatter_", 0, EACH), [X, ROWS]),
    "put": (lambda x, s: sf.put(x, EACH, s), [X, ROWS]),
    "x[i] = v": (lambda x, s: assigned(x, AT, s), [X, ROWS]),
    "x[:, i] = v": (lambda x, s: assigned(x, (slice(None), AT), s), [X, COLUMNS]),
    "x[i, j] = v": (lambda x, s: assigned(x, PAIR, s), [X, ROW]),
    "x[[0, 0]] = v": (lambda x, s: assigned(x, [0, 0, 1, 1], s), [X, ROWS]),
    "x[i, :, j] = v": (lambda x, s: assigned(x, (PAIR[1], slice(None), AT), s), [CUBE, ROWS[:, :2]]),
    "masked_scatter": (lambda x, s: sf.masked_scatter(x, sf.tensor(X > 0), s), [X, COLUMNS]),
}  # fmt: skip
COMBINED: dict[str, Case] = {
    "index_add": (lambda x, s: sf.index_add(x, 0, AT, s, alpha=2), [X, ROWS]),
    "index_put, added": (lambda x, s: sf.index_put(x, (AT,), s, True), [X, ROWS]),
    "put, added": (lambda x, s: sf.put(x, EACH, s, True), [X, ROWS]),
    "scatter_add": (lambda x, s: sf.scatter_add(x, 0, EACH, s), [X, ROWS]),
    "scatter, multiplied": (lambda x, s: sf.scatter(x, 0, EACH, s, reduce="multiply"), [X, ROWS]),
    **{
        f"scatter_reduce {how}{'' if own else ' alone'}": (
            lambda x, s, how=how, own=own: sf.scatter_reduce(x, 0, EACH, s, how, include_self=own),
            [X, ROWS],
        )
        for how in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)
    },
    **{
        f"index_reduce {how}{'' if own else ' alone'}": (
            lambda x, s, how=how, own=own: sf.index_reduce(x, 0, AT, s, how, include_self=own),
            [X, ROWS],
        )
        for how in ("prod", "mean", "amax", "amin") for own in (True, False)
    },
}  # fmt: skip
TAKEN: dict[str, Case] = {
    "gather": (lambda x: sf.gather(x, 0, EACH), [X]),
    "take": (lambda x: sf.take(x, EACH), [X]),
    "take_along_dim": (lambda x: sf.take_along_dim(x, AT.unsqueeze(0), 1), [X]),
    "index_select": (lambda x: sf.index_select(x, 1, AT), [X]),
    "embedding": (lambda x: sf.nn.functional.embedding(EACH, x), [X]),
    "x[i]": (lambda x: x[AT], [X]),
    "x[i, j]": (lambda x: x[PAIR], [X]),
}  # fmt: skip
CASES = PUT | COMBINED | TAKEN


def weighted(out: Any) -> Any:
    return (out * sf.tensor(np.resize(COLUMNS, out.shape))).sum()


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_that_of_finite_differences(name: str) -> None:
    call, given = CASES[name]
    arrays = [a.copy() for a in given]
    leaves = [sf.tensor(a, requires_grad=True) for a in arrays]
    found = sf.autograd.grad(weighted(call(*leaves)), leaves)

    def loss() -> float:
        return float(weighted(call(*map(sf.tensor, arrays))).item())

    for gradient, array in zip(found, arrays, strict=True):
        np.testing.assert_allclose(gradient.numpy(), numerical_gradient(loss, array), 1e-5, 1e-7)
    assert sf.autograd.gradgradcheck(call, leaves)


@pytest.mark.parametrize("name", CASES)
def test_symbolic_gradient_is_the_eager_one(name: str) -> None:
    call, arrays = CASES[name]
    leaves = [sf.tensor(a, requires_grad=True) for a in arrays]
    eager = sf.autograd.grad(weighted(call(*leaves)), leaves)
    symbols = [sf.placeholder(a.shape, "float64", name=f"x{i}") for i, a in enumerate(arrays)]
    program = sf.compile(symbols, sf.grad(weighted(call(*symbols)), symbols))
    found = program(*arrays)
    for e, c in zip(eager, found if isinstance(found, tuple | list) else [found], strict=True):
        np.testing.assert_allclose(np.asarray(c), e.numpy(), 1e-12, 1e-12)
