"""Jitted functions: kinds of arguments, captured tensors, the tape, what is refused."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from opinfo.core import values

import staticflow as sf
from staticflow.config import config
from staticflow.errors import AutogradError, ShapeError, SymbolicError
from staticflow.graph.dtypes import float32, float64


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "verify", True)


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return values(shape, float32, seed=seed)


# -- kinds ---------------------------------------------------------------------------------------


def test_other_sizes_never_trace_anew() -> None:
    traces: list[Any] = []

    @sf.jit
    def f(x: Any, y: Any) -> Any:
        traces.append(x.shape)
        return (x @ y).relu().sum(0)

    for n, m in ((4, 3), (17, 2), (0, 5), (2, 64)):
        x, y = array(n, m), array(m, 6)
        np.testing.assert_allclose(
            f(x, y).numpy(), np.maximum(x @ y, 0).sum(0), rtol=1e-4, atol=1e-5
        )
    assert (len(traces), f.trace_count, f.compile_count) == (1, 1, 2)


def test_a_size_of_one_is_a_kind_of_its_own() -> None:
    f = sf.jit(lambda x, y: x * 2 + y)
    for x, y in (
        (array(4, 3), array(4, 3)),
        (array(4, 1), array(4, 3)),
        (array(2, 1), array(2, 5)),
    ):
        np.testing.assert_allclose(f(x, y).numpy(), x * 2 + y, rtol=1e-6)
    assert f.trace_count == 2
    with pytest.raises(ShapeError, match="arg0_0 and arg1_0 must be equal"):
        f(array(4, 3), array(5, 3))


def test_dtypes_and_ranks_are_kinds() -> None:
    f = sf.jit(lambda x: x * x)
    results = [
        f(array(3)),
        f(array(3).astype(np.float64)),
        f(array(3, 2)),
        f(np.arange(3)),
        f(array(5)),
    ]
    assert [r.dtype.name for r in results] == ["float32", "float64", "float32", "int64", "float32"]
    assert f.trace_count == 4


def test_what_is_no_array_is_static() -> None:
    """By value and class: 1, 1.0 and True are three arguments, 0.0 and -0.0 two."""
    f = sf.jit(lambda x, k=2, *, flag=False: x * k if flag else x + k)
    x = np.array([1, 2])
    assert f(x, 1).dtype is sf.int64
    assert f(x, 1.0).dtype is sf.float32
    assert f(x, True).tolist() == [2, 3]
    assert f(x, 3, flag=True).tolist() == [3, 6]
    assert f(x, 3, flag=True).tolist() == [3, 6]
    assert f(x).tolist() == [3, 4]
    assert f.trace_count == 5
    g = sf.jit(lambda x, zero: x * zero)
    signs = [np.signbit(g(np.ones(1), z).numpy()[0]) for z in (0.0, -0.0)]
    assert signs == [False, True]


def test_trees_in_and_out() -> None:
    @sf.jit
    def f(batch: Any, scale: Any) -> Any:
        return {"sum": batch["x"] + batch["more"][0], "none": None, "pair": (batch["x"] * scale, 3)}

    x, y = array(3), array(3, seed=1)
    out = f({"x": x, "more": [y]}, scale=2.0)
    assert list(out) == ["sum", "none", "pair"]
    np.testing.assert_allclose(out["sum"].numpy(), x + y)
    np.testing.assert_allclose(out["pair"][0].numpy(), x * 2)
    assert (out["none"], out["pair"][1].item()) == (None, 3)


def test_numpy_scalars_and_tensors_are_arrays() -> None:
    f = sf.jit(lambda x, k: x * k)
    for k in (np.float32(2), np.float32(3), sf.tensor(4.0)):
        assert f(array(3), k).shape == (3,)
    assert f.trace_count == 2  # a scalar is a number beside tensors


def test_jitted_functions_nest() -> None:
    """Inside a graph a jitted function is its Python function; also on tensors alone."""
    w = sf.nn.Parameter([3.0])
    inner = sf.jit(lambda x: x * x)
    outer = sf.jit(lambda x: inner(x) + inner(w))
    x = sf.tensor([2.0], requires_grad=True)
    y = outer(x)
    y.sum().backward()
    assert (y.item(), x.grad.item(), w.grad.item()) == (13, 4, 6)
    assert (outer.compile_count, inner.compile_count) == (1, 0)
    s = sf.placeholder((None,), name="s")
    assert sf.compile([s], inner(s))(np.array([3], np.float32)).tolist() == [9]


def test_as_a_decorator_with_arguments() -> None:
    @sf.jit(numerics="fast")
    def named(x: Any) -> Any:
        """Doubles."""
        return x + x + 0.0

    assert (named.__name__, named.__doc__) == ("named", "Doubles.")
    assert repr(named) == "<jit of named, 0 compiled>"
    assert named(array(2)).shape == (2,)
    assert repr(named) == "<jit of named, 1 compiled>"


# -- captured tensors ----------------------------------------------------------------------------


def test_captured_tensors_are_looked_up_at_every_call() -> None:
    w = sf.nn.Parameter([1.0, 2.0])
    f = sf.jit(lambda x: x * w)
    one = np.ones(2, np.float32)
    assert f(one).tolist() == [1, 2]
    w.data = sf.tensor([5.0, 6.0])
    assert f(one).tolist() == [5, 6]
    with sf.no_grad():
        w.mul_(2)
    assert f(one).tolist() == [10, 12]
    assert f.trace_count == 1
    w.data = sf.tensor([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match="has 3 in dim 0"):
        f(np.ones(3, np.float32))


# -- the tape ------------------------------------------------------------------------------------


def _model(x: Any, w: Any, b: Any) -> Any:
    h = (x @ w + b).tanh()
    return h.sum(), h * 2


@pytest.mark.parametrize("used", ["first", "second", "both"])
def test_a_call_is_one_node_of_the_tape(used: str) -> None:
    """Gradients of arguments and captured tensors, from one of the results or both, through what is
    eager on either side."""
    arrays = [values(s, float64, -0.5, 0.5, seed=i) for i, s in enumerate(((4, 3), (3, 2), (2,)))]

    def loss_of(fn: Any) -> list[np.ndarray]:
        x, w, b = (sf.tensor(a, requires_grad=True) for a in arrays)
        first, second = fn(b)(x * 2, w)
        loss = {"first": first, "second": (second**2).sum(), "both": first + (second**2).sum()}[
            used
        ]
        loss.backward()
        if used == "first":
            assert repr(first.grad_fn) == "<JitBackward>" or fn is eagerly
        return [t.grad.numpy() for t in (x, w, b)]

    def eagerly(b: Any) -> Any:
        return lambda x, w: _model(x, w, b)

    def jitted(b: Any) -> Any:
        return sf.jit(lambda x, w: _model(x, w, b))

    for got, expected in zip(loss_of(jitted), loss_of(eagerly), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_gradients_are_compiled_once_for_all_sizes() -> None:
    f = sf.jit(lambda x: (x * x).sum())
    for n in (3, 5, 0, 7):
        x = sf.tensor(array(n), requires_grad=True)
        f(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    assert f.trace_count == 1


def test_only_what_needs_a_gradient_gets_one() -> None:
    f = sf.jit(lambda x, i, y: (sf.gather(x, 0, i) * y).sum())
    x = sf.tensor([1.0, 2.0], requires_grad=True)
    y = sf.tensor([3.0, 4.0])
    f(x, np.array([1, 1]), y).backward()
    assert (x.grad.tolist(), y.grad) == ([0, 7], None)
    with sf.no_grad():
        assert not f(x, np.array([0, 1]), y).requires_grad
    assert not f(x.detach(), np.array([0, 1]), y).requires_grad


def test_integer_results_stay_off_the_tape() -> None:
    f = sf.jit(lambda x: (x.argmax(), x.max()))
    x = sf.tensor([1.0, 5.0, 2.0], requires_grad=True)
    index, best = f(x)
    assert (index.item(), index.requires_grad) == (1, False)
    best.backward()
    assert x.grad.tolist() == [0, 1, 0]


def test_what_is_unused_has_no_gradient() -> None:
    f = sf.jit(lambda x, y: (x * 2, y * 3))
    x, y = (sf.tensor([float("nan"), 1.0], requires_grad=True) for _ in range(2))
    f(x, y)[0].sum().backward()
    assert (x.grad.tolist(), y.grad) == ([2, 2], None)


def test_many_captured_tensors() -> None:
    """More than any fixed number of arguments of the node."""
    weights = [sf.nn.Parameter([float(i)]) for i in range(300)]
    f = sf.jit(lambda x: sum((x * w for w in weights), x))
    f(np.ones(1, np.float32)).sum().backward()
    assert all(w.grad.item() == 1 for w in weights)


def test_a_change_between_forward_and_backward_is_caught() -> None:
    w = sf.nn.Parameter([2.0])
    f = sf.jit(lambda x: (x * w * w).sum())
    loss = f(np.ones(1, np.float32))
    with sf.no_grad():
        w.mul_(3)
    with pytest.raises(AutogradError, match=r"jit: argument 1, .* was changed in place"):
        loss.backward()


def test_derivatives_of_any_order_through_a_call_and_inside_it() -> None:
    w = sf.nn.Parameter([3.0])
    f = sf.jit(lambda x: (x**4 * w**2).sum())
    x = sf.tensor([2.0], requires_grad=True)
    first, first_w = sf.grad(f(x), [x, w], create_graph=True)
    second, mixed = sf.grad(first, [x, w], create_graph=True)
    (third,) = sf.grad(second, [x])
    assert (first.item(), first_w.item()) == (4 * 8 * 9, 16 * 6)
    assert (second.item(), mixed.item(), third.item()) == (12 * 4 * 9, 4 * 8 * 6, 24 * 2 * 9)
    inside = sf.jit(lambda x: sf.grad(sf.grad((x**3).sum(), x).sum(), x))
    assert inside(x).tolist() == [12]


# -- what is refused -----------------------------------------------------------------------------


def test_python_code_that_needs_a_value() -> None:
    f = sf.jit(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(SymbolicError, match=r"sf\.where\(condition, a, b\).*test_jit\.py"):
        f(array(3))
    assert f.trace_count == 0


def test_other_refusals() -> None:
    with pytest.raises(ShapeError, match=r"jit: nothing returned no tensor, at .*test_jit\.py"):

        @sf.jit
        def nothing(x: Any) -> Any:
            return None

        nothing(array(3))
    with pytest.raises(SymbolicError, match=r"a set, which is neither .* hashable.*test_jit\.py"):
        sf.jit(lambda x, s: x)(array(3), {1, 2})
    with pytest.raises(SymbolicError, match="'a' cannot stand in a symbolic expression"):
        sf.jit(lambda x: (x, "a"))(array(3))


SCALARS = (np.float64(2.5), np.float16(2.5), np.int32(2), np.uint8(3), np.bool_(True))


@pytest.mark.parametrize("dtype", ["int64", "bool", "float16", "float64"])
def test_a_scalar_of_numpy_counts_as_a_number_as_eagerly(dtype):
    x = sf.tensor([0, 1]).to(dtype)

    def all_of_them(x, k):
        made = sf.as_tensor(k), x * sf.as_tensor(k)
        return [x * k, k + x, sf.where(x > 0, x, k), sf.full((2,), k), x * (k + 1), *made]

    jitted = sf.jit(all_of_them)
    for k in SCALARS:
        for a, b in zip(all_of_them(x, k), jitted(x, k), strict=True):
            assert a.dtype is b.dtype
            assert np.allclose(a.numpy(), b.numpy(), rtol=1e-3)
    assert jitted.compile_count == len(SCALARS)
    assert jitted(x, np.float64(3))[0].tolist() == (x * 3).tolist()
    assert jitted.compile_count == len(SCALARS)


def test_what_makes_tensors_of_data_takes_a_symbol():
    x = sf.ones(3)
    assert sf.jit(lambda x: sf.as_tensor(x) + 1)(x).tolist() == [2, 2, 2]
    assert sf.jit(lambda x: sf.asarray(x, dtype="float64"))(x).dtype is sf.float64
    with pytest.raises(sf.SymbolicError, match=r"take the symbol itself"):
        sf.jit(sf.tensor)(x)
    with pytest.raises(sf.SymbolicError, match=r"take sf\.stack"):
        sf.jit(lambda x: sf.tensor([x[0], 1.0]))(x)


def test_a_jitted_module_has_what_the_module_has() -> None:
    model = sf.nn.Sequential(sf.nn.Linear(3, 2), sf.nn.Dropout(0.5))
    f = sf.jit(model)
    assert list(f.parameters()) == list(model.parameters())
    f.eval()
    f.scale = 3
    assert not model.training and model.scale == 3
    x = sf.ones(2, 3)
    sf.testing.assert_close(f(x), model(x))
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        _ = f.absent
    with pytest.raises(AttributeError, match="has no attribute 'parameters'"):
        _ = sf.jit(lambda x: x).parameters
    sf.testing.assert_close(copy.deepcopy(f)(x), model(x))


def test_a_second_derivative_where_results_between_have_no_cotangent() -> None:
    f = sf.jit(lambda x: (x * x, x > 0, x.sin(), x**3))
    x = sf.tensor([1.0, 2.0], requires_grad=True)
    first, _, _, last = f(x)
    (slope,) = sf.autograd.grad((first + last).sum(), x, create_graph=True)
    (second,) = sf.autograd.grad(slope.sum(), x, create_graph=True)
    (third,) = sf.autograd.grad(second.sum(), x)
    assert slope.tolist() == [5.0, 16.0]
    assert second.tolist() == [8.0, 14.0] and third.tolist() == [6.0, 6.0]
