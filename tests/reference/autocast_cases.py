"""Calls of functions that PyTorch has, too, inside ``autocast``; `make_autocast.py` stores what it
gives. Each takes a few of ``INPUTS``, which are looked for, or is one of ``CASES``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["CASES", "INPUTS", "KINDS", "RANDOM", "call", "cast_inputs", "flat", "names"]

Array = np.ndarray[Any, Any]


def wave(*shape: int, by: float = 1.0) -> Array:
    """Numbers between 0.1 and 0.9 without a pattern."""
    turns = np.sin(by * (np.arange(np.prod(shape, dtype=int)) + 1.5) ** 2)
    return (0.5 + 0.4 * turns).astype(np.float32).reshape(shape)


def numbers(*shape: int) -> Array:
    """0, 1 and 2 in turn."""
    return (np.arange(np.prod(shape, dtype=int)) % 3).reshape(shape)


X, Y, N, SQUARE = (
    wave(3, 4),
    wave(3, 4, by=0.7),
    numbers(3, 4),
    wave(3, 3) + 2 * np.eye(3, dtype=np.float32),
)
SYMMETRIC = SQUARE + SQUARE.T

INPUTS: list[tuple[Any, ...]] = [
    (X,), (SYMMETRIC,), (wave(2, 4, 6),), (wave(2, 4, 6, 6),), (wave(2, 4, 6, 6, 6),), (wave(4),),
    (N,), (X > 0.5,), (X, Y), (SYMMETRIC, SQUARE), (wave(4), wave(4, by=0.7)),
    (wave(2, 3, 4), wave(2, 4, 3)), (X, numbers(3)), (X, N), (X, wave(4)),
    (wave(2, 4, 6), wave(4, 4, 3)), (wave(2, 4, 6, 6), wave(4, 4, 3, 3)),
    (wave(1, 2, 3, 3, 3), wave(2, 2, 2, 2, 2)), (N, N), (N, X), (X, Y, X),
    (X, Y, np.array([1, -1, 1])), (SQUARE, SYMMETRIC, SQUARE), (X > 0.5, X, Y),
    (wave(2, 3, 3), wave(2, 3, 4), wave(2, 4, 3)), (wave(3, 3), wave(2, 3, 4), wave(2, 4, 3)),
    (wave(2, 3, 4), wave(2, 3, 4), wave(2, 3, 4)), (wave(3), X, wave(4)), (SQUARE, wave(3), wave(3)),
    (X, Y, wave(5, 4, 4)), (X, 2), (X, 1), (X, 0), (X, 0, 1), (X, 0, numbers(2)),
    (X, 0, numbers(2), wave(2, 4)), (X, 0, N), (X, 0, N, Y), (X, (4, 3)), (X, 0.5), (X, 0.1, 0.5),
    (wave(2, 4, 6), 2), (wave(2, 4, 6, 6), 2), (X, (1, 1)), ([X, Y],), ([X, Y.T, X],),
    (wave(2, 4, 6, 6), wave(2, 5, 5, 2)), (X, 1, 1), (wave(2, 4, 6), (4,)), (X, (3, 4)),
    (X, 0, 1.0), (X, Y, 0.5), (X, (4,), wave(4), wave(4, by=0.7)), (X, wave(4), wave(4, by=0.7)),
    (X, 2, wave(4), wave(4, by=0.7)), (wave(2, 4, 6, 6, 6), 2), ("ij,kj->ik", X, Y),
    (X, N > 0, Y), (N > 0, X, Y),
]  # fmt: skip
"""Inputs, the first of which that a function takes is its own."""


def _sequence(kind: str, **options: Any) -> Callable[..., Any]:
    """A recurrent layer on a sequence."""

    def run(t: Any, x: Any, *weights: Any) -> Any:
        layer = getattr(t.nn, kind)(4, 2, **options)
        with t.no_grad():
            for p in layer.parameters():
                p.copy_(t.tensor(wave(*p.shape, by=0.3) - 0.5))
        return layer(x)

    return run


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "conv_transpose1d": (
        lambda t, x, w: t.nn.functional.conv_transpose1d(x, w), (wave(2, 4, 6), wave(4, 3, 3))),
    "conv_transpose2d": (
        lambda t, x, w: t.nn.functional.conv_transpose2d(x, w), (wave(2, 4, 6, 6), wave(4, 3, 3, 3))),
    "conv1d with a bias": (
        lambda t, x, w, b: t.nn.functional.conv1d(x, w, b, padding="same"),
        (wave(2, 4, 6), wave(4, 4, 3), wave(4))),
    "linear with a bias": (
        lambda t, x, w, b: t.nn.functional.linear(x, w, b), (X, Y, wave(3))),
    "batch_norm": (
        lambda t, x, m, v, w, b: t.nn.functional.batch_norm(x, m, v, w, b, True),
        (X, wave(4), wave(4), wave(4), wave(4))),
    "group_norm": (lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b), (X, wave(4), wave(4))),
    "attention": (
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        (wave(2, 5, 4), wave(2, 5, 4, by=0.7), wave(2, 5, 4, by=0.3))),
    "ctc_loss": (
        lambda t, x: t.nn.functional.ctc_loss(
            x.log_softmax(-1), t.tensor([[1, 2], [3, 1]]), t.tensor([5, 4]), t.tensor([2, 1])),
        (wave(5, 2, 4),)),
    "max_unpool2d": (
        lambda t, x: t.nn.functional.max_unpool2d(
            *t.nn.functional.max_pool2d(x, 2, return_indices=True), 2), (wave(2, 4, 6, 6),)),
    "max_unpool3d": (
        lambda t, x: t.nn.functional.max_unpool3d(
            *t.nn.functional.max_pool3d(x, 2, return_indices=True), 2), (wave(1, 2, 4, 4, 4),)),
    "pad by reflection": (lambda t, x: t.nn.functional.pad(x, (1, 2), "reflect"), (wave(2, 4, 6),)),
    "pad by replication": (
        lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1), "replicate"), (wave(2, 4, 6, 6),)),
    "pad by zeros": (lambda t, x: t.nn.functional.pad(x, (1, 2)), (wave(2, 4, 6),)),
    "addmm in place": (lambda t, x, a, b: x.clone().addmm_(a, b), (SQUARE, SYMMETRIC, SQUARE)),
    "linalg.householder_product": (
        lambda t, a, tau: t.linalg.householder_product(a, tau[0]), (SQUARE, SQUARE)),
    "cholesky_solve": (
        lambda t, b, a: t.cholesky_solve(b, t.linalg.cholesky(a @ a.mT + t.eye(3))), (X, SQUARE)),
    "quantile": (lambda t, x: t.quantile(x, 0.3), (X,)),
    "nanquantile": (lambda t, x: t.nanquantile(x, 0.3), (X,)),
    "index_copy": (
        lambda t, x, y: t.index_copy(x, 0, t.tensor([2, 0]), y[:2]), (X, Y)),
    "cat": (lambda t, x, y: t.cat([x, y]), (X, Y)),
    "stack": (lambda t, x, y: t.stack([x, y]), (X, Y)),
    "method matmul": (lambda t, x, y: x @ y.mT, (X, Y)),
    "embedding": (lambda t, w: t.nn.functional.embedding(t.tensor([1, 0]), w), (X,)),
    "RNN": (_sequence("RNN"), (wave(5, 2, 4),)),
    "LSTM": (_sequence("LSTM"), (wave(5, 2, 4),)),
    "LSTM of two layers": (_sequence("LSTM", num_layers=2, bidirectional=True), (wave(5, 2, 4),)),
    "GRU": (_sequence("GRU"), (wave(5, 2, 4),)),
    "RNNCell": (_sequence("RNNCell"), (wave(2, 4),)),
    "LSTMCell": (_sequence("LSTMCell"), (wave(2, 4),)),
    "GRUCell": (_sequence("GRUCell"), (wave(2, 4),)),
}  # fmt: skip

KINDS = ("float32", "bfloat16", "mixed", "to float16")
"""Which dtypes the floating inputs have: all one, or the first bfloat16 and the rest float32. The
last are of float32, and the block is of float16."""

RANDOM = {
    "F.alpha_dropout", "F.dropout", "F.dropout1d", "F.dropout2d", "F.dropout3d",
    "F.feature_alpha_dropout", "F.gumbel_softmax", "F.rrelu", "bernoulli", "dropout", "empty_like",
    "multinomial", "normal", "rand_like", "randint_like", "randn_like",
}  # fmt: skip
"""What has other values each time."""


def names(lib: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of a library, or of ours, with ``F.`` and ``linalg.`` before those from there."""
    for prefix, module in (("", lib), ("F.", lib.nn.functional), ("linalg.", lib.linalg)):
        for name in sorted(dir(module)):
            fn = getattr(module, name)
            if not name.startswith("_") and callable(fn) and not isinstance(fn, type):
                yield prefix + name, fn


def cast_inputs(kind: str, inputs: Any) -> Any:
    """Arrays of float32, with their dtypes changed as a ``kind`` has them."""
    seen = iter(range(99))

    def change(x: Any) -> Any:
        if isinstance(x, list):
            return [*map(change, x)]
        if not isinstance(x, np.ndarray) or x.dtype != np.float32:
            return x
        is_lower = kind == "bfloat16" or (kind == "mixed" and next(seen) == 0)
        return x.astype(ml_dtypes.bfloat16) if is_lower else x

    return [change(x) for x in inputs]


def call(fn: Callable[..., Any], inputs: Any, tensor: Callable[[Array], Any]) -> Any:
    """What a function gives of arrays, as tensors."""

    def wrap(x: Any) -> Any:
        if isinstance(x, list):
            return [*map(wrap, x)]
        return tensor(x) if isinstance(x, np.ndarray) else x

    return fn(*map(wrap, inputs))


def flat(out: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(out, tuple | list):
        return [t for part in out for t in flat(part)]
    return [out] if hasattr(out, "dtype") and hasattr(out, "shape") else []
