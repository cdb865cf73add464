"""Short programs as people write them for PyTorch: of each a function and what makes its arguments.

Every size of an argument is open under ``jit``, so the programs ask for no number of it that decides
what Python does. An argument is a shape (of floats), or a tensor.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import staticflow as sf
from staticflow.nn import functional as F

rng = np.random.default_rng(11)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def program(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a function in the table under its name."""

    def enter(f: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[f.__name__] = f, arguments
        return f

    return enter


def integers(high: int, *shape: int) -> Any:
    return sf.tensor(rng.integers(0, high, shape))


def lengths_mask(lengths: Any, steps: Any) -> Any:
    return sf.arange(steps)[None, :] < lengths[:, None]


B, T, D, H = 3, 5, 8, 2
LENGTHS = sf.tensor([5, 2, 4])

# -- attention ------------------------------------------------------------------------------------


@program((B, T, D), (B, 4, D), (B, 4, D))
def scaled_dot_product(q, k, v):
    return F.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1) @ v


@program((B, T, D), (D, 3 * D))
def multi_head(x, w):
    b, t, d = x.shape
    q, k, v = (p.view(b, t, H, d // H).transpose(1, 2) for p in (x @ w).chunk(3, dim=-1))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return out.transpose(1, 2).reshape(b, t, d)


@program((B, 4, T, D), (B, 2, T, D), (B, 2, T, D))
def grouped_queries(q, k, v):
    k, v = (x.repeat_interleave(2, dim=1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v)


@program((B, H, T, D), (B, H, T, D), (B, H, T, D))
def causal_by_mask(q, k, v):
    t = q.shape[-2]
    mask = sf.ones(t, t, dtype=sf.bool).tril()
    weights = (q @ k.mT).masked_fill(~mask, float("-inf")).softmax(-1)
    return weights @ v


@program((B, H, T, D), (B, H, T, D), (B, H, T, D))
def alibi(q, k, v):
    t = q.shape[2]
    place = sf.arange(t)
    slopes = 2.0 ** -sf.arange(1, q.shape[1] + 1)
    bias = -(place[:, None] - place[None, :]).abs() * slopes[:, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))


@program((B, H, T, D), (B, H, T, D), (B, H, T, D))
def sliding_window(q, k, v):
    i = sf.arange(q.size(-2))
    near = (i[:, None] - i).abs() <= 1
    return F.scaled_dot_product_attention(q, k, v, attn_mask=near)


@program((B, T, D), (B, T, D), (B, T, D))
def linear_attention(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    kv = sf.einsum("btd,bte->bde", k, v)
    norm = 1 / sf.einsum("btd,bd->bt", q, k.sum(1))
    return sf.einsum("btd,bde,bt->bte", q, kv, norm)


@program((B, H, T, D), (2 * T - 1, H))
def relative_position_bias(scores, table):
    t = (table.shape[0] + 1) // 2
    i = sf.arange(t)
    index = i[:, None] - i[None, :] + t - 1
    bias = table[index].permute(2, 0, 1)
    return (scores @ scores.mT + bias).softmax(-1)


@program((B, T, D), LENGTHS)
def key_padding(x, lengths):
    keep = sf.arange(x.shape[1]) < lengths.unsqueeze(1)
    scores = x @ x.transpose(1, 2)
    scores = scores.masked_fill(~keep[:, None, :], -1e9)
    return (scores.softmax(-1) @ x) * keep[..., None]


@program((B, T, D), (B, T, D))
def cross_attention_by_einsum(x, y):
    scores = sf.einsum("b i d, b j d -> b i j", x, y) * x.shape[-1] ** -0.5
    return sf.einsum("bij,bjd->bid", scores.softmax(dim=-1), y)


# -- positions ------------------------------------------------------------------------------------


@program((B, T, D))
def sinusoidal(x):
    t, d = x.shape[1:]
    place = sf.arange(t).unsqueeze(1)
    rate = sf.exp(sf.arange(0, d, 2) * (-math.log(10000.0) / d))
    angles = place * rate
    return x + sf.stack([angles.sin(), angles.cos()], -1).reshape(t, d)


@program((B, T, D))
def sinusoidal_in_place(x):
    pe = sf.zeros(x.size(1), D)
    angles = sf.arange(x.size(1)).unsqueeze(1) * sf.exp(sf.arange(0, D, 2) * (-9.21 / D))
    pe[:, 0::2] = angles.sin()
    pe[:, 1::2] = angles.cos()
    return x + pe.unsqueeze(0)


@program((B, H, T, D))
def rotary(x):
    t, d = x.shape[-2:]
    rate = 1.0 / 10000 ** (sf.arange(0, d, 2) / d)
    angles = sf.outer(sf.arange(t), rate)
    cos, sin = (f.repeat(1, 2) for f in (angles.cos(), angles.sin()))
    half = d // 2
    turned = sf.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + turned * sin


@program((B, T, D))
def rotary_of_pairs(x):
    a, b = x[..., ::2], x[..., 1::2]
    angle = sf.arange(x.shape[1])[:, None] / 10.0 ** sf.arange(a.shape[-1])
    return sf.stack(
        (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1
    ).flatten(-2)


@program(integers(7, B, T), (7, D), (10, D))
def learnt_positions(tokens, words, places):
    return F.embedding(tokens, words) + places[: tokens.shape[1]]


# -- masks, pools, ragged rows ----------------------------------------------------------------------


@program((B, T, D), LENGTHS)
def masked_mean(x, lengths):
    mask = lengths_mask(lengths, x.shape[1])
    return (x * mask[..., None]).sum(1) / lengths[:, None].clamp(min=1)


@program((B, T, D), LENGTHS)
def masked_max(x, lengths):
    mask = lengths_mask(lengths, x.size(1)).unsqueeze(-1)
    return x.masked_fill(~mask, -math.inf).max(dim=1).values


@program((B, T, D), LENGTHS)
def last_step(x, lengths):
    return x[sf.arange(x.shape[0]), lengths - 1]


@program((B, T, D), LENGTHS)
def last_step_by_gather(x, lengths):
    index = (lengths - 1).view(-1, 1, 1).expand(-1, 1, x.size(2))
    return x.gather(1, index).squeeze(1)


@program((B, T, D))
def attentive_pool(x):
    weights = x.mean(-1).softmax(1)
    return (weights.unsqueeze(1) @ x).squeeze(1), sf.bmm(weights[:, None], x)[:, 0]


@program((B, T, D), integers(2, B, T))
def segment_mean(x, kind):
    flat, kind = x.reshape(-1, x.shape[-1]), kind.flatten()
    sums = sf.zeros(2, x.shape[-1]).index_add(0, kind, flat)
    return sums / sf.bincount(kind, minlength=2)[:, None].clamp(min=1)


@program((B, T, D), LENGTHS)
def packed_rows(x, lengths):
    mask = lengths_mask(lengths, x.shape[1])
    return x[mask].sum(0) / mask.sum()


@program((B, T), LENGTHS)
def padded_again(x, lengths):
    mask = lengths_mask(lengths, x.shape[1])
    return sf.zeros_like(x).masked_scatter(mask, x[mask] * 2)


@program((B, T, D))
def windows(x):
    return F.pad(x, (0, 0, 2, 0)).unfold(1, 3, 1).mean(-1)


@program((B, T, D))
def shifted(x):
    before = sf.cat([sf.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
    return x - before, x.roll(1, dims=1), sf.diff(x, dim=1)


@program((B, T, D))
def time_first_and_flat(x):
    return x.transpose(0, 1).contiguous().view(-1, x.size(2)).mean(0) + x.flatten(0, 1).std(0)


@program((B, 2 * T, D))
def pooled_by_two(x):
    b, t, d = x.shape
    return x.reshape(b, t // 2, 2, d).mean(2), F.avg_pool1d(x.mT, 2).mT


# -- einsum -----------------------------------------------------------------------------------------


@program((2, 3, 4, 5), (5, 2, 4))
def einsum_diagonal_and_batch(x, y):
    return sf.einsum("iabj,jib->ab", x, y)


@program((3, 4), (4, 5), (5, 2))
def einsum_chain(a, b, c):
    return sf.einsum("qz,zx,xw->wq", a, b, c)


@program((2, 3, 4), (2, 3, 4))
def einsum_inner(a, b):
    return sf.einsum("...k,...k->...", a, b), sf.einsum("hij,hkj->ikh", a, b)


@program((3, 3, 4))
def einsum_trace(x):
    return sf.einsum("iip->p", x), sf.einsum("iip->ip", x)


@program((3, 4), (5, 6), (3, 4, 5, 6))
def einsum_outer(a, b, c):
    return sf.einsum("uv,st,uvst->us", a, b, c), sf.tensordot(c, b, dims=2)


@program((2, 3, 4, 5), (2, 4, 6))
def einsum_ellipsis(x, y):
    return sf.einsum("n...cd,nce->n...de", x, y)
