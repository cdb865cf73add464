"""Workload s: an LSTM that tags sequences of different lengths, a whole SGD step.

32 sequences of 5 to 50 steps of 64 numbers, 128 hidden, 10 tags; the mean of the cross-entropy over
the steps that there are, lr 0.1. A peer pads to the longest: what stands behind the end of a
sequence changes nothing before it, and is left out of the mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, main, threads, training

LONGEST, BATCH, INPUTS, HIDDEN, TAGS = 50, 32, 64, 128, 10
LR = 0.1
NO_TAG = -100
"""The tag of steps that are not there."""


def data() -> tuple[Any, Any, Any]:
    """Sequences (LONGEST, BATCH, INPUTS), their lengths, and their tags (LONGEST, BATCH)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((LONGEST, BATCH, INPUTS)).astype(np.float32)
    lengths = rng.integers(5, LONGEST + 1, BATCH)
    lengths[0] = LONGEST
    tags = rng.integers(0, TAGS, (LONGEST, BATCH))
    tags[np.arange(LONGEST)[:, None] >= lengths] = NO_TAG
    return x, lengths, tags


def values() -> list[Any]:
    """The parameters in PyTorch's order and layout."""
    rng = np.random.default_rng(0)
    gates = 4 * HIDDEN
    shapes = [(gates, INPUTS), (gates, HIDDEN), (gates,), (gates,), (TAGS, HIDDEN), (TAGS,)]
    bound = HIDDEN**-0.5
    return [rng.uniform(-bound, bound, s).astype(np.float32) for s in shapes]


def model_of(library: Any) -> tuple[Any, Any, list[Any]]:
    """The recurrent layer, the one that tags, and the parameters of both."""
    layers = library.nn.LSTM(INPUTS, HIDDEN), library.nn.Linear(HIDDEN, TAGS)
    parameters = [p for layer in layers for p in layer.parameters()]
    for p, value in zip(parameters, values(), strict=True):
        p.detach()[...] = library.from_numpy(value)
    return *layers, parameters


def objective(library: Any, scores: Any, tags: Any) -> Any:
    """The mean over the steps that there are."""
    F = library.nn.functional
    return F.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=NO_TAG)


def staticflow_static(padded: bool = False) -> Contestant:
    """``lengths=``, or as if all were the longest; all sizes but the widths are unknown."""
    import staticflow as sf

    arrays = data()
    lstm, tag, parameters = model_of(sf)
    x = sf.placeholder(("T", "B", INPUTS), name="x")
    lengths = sf.placeholder(("B",), "int64", name="lengths")
    tags = sf.placeholder(("T", "B"), "int64", name="tags")
    hidden, _ = lstm(x) if padded else lstm(x, lengths=lengths)
    loss = objective(sf, tag(hidden), tags)
    updates = sf.optim.SGD(parameters, lr=LR).minimize(loss)
    step = sf.compile([x, lengths, tags], loss, updates=updates)
    return training(lambda: step(*arrays), lambda: parameters, step, arrays)


def staticflow_eager() -> Contestant:
    """``lengths=``, by autograd."""
    import staticflow as sf

    x, lengths, tags = map(sf.from_numpy, data())
    lstm, tag, parameters = model_of(sf)
    return by_autograd(sf, parameters, lambda: tag(lstm(x, lengths=lengths)[0]), tags)


def by_autograd(library: Any, parameters: list[Any], scores: Any, tags: Any) -> Contestant:
    """One operation after the other."""
    optimiser = library.optim.SGD(parameters, lr=LR)

    def step() -> Any:
        optimiser.zero_grad()
        loss = objective(library, scores(), tags)
        loss.backward()
        optimiser.step()
        return loss

    return training(step, lambda: parameters)


def pytorch(packed: bool) -> Contestant:
    """``nn.LSTM``, padded or packed."""
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    torch.set_num_threads(threads())
    x, lengths, tags = map(torch.from_numpy, data())
    lstm, tag, parameters = model_of(torch)

    def scores() -> Any:
        if not packed:
            return tag(lstm(x)[0])
        rows = pack_padded_sequence(x, lengths, enforce_sorted=False)
        return tag(pad_packed_sequence(lstm(rows)[0])[0])

    return by_autograd(torch, parameters, scores, tags)


def jax_padded() -> Contestant:
    """A scan."""
    import jax
    import jax.numpy as jnp

    x, _, tags = map(jnp.asarray, data())
    weights = [jnp.asarray(v) for v in values()]

    def objective(weights: Any, x: Any, tags: Any) -> Any:
        w, u, b, c, out, shift = weights

        def one(state: Any, row: Any) -> Any:
            i, f, g, o = jnp.split(row + state[0] @ u.T, 4, -1)
            cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        start = (jnp.zeros((x.shape[1], HIDDEN)),) * 2
        hidden = jax.lax.scan(one, start, x @ w.T + (b + c))[1]
        logs = jax.nn.log_softmax(hidden @ out.T + shift)
        there = tags != NO_TAG
        chosen = jnp.take_along_axis(logs, jnp.where(there, tags, 0)[..., None], 2)[..., 0]
        return -jnp.where(there, chosen, 0).sum() / there.sum()

    @jax.jit(donate_argnums=0)
    def step(weights: Any, x: Any, tags: Any) -> Any:
        loss, grads = jax.value_and_grad(objective)(weights, x, tags)
        return loss, [w - LR * g for w, g in zip(weights, grads, strict=True)]

    loss = None

    def run(n: int) -> None:
        nonlocal loss, weights
        for _ in range(n):
            loss, weights = step(weights, x, tags)
        jax.block_until_ready(weights)

    return Contestant(run, lambda: (loss, *weights))


if __name__ == "__main__":
    main(
        __doc__,
        {
            "LSTM on sequences of 5 to 50 steps, SGD step": {
                "PyTorch, padded": lambda: pytorch(packed=False),
                "PyTorch, packed": lambda: pytorch(packed=True),
                "staticflow static": staticflow_static,
                "staticflow, padded": lambda: staticflow_static(padded=True),
                "staticflow eager": staticflow_eager,
                "JAX, padded": jax_padded,
            }
        },
        checked_runs=3,
        tolerance=1e-3,
    )
