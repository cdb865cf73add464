"""Attention is found in spellings that nobody wrote for the pass: no weights in memory, forward or
back, and the results of the eager operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

Spelling = Callable[[Any, Any, Any], Any]


def scores(q: Any, k: Any) -> Any:
    return q @ k.mT * 0.25


def divided_behind(q: Any, k: Any, v: Any) -> Any:
    s = scores(q, k)
    e = (s - s.max(-1, keepdim=True)[0]).exp()
    return (e @ v) / e.sum(-1, keepdim=True)


def in_groups(q: Any, k: Any, v: Any) -> Any:
    """Two queries of each head read the same keys."""
    pairs = q.reshape(2, 2, 2, *q.shape[2:])
    k, v = k[:, :2], v[:, :2]
    weights = (sf.einsum("bgrqd,bgkd->bgrqk", pairs, k) * 0.25).softmax(-1)
    return sf.einsum("bgrqk,bgkd->bgrqd", weights, v)


def added_in_batches(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    bias = sf.arange(k.shape[1]) * 0.1
    return sf.baddbmm(bias, q, k.mT, beta=0.5, alpha=0.25).softmax(-1) @ v


def added(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x[0, 0] for x in (q, k, v))
    bias = sf.arange(k.shape[0])[:, None] * sf.arange(k.shape[0]) * 0.01
    return sf.addmm(bias, q, k.T, alpha=0.25).softmax(-1) @ v


def channels_first(q: Any, k: Any, v: Any) -> Any:
    """As in networks of images: values (N, C, places), and weights that are transposed."""
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    weights = sf.bmm(q, k.mT).softmax(-1)
    return sf.bmm(v.permute(0, 2, 1), weights.permute(0, 2, 1))


def by_columns(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x[0, 0] for x in (q, k, v))
    return v.t() @ (q @ k.t() * 0.25).softmax(1).t()


def mask(k: Any) -> Any:
    """A float for each query and key, 1 where the key is seen and 0 elsewhere."""
    places = sf.arange(k.shape[-2])
    return (places[:, None] + 3 > places).to(k.dtype)


def bounded(s: Any, cap: float = 2.0) -> Any:
    return cap * sf.tanh(s / cap)


def bounded_and_masked(q: Any, k: Any, v: Any) -> Any:
    s = (scores(q, k) / 5.0).tanh() * 5.0
    return (s + (1 - mask(k)) * -1e9).softmax(-1) @ v


def bounded_in_batches(q: Any, k: Any, v: Any) -> Any:
    s = bounded(sf.bmm(*(x.flatten(0, 1) for x in (q, k.mT)))).unflatten(0, (2, 4))
    return s.softmax(-1) @ v


SPELLINGS: dict[str, Spelling] = {
    "bounded by a cap": lambda q, k, v: bounded(scores(q, k)).softmax(-1) @ v,
    "bounded and masked": bounded_and_masked,
    "bounded in batches": bounded_in_batches,
    "bounded, then scaled": lambda q, k, v: (scores(q, k).tanh() / 3 * -2).softmax(-1) @ v,
    "bounded, then scaled for each query": lambda q, k, v: (
        (bounded(scores(q, k)) * v[..., :1]).softmax(-1) @ v
    ),
    "times a mask": lambda q, k, v: (scores(q, k) * mask(k) + (mask(k) - 1) * 1e9).softmax(-1) @ v,
    "times a mask, less what is hidden": lambda q, k, v: (
        (scores(q, k) * mask(k) - 1e10 * (1 - mask(k))).softmax(-1) @ v
    ),
    "times a mask of keys": lambda q, k, v: (
        (scores(q, k) * mask(k)[3] - 1e4 * (1 - mask(k)[3])).softmax(-1) @ v
    ),
    "times a number for each key": lambda q, k, v: (
        ((q @ k.mT) * k[..., :1].mT.cos()).softmax(-1) @ v
    ),
    "channels first": channels_first,
    "channels first, by einsum": lambda q, k, v: sf.einsum(
        "bhkd,bhqk->bhdq", v, scores(q, k).softmax(-1)
    ),
    "channels first, of matrices": by_columns,
    "channels first, by transpose": lambda q, k, v: (
        v.transpose(-1, -2) @ scores(q, k).softmax(-1).transpose(3, 2)
    ),
    "divided behind the product": divided_behind,
    "by the logarithm of the sum": lambda q, k, v: (
        ((s := scores(q, k)) - s.logsumexp(-1, keepdim=True)).exp() @ v
    ),
    "by the logarithm of the softmax": lambda q, k, v: scores(q, k).log_softmax(-1).exp() @ v,
    "in groups": in_groups,
    "added in batches": added_in_batches,
    "added": added,
}
SHORT: dict[str, Spelling] = {
    "all of 16 bits": lambda q, k, v: scores(q, k).softmax(-1) @ v,
    "a softmax of float32": lambda q, k, v: (
        scores(q, k).float().softmax(-1).to(v.dtype) @ v
    ),
    "masked by the least number": lambda q, k, v: (
        scores(q, k).masked_fill(sf.ones(k.shape[2], k.shape[2]).triu(1) == 1, -6e4).softmax(-1) @ v
    ),
}  # fmt: skip


def kinds_of(program: Any) -> list[str]:
    return [n.attrs["kind"] for n in program.optimized.nodes if n.op.name == "cluster"]


def both_ways(spelling: Spelling, dtype: Any, length: int | None) -> tuple[Any, Any, Any]:
    """The program of a spelling with its gradients, and what it and the eager operations give."""
    rng = np.random.default_rng(0)
    arrays = [sf.tensor(rng.standard_normal((2, 4, 24, 16))).to(dtype) for _ in range(3)]
    qkv = [sf.placeholder((2, 4, length, 16), dtype, name=n) for n in "qkv"]
    out = spelling(*qkv)
    program = sf.compile(qkv, [out, *sf.grad(out.float().sin().sum(), qkv)])
    leaves = [a.clone().requires_grad_() for a in arrays]
    eager = spelling(*leaves)
    eager.float().sin().sum().backward()
    return program, program(*arrays), [eager.detach(), *(x.grad for x in leaves)]


@pytest.mark.parametrize("length", [24, None], ids=["known", "open"])
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_no_weights_in_memory(spelling: Spelling, length: int | None) -> None:
    program, found, eager = both_ways(spelling, sf.float32, length)
    assert kinds_of(program).count("attend") == 2
    for got, wanted in zip(found, eager, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [sf.float16, sf.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("spelling", SHORT.values(), ids=SHORT)
def test_16_bits_are_computed_in_32(spelling: Spelling, dtype: Any) -> None:
    if dtype is sf.bfloat16:
        pytest.importorskip("ml_dtypes")
    program, found, eager = both_ways(spelling, dtype, None)
    assert kinds_of(program).count("attend") == 2
    for got, wanted in zip(found, eager, strict=True):
        assert got.dtype is dtype
        got, wanted = got.double().numpy(), wanted.double().numpy()
        np.testing.assert_allclose(got, wanted, rtol=0.05, atol=0.05 * np.abs(wanted).max())


def test_scores_that_are_beyond_16_bits_have_a_softmax() -> None:
    q = sf.placeholder((8, 16), "float16", name="q")
    program = sf.compile([q], (q @ q.T).softmax(-1) @ q)
    rows = 200 * np.eye(8, 16, dtype=np.float16)
    np.testing.assert_array_equal(program(sf.tensor(rows * 2)).numpy(), rows * 2)


def test_scores_of_64_bits_keep_them() -> None:
    q = sf.placeholder((8, 16), "float64", name="q")
    out = (q @ q.T).float().softmax(-1) @ q.float()
    assert "attend" not in kinds_of(sf.compile([q], out))
