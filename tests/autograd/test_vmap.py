"""`vmap`: where rows lie, what is refused, and what it is used with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ArgumentError, DimRangeError, DTypeError, ShapeError, SymbolicError

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def xs() -> sf.Tensor:
    return sf.from_numpy(X.copy())


@pytest.mark.parametrize(
    ("in_dims", "out_dims", "args", "fn", "wanted"),
    [
        (0, 0, (X,), lambda x: x.sum(), X.sum(1)),
        (-1, 0, (X,), lambda x: x.sum(), X.sum(0)),
        ((0, None), 0, (X, X), lambda a, b: (a + b).sum(0), X[:, None].repeat(2, 1).sum(1) + X.sum(0)),
        ((0, 1), 1, (X, X.T), lambda a, b: a * b, (X * X).T),
        (0, -1, (X,), lambda x: x * 2, 2 * X.T),
        (({"a": 0, "b": None},), 0, ({"a": X, "b": 2.0},), lambda d: d["a"] * d["b"], 2 * X),
        (0, 0, (X,), lambda x: sf.ones(2), np.ones((2, 2), np.float32)),
    ],
)  # fmt: skip
def test_where_rows_lie(in_dims: Any, out_dims: Any, args: Any, fn: Any, wanted: Any) -> None:
    given = sf.pytree.map_tree(
        lambda a: sf.from_numpy(np.ascontiguousarray(a)) if isinstance(a, np.ndarray) else a, args
    )
    for mapped in (sf.vmap(fn, in_dims, out_dims), sf.jit(sf.vmap(fn, in_dims, out_dims))):
        np.testing.assert_allclose(mapped(*given).numpy(), wanted)


def test_out_dims_none_gives_what_is_the_same_once() -> None:
    found = sf.vmap(lambda x: (x, sf.ones(3)), out_dims=(1, None))(xs())
    assert [y.shape for y in found] == [(3, 2), (3,)]


def test_keyword_arguments_are_handed_on() -> None:
    assert sf.vmap(lambda x, y: (x + y.shape[0]).sum())(xs(), y=xs()).tolist() == [9.0, 18.0]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_chunks(size: int) -> None:
    wanted = sf.vmap(lambda x: (x.exp(), x.sum()))(xs())
    found = sf.vmap(lambda x: (x.exp(), x.sum()), chunk_size=size)(xs())
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda x: sf.vmap(abs, [0])(x), ArgumentError, "must be an int, or a tuple"),
        (lambda x: sf.vmap(abs, None)(x), ArgumentError, "must be an int, or a tuple"),
        (lambda x: sf.vmap(abs, (None,))(x), ArgumentError, "names no rows"),
        (lambda x: sf.vmap(lambda: 1)(), ArgumentError, "without arguments"),
        (lambda x: sf.vmap(abs, (0,))(x, x), ArgumentError, "does not fit the structure"),
        (lambda x: sf.vmap(lambda a, b: a)(x, 2.0), ArgumentError, "2.0, which is no tensor"),
        (lambda x: sf.vmap(abs, 2)(x), DimRangeError, "from -2 to 1"),
        (lambda x: sf.vmap(lambda a, b: a)(x, x.T), ShapeError, "2 and 3 rows"),
        (lambda x: sf.vmap(abs, out_dims=None)(x), ArgumentError, "differs from row to row"),
        (lambda x: sf.vmap(abs, out_dims=(0, 0))(x), ArgumentError, "out_dims"),
        (lambda x: sf.vmap(lambda a: 1)(x), DTypeError, "gives int"),
        (lambda x: sf.vmap(abs, randomness="any")(x), ArgumentError, "randomness is 'any'"),
        (lambda x: sf.vmap(abs, chunk_size=0)(x), ArgumentError, "chunk_size is 0"),
        (lambda x: sf.vmap(abs, chunk_size=float("nan"))(x), DTypeError, "'chunk_size' must be int"),
        (lambda x: sf.vmap(abs, chunk_size=2.5)(x), DTypeError, "must be int . None, not float"),
        (lambda x: sf.vmap(3)(x), DTypeError, "takes a function"),
        (lambda x: sf.vmap(lambda a: a + sf.rand(3))(x), ArgumentError, 'randomness is "error"'),
        (lambda x: sf.vmap(lambda a: a[a > 1])(x), SymbolicError, "differ from row to row"),
        (lambda x: sf.vmap(lambda a: a.add_(1))(x), SymbolicError, "argument in place"),
        (lambda x: sf.vmap(lambda a: -a if a.sum() > 0 else a)(x), SymbolicError, "known only"),
        (lambda x: sf.vmap(sf.nn.BatchNorm1d(3))(x[None]), SymbolicError, "running statistics"),
    ],
)  # fmt: skip
def test_refused(make: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        make(xs())


def test_gradients_of_samples() -> None:
    model = sf.nn.Sequential(sf.nn.Linear(3, 4), sf.nn.Tanh(), sf.nn.Linear(4, 1))
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters: Any, x: Any) -> Any:
        return (sf.func.functional_call(model, parameters, x) ** 2).sum()

    found = sf.vmap(sf.func.grad(loss), (None, 0))(parameters, xs())
    for row in range(2):
        wanted = sf.func.grad(loss)(parameters, xs()[row])
        for name in wanted:
            np.testing.assert_allclose(found[name][row].numpy(), wanted[name].numpy(), rtol=1e-5)


def test_models_are_stacked() -> None:
    models = [sf.nn.Sequential(sf.nn.Linear(3, 2), sf.nn.BatchNorm1d(2)).eval() for _ in range(3)]
    models[1][0].bias.data.fill_(5.0)
    parameters, buffers = sf.func.stack_module_state(models)
    assert [*parameters] == [name for name, _ in models[0].named_parameters()]
    assert parameters["0.bias"][1].tolist() == [5.0, 5.0]
    assert all(p.requires_grad and p.is_leaf for p in parameters.values())
    assert buffers["1.running_mean"].shape == (3, 2)
    assert not buffers["1.running_mean"].requires_grad

    def run(parameters: Any, buffers: Any, x: Any) -> Any:
        return sf.func.functional_call(models[0], (parameters, buffers), x)

    found = sf.vmap(run, (0, 0, None))(parameters, buffers, xs())
    for row, model in zip(found, models, strict=True):
        np.testing.assert_allclose(row.detach(), model(xs()).detach(), rtol=1e-5, atol=1e-6)
    found.sum().backward()
    models[2](xs()).sum().backward()
    np.testing.assert_allclose(
        parameters["0.weight"].grad[2], models[2][0].weight.grad, rtol=1e-4, atol=1e-6
    )
    with sf.no_grad():
        parameters["0.bias"].add_(1.0)
    assert models[1][0].bias.tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("models", "says"),
    [
        ([], "there are no models"),
        ([sf.nn.Linear(2, 2), sf.nn.Identity()], "different classes"),
        ([sf.nn.Linear(2, 2), sf.nn.Linear(2, 2).eval()], "different modes of training"),
        ([sf.nn.Linear(2, 2), sf.nn.Linear(2, 2, bias=False)], "different parameters"),
        ([sf.nn.Linear(2, 2), sf.nn.Linear(2, 2).requires_grad_(False)], "require a gradient of"),
    ],
)
def test_models_that_differ_are_not_stacked(models: Any, says: str) -> None:
    with pytest.raises(sf.ArgumentError, match=f"stack_module_state: .*{says}"):
        sf.func.stack_module_state(models)


def test_gradients_reach_what_the_function_captures() -> None:
    w = sf.ones(3, requires_grad=True)
    v = w * 2  # which has a history
    sf.vmap(lambda x: (x * v).sum())(xs()).sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), 2 * X.sum(0))


def test_inside_each_other() -> None:
    outer = sf.vmap(lambda a: sf.vmap(lambda b: a * b)(a))
    np.testing.assert_allclose(outer(xs()).numpy(), X[:, :, None] * X[:, None, :])
    np.testing.assert_allclose(sf.jit(outer)(xs()).numpy(), X[:, :, None] * X[:, None, :])


def test_draws() -> None:
    sf.manual_seed(0)
    same = sf.vmap(lambda x: x * 0 + sf.rand(3), randomness="same")(xs())
    different = sf.vmap(lambda x: x * 0 + sf.rand(3), randomness="different")(xs())
    again = sf.vmap(lambda x: x * 0 + sf.rand(3), randomness="different")(xs())
    assert same[0].tolist() == same[1].tolist()
    assert different[0].tolist() != different[1].tolist()
    assert different.tolist() != again.tolist()


def collatz(n: Any) -> Any:
    return sf.while_loop(
        lambda n, k: n != 1, lambda n, k: (sf.where(n % 2 == 0, n // 2, 3 * n + 1), k + 1), (n, 0)
    )[1]


def test_a_while_loop_goes_on_until_all_rows_are_done() -> None:
    ns = sf.tensor([1, 6, 7, 27])
    for mapped in (sf.vmap(collatz), sf.jit(sf.vmap(collatz))):
        assert mapped(ns).tolist() == [0, 8, 16, 111]


def test_scans_and_branches() -> None:
    def fn(x: Any) -> Any:
        last, sums = sf.scan(lambda c, v: (c + v, c * v), sf.tensor(0.0), x)
        return sf.cond(last > 4, lambda: sums * 2, lambda: sums - 1), sf.map(lambda v: v * v, x)

    for mapped in (sf.vmap(fn), sf.jit(sf.vmap(fn))):
        chosen, squares = mapped(xs())
        np.testing.assert_allclose(chosen.numpy(), [[-1, -1, 1], [0, 24, 70]])
        np.testing.assert_allclose(squares.numpy(), X * X)


def test_unknown_numbers_of_rows() -> None:
    x = sf.placeholder((None, 3), name="x")
    f = sf.compile([x], sf.vmap(sf.func.grad(lambda a: (a**3).sum()))(x))
    for n in (0, 1, 4):
        assert f(sf.ones(n, 3)).tolist() == [[3.0] * 3] * n


def test_functions_with_a_backward_of_their_own_and_hooks() -> None:
    class Triple(sf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return ct * 3

    def fn(x: Any) -> Any:
        y = Triple.apply(x)
        y.register_hook(lambda ct: ct * ct.sum())  # of one row
        return (y * x.detach()).sum()

    wanted = 3 * X * X.sum(1, keepdims=True)
    x = xs().requires_grad_()
    sf.vmap(fn)(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), wanted)
    p = sf.placeholder((2, 3), name="p")
    f = sf.compile([p], sf.grad(sf.vmap(fn)(p).sum(), p))
    np.testing.assert_allclose(f(xs()).numpy(), wanted)


def test_draws_outside_are_the_same_for_all_rows() -> None:
    p = sf.placeholder((2, 3), name="p")
    noise = sf.rand_like(p[0])
    a, b = sf.compile([p], [sf.vmap(lambda x: x + noise)(p), noise])(xs())
    np.testing.assert_allclose(a.numpy(), X + b.numpy(), rtol=1e-6)


@pytest.mark.parametrize("rows", [None, 2])
def test_convolutions_by_weights_of_their_own(rows: Any) -> None:
    x, w = sf.randn(2, 1, 3, 5), sf.randn(2, 4, 3, 2)
    each = lambda x, w: sf.nn.functional.conv1d(x, w).sin().sum()  # noqa: E731
    wanted = [sf.func.grad(each, (0, 1))(x[i], w[i]) for i in range(2)]
    ps = [sf.placeholder((rows, *v.shape[1:]), name=n) for n, v in (("x", x), ("w", w))]
    found = sf.compile(ps, sf.vmap(sf.func.grad(each, (0, 1)))(*ps))(x, w)
    for row in range(2):
        for a, b in zip(found, wanted[row], strict=True):
            np.testing.assert_allclose(a[row].numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


# -- sizes that values say ------------------------------------------------------------------------


def test_in_a_graph_a_size_may_come_of_values_that_are_the_same_for_all_rows() -> None:
    xs, mask, lengths = sf.randn(4, 3, 2), sf.tensor([True, False, True]), sf.tensor([2, 3])

    def walk(rows: Any) -> Any:
        return sf.scan(lambda c, x: (c + x, c * 2), sf.zeros(2), rows, lengths=lengths)

    for fn in (walk, lambda rows: rows[mask] * 2, lambda rows: rows[mask][:, 0].cumsum(0)):
        found, single = sf.jit(sf.vmap(fn))(xs), [fn(x) for x in xs]
        leaves = found if isinstance(found, tuple) else (found,)
        for k, leaf in enumerate(leaves):
            wanted = [v[k] if isinstance(v, tuple) else v for v in single]
            assert sf.equal(leaf, sf.stack(wanted))
        with pytest.raises(sf.SymbolicError, match=r"the same for all.*sf\.jit\(sf\.vmap\(fn\)\)"):
            sf.vmap(fn)(xs)
    x, m = sf.placeholder((None, 3), name="x"), sf.placeholder((3,), "bool", name="m")
    loss = (sf.vmap(lambda row: row[m])(x) ** 2).sum()
    assert sf.equal(sf.compile([x, m], sf.grad(loss, x))(xs[..., 0], mask), 2 * xs[..., 0] * mask)


def test_lengths_that_differ_from_row_to_row_are_refused_with_what_to_write() -> None:
    xs, lengths = sf.randn(4, 3, 2), sf.tensor([[1, 2]] * 4)

    def walk(rows: Any, lengths: Any) -> Any:
        return sf.scan(lambda c, x: (c + x, c), sf.zeros(2), rows, lengths=lengths)[0]

    for run in (sf.vmap(walk), sf.jit(sf.vmap(walk))):
        with pytest.raises(sf.SymbolicError, match=r"lengths of a scan.*where.*at .*test_vmap"):
            run(xs, lengths)
    assert sf.map(lambda pair: walk(*pair), (xs, lengths)).shape == (4, 2)


def test_residuals_of_least_squares_are_those_of_each_row() -> None:
    a, b = sf.randn(3, 4, 2, dtype="float64"), sf.randn(3, 4, 1, dtype="float64")

    def residuals(a: Any, b: Any) -> Any:
        return sf.linalg.lstsq(a, b).residuals

    wanted = sf.stack([residuals(*pair) for pair in zip(a, b, strict=True)])
    for run in (sf.vmap(residuals), sf.jit(sf.vmap(residuals))):
        assert sf.allclose(run(a, b), wanted)
        with pytest.raises(sf.ArgumentError, match=r"lstsq: the residuals .* full rank"):
            run(a * 0, b)
