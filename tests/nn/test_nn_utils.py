"""Clipping of gradients in both modes, and the initialisers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.nn import init, utils

NORMS = [1.0, 2.0, 3.0, math.inf]
FIRST, SECOND = np.array([[3.0, -4.0]], "f4"), np.array([12.0], "f4")


def parameters() -> list[nn.Parameter]:
    a, b, unused = nn.Parameter(np.zeros((1, 2), "f4")), nn.Parameter([0.0]), nn.Parameter([0.0])
    a.grad, b.grad = sf.tensor(FIRST), sf.tensor(SECOND)
    return [a, b, unused]


def norm_by_hand(p: float) -> float:
    flat = np.concatenate([FIRST.ravel(), SECOND])
    return float(np.linalg.norm(flat, p))


@pytest.mark.parametrize("most", [1.0, 100.0])
@pytest.mark.parametrize("p", NORMS)
def test_norms_are_clipped_in_place(p: float, most: float) -> None:
    a, b, _ = every = parameters()
    memory = a.grad.numpy()
    norm = utils.clip_grad_norm_(every, most, norm_type=p)
    assert norm.item() == pytest.approx(norm_by_hand(p))
    scale = min(1.0, most / norm_by_hand(p))
    np.testing.assert_allclose(a.grad.numpy(), FIRST * scale, rtol=1e-5)
    np.testing.assert_allclose(b.grad.numpy(), SECOND * scale, rtol=1e-5)
    assert np.shares_memory(memory, a.grad.numpy())


def test_the_norm_of_no_gradients_is_0() -> None:
    assert utils.clip_grad_norm_([nn.Parameter([1.0])], 1.0).item() == 0.0


@pytest.mark.parametrize("most", [1.0, 100.0])
@pytest.mark.parametrize("p", NORMS)
def test_norms_are_clipped_in_a_program(p: float, most: float) -> None:
    a, b, _ = parameters()
    optimiser = sf.optim.SGD([a, b], lr=1.0)
    x, y = sf.placeholder((1, 2), name="x"), sf.placeholder((1,), name="y")
    loss = (x * a).sum() + (y * b).sum()
    grads, norm = utils.clip_grad_norm(optimiser.gradients(loss), most, norm_type=p)
    step = sf.compile([x, y], norm, updates=optimiser.updates(grads))
    assert step(FIRST, SECOND).item() == pytest.approx(norm_by_hand(p))
    scale = min(1.0, most / norm_by_hand(p))
    np.testing.assert_allclose(a.detach().numpy(), -FIRST * scale, rtol=1e-5)
    np.testing.assert_allclose(b.detach().numpy(), -SECOND * scale, rtol=1e-5)


def test_values_are_clipped() -> None:
    a, b, _ = every = parameters()
    utils.clip_grad_value_(every, 3.5)
    assert a.grad.tolist() == [[3.0, -3.5]] and b.grad.tolist() == [3.5]
    clipped = utils.clip_grad_value({a: sf.tensor(FIRST)}, 3.5)
    assert clipped[a].tolist() == [[3.0, -3.5]]


def test_small_floats_and_what_is_not_finite() -> None:
    w = nn.Parameter(np.zeros(4, "f2"))
    w.grad = sf.full((4,), 300.0, dtype="float16")  # whose squares overflow
    assert utils.clip_grad_norm_(w, 1.0).item() == 600.0
    np.testing.assert_allclose(w.grad.numpy(), 0.5, rtol=1e-3)
    w.grad = sf.full((4,), math.nan, dtype="float16")
    with pytest.raises(sf.AutogradError, match="norm of the gradients is nan"):
        utils.clip_grad_norm_(w, 1.0, error_if_nonfinite=True)
    empty = nn.Parameter(np.zeros((0, 3), "f4"))
    empty.grad = sf.zeros(0, 3)
    assert utils.clip_grad_norm_(empty, 1.0, norm_type=math.inf).item() == 0.0


# -- initialisers -------------------------------------------------------------------------------


def drawn(fill: Any, *shape: int, **options: Any) -> np.ndarray:
    sf.manual_seed(0)
    p = nn.Parameter(np.full(shape, np.nan, "f4"))
    assert fill(p, **options) is p and p.is_leaf and p.requires_grad
    return p.detach().numpy()


UNIFORM = {
    "xavier_uniform_": (init.xavier_uniform_, {"gain": 2.0}, 2 * math.sqrt(6 / (60 * 9))),
    "kaiming_uniform_": (init.kaiming_uniform_, {"a": 1.0}, math.sqrt(3 / (20 * 9))),
    "kaiming_uniform_ out": (
        init.kaiming_uniform_, {"mode": "fan_out", "nonlinearity": "relu"}, math.sqrt(6 / (40 * 9)),
    ),
    "uniform_": (init.uniform_, {"a": -3.0, "b": 3.0}, 3.0),
}  # fmt: skip
NORMAL = {
    "xavier_normal_": (init.xavier_normal_, {}, math.sqrt(2 / (60 * 9))),
    "kaiming_normal_": (init.kaiming_normal_, {"nonlinearity": "relu"}, math.sqrt(2 / (20 * 9))),
    "normal_": (init.normal_, {"std": 0.5}, 0.5),
}


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform_bounds(name: str) -> None:
    fill, options, bound = UNIFORM[name]
    values = drawn(fill, 40, 20, 3, 3, **options)
    assert 0.999 * bound < np.abs(values).max() <= bound * (1 + 1e-6)
    assert abs(values.mean()) < 0.03 * bound
    assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize("name", NORMAL)
def test_normal_deviations(name: str) -> None:
    fill, options, std = NORMAL[name]
    values = drawn(fill, 40, 20, 3, 3, **options)
    assert values.std() == pytest.approx(std, rel=0.03) and abs(values.mean()) < 0.05 * std
    assert np.abs(values).max() > 3 * std


def test_truncated_normal_draws() -> None:
    values = drawn(init.trunc_normal_, 10_000, mean=0.5, std=2.0, a=-1.0, b=3.0)
    assert -1 <= values.min() < -0.98 and 2.98 < values.max() <= 3
    assert values.mean() == pytest.approx(0.855, abs=0.04)  # of the truncated distribution
    assert values.std() == pytest.approx(1.074, abs=0.04)
    with pytest.raises(ValueError, match="no draw of N"):
        init.trunc_normal_(sf.zeros(3), a=50.0, b=51.0)


def test_values_that_are_not_drawn() -> None:
    assert (drawn(init.ones_, 2, 3) == 1).all() and (drawn(init.zeros_, 2) == 0).all()
    assert (drawn(init.constant_, 2, val=0.25) == 0.25).all()
    assert np.array_equal(drawn(init.eye_, 2, 3), np.eye(2, 3))
    conv = drawn(init.dirac_, 4, 2, 3, groups=2)
    assert np.array_equal(conv[:, :, 1], np.vstack([np.eye(2), np.eye(2)]))
    assert not conv[:, :, [0, 2]].any()


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3), (4, 4)])
def test_orthogonal_matrices(shape: tuple[int, ...]) -> None:
    values = drawn(init.orthogonal_, *shape, gain=2.0).reshape(shape[0], -1)
    small = values @ values.T if values.shape[0] <= values.shape[1] else values.T @ values
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_sparse_columns() -> None:
    values = drawn(init.sparse_, 10, 6, sparsity=0.25)
    assert ((values == 0).sum(0) == 3).all() and len({tuple(c == 0) for c in values.T}) > 1


def test_gains() -> None:
    assert init.calculate_gain("relu") == math.sqrt(2) and init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu") == pytest.approx(math.sqrt(2 / 1.0001))
    assert init.calculate_gain("leaky_relu", 1.0) == init.calculate_gain("conv2d") == 1.0
    with pytest.raises(ValueError, match="'gelu' is none of linear, sigmoid"):
        init.calculate_gain("gelu")


def test_fans_have_the_name_by_which_programs_call_them() -> None:
    assert init._calculate_fan_in_and_fan_out(sf.empty(6, 4, 3)) == (12, 18)
    with pytest.raises(ValueError, match="fan_in and fan_out"):
        init._calculate_fan_in_and_fan_out(sf.empty(6))


def test_what_initialisers_refuse() -> None:
    with pytest.raises(sf.ShapeError, match=r"xavier_uniform_: takes a tensor of 2 dims or more"):
        init.xavier_uniform_(sf.zeros(3))
    with pytest.raises(sf.ShapeError, match=r"eye_: takes a tensor of 2 dims, not of shape \[3\]"):
        init.eye_(sf.zeros(3))
    with pytest.raises(sf.ShapeError, match=r"dirac_: takes a tensor of 3 to 5 dims"):
        init.dirac_(sf.zeros(3, 3))
    with pytest.raises(sf.ShapeError, match="3 outputs do not fall into 2 groups"):
        init.dirac_(sf.zeros(3, 3, 1), 2)
    with pytest.raises(ValueError, match='"fan_in" or "fan_out"'):
        init.kaiming_normal_(sf.zeros(3, 3), mode="fan")


def test_draws_follow_a_generator() -> None:
    g = sf.Generator().manual_seed(5)
    first = init.kaiming_normal_(sf.zeros(3, 4), generator=g).tolist()
    assert init.kaiming_normal_(sf.zeros(3, 4), generator=g.manual_seed(5)).tolist() == first
