"""Transforms of functions, as torch.func has them: against each other, and against autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.autograd import functional
from staticflow.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
)

X = sf.tensor([0.5, -1.0, 2.0])


def cubes(x: Any) -> Any:
    return (x * x * x).sum()


def test_gradients_of_each_order() -> None:
    x = sf.tensor(2.0)
    assert grad(cubes)(x).item() == 12
    assert grad(grad(cubes))(x).item() == 12 and grad(grad(grad(cubes)))(x).item() == 6
    assert not grad(grad(cubes))(x).requires_grad and x.grad is None and not x.requires_grad


def test_an_inner_transform_sees_the_variable_of_an_outer_one() -> None:
    outer = grad(lambda x: grad(lambda y: x * x * y)(sf.tensor(5.0)))  # (x^2)' = 2 x
    assert outer(sf.tensor(3.0)).item() == 6


def test_arguments_and_what_comes_beside() -> None:
    def loss(w: Any, x: Any, scale: float = 1.0) -> Any:
        return (w["a"] * x + w["b"]).sum() * scale, {"seen": x}

    w = {"a": sf.tensor([1.0, 2.0]), "b": sf.tensor([3.0, 4.0])}
    x = sf.tensor([5.0, 6.0])
    found, (value, aux) = grad_and_value(loss, has_aux=True)(w, x, scale=2.0)
    assert found["a"].tolist() == [10, 12] and found["b"].tolist() == [2, 2]
    assert value.item() == 48 and aux["seen"] is x and not value.requires_grad
    both, _ = grad(loss, argnums=(0, -1), has_aux=True)(w, x)
    assert both[0]["b"].tolist() == [1, 1] and both[1].tolist() == [1, 2]
    assert grad(lambda x, y: x * 0 + 1)(sf.tensor(1.0), 7).item() == 0


def test_what_comes_beside_leads_nowhere() -> None:
    _, (value, aux) = grad_and_value(lambda x: (cubes(x), [x * 2]), has_aux=True)(X)
    assert not value.requires_grad and not aux[0].requires_grad


def test_what_requires_a_gradient_outside_is_on_the_tape() -> None:
    w = sf.tensor(3.0, requires_grad=True)
    g = grad(lambda x: w * x * x)(sf.tensor(2.0))
    assert g.item() == 12 and g.requires_grad
    g.backward()
    assert w.grad is not None and w.grad.item() == 4
    x = sf.tensor(2.0, requires_grad=True)
    grad(cubes)(x).backward()
    assert x.grad is not None and x.grad.item() == 12


def test_products_from_either_side() -> None:
    def fn(x: Any, y: Any) -> Any:
        return {"product": x * y, "sum": x.sum()}

    y = sf.tensor([1.0, 2.0, 3.0])
    out, pullback = vjp(fn, X, y)
    assert out["sum"].item() == 1.5 and not out["sum"].requires_grad
    for _ in range(2):  # as often as one likes
        dx, dy = pullback({"product": sf.ones(3), "sum": sf.tensor(10.0)})
        assert dx.tolist() == [11, 12, 13] and dy.tolist() == X.tolist()
    values, moved = jvp(fn, (X, y), (sf.ones(3), sf.zeros(3)))
    assert values["sum"].item() == 1.5
    assert moved["product"].tolist() == [1, 2, 3] and moved["sum"].item() == 3
    with pytest.raises(sf.ShapeError, match=r"vjp: .*\[\[2\], \[\]\].*\[\[3\], \[\]\]"):
        pullback({"product": sf.ones(2), "sum": sf.tensor(1.0)})


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians(jacobian: Any) -> None:
    wanted = functional.jacobian(lambda x: (x * x).cumsum(0), X)
    assert jacobian(lambda x: (x * x).cumsum(0))(X).tolist() == wanted.tolist()
    pair = jacobian(lambda x, y: (x * y, x.sum()), argnums=(0, 1))(X, X)
    assert pair[0][1].tolist() == np.diag(X.tolist()).tolist()
    assert pair[1][0].tolist() == [1, 1, 1] and pair[1][1].tolist() == [0, 0, 0]


def test_second_derivatives() -> None:
    def fn(x: sf.Tensor) -> sf.Tensor:
        return (x.sin() * x.sum()).sum()

    wanted = functional.hessian(fn, X)
    np.testing.assert_allclose(hessian(fn)(X).numpy(), wanted.numpy(), rtol=1e-6)
    v = sf.ones(3)
    along = jvp(grad(fn), (X,), (v,))[1]
    np.testing.assert_allclose(along.numpy(), (wanted @ v).numpy(), rtol=1e-6)


def test_a_step_of_learning_to_learn() -> None:
    model = sf.nn.Linear(3, 1)
    parameters = {n: p.detach() for n, p in model.named_parameters()}

    def loss(p: Any, x: Any) -> Any:
        return functional_call(model, p, x).pow(2).mean()

    def adapted(p: Any, x: Any) -> Any:
        step = grad(loss)(p, x)
        return loss({n: p[n] - 0.1 * step[n] for n in p}, x)

    found = grad(adapted)(parameters, X)
    leaves = {n: p.clone().requires_grad_() for n, p in parameters.items()}
    inner = sf.autograd.grad(loss(leaves, X), list(leaves.values()), create_graph=True)
    moved = {n: p - 0.1 * g for (n, p), g in zip(leaves.items(), inner, strict=True)}
    loss(moved, X).backward()
    for n, leaf in leaves.items():
        assert leaf.grad is not None
        np.testing.assert_allclose(found[n].numpy(), leaf.grad.numpy(), rtol=1e-5)


def test_symbols() -> None:
    x = sf.placeholder((3,), name="x")
    program = sf.compile([x], [grad(cubes)(x), jacrev(lambda x: x * x)(x), hessian(cubes)(x)])
    first, square, second = program(X)
    assert first.tolist() == (3 * X * X).tolist() and square.tolist() == sf.diag(2 * X).tolist()
    assert second.tolist() == sf.diag(6 * X).tolist()


def test_the_pullback_of_tensors_takes_rows_and_symbols() -> None:
    layer = sf.nn.Linear(3, 2)
    _, pullback = vjp(lambda x: (layer(x).tanh(), x * x), X)
    rows = (sf.cat([sf.eye(2), sf.zeros(3, 2)]), sf.cat([sf.zeros(2, 3), sf.eye(3)]))
    each = [pullback((rows[0][i], rows[1][i]))[0] for i in range(5)]
    (found,) = sf.vmap(pullback)(rows)
    np.testing.assert_allclose(found.detach(), sf.stack(each).detach(), 1e-5, 1e-6)
    found.sum().backward()  # what the function captures is part of it
    assert layer.weight.grad is not None
    cts = sf.placeholder((None,), name="a"), sf.placeholder((3,), name="b")
    program = sf.compile(list(cts), pullback(cts)[0])
    jitted = sf.jit(lambda a, b: pullback((a, b))[0])
    for form in (program, jitted):
        np.testing.assert_allclose(
            form(rows[0][0], rows[1][0]).detach(), each[0].detach(), 1e-5, 1e-6
        )
        with pytest.raises(sf.ShapeError, match=r"vjp: tensors of shapes .* are needed"):
            form(sf.ones(3), sf.ones(3))


def test_a_pullback_never_draws_or_changes_anything_again() -> None:
    norm = sf.nn.BatchNorm1d(3)
    for fn, x in (
        (lambda x: sf.nn.functional.dropout(x), X),
        (lambda x: x * sf.rand(3), X),
        (norm, sf.randn(4, 3)),
    ):
        _, pullback = vjp(fn, x)
        state, mean = sf.get_rng_state(), norm.running_mean.clone()
        for call in (
            lambda f=pullback, x=x: sf.vmap(f)(x[None]),
            lambda f=pullback, x=x: f(sf.placeholder(x.shape, name="ct")),
            lambda f=pullback, x=x: sf.jit(f)(x),
        ):
            with pytest.raises(sf.SymbolicError, match="draws, or changes what is not its own"):
                call()
        assert sf.get_rng_state().tolist() == state.tolist()
        assert norm.running_mean.tolist() == mean.tolist()


def test_what_transforms_refuse() -> None:
    with pytest.raises(sf.ShapeError, match=r"grad: .* not shape \[3\].*jacrev.*test_autograd_tr"):
        grad(lambda x: x * 2)(X)
    with pytest.raises(sf.ArgumentError, match="argnums=1 names none of 1"):
        grad(cubes, argnums=1)(X)
    with pytest.raises(sf.AutogradError, match="float"):
        grad(cubes)(sf.tensor([1, 2]))


def test_a_functional_call_of_something_else() -> None:
    for module, dicts in ((3, {}), (sf.nn.Linear(2, 1), 3), (sf.nn.Linear(2, 1), [{}, 3])):
        with pytest.raises(ValueError, match="it takes a module, and a dict of tensors"):
            functional_call(module, dicts, sf.ones(2))
