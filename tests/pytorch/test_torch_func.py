"""What the tutorials of ``torch.func`` compute, written once for both libraries: ensembles,
gradients of samples, Jacobians, Hessians and neural tangent kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import pytree

torch = pytest.importorskip("torch", reason='PyTorch beside ours: pip install "staticflow[torch]"')

Case = Callable[["Library"], Any]


class Library:
    """One of the two, with the model of the tutorials and data in float64."""

    def __init__(self, lib: Any) -> None:
        self.lib, self.F, self.func = lib, lib.nn.functional, lib.func
        self.x, self.other = self.normal(1, 6, 1, 12, 12), self.normal(2, 3, 1, 12, 12)
        self.y = lib.tensor(np.arange(6) % 5)
        self.weight, self.bias = self.normal(3, 4, 4), self.normal(4, 4)
        self.point, self.points = self.normal(5, 4), self.normal(6, 5, 4)

    def normal(self, seed: int, *shape: int) -> Any:
        return self.lib.tensor(np.random.default_rng(seed).standard_normal(shape))

    def net(self, seed: int) -> Any:
        nn = self.lib.nn
        layers = nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(75, 5)
        net = nn.Sequential(*layers, nn.LogSoftmax(dim=1)).double()
        with self.lib.no_grad():
            for i, p in enumerate(net.parameters()):
                p.copy_(self.normal(10 * seed + i, *p.shape) * 0.3)
        return net

    def stacked(self) -> tuple[Any, Any]:
        nets = [self.net(seed) for seed in range(3)]
        params, buffers = self.func.stack_module_state(nets)
        return (params, buffers), lambda p, b, x: self.func.functional_call(nets[0], (p, b), (x,))

    def single(self, seed: int) -> tuple[Any, Any]:
        """Parameters, and the net of one sample as a function of them."""
        net = self.net(seed)
        call = self.func.functional_call
        params = {n: p.detach() for n, p in net.named_parameters()}
        return params, lambda p, x: call(net, p, (x.unsqueeze(0),)).squeeze(0)

    def predict(self, weight: Any, bias: Any, x: Any) -> Any:
        return self.lib.tanh(self.F.linear(x, weight, bias))


def ensemble(m: Library) -> Any:
    state, call = m.stacked()
    same = m.func.vmap(call, in_dims=(0, 0, None))(*state, m.x)
    own = m.func.vmap(call)(*state, m.lib.stack([m.x, m.x * 2, m.x + 1]))
    loss = m.func.grad(lambda p, b: m.F.nll_loss(call(p, b, m.x), m.y))
    return same, own, m.func.vmap(loss)(*state)


def gradients_of_samples(m: Library) -> Any:
    params, call = m.single(4)

    def loss(p: Any, x: Any, y: Any) -> Any:
        return m.F.nll_loss(call(p, x).unsqueeze(0), y.unsqueeze(0))

    both = m.func.vmap(m.func.grad_and_value(loss), (None, 0, 0))(params, m.x, m.y)
    chunks = m.func.vmap(m.func.grad(loss), (None, 0, 0), chunk_size=4)(params, m.x, m.y)
    return both, chunks


def jacobians(m: Library) -> Any:
    args = m.weight, m.bias, m.point
    both = m.func.jacrev, m.func.jacfwd
    of_all = [f(m.predict, argnums=n)(*args) for f in both for n in (2, (0, 1))]
    rows = m.func.vmap(m.func.jacrev(m.predict, argnums=2), (None, None, 0))
    named = m.func.jacrev(lambda d: d["a"] * d["b"])({"a": m.point, "b": m.point + 1})
    beside = m.func.jacrev(lambda x: (m.lib.sin(x), x * 2), has_aux=True)(m.point)
    return of_all, rows(m.weight, m.bias, m.points), named, beside


def jacobians_by_rows_of_the_identity(m: Library) -> Any:
    _, pullback = m.func.vjp(lambda x: m.predict(m.weight, m.bias, x), m.point)
    return m.func.vmap(pullback)(m.lib.eye(4).double())


def hessians(m: Library) -> Any:
    args, rows = (m.weight, m.bias, m.point), (m.weight, m.bias, m.points)
    twice = [f(f(m.predict, argnums=2), argnums=2)(*args) for f in (m.func.jacrev, m.func.jacfwd)]
    whole = m.func.hessian(m.predict, argnums=2)
    return twice, whole(*args), m.func.vmap(whole, (None, None, 0))(*rows)


def hessians_times_vectors(m: Library) -> Any:
    gradient = m.func.grad(lambda x: m.lib.sin(x).sum())
    back = m.func.vjp(gradient, m.point)[1](m.point + 2)
    return back, m.func.jvp(gradient, (m.point,), (m.point + 2,))


def tangent_kernel(m: Library) -> Any:
    params, call = m.single(5)
    rows = m.func.vmap(m.func.jacrev(call), (None, 0))
    a, b = ([j[n].flatten(2) for n in sorted(j)] for j in (rows(params, x) for x in (m.x, m.other)))
    pairs = list(zip(a, b, strict=True))
    kinds = ("Naf,Mbf->NMab", "Naf,Maf->NM", "Naf,Maf->NMa")
    return [sum(m.lib.einsum(kind, u, v) for u, v in pairs) for kind in kinds]


def tangent_kernel_by_products(m: Library) -> Any:
    params, call = m.single(5)

    def entry(x: Any, y: Any) -> Any:
        def product(vector: Any) -> Any:
            (back,) = m.func.vjp(lambda p: call(p, x), params)[1](vector)
            return m.func.jvp(lambda p: call(p, y), (params,), (back,))[1]

        return m.func.vmap(product)(m.lib.eye(5).double())

    return m.func.vmap(m.func.vmap(entry, (None, 0)), (0, None))(m.x, m.other)


CASES: list[Case] = [
    ensemble, gradients_of_samples, jacobians, jacobians_by_rows_of_the_identity, hessians,
    hessians_times_vectors, tangent_kernel, tangent_kernel_by_products,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_values_are_pytorchs(case: Case) -> None:
    theirs, _ = pytree.flatten(case(Library(torch)))
    ours, _ = pytree.flatten(case(Library(sf)))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        b = b.detach().numpy()
        assert tuple(a.shape) == b.shape
        np.testing.assert_allclose(a.detach().numpy(), b, 1e-10, 1e-12)
