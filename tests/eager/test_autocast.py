"""Blocks of ``autocast``: what they set, for whom, and what stays as it is."""

from __future__ import annotations

import threading
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy as np
import pytest

import staticflow as sf
import staticflow.nn.functional as F
from staticflow import nn
from staticflow.eager.mode import EAGER
from staticflow.ops.basics.arithmetic import cast

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
W = np.linspace(-2, 1, 6, dtype=np.float32).reshape(3, 2)


def _casts(graph: Any) -> int:
    """How many casts to bfloat16 a graph has."""
    return sum(n.op is cast and n.attrs["dtype"] is sf.bfloat16 for n in graph.nodes)


# -- blocks ---------------------------------------------------------------------------------------


def test_blocks_nest() -> None:
    x, w = sf.tensor(X), sf.tensor(W)
    assert not sf.is_autocast_enabled()
    with sf.autocast():
        assert (x @ w).dtype is sf.bfloat16
        with sf.autocast("cpu", dtype=sf.float16):
            assert (x @ w).dtype is sf.get_autocast_dtype() is sf.float16
            with sf.autocast(enabled=False):
                assert (x @ w).dtype is sf.float32
                assert not sf.is_autocast_enabled("cpu")
                with sf.autocast():  # of the dtype of the block around
                    assert (x @ w).dtype is sf.float16
        assert (x @ w).dtype is sf.get_autocast_dtype("cpu") is sf.bfloat16
    assert (x @ w).dtype is sf.float32
    assert sf.get_autocast_dtype() is sf.bfloat16


def test_an_error_ends_a_block() -> None:
    with pytest.raises(sf.ShapeError), sf.autocast():
        sf.tensor(X) @ sf.tensor(X)
    assert not sf.is_autocast_enabled()


def test_a_decorated_function_and_a_generator() -> None:
    x, w = sf.tensor(X), sf.tensor(W)

    @sf.autocast("cpu")
    def product() -> Any:
        return x @ w

    @sf.amp.autocast("cpu", sf.float16)
    def products() -> Any:
        yield x @ w
        yield x @ w

    assert product().dtype is sf.bfloat16
    for y in products():
        assert y.dtype is sf.float16
        assert not sf.is_autocast_enabled()


def test_other_threads_are_not_cast_for() -> None:
    found = []
    with sf.autocast():
        other = threading.Thread(target=lambda: found.append((sf.tensor(X) @ sf.tensor(W)).dtype))
        other.start()
        other.join()
    assert found == [sf.float32]


def test_what_it_refuses() -> None:
    with pytest.raises(sf.ArgumentError, match="must be 'cpu' or 'cuda', not 'xpu'"):
        sf.autocast("xpu")
    with pytest.raises(sf.DTypeError, match="must be bfloat16 or float16, not float32"):
        sf.autocast("cpu", dtype=sf.float32)
    with pytest.raises(sf.DTypeError, match="'enabled' must be bool"):
        sf.autocast("cpu", enabled="no")


def test_a_block_for_a_gpu_casts_to_float16() -> None:
    assert sf.get_autocast_dtype("cuda") is sf.float16
    assert sf.get_autocast_dtype("cpu") is sf.get_autocast_dtype() is sf.bfloat16
    assert sf.amp.is_autocast_available("cuda") and not sf.amp.is_autocast_available("xpu")
    x, w = sf.tensor(X), sf.tensor(W)
    with sf.autocast("cuda"):
        assert (x @ w).dtype is sf.float16 and sf.is_autocast_enabled("cuda")
        with sf.autocast("cpu"):  # whose dtype is that of the block around
            assert (x @ w).dtype is sf.get_autocast_dtype("cpu") is sf.float16
    with sf.autocast("cuda", dtype=sf.bfloat16):
        assert (x @ w).dtype is sf.bfloat16
    assert (x @ w).dtype is sf.float32


def test_float64_and_integers_stay() -> None:
    wide, whole = sf.ones(3, 3, dtype=sf.float64), sf.ones(3, 3, dtype=sf.int64)
    with sf.autocast():
        assert (wide @ wide).dtype is sf.float64
        assert F.mse_loss(wide, wide).dtype is sf.float64
        assert (whole @ whole).dtype is sf.int64


# -- parameters -----------------------------------------------------------------------------------


def _counted(run: Any) -> int:
    """How many casts to bfloat16 ``run`` makes eagerly."""
    count = 0
    general = EAGER.general

    def counting(op: Any, args: Any, attrs: Any = MappingProxyType({})) -> Any:
        nonlocal count
        count += op is cast and attrs.get("dtype") is sf.bfloat16 and not sf.is_autocast_enabled()
        return general(op, args, attrs)

    # every operation is general
    with mock.patch.multiple(EAGER, general=counting, forms=None, ran=-(10**9)):
        run()
    return count


