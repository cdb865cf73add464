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
    linearize,
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


@pytest.mark.parametrize("change", ["captured", "argument", "not saved"])
def test_what_was_changed_since_is_not_taken_as_it_is_now(change: str) -> None:
    """PyTorch computes with what is there then, and of an elementwise function with what it saved."""
    x, w = X.clone(), sf.tensor([1.0, 2.0, 3.0])
    functions: dict[str, Any] = {
        "captured": lambda x: x * w,
        "argument": lambda x: x * x,
        "not saved": lambda x: x * w.exp(),
    }
    maps = vjp(functions[change], x)[1], linearize(functions[change], x)[1]
    (x if change == "argument" else w).mul_(1.001)
    for fn in maps:
        for call in (lambda f=fn: sf.vmap(f)(sf.eye(3)), lambda f=fn: sf.jit(f)(sf.ones(3))):
            with pytest.raises(sf.SymbolicError, match=r"changed in place since.*test_autograd_tr"):
                call()
        if change == "not saved":
            continue
        with pytest.raises(sf.AutogradError, match="changed in place after it was used"):
            fn(sf.ones(3))


def test_products_have_gradients_by_what_they_are_multiplied_with() -> None:
    """They are linear in it, whatever else requires a gradient; nothing else is on the tape."""
    along: dict[str, Any] = {
        "vjp": lambda v: vjp(lambda x: x**3, X)[1](v)[0],
        "jvp": lambda v: jvp(lambda x: x**3, (X,), (v,))[1],
        "linearize": linearize(lambda x: x**3, X)[1],
    }
    for name, fn in along.items():
        v = sf.ones(3).requires_grad_()
        fn(v).sum().backward()
        assert v.grad is not None and v.grad.tolist() == (3 * X**2).tolist(), name
        for found in (
            grad(lambda v, f=fn: f(v).sum())(sf.ones(3)),
            sf.diag(jacrev(fn)(sf.ones(3))),
        ):
            assert found.tolist() == (3 * X**2).tolist() and not found.requires_grad, name
        assert not fn(sf.ones(3)).requires_grad and not fn(v.detach()).requires_grad
        with sf.no_grad():
            assert not fn(v).requires_grad


def test_products_are_walked_back_over_as_often_as_one_likes() -> None:
    """A walk back over one frees nothing that the function has saved, as it does not go there."""
    w = sf.randn(3, 3)
    _, pullback = vjp(lambda x: (w @ x).tanh() * x.exp(), X)
    maps: dict[str, Any] = {
        "vjp": lambda v: pullback(v)[0],
        "linearize": linearize(lambda x: (w @ x).tanh() * x.exp(), X)[1],
    }
    for name, fn in maps.items():
        weight, wanted = sf.randn(3, 3, requires_grad=True), sf.zeros(3, 3)
        for _ in range(3):
            v = weight @ X
            (fn(v) ** 2).sum().backward()
            columns = sf.stack([fn(row) for row in sf.eye(3)])
            wanted += (2 * columns @ fn(v.detach()))[:, None] * X
        sf.testing.assert_close(weight.grad, wanted)
        second = hessian(lambda v, f=fn: (f(v) ** 3).sum())(sf.ones(3))
        sf.testing.assert_close(second, 6 * (columns * fn(sf.ones(3))) @ columns.T)
        assert "LinearMap" in repr(fn(sf.ones(3).requires_grad_()).grad_fn), name


def test_a_map_of_a_module_with_buffers_takes_symbols() -> None:
    """The graph into which its function is traced anew reads them, as they are."""
    norm = sf.nn.BatchNorm1d(3).eval()
    _, along = linearize(norm, sf.randn(5, 3))
    moves = sf.randn(2, 5, 3)
    sf.testing.assert_close(sf.vmap(along)(moves)[1], along(moves[1]))
    norm.running_mean.add_(1)
    with pytest.raises(sf.SymbolicError, match=r"linearize: .* was changed in place since"):
        sf.vmap(along)(moves)


# -- linearize -----------------------------------------------------------------------------------


