"""A first row, ``x[:1]`` of an unknown number of rows, stretches beside another tensor in every
function that broadcasts, on either side, as it does eagerly; its gradient, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

F = sf.nn.functional
D = sf.distributions


def _matrices(x: Any) -> Any:
    """(n, 3, 3), well conditioned."""
    return x.tanh().unsqueeze(-1) * sf.eye(3) + sf.eye(3) * 4


def _numbers(x: Any) -> Any:
    return (x[:, 0] > 0).long()


def _normal(x: Any) -> Any:
    return D.Normal(x, x.square() + 1)


MEET: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "where": lambda a, b: sf.where(a > b, a, b),
    "lerp": lambda a, b: sf.lerp(a, b, 0.5),
    "addcmul": lambda a, b: sf.addcmul(a, b, a),
    "maximum": sf.maximum,
    "clamp": lambda a, b: a.clamp(min=b),
    "isclose": sf.isclose,
    "matmul": lambda a, b: _matrices(a) @ _matrices(b),
    "matrix and column": lambda a, b: _matrices(a) @ b.unsqueeze(-1),
    "addmm": lambda a, b: sf.addmm(a, b, sf.eye(3)),
    "baddbmm": lambda a, b: sf.baddbmm(_matrices(a), _matrices(b), _matrices(b)),
    "einsum of matrices": lambda a, b: sf.einsum("bij,bj->bi", _matrices(a), b),
    "einsum of rows": lambda a, b: sf.einsum("bi,bi->b", a, b),
    "solve": lambda a, b: sf.linalg.solve(_matrices(a), _matrices(b)),
    "solve_triangular": lambda a, b: sf.linalg.solve_triangular(
        _matrices(a), _matrices(b), upper=True
    ),
    "lu_solve": lambda a, b: sf.linalg.lu_solve(*sf.linalg.lu_factor(_matrices(a)), _matrices(b)),
    "lstsq": lambda a, b: sf.linalg.lstsq(_matrices(a), _matrices(b)).solution,
    "vecdot": lambda a, b: sf.linalg.vecdot(a, b),
    "cross": lambda a, b: sf.linalg.cross(a, b),
    "cdist": lambda a, b: sf.cdist(a.unsqueeze(1), b.unsqueeze(1)),
    "attention": lambda a, b: F.scaled_dot_product_attention(
        _matrices(a), _matrices(b), _matrices(b)
    ),
    "cosine_similarity": lambda a, b: F.cosine_similarity(a, b),
    "masked_fill": lambda a, b: a.masked_fill(b > 0, 2.0),
    "masked_select": lambda a, b: sf.masked_select(a, b > -9),
    "masked_scatter": lambda a, b: a.masked_scatter(b > -9, sf.ones(100)),
    "index": lambda a, b: sf.arange(10.0).reshape(5, 2)[_numbers(a), _numbers(b)],
    "index_put": lambda a, b: sf.zeros(5, 2).index_put((_numbers(a), _numbers(b)), sf.ones(())),
    "take_along_dim": lambda a, b: sf.take_along_dim(a, (b > 0).long(), 1),
    "broadcast_tensors, first": lambda a, b: sf.broadcast_tensors(a, b)[0],
    "broadcast_tensors, second": lambda a, b: sf.broadcast_tensors(a, b)[1],
    "broadcast_tensors, third": lambda a, b: sf.broadcast_tensors(a, b, sf.ones(3))[2],
    "broadcast_shapes": lambda a, b: sf.zeros(sf.broadcast_shapes(a.shape, b.shape)),
    "log_prob": lambda a, b: D.Normal(a, b.square() + 1).log_prob(a),
    "kl_divergence": lambda a, b: D.kl_divergence(_normal(a), _normal(b)),
}


@pytest.mark.parametrize("swapped", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("name", MEET)
def test_a_first_row_stretches(name: str, swapped: bool) -> None:
    rng = np.random.default_rng(0)
    given = [sf.tensor(rng.normal(size=(n, 3)).astype(np.float32)) for n in (4, 5)]

    def compute(x: Any, y: Any) -> Any:
        pair = (y, x[:1]) if swapped else (x[:1], y)
        return MEET[name](*pair)

    try:
        wanted = compute(*given)
    except sf.StaticflowError:
        assert swapped or name in ("masked_scatter", "cdist"), "it is refused eagerly, too"
        return
    p, q = (sf.placeholder((None, 3), name=n) for n in "pq")
    found = sf.compile([p, q], compute(p, q))(*given)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)

    def loss(x: Any, y: Any) -> Any:
        return compute(x, y).square().sum()

    leaves = [x.clone().requires_grad_() for x in given]
    if not wanted.dtype.is_floating or not compute(*leaves).requires_grad:
        return
    slopes = sf.autograd.grad(loss(*leaves), leaves, allow_unused=True)
    of_graph = sf.grad(loss(p, q), [p, q], allow_unused=True)
    program = sf.compile([p, q], [g for g in of_graph if g is not None])
    ours = [g for g in slopes if g is not None]
    for a, b in zip(program(*given), ours, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-4)


def test_no_rows_have_no_first_one() -> None:
    p, q = (sf.placeholder((None, 3), name=n) for n in "pq")
    program = sf.compile([p, q], sf.broadcast_tensors(q, p[:1])[1])
    assert program(sf.ones(1, 3), sf.ones(2, 3)).shape == (2, 3)
    with pytest.raises(sf.ShapeError, match="must be"):
        program(sf.ones(0, 3), sf.ones(2, 3))
