"""Gradients that are parts of what the backward computed: taken as they are where nobody else has
them, and never of one memory with what somebody has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import ownership


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "LARGE", 1)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the gradients that are copied."""
    made: list[tuple[int, ...]] = []
    make_copy = ownership.make_copy
    monkeypatch.setattr(ownership, "make_copy", lambda a: made.append(a.shape) or make_copy(a))
    turned = ownership.row_major
    monkeypatch.setattr(ownership, "row_major", lambda a: made.append(a.shape) or turned(a))
    return made


def leaf(*shape: int, seed: int = 0) -> sf.Tensor:
    return sf.from_numpy(np.random.default_rng(seed).standard_normal(shape)).requires_grad_()


def gradients(*leaves: sf.Tensor) -> list[Any]:
    found = []
    for x in leaves:
        assert x.grad is not None
        found.append(x.grad.numpy())
    return found


JOINS: dict[str, tuple[Callable[..., Any], Callable[..., list[Any]], int]] = {
    "cat": (lambda x, y: sf.cat([x, y]), lambda c: [c[:3], c[3:]], 0),
    "cat of columns": (lambda x, y: sf.cat([x, y], 1), lambda c: [c[:, :4], c[:, 4:]], 2),
    "stack": (lambda x, y: sf.stack([x, y]), lambda c: [c[0], c[1]], 0),
    "reshape": (lambda x, y: (x + y).reshape(4, 3), lambda c: [c.reshape(3, 4)] * 2, 1),
    "twice": (lambda x, y: sf.cat([x, y, x]), lambda c: [c[:3] + c[6:], c[3:6]], 0),
    "flat and whole": (
        lambda x, y: sf.cat([x.reshape(12), y.t().reshape(12)]),
        lambda c: [c[:12].reshape(3, 4), c[12:].reshape(4, 3).T],
        1,
    ),
}


@pytest.mark.parametrize("name", JOINS)
def test_parts_are_taken(name: str, copies: list[Any]) -> None:
    join, wanted, copied = JOINS[name]
    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    joined = join(x, y)
    by = np.random.default_rng(2).standard_normal(joined.shape)
    (joined * sf.from_numpy(by)).sum().backward()
    for found, right in zip(gradients(x, y), wanted(by), strict=True):
        np.testing.assert_array_equal(found, right)
        assert found.flags.writeable and found.flags.c_contiguous
    assert len(copies) == copied
    a, b = gradients(x, y)
    assert not np.shares_memory(a, b)
    before = b.copy()
    assert x.grad is not None and y.grad is not None and x.grad._view is None
    x.grad.mul_(7)
    np.testing.assert_array_equal(b, before)
    for _ in range(2):
        (join(x, y) * sf.from_numpy(by)).sum().backward()
    np.testing.assert_allclose(b, 3 * before)
    assert gradients(x, y)[0] is a


def test_the_cotangent_that_is_given_stays_the_callers(copies: list[Any]) -> None:
    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    for ct in (sf.ones(6, 4, dtype="float64"), sf.ones(24, dtype="float64").reshape(6, 4)):
        sf.cat([x, y]).backward(ct)
        assert x.grad is not None
        x.grad.zero_()
        assert ct.sum().item() == 24
        x.grad = y.grad = None
    assert len(copies) == 4


@pytest.mark.parametrize("seen", ["hook", "leaf's hook", "function", "result of a function"])
def test_what_the_user_has_seen_is_copied(seen: str) -> None:
    kept: list[Any] = []

    class Keeping(sf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            kept.append(ct)
            if seen == "function":
                return ct * 1
            kept.append(ct + 1)
            return kept[-1]

    x, y = leaf(12), leaf(12, seed=1)
    joined = sf.cat([x, y])
    if seen == "hook":
        joined.register_hook(kept.append)
        total = joined * joined
    elif seen == "leaf's hook":
        x.register_hook(kept.append)
        total = joined * joined
    else:
        total = Keeping.apply(joined) + joined
        total = total * total
    total.sum().backward()
    before = [k.numpy().copy() for k in kept]
    assert before and x.grad is not None and y.grad is not None
    x.grad.zero_()
    y.grad.zero_()
    for k, b in zip(kept, before, strict=True):
        np.testing.assert_array_equal(k.numpy(), b)


def test_gradients_of_inner_tensors_are_apart() -> None:
    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    joined = sf.cat([x, y])
    joined.retain_grad()
    (joined * joined).sum().backward(inputs=[joined, x, y])
    found = gradients(joined, x, y)
    for a in range(3):
        for b in range(a):
            assert not np.shares_memory(found[a], found[b])


def test_recorded_gradients_are_copied() -> None:
    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    joined = sf.cat([x, y])
    (joined * joined * joined).sum().backward(create_graph=True)
    assert x.grad is not None and y.grad is not None
    assert not np.shares_memory(x.grad.detach().numpy(), y.grad.detach().numpy())
    first, x.grad = x.grad, None
    first.sum().backward()
    np.testing.assert_allclose(gradients(x)[0], 6 * x.detach().numpy())


def test_gradients_lie_as_their_leaves() -> None:
    x = leaf(3, 4)
    by = sf.from_numpy(np.random.default_rng(1).standard_normal((4, 3)))
    (x.t() * by).sum().backward()
    w = leaf(3, 4).detach().t().requires_grad_()
    (w * by).sum().backward()
    assert x.grad is not None and x.grad.is_contiguous() and w.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), by.numpy().T)
    np.testing.assert_array_equal(w.grad.numpy(), by.numpy())
