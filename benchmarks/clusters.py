"""Workload q: k-means, Viterbi's best path, and the log-partition of a chain with its gradient.

k-means: 10,000 points of 16 numbers, 32 centres, 10 rounds. The chain: 64 states, 200 steps, a
batch of 16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, call_program, main, repeated, threads

POINTS, SIZE, CENTRES, ROUNDS = 10_000, 16, 32, 10
STATES, STEPS, BATCH = 64, 200, 16


def points() -> tuple[Any, Any]:
    """The points, and the first centres. There are no groups among them, so that no round is the
    last and no centre is left alone, which scikit-learn would end with or put elsewhere."""
    x = np.random.default_rng(0).standard_normal((POINTS, SIZE)).astype(np.float32)
    return x, x[:CENTRES].copy()


def chain() -> tuple[Any, Any]:
    """The scores of the states, (STEPS, BATCH, STATES), and of going from one to another."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((STEPS, BATCH, STATES)).astype(np.float32)
    return scores, rng.standard_normal((STATES, STATES)).astype(np.float32)


# -- k-means --------------------------------------------------------------------------------------


def numpy_kmeans() -> Contestant:
    """Distances by one product, sums by one more with the matrix of memberships."""
    x, first = points()
    eye = np.eye(CENTRES, dtype=np.float32)

    def call() -> Any:
        c = first
        for _ in range(ROUNDS):
            nearest = ((c * c).sum(1) - 2 * (x @ c.T)).argmin(1)
            member = eye[nearest]
            c = (member.T @ x) / np.maximum(member.sum(0), 1)[:, None]
        return c

    return repeated(call)


def staticflow_kmeans() -> Contestant:
    """A loop of the graph."""
    import staticflow as sf

    arrays = points()
    x = sf.placeholder((None, SIZE), name="x")
    first = sf.placeholder((CENTRES, SIZE), name="first")

    def step(_: Any, c: Any) -> Any:
        nearest = ((c * c).sum(1) - 2 * (x @ c.T)).argmin(1)
        total = sf.zeros(CENTRES, SIZE).index_add(0, nearest, x)
        count = sf.zeros(CENTRES).index_add(0, nearest, sf.ones(1).expand(x.shape[0]))
        return total / count.clamp(min=1)[:, None]

    program = sf.compile([x, first], sf.fori_loop(0, ROUNDS, step, first))
    return call_program(program, *arrays)


def jax_kmeans() -> Contestant:
    """``fori_loop``."""
    import jax
    import jax.numpy as jnp

    x, first = map(jnp.asarray, points())

    @jax.jit
    def program(x: Any, first: Any) -> Any:
        def step(_: Any, c: Any) -> Any:
            nearest = ((c * c).sum(1) - 2 * (x @ c.T)).argmin(1)
            member = jax.nn.one_hot(nearest, CENTRES)
            return (member.T @ x) / jnp.maximum(member.sum(0), 1)[:, None]

        return jax.lax.fori_loop(0, ROUNDS, step, first)

    return repeated(lambda: program(x, first), jax.block_until_ready)


def sklearn_kmeans() -> Contestant:
    """Lloyd's algorithm, as many rounds."""
    from sklearn.cluster import KMeans

    x, first = points()

    def call() -> Any:
        made = KMeans(CENTRES, init=first, n_init=1, max_iter=ROUNDS, tol=0, algorithm="lloyd")
        return made.fit(x).cluster_centers_

    return repeated(call)


def pytorch_kmeans() -> Contestant:
    """Eager."""
    import torch

    torch.set_num_threads(threads())
    x, first = map(torch.from_numpy, points())

    def call() -> Any:
        c = first
        for _ in range(ROUNDS):
            nearest = ((c * c).sum(1) - 2 * (x @ c.T)).argmin(1)
            total = torch.zeros_like(c).index_add_(0, nearest, x)
            c = total / torch.bincount(nearest, minlength=CENTRES).clamp(min=1)[:, None]
        return c

    return repeated(call)


# -- the best path --------------------------------------------------------------------------------


def numpy_viterbi() -> Contestant:
    """The score of the best path of each chain."""
    scores, moves = chain()

    def call() -> Any:
        best = scores[0]
        for row in scores[1:]:
            best = (best[:, :, None] + moves).max(1) + row
        return best.max(1)

    return repeated(call)


def staticflow_viterbi() -> Contestant:
    """A scan."""
    import staticflow as sf

    arrays = chain()
    scores = sf.placeholder((None, None, STATES), name="scores")
    moves = sf.placeholder((STATES, STATES), name="moves")
    last, _ = sf.scan(
        lambda best, row: ((best[:, :, None] + moves).amax(1) + row, None), scores[0], scores[1:]
    )
    return call_program(sf.compile([scores, moves], last.amax(1)), *arrays)


def pytorch_viterbi() -> Contestant:
    """Eager."""
    import torch

    torch.set_num_threads(threads())
    scores, moves = map(torch.from_numpy, chain())

    def call() -> Any:
        best = scores[0]
        for row in scores[1:]:
            best = (best[:, :, None] + moves).amax(1) + row
        return best.amax(1)

    return repeated(call)