def test_a_linear_map_is_called_as_often_as_one_likes() -> None:
    calls = []

    def fn(x: Any, p: Any) -> Any:
        calls.append(0)
        return {"product": x * p["w"], "sum": x.sum(), "at": x.argmax()}

    p = {"w": sf.tensor([1.0, 2.0, 3.0])}
    out, along = linearize(fn, X, p)
    assert out["sum"].item() == 1.5 and not out["sum"].requires_grad and out["at"].item() == 2
    for v, u in ((sf.ones(3), sf.zeros(3)), (sf.zeros(3), sf.ones(3)), (X, X)):
        moved = along(v, {"w": u})
        assert moved["product"].tolist() == (v * p["w"] + X * u).tolist()
        assert moved["sum"].item() == v.sum().item() and moved["at"].item() == 0
        assert not moved["product"].requires_grad
    assert len(calls) == 1
    sf.testing.assert_close(jvp(fn, (X, p), (X, p))[1]["product"], along(X, p)["product"])


def test_a_linear_map_of_symbols_shares_the_values_of_the_function() -> None:
    x, v, u = (sf.placeholder((None, 3), name=name) for name in "xvu")
    out, along = linearize(lambda x: x.exp() * x, x)
    program = sf.compile([x, v, u], [out, along(v), along(u)])
    assert [n.op.name for n in program.graph.nodes].count("exp") == 1
    x0, v0, u0 = sf.randn(2, 3), sf.randn(2, 3), sf.randn(2, 3)
    eager, map_now = linearize(lambda x: x.exp() * x, x0)
    for a, b in zip(program(x0, v0, u0), (eager, map_now(v0), map_now(u0)), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)
    jitted = sf.jit(lambda x, v: linearize(lambda x: x.exp() * x, x)[1](v))
    np.testing.assert_allclose(jitted(x0, v0), map_now(v0), 1e-5, 1e-6)
    rows = sf.vmap(map_now)(sf.stack([v0, u0]))
    np.testing.assert_allclose(rows[1], map_now(u0), 1e-5, 1e-6)


def test_a_linear_map_keeps_its_draws_and_the_branch_that_was_taken() -> None:
    out, along = linearize(lambda x: sf.nn.functional.dropout(x) * (2 if x[0] > 0 else 3), X)
    np.testing.assert_allclose(along(X), out)
    assert along(X).tolist() == along(X).tolist()
    with pytest.raises(sf.SymbolicError, match=r"the truth of a symbolic value"):
        sf.jit(along)(X)
    with pytest.raises(sf.SymbolicError, match=r"linearize: a symbol is given.* draws"):
        sf.jit(linearize(sf.nn.functional.dropout, X)[1])(X)


def test_a_linear_map_is_part_of_other_derivatives() -> None:
    w = sf.tensor(2.0, requires_grad=True)
    _, along = linearize(lambda x: w * x**3, X)
    along(sf.ones(3)).sum().backward()
    assert w.grad is not None and w.grad.item() == (3 * X**2).sum().item()
    second = hessian(lambda x: linearize(lambda y: y**4, x)[1](sf.ones(3)).sum())(X)
    np.testing.assert_allclose(second, sf.diag(24 * X))


def test_what_linearize_refuses() -> None:
    _, along = linearize(lambda x, y: x * y, X, X)
    with pytest.raises(sf.ShapeError, match=r"linearize: .*\[\[3\]\] are given.*\[\[3\], \[3\]\]"):
        along(X)
    with pytest.raises(sf.ShapeError, match=r"linearize: .* 2 and 3 differ"):
        along(X, sf.ones(2))
    with pytest.raises(sf.DTypeError, match="linearize: tensors are needed, not int"):
        along(X, 3)
    with pytest.raises(sf.DTypeError, match=r"not ndarray; wrap data with .*test_autograd_tr"):
        along(X, np.ones(3, np.float32))
    _, of_tree = linearize(lambda x: x["a"] * x["b"][0], {"a": X, "b": [X]})
    assert of_tree({"a": X, "b": (X,)}).tolist() == (2 * X * X).tolist()
    with pytest.raises(sf.ArgumentError, match=r"at tree\[0\]\['a'\], tree\[0\]\['c'\]\[0\] are"):
        of_tree({"a": X, "c": [X]})
    wrong: Any  # what mypy would refuse
    for wrong in (linearize, vjp, lambda f, x: jvp(f, (x,), (x,))):
        with pytest.raises(
            sf.DTypeError, match=r"\(\) missing 1 required .* 'b'.*test_autograd_tr"
        ):
            wrong(lambda a, b: a, X)
    wrong = linearize
    with pytest.raises(sf.DTypeError, match="must be a function, not int"):
        wrong(3, X)
    for fn in (linearize, vjp):
        with pytest.raises(
            sf.DTypeError, match=r"must give a tensor, or a tree .* not int.*test_au"
        ):
            fn(lambda x: 3, X)


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