def test_a_parameter_is_cast_once() -> None:
    x, w = sf.tensor(X), sf.tensor(W, requires_grad=True)

    def thrice(**options: Any) -> None:
        with sf.autocast(**options):
            for _ in range(3):
                cast(x, dtype=sf.bfloat16) @ w

    def twice() -> None:
        for _ in range(2):
            thrice()

    own = 3  # of x
    assert _counted(thrice) == own + 1
    assert _counted(lambda: thrice(cache_enabled=False)) == own + 3
    assert _counted(twice) == 2 * (own + 1)


def test_a_changed_parameter_is_cast_again() -> None:
    x, w = sf.tensor(X), sf.tensor(W, requires_grad=True)
    with sf.autocast():
        before = x @ w
        with sf.no_grad():
            w.mul_(2)
        np.testing.assert_allclose(
            (x @ w).float().numpy(force=True), 2 * before.float().numpy(force=True)
        )
        w.data = sf.tensor(W)
        np.testing.assert_array_equal(
            (x @ w).float().numpy(force=True), before.float().numpy(force=True)
        )


def test_two_backwards_go_through_one_cast() -> None:
    x, w = sf.tensor(X), sf.tensor(W, requires_grad=True)
    with sf.autocast():
        with sf.no_grad():
            x @ w  # whose cast has no history
        one, two = (x @ w).float().sum(), (x @ w).float().sum()
    one.backward()
    two.backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy()[:, 0], 2 * X.sum(0), rtol=0.02, atol=0.02)


def test_a_graph_casts_a_parameter_once() -> None:
    w = sf.tensor(W, requires_grad=True)
    x, y = sf.placeholder((4, 3)), sf.placeholder((4, 3))
    with sf.autocast():
        out = (x @ w) + (y @ w)
    assert _casts(sf.compile([x, y], out).graph) == 3


# -- derivatives ----------------------------------------------------------------------------------


def test_gradients_are_of_the_parameters_dtype() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with sf.autocast():
        loss = F.cross_entropy(model(sf.tensor(X)), sf.tensor([0, 1, 1, 0]))
        assert loss.dtype is sf.float32
        loss.backward()  # which is not cast for
    eager = [p.grad for p in model.parameters()]
    assert {g.dtype for g in eager if g is not None} == {sf.float32}
    x = sf.placeholder((4, 3))
    with sf.autocast():
        loss = F.cross_entropy(model(x), sf.tensor([0, 1, 1, 0]))
        grads = sf.grad(loss, [*model.parameters()])
    for a, b in zip(eager, sf.compile([x], grads)(X), strict=True):
        assert b.dtype is sf.float32
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0.02, atol=1e-3)


def test_a_checkpoint_computes_again_as_it_did() -> None:
    w = sf.tensor(W, requires_grad=True)
    x = sf.tensor(X)
    seen = []

    def part(t: Any) -> Any:
        y = (t @ w).tanh()
        seen.append(y.dtype)
        return y.float().square()

    with sf.autocast():
        out = sf.utils.checkpoint.checkpoint(part, x)
    out.sum().backward()
    assert seen == [sf.bfloat16, sf.bfloat16]
    assert w.grad is not None and w.grad.dtype is sf.float32


def test_vmap_and_derivatives_of_functions() -> None:
    x, w = sf.tensor(X), sf.tensor(W)
    with sf.autocast():
        rows = sf.vmap(lambda row: row @ w)(x)
        slope = sf.func.grad(lambda t: (x @ t).float().sum())(w)
        _, tangent = sf.func.jvp(lambda t: x @ t, (w,), (w,))
    assert rows.dtype is tangent.dtype is sf.bfloat16
    assert slope.dtype is sf.float32
    np.testing.assert_allclose(rows.float().numpy(), X @ W, rtol=0.02, atol=0.02)


def test_a_function_of_the_users() -> None:
    seen = []

    class Product(sf.autograd.Function):
        @staticmethod
        @sf.amp.custom_fwd
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @sf.amp.custom_bwd
        def backward(ctx: Any, ct: Any) -> Any:
            a, b = ctx.saved_tensors
            seen.append((a.mT @ ct).dtype)
            return ct @ b.mT, a.mT @ ct

    class InFloat32(Product):
        forward = staticmethod(sf.amp.custom_fwd(Product.forward, cast_inputs=sf.float32))

    w = sf.tensor(W, requires_grad=True)
    for function, dtype in ((Product, sf.bfloat16), (InFloat32, sf.float32)):
        with sf.autocast():
            y = function.apply(sf.tensor(X), w)
            assert y.dtype is dtype
        y.float().sum().backward()
        assert seen.pop() is dtype
    assert w.grad is not None and w.grad.dtype is sf.float32


