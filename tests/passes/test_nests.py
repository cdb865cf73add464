"""Concatenations, stacks and borders of what is computed element by element, against NumPy: rows
that fill their vectors and such as do not, how the operands lie, known and unknown sizes, threads,
and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
import staticflow.nn.functional as F

VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "as it is": (lambda a: a, lambda a: a),
    "transposed": (lambda a: a.T, lambda a: a.T),
    "cropped": (lambda a: np.pad(a, ((1, 0), (2, 1))), lambda a: a[1:, 2:-1]),
    "stepped": (lambda a: np.repeat(a, 2, 1), lambda a: a[:, ::2]),
    "flipped": (lambda a: a[::-1, ::-1], lambda a: a.flip((0, 1))),
}
"""Arrays that hold a matrix in other ways, and the views that show it again."""

PUT: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "below": (lambda x, y: sf.cat([x, y], 0), lambda x, y: np.concatenate([x, y], 0)),
    "beside": (lambda x, y: sf.cat([x, y], 1), lambda x, y: np.concatenate([x, y], 1)),
    "stacked": (lambda x, y: sf.stack([x, y], 1), lambda x, y: np.stack([x, y], 1)),
    "stacked last": (lambda x, y: sf.stack([x, y], 2), lambda x, y: np.stack([x, y], 2)),
    "border": (
        lambda x, y: F.pad(x + y, (1, 2, 0, 1)),
        lambda x, y: np.pad(x + y, ((0, 1), (1, 2))),
    ),
}
"""How two matrices are put into an array, here and in NumPy."""


def program_of(put: str, view: str, shape: tuple[Any, ...], hold: Any, dtype: str) -> Any:
    """What is put of tanh of one matrix and of the positive part of another, which is read
    elsewhere, too; and the gradients of its sum of squares."""
    sizes = hold.shape if shape[0] is not None else (None, None)
    x, y = (sf.placeholder(sizes, dtype, name=n) for n in "xy")
    show = VIEWS[view][1]
    one, other = show(x).tanh(), show(y).relu()
    out = PUT[put][0](one, other)
    return sf.compile([x, y], (out, *sf.grad((out * out).sum(), [x, y])))


def expected(put: str, a: Any, b: Any) -> tuple[Any, Any, Any]:
    one, other = np.tanh(a), np.maximum(b, 0)
    alone = {"border": (one + other, one + other)}.get(put, (one, other))
    slopes = (1 - one**2, (b > 0).astype(a.dtype))
    found = [2 * part * slope for part, slope in zip(alone, slopes, strict=True)]
    return PUT[put][1](one, other), found[0], found[1]


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("columns", [1, 11, 12, 16, 17, 23, 24, 40, 64])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("put", PUT)
def test_what_is_put_somewhere(put: str, view: str, columns: int, known: bool) -> None:
    rng = np.random.default_rng(columns)
    a, b = rng.standard_normal((2, 9, columns))
    hold, show = VIEWS[view]
    held = [np.ascontiguousarray(hold(m)) for m in (a, b)]
    program = program_of(put, view, (9 if known else None,), held[0], "float64")
    out, *gradients = (r.numpy() for r in program(*held))
    wanted, *slopes = expected(put, a, b)
    np.testing.assert_allclose(out, wanted, 1e-12, 1e-12)
    for found, slope in zip(gradients, slopes, strict=True):
        seen = show(sf.from_numpy(found)).numpy()
        np.testing.assert_allclose(seen, slope, 1e-11, 1e-11)


@pytest.mark.parametrize("put", PUT)
def test_threads_change_no_bit(put: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3000, 64)).astype(np.float32)
    program = program_of(put, "as it is", (3000,), a, "float32")
    found = []
    for count in (1, 2, 3):
        sf.set_num_threads(count)
        found.append([r.numpy() for r in program(a, b)])
    np.testing.assert_allclose(found[0][0], PUT[put][1](np.tanh(a), np.maximum(b, 0)), 1e-5, 1e-6)
    for other in found[1:]:
        for one, again in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize(("columns", "kernels"), [(11, 2), (12, 1), (17, 2), (24, 1)])
def test_rows_that_fill_vectors_are_worked_out_there(columns: int, kernels: int) -> None:
    x = sf.placeholder((8, columns), name="x")
    program = sf.compile([x], F.pad(x.tanh(), (1, 1)))
    assert len(program.explain("routine").splitlines()) == kernels
