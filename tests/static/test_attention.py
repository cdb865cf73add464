"""Attention in one kernel: however it is written, which kernels it becomes, their memory, values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.lower.seen_keys import seeing_queries, seen_keys
from staticflow.nn import functional as F
from staticflow.ops.basics.creation import iota

Fn = Callable[[Any, Any, Any], Any]
SHAPE = (2, 3, 12, 5)


def _rows(x: Any) -> Any:
    return sf.arange(x.shape[-2])


def _by_hand(q: Any, k: Any, v: Any) -> Any:
    s = q @ k.mT
    e = (s - s.amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)) @ v


def _batched(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.reshape(6, 12, 5) for x in (q, k, v))
    s = sf.bmm(q, k.transpose(1, 2)).reshape(2, 3, 12, 12) / 2
    w = s.masked_fill(sf.arange(12) > 8, -math.inf).softmax(-1)
    return sf.bmm(w.reshape(6, 12, 12), v).reshape(SHAPE)


def _by_einsum(q: Any, k: Any, v: Any) -> Any:
    w = (sf.einsum("bhqd,bhkd->bhqk", q, k) * 0.3).softmax(-1)
    return sf.einsum("bhqk,bhkd->bhqd", w, v)


def _with_distance(q: Any, k: Any, v: Any) -> Any:
    slopes = sf.tensor([0.1, 0.2, 0.3], dtype=sf.float64).reshape(3, 1, 1)
    return (q @ k.mT * 0.5 + (_rows(k) - _rows(q)[:, None]) * slopes).softmax(-1) @ v


def _temperature(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT / (sf.arange(3).to(sf.float64) + 1)[:, None, None]).softmax(-1) @ v


SPELLINGS: dict[str, Fn] = {
    "plain": lambda q, k, v: sf.softmax(q @ k.transpose(-1, -2) / math.sqrt(5), -1) @ v,
    "by hand": _by_hand,
    "einsum": _by_einsum,
    "bmm": _batched,
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "masked": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, _rows(q)[:, None] + 2 >= _rows(k)
    ),
    "hidden": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, _rows(q)[:, None] % 5 > 2),
    "grouped": lambda q, k, v: F.scaled_dot_product_attention(q, k[:, 1:2], v[:, 1:2], enable_gqa=True),
    "distance": _with_distance,
    "temperature": _temperature,
    "bias, scaled": lambda q, k, v: ((q @ k.mT + k[..., 0].unsqueeze(-2)) * 0.3).softmax(-1) @ v,
    "a large fill": lambda q, k, v: sf.where(_rows(k) > 12, q @ k.mT, -1e9).softmax(-1) @ v,
}  # fmt: skip


def _kernels(program: Any) -> int:
    return str(program.explain("kernels")).count("attend")


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_is_one_kernel_and_its_gradient_another(name: str) -> None:
    fn, rng = SPELLINGS[name], np.random.default_rng(0)
    arrays = [rng.standard_normal(SHAPE) for _ in range(3)]
    symbols = [sf.placeholder(SHAPE, dtype=sf.float64, name=n) for n in "qkv"]
    out = fn(*symbols)
    program = sf.compile(symbols, [out, *sf.grad((out**3).sum(), symbols)])
    assert _kernels(program) == 2
    tensors = [sf.tensor(a, requires_grad=True) for a in arrays]
    eager = fn(*tensors)
    (eager**3).sum().backward()
    wanted = [eager.detach(), *(t.grad for t in tensors)]
    for found, want in zip(program(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-12)


SCALES: dict[str, Fn] = {
    "of the function": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "its own": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=-0.3),
    "of the queries": lambda q, k, v: ((q * 0.3) @ k.mT).softmax(-1) @ v,
    "before the queries": lambda q, k, v: ((0.3 * q) @ k.mT).softmax(-1) @ v,
    "of the scores": lambda q, k, v: (q @ k.mT * 0.3).softmax(-1) @ v,
    "by division": lambda q, k, v: (q @ k.mT / 4).softmax(-1) @ v,
}


@pytest.mark.parametrize("name", SCALES)
def test_a_number_that_scales_is_known_to_the_kernels(name: str) -> None:
    """Nothing of the size of the queries is written for it, forward or backward."""
    fn = SCALES[name]
    symbols = [sf.placeholder(SHAPE, dtype=sf.float64, name=n) for n in "qkvc"]
    *inputs, ct = symbols
    out = fn(*inputs)
    program = sf.compile(symbols, [out, *sf.grad(out, inputs, cotangents=ct)])
    kernels = str(program.explain("kernels"))
    assert kernels.count("attend") == 2
    assert "map" not in kernels
    arrays = [np.random.default_rng(0).standard_normal(SHAPE) for _ in range(4)]
    tensors = [sf.tensor(a, requires_grad=True) for a in arrays[:3]]
    eager = fn(*tensors)
    eager.backward(sf.tensor(arrays[3]))
    wanted = [eager.detach(), *(t.grad for t in tensors)]
    for found, want in zip(program(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-12)


def _with_dropout(q: Any, k: Any, v: Any) -> Any:
    return F.dropout((q @ k.mT + k[..., 0].unsqueeze(-2)).softmax(-1), 0.3) @ v


def test_one_program_for_all_sizes_and_layouts() -> None:
    symbols = [sf.placeholder((None, None, 4), dtype=sf.float64, name=n) for n in "qkv"]
    loss = (_with_dropout(*symbols) ** 3).sum()
    program = sf.compile(symbols, [loss, *sf.grad(loss, symbols)])
    assert _kernels(program) == 2
    rng = np.random.default_rng(1)
    for rows, keys in ((1, 1), (9, 4), (130, 67)):
        arrays = [rng.standard_normal((2, 4, n)).transpose(0, 2, 1) for n in (rows, keys, keys)]
        sf.manual_seed(rows)
        found = program(*arrays)
        sf.manual_seed(rows)
        tensors = [sf.tensor(a, requires_grad=True) for a in arrays]
        eager = (_with_dropout(*tensors) ** 3).sum()
        eager.backward()
        for a, want in zip(found, (eager.detach(), *(t.grad for t in tensors)), strict=True):
            np.testing.assert_allclose(a, want, rtol=1e-9, atol=1e-9)


def test_derivatives_of_derivatives() -> None:
    def fn(q: Any, k: Any, v: Any) -> Any:
        bias = k[..., 0].unsqueeze(-2)
        weights = sf.where(_rows(q)[:, None] >= _rows(k), q @ k.mT + bias, -math.inf).softmax(-1)
        return (weights * v[..., :1]) @ v

    symbols = [sf.placeholder((9, 2), dtype=sf.float64, name=n) for n in "qkv"]
    first = sf.grad((fn(*symbols) ** 3).sum(), symbols)
    second = sf.grad(sum((g * g).sum() for g in first), symbols)
    program = sf.compile(symbols, [*first, *second])
    assert _kernels(program) == 2
    arrays = [np.random.default_rng(1).standard_normal((9, 2)) for _ in range(3)]
    tensors = [sf.tensor(a, requires_grad=True) for a in arrays]
    once = sf.autograd.grad((fn(*tensors) ** 3).sum(), tensors, create_graph=True)
    twice = sf.autograd.grad(sum((g * g).sum() for g in once), tensors)
    for found, want in zip(program(*arrays), (*once, *twice), strict=True):
        np.testing.assert_allclose(found, want.detach(), rtol=1e-9, atol=1e-9)


def test_rows_without_keys_are_nan_and_large_scores_keep_their_sums() -> None:
    """A row of which all scores are -inf has no softmax; where all are -1e9 in float32, nothing of
    the sum is left beside the scores, and the weights are equal all the same."""
    symbols = [sf.placeholder((10, 3), name=n) for n in "qkv"]
    q, k, v = symbols
    seen = _rows(q)[:, None] > 4
    outs = [
        sf.where(seen, x @ k.T, fill).softmax(-1) @ v for x, fill in ((2 * q, -math.inf), (q, -1e9))
    ]
    grads = sf.grad((outs[1] ** 2).sum(), symbols)
    program = sf.compile(symbols, [*outs, *grads])
    assert _kernels(program) == 3
    arrays = [np.random.default_rng(2).standard_normal((10, 3)).astype("f4") for _ in range(3)]
    blind, even, *found = program(*arrays)
    assert np.isnan(blind[:5]).all() and np.isfinite(blind[5:]).all()
    np.testing.assert_allclose(even[:5], np.broadcast_to(arrays[2].mean(0), (5, 3)), rtol=1e-5)
    tensors = [sf.tensor(a, requires_grad=True) for a in arrays]
    (
        (sf.where(seen, tensors[0] @ tensors[1].T, -1e9).softmax(-1) @ tensors[2]) ** 2
    ).sum().backward()
    for a, t in zip(found, tensors, strict=True):
        np.testing.assert_allclose(a, t.grad, rtol=1e-4, atol=1e-5)


def _by_distance(q: Any, k: Any, v: Any, table: Any) -> Any:
    """Positions by a table of a number for each head and distance, as far as it goes."""
    distance = (_rows(q)[:, None] - _rows(k)).clamp(-3, 3) + 3
    return (q @ k.mT + F.embedding(distance, table).permute(2, 0, 1)).softmax(-1) @ v


def _by_index(q: Any, k: Any, v: Any, table: Any) -> Any:
    """As among the places of an image: which number stands for two of them is in a tensor."""
    places = np.random.default_rng(3).integers(0, 7, 144)
    bias = table[sf.tensor(places)].reshape(12, 12, 3).permute(2, 0, 1)
    return (sf.tanh(q @ k.mT) * 2 + bias).softmax(-1) @ v


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("fn", [_by_distance, _by_index])
def test_a_bias_from_a_table_and_its_gradient(fn: Callable[..., Any], is_open: bool) -> None:
    rng = np.random.default_rng(0)
    arrays = [*(rng.standard_normal(SHAPE) for _ in range(3)), rng.standard_normal((7, 3))]
    shape = (None, 3, None, 5) if is_open and fn is _by_distance else SHAPE
    symbols = [sf.placeholder(shape, dtype=sf.float64, name=n) for n in "qkv"]
    symbols.append(sf.placeholder((7, 3), dtype=sf.float64, name="table"))
    out = fn(*symbols)
    program = sf.compile(symbols, [out, *sf.grad((out**3).sum(), symbols)])
    assert _kernels(program) == 2
    tensors = [sf.tensor(a, requires_grad=True) for a in arrays]
    eager = fn(*tensors)
    (eager**3).sum().backward()
    wanted = [eager.detach(), *(t.grad for t in tensors)]
    for found, want in zip(program(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-12)


def test_a_bias_with_a_gradient_takes_the_memory_of_the_weights_once() -> None:
    """It had taken two products more, and four arrays as large as the weights."""
    symbols = [sf.placeholder((4, 2, 256, 16), name=n) for n in "qkv"]
    symbols.append(sf.placeholder((2, 256, 256), name="bias"))
    q, k, v, bias = symbols
    loss = ((q @ k.mT + bias).softmax(-1) @ v).sin().sum()
    program = sf.compile(symbols, sf.grad(loss, symbols))
    kinds = [n.attrs["kind"] for n in program.optimized.nodes if n.op.name == "cluster"]
    assert (kinds.count("attend"), kinds.count("contract")) == (2, 0)
    assert program.plan.peak_bytes() < 1.2 * 4 * (4 * 2 * 256 * 256)


def test_memory_is_linear_in_the_length() -> None:
    """Twice as many queries and keys take twice the memory, forward and backward, with a causal
    mask and dropout; the weights alone would be 512 MiB at the second length."""
    peaks = []
    for length in (2048, 4096):
        symbols = [sf.placeholder((8, length, 64), name=n) for n in "qkv"]
        out = F.scaled_dot_product_attention(*symbols, dropout_p=0.1, is_causal=True)
        program = sf.compile(symbols, sf.grad(out.sum(), symbols))
        assert _kernels(program) == 2
        peaks.append(program.plan.peak_bytes())
    assert peaks[1] <= 2.1 * peaks[0] < 64 << 20


def test_what_is_no_attention_is_looked_through_once() -> None:
    """Sixty values, each of which has the one before it as both arguments, have 2**60 ways."""
    x = y = sf.placeholder((9, 9), name="x")
    for _ in range(60):
        y = y * y
    w = y
    for _ in range(60):
        w = w + w
    program = sf.compile([x], sf.grad((y @ x + w.softmax(-1) @ x).sum(), x))
    assert _kernels(program) == 0


def _range_by(range_of: Callable[..., Any], mask: Callable[[Any, Any], Any], role: str) -> Any:
    """The range that a function of masks gives for the block 10..20."""
    like = sf.placeholder((30,), name="like")
    rows, columns = (iota.beside(like, shape=(30, 30), dim=d, dtype=sf.int64) for d in (0, 1))
    return range_of({role: mask(rows, columns).node}, -math.inf, 10, 20)


def test_queries_that_see_no_key_are_passed_over() -> None:
    """The range of queries that see a block of keys, as masks tell it."""

    def found(mask: Callable[[Any, Any], Any], role: str = "keep") -> Any:
        return _range_by(seeing_queries, mask, role)

    assert found(lambda i, j: i * j >= j) == (None, None)
    assert found(lambda i, j: i >= j) == (10, None)
    assert found(lambda i, j: (i >= j) & (i - j < 4)) == (10, 23)
    assert found(lambda i, j: i + j < 25) == (None, 15)
    assert found(lambda i, j: i < 7) == (None, 7)
    assert found(lambda i, j: sf.where(i >= j, 0.0, -math.inf), "bias") == (10, None)


def test_keys_that_nobody_sees_are_passed_over() -> None:
    """The range of keys that a block of queries sees, as masks tell it."""

    def found(mask: Callable[[Any, Any], Any], role: str = "keep") -> Any:
        return _range_by(seen_keys, mask, role)

    assert found(lambda i, j: i * j >= j) == (None, None)
    assert found(lambda i, j: i >= j) == (None, 20)
    assert found(lambda i, j: ~(j > i + 2)) == (None, 22)
    assert found(lambda i, j: (i >= j) & (i - j < 4)) == (7, 20)
    assert found(lambda i, j: (i >= j) | (j < 3)) == (None, None)
    assert found(lambda i, j: sf.where(i >= j, 0.0, -math.inf), "bias") == (None, 20)
    assert found(lambda i, j: sf.where(i >= j, 1.0, 0.0) != 0) == (None, 20)