# -- graphs ---------------------------------------------------------------------------------------


def test_jit_traces_for_each_block() -> None:
    w = sf.tensor(W)
    product = sf.jit(lambda t: t @ w)
    for _ in range(2):
        with sf.autocast():
            assert product(X).dtype is sf.bfloat16
        assert product(X).dtype is sf.float32
        with sf.autocast(dtype=sf.float16):
            assert product(X).dtype is sf.float16
    assert product.trace_count == 3


def test_compiling_inside_of_a_block_changes_nothing() -> None:
    x, w = sf.placeholder((4, 3)), sf.tensor(W)
    out = F.linear(x, w.t()).sum()
    with sf.autocast():
        program = sf.compile([x], out)
    assert program(X).dtype is sf.float32
    assert not _casts(program.graph)
    np.testing.assert_allclose(program(X).item(), (X @ W).sum(), rtol=1e-5)


@pytest.mark.parametrize("loop", ["scan", "fori_loop", "while_loop", "map"])
def test_bodies_of_loops(loop: str) -> None:
    w = sf.tensor(np.eye(3, dtype=np.float32) / 2)

    def run(x: Any) -> Any:
        def half(c: Any) -> Any:
            return (c @ w).float()

        if loop == "scan":
            return sf.scan(lambda c, _: (half(c), None), x, length=3)[0]
        if loop == "fori_loop":
            return sf.fori_loop(0, 3, lambda i, c: half(c), x)
        if loop == "map":
            return sf.map(lambda row: half(row), x)
        return sf.while_loop(lambda c: c.sum() > 1, half, x)

    p = sf.placeholder((4, 3))
    with sf.autocast():
        eager, out = run(sf.tensor(abs(X))), run(p)
        again = sf.jit(run)(sf.tensor(abs(X)))
    graph = sf.compile([p], out)
    np.testing.assert_array_equal(eager.numpy(), graph(abs(X)).numpy())
    np.testing.assert_array_equal(eager.numpy(), again.numpy())
    assert "bf16" in str(graph.graph)


def test_a_carry_of_another_dtype_is_refused() -> None:
    w = sf.tensor(np.eye(3, dtype=np.float32))
    with sf.autocast(), pytest.raises(sf.DTypeError, match="bf16"):
        sf.scan(lambda c, _: (c @ w, None), sf.tensor(X), length=2)


def test_in_place_forms_are_not_cast_for() -> None:
    for x in (sf.zeros(4, 2), sf.placeholder((4, 2))):
        with sf.autocast():
            assert x.addmm_(sf.tensor(X), sf.tensor(W)).dtype is sf.float32
    exact = sf.zeros(4, 2)
    with sf.autocast():
        exact.addmm_(sf.tensor(X), sf.tensor(W))
    np.testing.assert_allclose(exact.numpy(), X @ W, rtol=1e-5, atol=1e-6)


# -- training -------------------------------------------------------------------------------------


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x).mean(1))


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)), (8, 6)),
    "lenet": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3),
        ),
        (8, 1, 8, 8),
    ),
    "transformer": (_Encoder, (8, 4, 6)),
}  # fmt: skip


def _losses(model: str, dtype: Any, mode: str) -> list[float]:
    sf.manual_seed(0)
    net = MODELS[model][0]()
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=MODELS[model][1]).astype(np.float32), np.arange(8) % 3
    opt = sf.optim.Adam(net.parameters(), lr=0.01)
    block = sf.autocast("cpu", dtype=dtype, enabled=dtype is not None)
    losses = []
    if mode == "compiled":
        xs = sf.placeholder(x.shape)
        with block:
            loss = F.cross_entropy(net(xs), sf.tensor(y))
        step = sf.compile([xs], loss, updates=opt.minimize(loss))
        return [step(x).item() for _ in range(15)]
    for _ in range(15):
        opt.zero_grad()
        with block:
            loss = F.cross_entropy(net(sf.tensor(x)), sf.tensor(y))
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("model", MODELS)
def test_a_model_learns_as_in_float32(model: str) -> None:
    exact = _losses(model, None, "compiled")
    assert exact[-1] < exact[0]
    eager, compiled = (_losses(model, sf.bfloat16, mode) for mode in ("eager", "compiled"))
    np.testing.assert_allclose(eager, exact, atol=0.03)
    np.testing.assert_allclose(compiled, eager, atol=0.01)
