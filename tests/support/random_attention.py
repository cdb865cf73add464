"""Attention as somebody might write it, drawn from a seed: sizes and layouts of queries, keys and
values, what is done to the scores, and what to the weights."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import staticflow as sf

__all__ = ["Attention"]

Step = Callable[[Any, Callable[[], Any]], Any]
"""From scores or weights, and what gives the next of the further arrays, to others."""

LEADS = ((), (1,), (2,), (3, 1), (2, 3), (1, 2, 1), (0,))
QUERIES = (7, 8, 9, 33, 96, 97, 130)
KEYS = (0, 1, 2, 7, 31, 64, 65, 97, 131)
WIDTHS = (0, 1, 2, 3, 5, 8, 16, 17)

COMPARISONS = (sf.lt, sf.le, sf.gt, sf.ge, sf.eq, sf.ne)


def _draw_mask(r: random.Random) -> Step:
    """What sees keys by their distance, their number, that of the query, or by chance."""
    compare, shift = r.choice(COMPARISONS), r.randint(-6, 40)
    kind = r.choice(["causal", "distance", "window", "keys", "queries", "chance"])

    def seen(s: Any, more: Callable[[], Any]) -> Any:
        i, j = sf.arange(s.shape[-2])[:, None], sf.arange(s.shape[-1])
        if kind == "chance":
            return more() > -0.5
        if kind == "window":
            return sf.logical_and(i - j < shift + 5, compare(j, i - shift))
        left = {"causal": i + shift, "distance": j - i, "keys": j, "queries": i}[kind]
        return compare(left, j if kind == "causal" else shift)

    return seen


def _hide(r: random.Random) -> Step:
    # a number from which on sums keep nine digits, where a row is hidden as a whole
    mask, fill = _draw_mask(r), r.choice([-math.inf, -math.inf, -1e5, -0.5])
    how = r.choice(["where", "where not", "fill", "bias"])

    def hide(s: Any, more: Callable[[], Any]) -> Any:
        seen = mask(s, more)
        if how == "where":
            return sf.where(seen, s, fill)
        if how == "where not":
            return sf.where(sf.logical_not(seen), fill, s)
        if how == "fill":
            return s.masked_fill(~seen, fill)
        return s + sf.where(seen, 0.0, fill).to(s.dtype)

    return hide


def _drop(r: random.Random) -> Step:
    mask, how = _draw_mask(r), r.random() < 0.5

    def drop(w: Any, more: Callable[[], Any]) -> Any:
        seen = mask(w, more)
        return sf.where(seen, w, 0.0) if how else w.masked_fill(~seen, 0.0)

    return drop


def _distances(s: Any, more: Callable[[], Any]) -> Any:
    return s - 0.1 * (sf.arange(s.shape[-2])[:, None] - sf.arange(s.shape[-1])).abs().to(s.dtype)


def _by_mask(r: random.Random) -> Step:
    """What multiplies by a mask of 0 and 1, and adds a large number where it is 0."""
    mask, large, how = _draw_mask(r), r.choice([-1e4, -1e5]), r.random() < 0.5

    def hide(s: Any, more: Callable[[], Any]) -> Any:
        seen = mask(s, more).to(s.dtype)
        return s * seen + (1 - seen) * large if how else s * seen - (1 - seen) * -large

    return hide


def _bounded(r: random.Random) -> Step:
    cap = r.choice([0.5, 1.0, 3.0, 20.0])
    return r.choice([
        lambda s, more: (s / cap).tanh() * cap,
        lambda s, more: cap * sf.tanh(s * (1 / cap)),
        lambda s, more: s.tanh() / cap,
    ])  # fmt: skip


OF_SCORES: tuple[Callable[[random.Random], Step], ...] = (
    _hide,
    _hide,
    lambda r: lambda s, more: s * 0.3,
    lambda r: lambda s, more: s / 1.7,
    lambda r: lambda s, more: s * more()[..., :1].abs(),
    _by_mask,
    _bounded,
    lambda r: lambda s, more: s * more(),
    lambda r: lambda s, more: s / (more().abs() + 0.5),
    lambda r: lambda s, more: s + more(),
    lambda r: lambda s, more: s - more(),
    lambda r: lambda s, more: s + 0.25,
    lambda r: _distances,
)

OF_WEIGHTS: tuple[Callable[[random.Random], Step], ...] = (
    _drop,
    lambda r: lambda w, more: w * 0.5,
    lambda r: lambda w, more: w * more(),
    lambda r: lambda w, more: w / (more().abs() + 0.5),
    lambda r: lambda w, more: w.masked_fill(more()[..., :1] > 0.8, 0.0),
)


def _by_hand(s: Any) -> Any:
    e = (s - s.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def _by_logarithms(s: Any) -> Any:
    return (s - s.logsumexp(-1, keepdim=True)).exp()


def _softmax(s: Any) -> Any:
    return s.softmax(-1)


def _lay(r: random.Random, a: Any) -> Any:
    """The array, or one of its shape that lies otherwise in memory."""
    how = r.choice(["rows", "columns", "steps", "flipped", "cropped", "expanded"])
    if how == "columns":
        return np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    if how == "steps":
        return np.repeat(a, 2, -1)[..., ::2]
    if how == "flipped":
        return np.ascontiguousarray(a[..., ::-1, :])[..., ::-1, :]
    if how == "cropped":
        around = np.full((*a.shape[:-2], a.shape[-2] + 2, a.shape[-1] + 3), np.nan)
        around[..., 1:-1, 1:-2] = a
        return around[..., 1:-1, 1:-2]
    if how == "expanded" and a.ndim > 2 and len(a):
        return np.broadcast_to(a[:1], a.shape)
    return a


class Attention:
    """What is drawn from ``seed``: a function of ``arrays``, which are queries, keys, values, and what
    its steps ask for."""

    def __init__(self, seed: int) -> None:
        r, rng = random.Random(seed), np.random.default_rng(seed)
        self.lead, self.rows, self.keys = r.choice(LEADS), r.choice(QUERIES), r.choice(KEYS)
        self.of_scores = [r.choice(OF_SCORES)(r) for _ in range(r.randint(0, 4))]
        self.of_weights = [r.choice(OF_WEIGHTS)(r) for _ in range(r.choice([0, 0, 1, 2]))]
        self.softmax = _softmax if not self.keys else r.choice([_softmax, _by_hand, _by_logarithms])
        inner, width = r.choice(WIDTHS), r.choice(WIDTHS)
        shapes = ((self.rows, inner), (self.keys, inner), (self.keys, width))
        leads = [self._stretched(r) if r.random() < 0.3 else self.lead for _ in shapes]
        self.arrays = [
            _lay(r, rng.standard_normal((*lead, *shape)))
            for lead, shape in zip(leads, shapes, strict=True)
        ]
        for _ in range(8):  # as many as steps may ask for
            shape = tuple(n if r.random() < 0.7 else 1 for n in (self.rows, self.keys))
            self.arrays.append(rng.standard_normal((*self._stretched(r), *shape)))

    def _stretched(self, r: random.Random) -> tuple[int, ...]:
        """Leading sizes that stretch to those of the scores, if the others are there."""
        return tuple(n if r.random() < 0.7 else 1 for n in self.lead)

    def __call__(self, q: Any, k: Any, v: Any, *others: Any) -> Any:
        rest = iter(others)
        scores = q @ k.transpose(-1, -2)
        for step in self.of_scores:
            scores = step(scores, lambda: next(rest))
        weights = self.softmax(scores)
        for step in self.of_weights:
            weights = step(weights, lambda: next(rest))
        return weights @ v
