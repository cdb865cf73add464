"""Tensors with a history that meet a symbol: in a graph they are what the tape recorded."""

import numpy as np
import pytest

import staticflow as sf
from staticflow.nn import functional as F


def _changed_in_parts(w):
    v = w * 1
    v[0] += 3
    v[:, 1].mul_(2)
    return v


def _changed_whole(w):
    v = w.clone()
    v.mul_(w)
    return v


_CONSTANT = sf.tensor(np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4))
_START = _CONSTANT[1] + 1
_CHOSEN, _ROWS = _CONSTANT > 0, sf.tensor([0, 2])


def _doubled(w):
    return sf.while_loop(lambda c, n: n < 3, lambda c, n: (c * w[0], n + 1), (_START, 0))[0]


PROGRAMS = {
    "t": lambda x, w: x @ w.t(),
    "T": lambda x, w: x @ w.T,
    "columns": lambda x, w: x[:, :2] @ w[:, :2].t(),
    "scaled": lambda x, w: x @ (w * 2).t(),
    "reshaped": lambda x, w: x * w.reshape(-1)[:4],
    "rows": lambda x, w: w[0] * w[1] * x,
    "a view beside a constant": lambda x, w: x @ (w * _CONSTANT).T,
    "softmax": lambda x, w: x @ F.softmax(w, -1).T,
    "joined": lambda x, w: x @ sf.cat([w, w]).T,
    "over its norm": lambda x, w: x @ (w / w.norm()).T,
    "several results": lambda x, w: x * w.max(0).values * w.sort(0)[0][0],
    "parts changed in place": lambda x, w: x @ _changed_in_parts(w).T,
    "changed in place": lambda x, w: x @ _changed_whole(w).T,
    "a fused function": lambda x, w: x @ F.layer_norm(w, (4,)).T,
    "unbound": lambda x, w: x * w.unbind(0)[1],
    "cast": lambda x, w: x @ w.half().float().T,
    "gathered rows": lambda x, w: x @ w[_ROWS].T,
    "chosen": lambda x, w: x @ sf.where(_CHOSEN, w, 0.0).T,
    "products of itself": lambda x, w: x @ (w.T @ w),
    "half detached": lambda x, w: x @ (w * w.detach()).T,
    "a loop": lambda x, w: x * sf.scan(lambda c, row: (c * row, c), _START, w)[0],
    "a loop from a row": lambda x, w: x * sf.scan(lambda c, row: (c * row, c), w[0], w)[0],
    "a loop with a condition": lambda x, w: x * _doubled(w),
    "beside an array": lambda x, w: x @ (w * _CONSTANT.numpy()).T,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_the_eager_mode_also_after_updates(name):
    program = PROGRAMS[name]
    rng = np.random.default_rng(0)
    w = sf.nn.Parameter(sf.tensor(rng.standard_normal((3, 4), np.float32)))
    given = sf.tensor(rng.standard_normal((5, 4), np.float32))
    x = sf.placeholder((None, 4), name="x")
    y = program(x, w)
    run = sf.compile([x], [y, sf.grad((y * y).sum(), w)])
    for _ in range(2):
        eager = program(given, w)
        (wanted,) = sf.autograd.grad((eager * eager).sum(), w)
        value, gradient = run(given)
        np.testing.assert_allclose(value.numpy(), eager.detach().numpy(), 1e-4, 1e-5)
        np.testing.assert_allclose(gradient.numpy(), wanted.numpy(), 1e-4, 1e-5)
        with sf.no_grad():
            w.add_(sf.tensor(rng.standard_normal((3, 4), np.float32)))


@pytest.mark.parametrize("make", [lambda w: w.t(), lambda w: w.t() * 2, lambda w: (w.T + 1).exp()])
def test_a_jitted_function_takes_it_as_it_is_and_gradients_go_on_through_its_tape(make):
    w = sf.nn.Parameter(sf.tensor([[1.0, -2.0], [0.5, 3.0], [0.1, 0.2]]))
    x, v = sf.ones(2, 2), make(w)

    def f(x):
        return (x @ v).sin().sum()

    run = sf.jit(f)
    for _ in range(2):
        losses = f(x), run(x)
        assert losses[0].item() == pytest.approx(losses[1].item())
        grads = [sf.autograd.grad(loss, w, retain_graph=True)[0].numpy() for loss in losses]
        np.testing.assert_allclose(*grads, rtol=1e-5)
        with sf.no_grad():
            w.mul_(1.5)  # seen by the view, and by nothing that was computed


def test_one_tensor_is_one_node_so_that_it_has_a_gradient():
    w, x = sf.nn.Parameter(sf.ones(2)), sf.placeholder((2,), name="x")
    v = w * 2
    run = sf.compile([x], sf.grad((x * v * v).sum(), [v, w]))
    assert [g.tolist() for g in run(sf.tensor([1.0, 3.0]))] == [[4, 12], [8, 24]]


def test_the_leaf_was_changed_since():
    w, x = sf.nn.Parameter(sf.ones(2)), sf.placeholder((2,), name="x")
    v = w * 2
    with sf.no_grad():
        w.add_(1)
    with pytest.raises(sf.SymbolicError, match=r"was changed in place since.*sf\.symbol"):
        x * v


def _cancelling(make):
    w = sf.tensor(np.random.default_rng(0).standard_normal(1000), dtype=sf.float32).requires_grad_()
    return w, make(w)


ROUNDED = {
    "softmax": lambda w: w.softmax(0) - w.exp() / w.exp().sum(),
    "far terms": lambda w: (w + 1e4).sum() - (w.sum() + 1e7),
}


@pytest.mark.parametrize("make", ROUNDED.values(), ids=ROUNDED)
def test_rounding_is_no_change_of_the_leaf(make):
    """Where equal terms cancel, noise is left, and an op's reference has other noise than the op."""
    _, v = _cancelling(make)
    run = sf.compile([], sf.symbol(v) + 0)
    np.testing.assert_allclose(run().numpy(), v.detach().numpy(), rtol=0, atol=20)


CHANGED = {
    "a difference": lambda w: w * 2 - w,
    "a step": lambda w: (w * 4).floor() - w * 0,
    "behind large numbers": lambda w: (w * 1e9).tanh() + w,
    "centred squares": lambda w: ((w - w.mean()) ** 2).sum(),
}


@pytest.mark.parametrize("make", CHANGED.values(), ids=CHANGED)
def test_a_change_of_the_leaf_is_seen_beside_rounding(make):
    w, v = _cancelling(make)
    with sf.no_grad():
        w[3] += 3
    with pytest.raises(sf.SymbolicError, match="was changed in place since"):
        sf.symbol(v)


class _Double(sf.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, ct):
        return ct * 2


def _freed(w):
    v = w.exp()
    v.sum().backward()
    return v


def _hooked(w):
    v = w * 2
    v.register_hook(lambda g: g)
    return v * 1


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda w: w + sf.ones(2), "the tape does not keep argument 2 of add"),
        (lambda w: sf.where(w > 0, w, 0.0), "argument 1 of where was computed at once, too"),
        (lambda w: w / w.detach().norm(), "argument 2 of div was computed at once, too"),
        (_freed, "a backward has freed what the tape had saved"),
        (_hooked, "MulBackward0 has a hook, which a graph does not call"),
        (_Double.apply, "_DoubleBackward is no operation of graphs"),
        (sf.jit(lambda w: w * 2), "JitBackward is no operation of graphs"),
    ],
)
def test_what_the_tape_cannot_say_is_refused_with_what_to_write(make, why):
    w, x = sf.nn.Parameter(sf.ones(2)), sf.placeholder((2,), name="x")
    with pytest.raises(sf.SymbolicError, match=f"{why}.*Begin with sf.symbol.w."):
        x * make(w)
