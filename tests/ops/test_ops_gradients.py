"""The derivatives of every op: eager against finite differences, symbolic against eager."""

from __future__ import annotations

import numpy as np
import pytest
from op_derivatives import (
    check_gradient,
    check_second_derivative,
    differentiable_names,
    gradients,
    is_real,
    leaves_at,
    or_zeros,
    own_arrays,
    second_gradients,
    slope_of,
    weighted,
)
from opinfo import ROWS
from opinfo.core import OpInfo, Sample, values
from opinfo.modes import arrays_of, call, expected_of, gradient_graph, params_for, weights
from slices import by_days

import staticflow as sf
from staticflow.graph.dtypes import dtype_of, float64
from staticflow.graph.graph import close
from staticflow.graph.interpret import interpret_graph
from staticflow.ops.symbols.gradient import pushforward
from staticflow.ops.symbols.symbol import Symbol

differentiable = pytest.mark.parametrize("name", differentiable_names)


def a_third_a_day(subject: str) -> pytest.MarkDecorator:
    """A third of the ops, other ones on other days and for other subjects."""
    third = len(differentiable_names) // 3
    return pytest.mark.parametrize("name", by_days(differentiable_names, third, subject))


def smooth_samples(info: OpInfo) -> list[tuple[Sample, str]]:
    return [(s, f"gradient of {info.op.name}({s})") for s in info.samples(float64, True)]


@a_third_a_day("differences")
def test_gradient_is_that_of_finite_differences(name: str) -> None:
    info = ROWS[name]
    for sample, what in smooth_samples(info):
        check_gradient(info, sample, what)


@a_third_a_day("second differences")
def test_second_derivative_is_that_of_finite_differences(name: str) -> None:
    info = ROWS[name]
    for sample, what in smooth_samples(info):
        check_second_derivative(info, sample, what)


@a_third_a_day("symbolic second derivatives")
def test_symbolic_second_derivative_is_the_eager_one(name: str) -> None:
    info = ROWS[name]
    for sample, what in smooth_samples(info):
        arrays = own_arrays(sample)
        eager = second_gradients(info, sample, arrays)
        params = params_for(arrays)
        real, slope = slope_of(info, sample, [Symbol(p) for p in params])
        if not isinstance(slope, Symbol):
            assert eager == [None] * len(eager), what
            continue
        found = sf.grad(slope, real, allow_unused=True)
        outs = [g if g is not None else sf.zeros_like(x) for g, x in zip(found, real, strict=True)]
        actual = interpret_graph(close(params, [o.node for o in outs]), arrays)
        for a, e in zip(actual, eager, strict=True):
            np.testing.assert_allclose(a, or_zeros(e, a), 1e-9, 1e-9, err_msg=f"second {what}")


@differentiable
def test_symbolic_gradient_is_the_eager_one(name: str) -> None:
    info = ROWS[name]
    for sample, what in smooth_samples(info):
        arrays = own_arrays(sample)
        _, eager = gradients(info, sample, leaves_at(arrays))
        graph = gradient_graph(info, sample)
        found = [g for g in eager if g is not None]
        if graph is None:
            assert not found, what
            continue
        cts = weights([p.tensor_type for p in graph.params[len(arrays) :]], 5)
        actual = interpret_graph(graph, [*arrays, *cts])
        for a, e in zip(actual, found, strict=True):
            np.testing.assert_allclose(a, e.numpy(), 1e-12, 1e-12, err_msg=what)


@a_third_a_day("forward derivatives")
def test_forward_derivative_is_that_of_the_gradient(name: str) -> None:
    """The sum of the weighted outputs changes by gradient times move, whichever way it is taken."""
    info = ROWS[name]
    for sample, what in smooth_samples(info):
        arrays = own_arrays(sample)
        if not all(a.size for a in arrays):
            continue  # nothing can move
        moves = [values(a.shape, float64, -1, 1, seed=3) for a in arrays if is_real(a)]
        _, found = gradients(info, sample, leaves_at(arrays))
        backward = sum(np.sum(or_zeros(g, u) * u) for g, u in zip(found, moves, strict=True))
        params = params_for(arrays)
        real = [Symbol(p) for p, a in zip(params, arrays, strict=True) if is_real(a)]
        tangents = params_for(moves)
        loss = weighted(call(info, sample, list(map(Symbol, params))))
        (slope,) = pushforward([loss], real, list(map(Symbol, tangents)))
        if slope is None:
            assert backward == 0, what
            continue
        graph = close([*params, *tangents], [slope.node])
        (forward,) = interpret_graph(graph, [*arrays, *moves])
        np.testing.assert_allclose(forward, backward, 1e-9, 1e-9, err_msg=what)


@differentiable
def test_gradient_with_unknown_sizes(name: str) -> None:
    info = ROWS[name]
    assert info.sized is not None
    graph = gradient_graph(info, info.sized(float64, 7), unknown=7)
    for n in (0, 1, 5) if graph is not None else ():
        sample = info.sized(float64, n)
        arrays = own_arrays(sample)
        outs = [o for o in expected_of(info, sample) if dtype_of(o.dtype).is_floating]
        assert graph is not None
        cts = [w.astype(o.dtype) for o, w in zip(outs, weights(outs, 5), strict=True)]
        actual = interpret_graph(graph, [*arrays, *cts])
        if n == 0:  # the shapes are the whole answer, up to zeros
            assert all(np.isfinite(a).all() for a in actual), name
            continue
        eager = [g for g in gradients(info, sample, leaves_at(arrays))[1] if g is not None]
        for a, e in zip(actual, eager, strict=True):
            np.testing.assert_allclose(a, e.numpy(), 1e-12, 1e-12, err_msg=f"{name}, n = {n}")


@differentiable
def test_a_gradient_has_the_dtype_of_its_tensor(name: str) -> None:
    info = ROWS[name]
    for dtype in (d for d in info.dtypes if d.is_floating):
        sample = next(s for s in info.samples(dtype, False) if all(a.size for a in arrays_of(s)))
        tensors = [sf.tensor(a) for a in arrays_of(sample)]
        for t in tensors:
            t.requires_grad = t.dtype.is_floating
        for out in call(info, sample, tensors):
            if out.requires_grad:
                out.sum().backward(retain_graph=True)
        for t in tensors:
            assert t.grad is None or (t.grad.dtype, t.grad.shape) == (t.dtype, t.shape), dtype
