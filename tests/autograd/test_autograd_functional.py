"""``vjp``, ``jvp``, ``jacobian``, ``hessian`` of functions of tensors and of symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp
from staticflow.errors import AutogradError, ShapeError

RNG = np.random.default_rng(0)


def draw(*shape: int) -> sf.Tensor:
    return sf.tensor(RNG.standard_normal(shape))


def layer(x: Any, w: Any) -> Any:
    return (x @ w).sin(), (x * x).sum()


def differences(fn: Callable[..., Any], xs: list[np.ndarray[Any, Any]], i: int) -> Any:
    """The Jacobian of ``fn`` by its ``i``-th argument, by central differences."""
    columns = []
    for k in range(xs[i].size):
        step = np.zeros(xs[i].shape)
        step.flat[k] = 1e-6
        hi, lo = (fn(*xs[:i], xs[i] + s, *xs[i + 1 :]) for s in (step, -step))
        columns.append((hi - lo) / 2e-6)
    out = np.stack(columns, -1) if columns else np.zeros((*fn(*xs).shape, 0))
    return out.reshape(*out.shape[:-1], *xs[i].shape)


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-7)


# -- eager ----------------------------------------------------------------------------------------


def test_against_differences() -> None:
    x, w = draw(3, 2), draw(2, 4)
    plain = [x.numpy(), w.numpy()]
    found = jacobian(layer, (x, w))
    outs = (lambda a, b: np.sin(a @ b), lambda a, b: np.sum(a * a))
    wanted = [[differences(o, plain, i) for i in range(2)] for o in outs]
    v, u = (draw(3, 4), draw()), (draw(3, 2), draw(2, 4))
    values, pulled = vjp(layer, (x, w), v)
    _, pushed = jvp(layer, (x, w), u)
    close(values[0], np.sin(plain[0] @ plain[1]))
    for k in range(2):
        for i in range(2):
            close(found[k][i], wanted[k][i])
        close(pushed[k], sum(np.tensordot(wanted[k][i], u[i].numpy(), 2) for i in range(2)))
        ct = sum(np.tensordot(v[j].numpy(), wanted[j][k], v[j].ndim) for j in range(2))
        close(pulled[k], ct)


def test_the_hessian_is_the_jacobian_of_the_gradient() -> None:
    def fn(x: Any, y: Any) -> Any:
        return (x * x * y).sum() + (x[0] * y).exp().sum()

    x, y = draw(3), draw(3)
    found = hessian(fn, (x, y))
    gx = lambda a, b: 2 * a * b + np.eye(3)[0] * np.sum(b * np.exp(a[0] * b))  # noqa: E731
    gy = lambda a, b: a * a + a[0] * np.exp(a[0] * b)  # noqa: E731
    for row, g in zip(found, (gx, gy), strict=True):
        for i in range(2):
            close(row[i], differences(g, [x.numpy(), y.numpy()], i))
    v = (draw(3), draw(3))
    value, product = hvp(fn, (x, y), v)
    close(value, fn(x, y))
    for found_v, also in zip(product, vhp(fn, (x, y), v)[1], strict=True):
        close(found_v, also)
    close(
        product[0],
        found[0][0].numpy() @ v[0].numpy() + found[0][1].numpy() @ v[1].numpy(),
    )


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    x = draw(*shape)
    assert jacobian(lambda a: a.exp(), x).shape == shape + shape
    assert hessian(lambda a: a.exp().sum(), x).shape == shape + shape
    assert vjp(lambda a: a * 2, x, sf.ones_like(x))[1].tolist() == sf.full_like(x, 2).tolist()
    assert jvp(lambda a: a * 2, x, sf.ones_like(x))[1].tolist() == sf.full_like(x, 2).tolist()


def test_the_hessian_of_a_symbol_of_known_size() -> None:
    def valley(a: Any) -> Any:
        return (100 * (a[1:] - a[:-1] ** 2) ** 2 + (1 - a[:-1]) ** 2).sum()

    x, p = draw(4), sf.placeholder((4,), "float64", name="p")
    found = sf.compile([p], [hessian(valley, p), jacobian(lambda a: a[1:] * a[0], p)])(x)
    close(found[0], hessian(valley, x))
    close(found[1], jacobian(lambda a: a[1:] * a[0], x))


def test_inputs_and_outputs_keep_their_form() -> None:
    x = sf.tensor(3.0)
    assert vjp(lambda a: a * a, x)[1].item() == jvp(lambda a: a * a, x)[1].item() == 6
    out, found = vjp(lambda a, b: [a * b], (x, x), (sf.tensor(1.0),))
    assert isinstance(out, tuple) and isinstance(found, tuple) and len(found) == 2
    assert [[j.item() for j in row] for row in jacobian(lambda a, b: (a * b,), [x, x])] == [[3, 3]]
    assert hessian(lambda a: a**3, x).item() == 18 and x.grad is None


def test_what_is_not_reached_is_zero_or_an_error() -> None:
    x, y = sf.ones(2), sf.ones(3)
    fn = lambda a, b: (a * 2, sf.ones(2))  # noqa: E731
    assert vjp(fn, (x, y), (x, x))[1][1].tolist() == [0, 0, 0]
    assert jvp(fn, (x, y), (x, y))[1][1].tolist() == [0, 0]
    assert jacobian(fn, (x, y))[1][0].shape == (2, 2)
    assert hessian(lambda a: a.sum(), x).tolist() == [[0, 0], [0, 0]]
    for strict in (
        lambda: vjp(fn, (x, y), (x, x), strict=True),
        lambda: jvp(fn, (x, y), (x, y), strict=True),
        lambda: jacobian(fn, (x, y), strict=True),
        lambda: hessian(lambda a: a.sum(), x, strict=True),
    ):
        with pytest.raises(AutogradError, match=r"do not depend.*test_autograd_functional\.py"):
            strict()


def test_create_graph_records() -> None:
    x = sf.tensor([1.0, 2.0], requires_grad=True)
    for found in (
        vjp(lambda a: a**3, x, sf.ones(2), create_graph=True)[1],
        jvp(lambda a: a**3, x, sf.ones(2), create_graph=True)[1],
        jacobian(lambda a: a**3, x, create_graph=True),
    ):
        x.grad = None
        found.sum().backward()
        assert x.grad is not None and x.grad.tolist() == [6, 12]
    assert not vjp(lambda a: a**3, x, sf.ones(2))[0].requires_grad
    assert not jacobian(lambda a: a**3, x).requires_grad
    with sf.no_grad():
        assert jacobian(lambda a: a**2, x).tolist() == [[2, 0], [0, 4]]


def test_a_tensor_that_the_function_closes_over_is_a_constant() -> None:
    x = sf.tensor([1.0, 2.0], requires_grad=True)
    assert jacobian(lambda a: a * x, x).tolist() == [[1, 0], [0, 2]] and x.grad is None


def test_refusals() -> None:
    x = sf.ones(2)
    with pytest.raises(ShapeError, match="vjp: v can be left out only"):
        vjp(lambda a: a * 2, x)
    with pytest.raises(ShapeError, match=r"jvp: v has the shapes \[\[3\]\].*inputs \[\[2\]\]"):
        jvp(lambda a: a * 2, x, sf.ones(3))
    with pytest.raises(ShapeError, match=r"hessian: .*\[2\].*jacobian"):
        hessian(lambda a: a * 2, x)
    with pytest.raises(TypeError, match=r"list.*test_autograd_functional\.py"):
        vjp(lambda a: a * 2, ([1.0],), x)


# -- symbols --------------------------------------------------------------------------------------


def test_of_symbols_of_unknown_size() -> None:
    x = sf.placeholder((None,), name="x")
    v = sf.placeholder((None,), name="v")
    cube = lambda a: a**3 + a.sum()  # noqa: E731
    f = sf.compile(
        [x, v],
        [
            vjp(cube, x, v)[1],
            jvp(cube, x, v)[1],
            jacobian(cube, x),
            hessian(lambda a: (a**3).sum(), x),
        ],
    )
    for n in (0, 1, 4):
        a, b = RNG.standard_normal(n).astype("f4"), RNG.standard_normal(n).astype("f4")
        matrix = np.diag(3 * a * a) + 1
        for found, wanted in zip(
            f(a, b), (b @ matrix, matrix @ b, matrix, np.diag(6 * a)), strict=True
        ):
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert f.compile_count == 1


def test_symbols_and_tensors_agree() -> None:
    x, w = draw(3, 2), draw(2, 4)
    sx, sw = sf.placeholder((3, 2), "float64", "x"), sf.placeholder((2, 4), "float64", "w")
    wanted = jacobian(layer, (x, w))
    rows = jacobian(layer, (sx, sw))
    f = sf.compile([sx, sw], [j for row in rows for j in row])
    for found, also in zip(f(x, w), [j for row in wanted for j in row], strict=True):
        close(found, also)


def test_under_jit() -> None:
    f = sf.jit(lambda a: hessian(lambda b: (b.sin() * a).sum(), a))
    x = draw(3)
    close(f(x), np.diag(-np.sin(x.numpy()) * x.numpy()))


def test_a_function_that_gives_no_tensor() -> None:
    for fn in (jacobian, hessian, vjp, jvp):
        with pytest.raises(TypeError, match="the function gave int"):
            fn(lambda x: 3, sf.ones(1))
    with pytest.raises(TypeError, match="the function gave str"):
        jacobian(lambda x: (x, "a"), sf.ones(1))
