"""``F.pad`` by counts that only a call tells, of either sign, and ``F.fold`` to the size of another
image: compiled and by `jit`, held to the eager results, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.nn import functional as F


def agree(compute: Any, rows: sf.Tensor, other: sf.Tensor) -> None:
    """``compute`` of two images of unknown sizes gives compiled what it gives eagerly."""
    leaf = rows.clone().requires_grad_()
    wanted = compute(leaf, other)
    (wanted * wanted).sum().backward()
    assert leaf.grad is not None
    p, q = (sf.placeholder((None, 3, None, None), name=name) for name in "pq")
    out = compute(p, q)
    program = sf.compile([p, q], [out, sf.grad((out * out).sum(), p)])
    for found, value in zip(program(rows, other), (wanted.detach(), leaf.grad), strict=True):
        np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-5, atol=1e-6)
    by_jit = sf.jit(compute)(rows, other)
    np.testing.assert_allclose(by_jit.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)


def image(*shape: int) -> sf.Tensor:
    return sf.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("size", [3, 5, 7], ids=["fewer", "as many", "more"])
def test_an_image_is_padded_or_cut_to_the_size_of_another(mode: str, size: int) -> None:
    def compute(x: Any, other: Any) -> Any:
        more = other.shape[3] - x.shape[3]
        return F.pad(x, (0, more, more, 1), mode=mode)

    agree(compute, image(2, 3, 4, 5), sf.ones(2, 3, 1, size))


def test_what_is_padded_with_a_value_is_cut_at_the_other_end() -> None:
    def compute(x: Any, other: Any) -> Any:
        more = other.shape[2] - x.shape[2]
        return F.pad(x, (0, 0, more, -more), value=2.0)

    for size in (2, 4, 6):
        agree(compute, image(2, 3, 4, 5), sf.ones(2, 3, size, 1))


def test_more_is_cut_than_there_is() -> None:
    p, q = (sf.placeholder((None,), name=name) for name in "pq")
    program = sf.compile([p, q], F.pad(p, (0, q.shape[0] - 4)))
    assert program(sf.ones(3), sf.ones(2)).shape == (1,)
    with pytest.raises(sf.ShapeError, match="p_0"):
        program(sf.ones(1), sf.ones(1))


@pytest.mark.parametrize(
    "given",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 2, "stride": 2},
        {"kernel_size": (2, 3), "dilation": (2, 1)},
    ],
)
def test_windows_are_folded_to_the_size_of_another_image(given: dict[str, Any]) -> None:
    def compute(x: Any, other: Any) -> Any:
        return F.fold(F.unfold(x, **given), other.shape[2:], **given)

    agree(compute, image(2, 3, 4, 6), sf.ones(2, 3, 4, 6))


def test_sizes_to_fold_to_that_are_none() -> None:
    p = sf.placeholder((None, 12, None), name="p")
    for wrong in ((p.shape[0], 0), (p.shape[0], 1.5), (p.shape[0],) * 3, "ab"):
        with pytest.raises(sf.ShapeError, match=r"fold: output_size is .*test_padded_to"):
            F.fold(p, wrong, 2)
    program = sf.compile([p], F.fold(p, (p.shape[0], 6), 2))
    assert program(sf.ones(5, 12, 20)).shape == (5, 3, 5, 6)
    with pytest.raises(sf.ShapeError, match="p_2"):
        program(sf.ones(4, 12, 20))
