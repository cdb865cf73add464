"""Short innermost loops are written out, or stay without lanes, so that the loop around them gets
those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(-1),
    "amax": lambda x: x.amax(-1),
    "softmax": lambda x: sf.softmax(x, -1),
    "norm": lambda x: x / (x * x).sum(-1, keepdim=True).sqrt(),
    "beside": lambda x: [x.sum(-1) * 2, x.prod(-1), x + x.sum(-1, keepdim=True)],
    "of rows": lambda x: x * x[..., :1].exp(),
    "of columns": lambda x: x[..., None, :] - x[..., :, None],
    "argmax": lambda x: x.argmax(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "logsumexp": lambda x: sf.logsumexp(x, -1),
    "log_softmax": lambda x: sf.log_softmax(x, -1),
    "entropy": lambda x: -(sf.softmax(x, -1) * sf.log_softmax(x, -1)).sum(-1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_of_few_elements_are_what_they_are_in_float64(name: str) -> None:
    of = FUNCTIONS[name]
    for k in (2, 3, 6, 7, 16, 17, 32):
        x = sf.placeholder((None, k), dtype="float32" if k < 4 else "float64")
        step = sf.compile([x], of(x))
        for rows in (0, 1, 7, 83):
            given = np.random.default_rng(rows).uniform(0.5, 2, (rows, k))
            array = np.asfortranarray(given.astype(x.dtype.numpy))
            found, exact = step(array), of(sf.tensor(given))
            pairs = zip(found, exact, strict=True) if isinstance(found, list) else [(found, exact)]
            for one, other in pairs:
                np.testing.assert_allclose(one.numpy(), other.numpy(), 2e-6, 1e-6)


def _kernels(of: Callable[[Any], Any], *shape: int | None) -> str:
    x = sf.placeholder(shape, name="x")
    return sf.compile([x], of(x)).source("kernels")


def test_what_stands_behind_a_short_sum_has_all_lanes() -> None:
    text = _kernels(lambda x: (x * x).sum(-1).exp(), None, 3)
    lines = [line for line in text.splitlines() if " load " in line]
    assert lines and all("3*lane" in line for line in lines)
    assert "fold" not in text


@pytest.mark.parametrize("shape", [(5, 3), (None, 7)])
def test_few_rows_and_longer_ones_stay_as_they_are(shape: tuple[int | None, int]) -> None:
    assert "fold" in _kernels(lambda x: (x * x).sum(-1).sqrt(), *shape)


@pytest.mark.parametrize("columns", [7, 16, 32])
def test_what_is_much_behind_a_longer_sum_has_all_lanes(columns: int) -> None:
    """The sum stays a loop, of which an iteration adds to all rows; of still longer rows, each is
    loaded as it lies, and so are those of which little is computed."""
    text = _kernels(lambda x: sf.logsumexp(x, -1), None, columns)
    assert "fold" not in text
    assert f" in 0..{columns} {{" in text
    assert f"{columns}*lane" in text
    others = (
        (lambda x: sf.logsumexp(x, -1), 33),
        (lambda x: sf.log_softmax(x, -1), 17),  # which stores each element
        (lambda x: x.sum(-1), columns),
    )
    for of, k in others:
        assert "fold" in _kernels(of, None, k)


def test_rows_that_lie_far_from_each_other_stay_as_they_are() -> None:
    assert "fold" in _kernels(lambda x: x[:, :3].sum(-1), None, 100)


def test_a_difference_of_all_pairs_is_computed_again_and_not_stored() -> None:
    def forces(p: Any) -> Any:
        d = p[None, :, :] - p[:, None, :]
        weight = ((d * d).sum(-1) + 0.1).sqrt()
        return (d * weight[:, :, None]).sum(1)

    p = sf.placeholder((100, 3), name="p")
    step = sf.compile([p], forces(p))
    assert step.plan.peak == 4 * 100 * 100  # of the weights alone
    given = np.random.default_rng(0).random((100, 3))
    found = step(given.astype(np.float32)).numpy()
    np.testing.assert_allclose(found, forces(sf.tensor(given)).numpy(), 1e-4, 1e-4)


def test_short_rows_that_are_moved_are_one_long_row() -> None:
    """As where they are joined: those before and those behind adjoin in memory."""
    moves: list[Callable[[Any], Any]] = [
        lambda x: x.roll(2, 0),
        lambda x: sf.cat([x, x[1:]], 0),
        lambda x: sf.stack([x, x]),
    ]
    for move in moves:
        x = sf.placeholder((None, 3), name="x")
        step = sf.compile([x], move(x))
        text = step.source("kernels")
        assert ("lane" in text or "call shared_copy_f32" in text) and "*lane" not in text
        for rows in (1, 2, 40):
            given = np.random.default_rng(rows).standard_normal((rows, 3)).astype("f4")
            np.testing.assert_array_equal(step(given).numpy(), move(sf.tensor(given)).numpy())


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_rows_that_are_turned_round_are_whole_vectors(dims: tuple[int, ...]) -> None:
    x = sf.placeholder((None, None), name="x")
    step = sf.compile([x], x.flip(dims) * 2)
    assert "gather" not in step._executable.llvm
    for shape in ((0, 3), (1, 1), (3, 7), (2, 16), (5, 131)):
        given = np.random.default_rng(0).standard_normal(shape).astype("f4")
        np.testing.assert_array_equal(step(given).numpy(), np.flip(given, dims) * 2)
