"""What functions give at the edges of what they are for, as PyTorch 2.13 does: of nothing, of NaN,
of numbers outside their domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ArgumentError, ShapeError

F = sf.nn.functional
inf, nan = float("inf"), float("nan")
Function = Callable[..., Any]


def both(fn: Function, *data: Any) -> list[Any]:
    """What ``fn`` gives eagerly, and compiled for unknown sizes."""
    arrays = [np.asarray(a, np.float32) for a in data]
    symbols = [sf.placeholder((None,) * a.ndim, name=f"x{i}") for i, a in enumerate(arrays)]
    compiled = sf.compile(symbols, fn(*symbols))
    return [fn(*map(sf.tensor, arrays)).numpy(), np.asarray(compiled(*arrays))]


def both_gradients(fn: Function, data: Any) -> list[Any]:
    """The gradient of the sum of ``fn``, eagerly and compiled."""
    x = sf.tensor(data, requires_grad=True)
    fn(x).sum().backward()
    assert x.grad is not None
    s = sf.placeholder((len(data),), name="x")
    compiled = sf.compile([s], sf.grad(fn(s).sum(), s))
    return [x.grad.numpy(), np.asarray(compiled(np.asarray(data, np.float32)))]


NOTHING = np.zeros((0,))
OF_NOTHING: dict[str, tuple[Function, Any, Any]] = {
    "trapezoid": (sf.trapezoid, NOTHING, 0.0),
    "trapezoid of rows": (sf.trapezoid, np.zeros((2, 0)), [0.0, 0.0]),
    "trapezoid at places": (lambda y: sf.trapezoid(y, y), NOTHING, 0.0),
    "cumulative_trapezoid": (sf.cumulative_trapezoid, NOTHING, []),
    "cov": (sf.cov, NOTHING, nan),
    "cov of rows": (sf.cov, np.zeros((2, 0)), [[nan, nan], [nan, nan]]),
    "cov of no rows": (sf.cov, np.zeros((0, 2)), np.zeros((0, 0))),
    "corrcoef": (sf.corrcoef, NOTHING, nan),
    "corrcoef of rows": (sf.corrcoef, np.zeros((2, 0)), [[nan, nan], [nan, nan]]),
}


@pytest.mark.parametrize("case", OF_NOTHING)
def test_of_nothing(case: str) -> None:
    fn, data, expected = OF_NOTHING[case]
    for found in both(fn, data):
        np.testing.assert_array_equal(found, np.asarray(expected, np.float32))


def test_the_histogram_of_nothing() -> None:
    assert sf.histc(sf.zeros(0), 3).tolist() == [0.0, 0.0, 0.0]
    assert sf.histc(sf.zeros(0), 2, 1, 1).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_counts_of_16_bits_go_beyond_what_one_more_changes(dtype: str) -> None:
    x = sf.full((4096,), 0.5, dtype=dtype)
    for found in (sf.histogram(x, 1).hist, sf.histc(x, 1)):
        assert found.tolist() == [4096.0] and found.dtype == x.dtype


def test_the_median_of_nothing() -> None:
    for name in ("median", "nanmedian"):
        of = getattr(sf, name)
        for shape in ((0,), (2, 0)):
            with pytest.raises(ShapeError, match=rf"{name}.*nothing.*test_edges\.py"):
                of(sf.zeros(*shape), -1)
            assert np.isnan(of(sf.zeros(*shape)).item())
        with pytest.raises(ShapeError, match=r"median.*nothing.*test_edges\.py"):
            of(sf.zeros(0, dtype="int64"))


def test_powers_of_two_beyond_the_range() -> None:
    def scaled(x: Any) -> Any:
        return sf.ldexp(x, sf.tensor([140, -150, 300, -300, 3]))

    with np.errstate(over="ignore"):
        wanted = np.ldexp(
            np.array([1e-30, 1.5, 1.0, 1.0, 0.5], np.float32), [140, -150, 300, -300, 3]
        )
    for found in both(scaled, [1e-30, 1.5, 1.0, 1.0, 0.5]):
        np.testing.assert_array_equal(found, wanted)
    assert sf.ones(2, dtype="float16").ldexp(sf.tensor([1, 2])).dtype is sf.float16
    assert sf.ones(2, dtype="int64").ldexp(2).tolist() == [4.0, 4.0]


def test_of_one_row() -> None:
    for fn, wanted in ((sf.cov, 1.0), (sf.corrcoef, 1.0)):
        out = fn(sf.tensor([[1.0, 2.0, 3.0]]))
        assert out.shape == () and out.item() == wanted


def test_what_is_close_among_bools() -> None:
    x = sf.tensor([True, False])
    assert sf.isclose(x, ~x).tolist() == [False, False] and sf.allclose(x, x)


def test_numbers_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ShapeError, match="n must not be negative"):
        sf.diff(sf.ones(2), -1)
    with pytest.raises(ShapeError, match="vander: takes a vector"):
        sf.vander(sf.ones(2, 2))
    for call in (lambda x: x.narrow(0, 0, 1), lambda x: x.unflatten(0, (1,))):
        with pytest.raises(ShapeError, match="takes one dim at least, not 0"):
            call(sf.tensor(1.0))
    with pytest.raises(ShapeError, match="block_diag: takes matrices"):
        sf.block_diag(sf.ones(1, 1, 1))
    with pytest.raises(ShapeError, match="renorm: takes 2 dims"):
        sf.ones(2).renorm(2, 0, 1.0)
    with pytest.raises(ShapeError, match="matrix_power: takes square matrices"):
        sf.ones(2).matrix_power(2)
    with pytest.raises(ArgumentError, match="clamp: give min or max"):
        sf.ones(2).clamp()


def test_an_element_on_a_bound_has_all_of_the_gradient() -> None:
    def clamped(x: Any) -> Any:
        return x.clamp(x.new_ones(4), sf.tensor([3.0, 2.0, 3.0, 3.0]))

    for found in both_gradients(clamped, [1.0, 2.0, 0.0, 5.0]):
        assert found.tolist() == [1.0, 1.0, 0.0, 0.0]
    bounds = sf.tensor([nan, 0.0, 0.0])
    assert np.isnan(sf.tensor([1.0, nan, 1.0]).clamp(min=bounds).numpy()).tolist() == [1, 1, 0]
    same = sf.zeros(2, requires_grad=True)
    F.margin_ranking_loss(same, sf.zeros(2), sf.ones(2)).backward()
    assert same.grad is not None and same.grad.tolist() == [-0.5, -0.5]


BLIND = np.array([[0.0, -inf, 0.0], [-inf, -inf, -inf]])


def _attention(q: Any, k: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, k + 1, mask, scale=0.5)


def test_a_query_that_sees_no_key_gives_zeros() -> None:
    q, k = np.ones((2, 4)), np.arange(12.0).reshape(3, 4)
    for found in both(_attention, q, k, BLIND):
        assert np.isfinite(found).all()
        assert not found[1].any()
        np.testing.assert_allclose(found[0], k[2] + 1, rtol=1e-3)
    for found in both(lambda q, k, m: _attention(q, k, m == 0), q, k, BLIND):
        assert not found[1].any()
    sees = sf.tensor(BLIND == 0)
    weights = F.attention_weights(sf.tensor(q), sf.tensor(k), sees, is_causal=True)
    assert weights.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_its_gradient_is_zero_and_not_nan() -> None:
    mask = sf.tensor(BLIND == 0)
    for found in both_gradients(
        lambda q: _attention(q.reshape(2, 4), q.new_ones(3, 4), mask), [1.0] * 8
    ):
        assert not found.any()


GRADIENTS: dict[str, tuple[Function, list[float], list[float]]] = {
    "quantile": (lambda x: x.quantile(0.5), [1.0, nan, 3.0], [0.0, 1.0, 0.0]),
    "nanquantile": (lambda x: x.nanquantile(0.5), [1.0, nan, 3.0], [0.5, 0.0, 0.5]),
    "logit": (sf.logit, [0.0, 1.0, -0.5, 0.5, nan], [inf, inf, nan, 4.0, nan]),
    "logit within": (lambda x: sf.logit(x, 0.1), [0.0, 1.5, 0.5, nan], [0.0, 0.0, 4.0, nan]),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients_at_nan_and_outside(case: str) -> None:
    fn, data, expected = GRADIENTS[case]
    for found in both_gradients(fn, data):
        np.testing.assert_allclose(found, np.asarray(expected, np.float32), rtol=1e-6)


def test_kl_div_of_a_negative_target_is_nan() -> None:
    for found in both(lambda x, t: F.kl_div(x, t, "none"), [-1.0, -2.0], [-0.5, 0.0]):
        np.testing.assert_array_equal(found, [nan, 0.0])


@pytest.mark.parametrize("x, t, name", [(1.5, 1, "input"), (nan, 1, "input"), (0.5, -1, "target")])
def test_probabilities_outside_are_refused(x: float, t: float, name: str) -> None:
    says = rf"binary_cross_entropy.*the {name} holds .* outside of \[0, 1\].*test_edges\.py"
    with pytest.raises(ArgumentError, match=says):
        F.binary_cross_entropy(sf.tensor([0.5, x]), sf.tensor([0.0, t]))


ASSUMED: dict[str, tuple[Function, int, int]] = {
    "split": (lambda x: x.split([1, 2])[0], 3, 4),
    "hsplit": (lambda x: x.reshape(1, -1).hsplit(2)[0], 4, 3),
    "glu": (lambda x: F.glu(x, 0), 4, 3),
    "in place": (lambda x: x.new_zeros(1).add_(x), 1, 3),
    "mask": (lambda x: x[sf.tensor([True, False])], 2, 3),
    "stored by a mask": (lambda x: (x.clone(), x.masked_fill(x > 9, 0))[1][[True, False]], 2, 3),
}


@pytest.mark.parametrize("case", ASSUMED)
def test_what_a_graph_assumes_of_a_size_is_asked_as_it_runs(case: str) -> None:
    fn, right, wrong = ASSUMED[case]
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], fn(x))
    data = np.arange(right, dtype=np.float32)
    np.testing.assert_array_equal(program(data), fn(sf.tensor(data)).numpy())
    with pytest.raises(ShapeError, match="must be equal"):
        program(np.zeros(wrong, np.float32))
    with pytest.raises((ShapeError, IndexError)):
        fn(sf.zeros(wrong))


def test_bools_are_added_by_or_in_both_modes() -> None:
    x = np.array([True, False, False])
    s = sf.placeholder((None,), "bool", name="x")
    at, more = sf.tensor([0, 1]), sf.tensor([False, True])
    for fn in (lambda x: x.index_add(0, at, more), lambda x: x.scatter_add(0, at, more)):
        assert fn(sf.tensor(x)).tolist() == [True, True, False]
        assert sf.compile([s], fn(s))(x).tolist() == [True, True, False]


def test_what_is_equal_is_asked_of_values() -> None:
    x, y = (sf.placeholder((None,), name=n) for n in "xy")
    with pytest.raises(sf.errors.SymbolicError, match="the truth of a symbolic value"):
        sf.equal(x, y)
    assert not sf.equal(sf.ones(2), sf.ones(3)) and sf.equal(sf.ones(0), sf.ones(0))