def numba_viterbi() -> Contestant:
    """Loops."""
    import numba

    @numba.njit(fastmath=True)
    def path(scores: Any, moves: Any) -> Any:
        steps, batch, states = scores.shape
        best = scores[0].copy()
        new = np.empty_like(best)
        for t in range(1, steps):
            for b in range(batch):
                new[b] = -np.inf
                for i in range(states):
                    for j in range(states):
                        new[b, j] = max(new[b, j], best[b, i] + moves[i, j])
                for j in range(states):
                    new[b, j] += scores[t, b, j]
            best, new = new, best
        found = np.empty(batch, np.float32)
        for b in range(batch):
            found[b] = best[b].max()
        return found

    arrays = chain()
    return repeated(lambda: path(*arrays))


def jax_viterbi() -> Contestant:
    """A scan."""
    import jax
    import jax.numpy as jnp

    scores, moves = map(jnp.asarray, chain())

    @jax.jit
    def program(scores: Any, moves: Any) -> Any:
        def step(best: Any, row: Any) -> Any:
            return (best[:, :, None] + moves).max(1) + row, None

        return jax.lax.scan(step, scores[0], scores[1:])[0].max(1)

    return repeated(lambda: program(scores, moves), jax.block_until_ready)


# -- the log-partition and its gradient -----------------------------------------------------------


def numpy_partition() -> Contestant:
    """Forward and backward written out; the gradient is of the sum over the batch."""
    scores, moves = chain()

    def lse(a: Any, axis: int) -> Any:
        m = a.max(axis, keepdims=True)
        return (np.log(np.exp(a - m).sum(axis, keepdims=True)) + m).squeeze(axis)

    def call() -> Any:
        alphas = [scores[0]]
        for row in scores[1:]:
            alphas.append(lse(alphas[-1][:, :, None] + moves, 1) + row)
        total = lse(alphas[-1], 1)
        grad_scores, grad_moves = np.empty_like(scores), np.zeros_like(moves)
        back = np.exp(alphas[-1] - total[:, None])
        for t in range(len(scores) - 1, 0, -1):
            grad_scores[t] = back
            joint = alphas[t - 1][:, :, None] + moves - (alphas[t] - scores[t])[:, None, :]
            joint = np.exp(joint) * back[:, None, :]
            grad_moves += joint.sum(0)
            back = joint.sum(2)
        grad_scores[0] = back
        return total, grad_scores, grad_moves

    return repeated(call)


def staticflow_partition() -> Contestant:
    """A scan and its derivative."""
    import staticflow as sf

    arrays = chain()
    scores = sf.placeholder((None, None, STATES), name="scores")
    moves = sf.placeholder((STATES, STATES), name="moves")
    last, _ = sf.scan(
        lambda a, row: ((a[:, :, None] + moves).logsumexp(1) + row, None), scores[0], scores[1:]
    )
    total = last.logsumexp(1)
    program = sf.compile([scores, moves], (total, *sf.grad(total.sum(), [scores, moves])))
    return call_program(program, *arrays)


def pytorch_partition() -> Contestant:
    """Autograd."""
    import torch

    torch.set_num_threads(threads())
    scores, moves = (torch.from_numpy(a).requires_grad_() for a in chain())

    def call() -> Any:
        alpha = scores[0]
        for row in scores[1:]:
            alpha = (alpha[:, :, None] + moves).logsumexp(1) + row
        total = alpha.logsumexp(1)
        return total.detach(), *torch.autograd.grad(total.sum(), [scores, moves])

    return repeated(call)


def jax_partition() -> Contestant:
    """A scan and its derivative."""
    import jax
    import jax.numpy as jnp

    scores, moves = map(jnp.asarray, chain())

    def total_of(scores: Any, moves: Any) -> Any:
        def step(a: Any, row: Any) -> Any:
            return jax.nn.logsumexp(a[:, :, None] + moves, axis=1) + row, None

        total = jax.nn.logsumexp(jax.lax.scan(step, scores[0], scores[1:])[0], axis=1)
        return total.sum(), total

    gradient = jax.value_and_grad(total_of, argnums=(0, 1), has_aux=True)

    @jax.jit
    def program(scores: Any, moves: Any) -> Any:
        (_, total), grads = gradient(scores, moves)
        return total, *grads

    return repeated(lambda: program(scores, moves), jax.block_until_ready)


if __name__ == "__main__":
    main(
        __doc__,
        {
            "k-means, 10 rounds": {
                "NumPy": numpy_kmeans,
                "staticflow static": staticflow_kmeans,
                "scikit-learn": sklearn_kmeans,
                "PyTorch eager": pytorch_kmeans,
                "JAX jit": jax_kmeans,
            },
            "Viterbi": {
                "NumPy": numpy_viterbi,
                "staticflow static": staticflow_viterbi,
                "numba": numba_viterbi,
                "PyTorch eager": pytorch_viterbi,
                "JAX jit": jax_viterbi,
            },
            "log-partition with gradient": {
                "NumPy": numpy_partition,
                "staticflow static": staticflow_partition,
                "PyTorch eager": pytorch_partition,
                "JAX jit": jax_partition,
            },
        },
        tolerance=1e-3,
    )
