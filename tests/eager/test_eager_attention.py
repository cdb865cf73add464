"""Attention of large tensors in the eager mode: one vertex, whose weights are never in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager.costs import LARGE
from staticflow.nn import functional as F

HEADS, WIDTH = 2, 16
LENGTH = LARGE // (HEADS * WIDTH)
"""Places at which queries are just so many that attention is one program."""

Masks = Callable[[int, int], Any]

MASKS: dict[str, Masks | None] = {
    "none": None,
    "bools": lambda n, m: sf.arange(n)[:, None] % 7 != sf.arange(m) % 5,
    "blind rows": lambda n, m: (sf.arange(n)[:, None] % 5 > 1).expand(n, m),
    "one row": lambda n, m: sf.arange(m) < m - 3,
    "numbers": lambda n, m: -(sf.arange(n)[:, None] - sf.arange(m)).abs().to(sf.float64) / 50,
}


def operands(queries: int, keys: int, dtype: Any = np.float64) -> list[Any]:
    """Queries, keys and values (1, HEADS, L or S, WIDTH) that need a gradient."""
    rng = np.random.default_rng(queries)
    shapes = [(1, HEADS, n, WIDTH) for n in (queries, keys, keys)]
    return [sf.tensor(rng.standard_normal(s).astype(dtype), requires_grad=True) for s in shapes]


def written(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False) -> Any:
    """Attention with its weights in memory."""
    return F.attention_weights(q, k, mask, is_causal) @ v


def with_gradients(fn: Callable[..., Any], inputs: list[Any], *args: Any) -> list[np.ndarray]:
    """The result, and the gradient of a sum of it by each input."""
    out = fn(*inputs, *args)
    ct = sf.sin(sf.arange(out.numel()).to(out.dtype)).reshape(out.shape)
    return [t.detach().numpy() for t in (out, *sf.autograd.grad(out, inputs, ct))]


def attend(*args: Any) -> Any:
    return F.scaled_dot_product_attention(*args[:4], is_causal=bool(args[4:] and args[4]))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [LENGTH, 37])
def test_values_and_gradients(mask: str, causal: bool, keys: int) -> None:
    inputs, make = operands(LENGTH, keys), MASKS[mask]
    given = None if make is None else make(LENGTH, keys)
    got = with_gradients(attend, inputs, given, causal)
    want = with_gradients(written, inputs, given, causal)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("queries", [LENGTH - 1, LENGTH])
def test_it_is_one_vertex_that_keeps_no_weights_where_operands_are_large(queries: int) -> None:
    inputs = operands(queries, queries)
    kept: list[int] = []

    def pack(t: Any) -> Any:
        kept.append(t.numel())
        return t

    with sf.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = F.scaled_dot_product_attention(*inputs)
    large = queries == LENGTH
    assert (out.grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0") == large
    assert (max(kept) == inputs[0].numel()) == large
    got = [t.numpy() for t in sf.autograd.grad(out.sum(), inputs)]
    want = [t.numpy() for t in sf.autograd.grad(written(*inputs).sum(), inputs)]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "heads behind places": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "a part of three": lambda x: sf.cat([x, x, x], -1)[..., WIDTH : 2 * WIDTH],
    "expanded": lambda x: x[:, :1].expand(1, HEADS, *x.shape[2:]),
    "stepped": lambda x: sf.stack([x, x], -1).reshape(*x.shape[:3], 2 * WIDTH)[..., ::2],
    "flipped": lambda x: x.flip(2),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_that_lie_otherwise(layout: str) -> None:
    inputs, lay = operands(LENGTH, LENGTH), LAYOUTS[layout]
    got = with_gradients(lambda *a: attend(*map(lay, a), None, True), inputs)
    want = with_gradients(lambda *a: written(*map(lay, a), None, True), inputs)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_second_derivatives() -> None:
    inputs = operands(LENGTH, 24)

    def second(fn: Callable[..., Any]) -> list[np.ndarray]:
        first = sf.autograd.grad((fn(*inputs, None, True) ** 2).sum(), inputs, create_graph=True)
        found = sf.autograd.grad(sum((g**2).sum() for g in first), inputs)
        return [t.numpy() for t in found]

    for a, b in zip(second(attend), second(written), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_the_gradient_of_a_mask_of_numbers() -> None:
    *inputs, mask = *operands(LENGTH, 24), sf.zeros(LENGTH, 24, dtype=sf.float64)
    mask.requires_grad_()
    got = sf.autograd.grad((attend(*inputs, mask) ** 2).sum(), mask)[0].numpy()
    want = sf.autograd.grad((written(*inputs, mask) ** 2).sum(), mask)[0].numpy()
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", [sf.float16, sf.bfloat16, sf.float32])
def test_narrow_floats_are_rounded_once(dtype: Any) -> None:
    wide = [x.detach().to(dtype).to(sf.float64) for x in operands(LENGTH, 40)]
    narrow = [x.to(dtype).requires_grad_() for x in wide]
    out = F.scaled_dot_product_attention(*narrow)
    out.sum().backward()
    assert out.dtype is dtype and all(x.grad.dtype is dtype for x in narrow)
    close = {sf.float16: 2e-3, sf.bfloat16: 2e-2, sf.float32: 1e-5}[dtype]
    want = written(*wide).numpy()
    np.testing.assert_allclose(out.detach().to(sf.float64).numpy(), want, rtol=close, atol=close)


def test_a_change_before_backward_is_seen() -> None:
    q, k, v = (x.detach().clone() for x in operands(LENGTH, 24))
    out = F.scaled_dot_product_attention(q.requires_grad_(), k, v)
    k += 1
    with pytest.raises(sf.errors.AutogradError, match="changed"):
        out.sum().backward()


def test_without_gradients_and_of_wrong_shapes() -> None:
    q, k, v = operands(LENGTH, 24)
    with sf.no_grad():
        got = F.scaled_dot_product_attention(q, k, v, scale=0.0)
    assert not got.requires_grad
    mean = v.detach().mean(2, keepdim=True).expand(1, HEADS, LENGTH, WIDTH)
    np.testing.assert_allclose(got.numpy(), mean.numpy(), rtol=1e-12, atol=1e-14)
    with pytest.raises(sf.errors.ShapeError, match="matmul"):
        F.scaled_dot_product_attention(q, k[..., :-1], v)
    with pytest.raises(sf.errors.ShapeError):
        F.scaled_dot_product_attention(q, k, v[..., :-1, :])
    assert math.isfinite(float(got.sum()))
