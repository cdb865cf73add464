"""Attention over one long sequence, of which each process has a part: keys and values go round.

`python -m staticflow launch -n 4 examples/ring_attention.py` starts four; alone, the script has the
whole sequence. Each process keeps its queries, and in each turn of a loop meets the keys and values
of another part, while it passes on those that it had (Liu, Zaharia, Abbeel 2023, arXiv:2310.01889).
So no process ever has its scores of more than one part; the way back computes them again, from keys
and values that each turn has kept. What is added up in turns is kept beside the largest score so
far (Milakov, Gimelshein 2018, arXiv:1805.02867). The losses are those of one process.
"""

import sys

import staticflow as sf
from staticflow import distributed

LENGTH, WIDTH = 64, 8


def attend_in_turns(mesh, q, k, v):
    """Causal attention of this process's part of the queries over all keys and values, each (L, C),
    where it has its part of these, too. Of the parts of a sequence the first is on the first
    process."""
    part = q.shape[0]
    onwards = [(i, (i + 1) % mesh.size) for i in range(mesh.size)]
    here = sf.tensor(mesh.rank)  # which tensors say, so that all have one graph
    rows = here * part + sf.arange(part)

    def turn(_, state):
        k, v, place, largest, total, sums = state
        columns = place * part + sf.arange(part)
        scores = q @ k.t() / WIDTH**0.5
        scores = sf.where(rows.unsqueeze(1) >= columns, scores, -sf.inf)
        above = sf.maximum(largest, scores.amax(1, keepdim=True)).detach()
        weights, shrink = (scores - above).exp(), (largest - above).exp()
        total = total * shrink + weights.sum(1, keepdim=True)
        sums = sums * shrink + weights @ v
        k, v, place = (distributed.exchange(x, mesh, onwards) for x in (k, v, place))
        return k, v, place, above, total, sums

    nothing = sf.zeros(part, 1, dtype=q.dtype)
    start = k, v, here, nothing - sf.inf, nothing, sf.zeros(part, WIDTH, dtype=q.dtype)
    *_, total, sums = sf.fori_loop(0, mesh.size, turn, start)
    return sums / total


def main(steps: int = 200) -> list[float]:
    """Learn to say the mean of all numbers so far; returns the losses."""
    mesh = distributed.mesh(sequence=-1)
    if LENGTH % mesh.size:
        raise SystemExit(f"{LENGTH} places do not come evenly to {mesh.size} processes")
    sf.manual_seed(0)
    weights = sf.nn.Parameter(sf.randn(3, WIDTH, WIDTH, dtype=sf.float64) / WIDTH**0.5)
    optimiser = sf.optim.Adam([weights], lr=2e-2)

    x, y = (sf.placeholder((LENGTH // mesh.size, WIDTH), sf.float64, name=name) for name in "xy")
    found = attend_in_turns(mesh, *(x @ weights[i] for i in range(3)))
    loss = ((found - y) ** 2).sum() / (LENGTH * WIDTH)  # this process's share
    grads = optimiser.gradients(loss)
    grads = {w: distributed.all_reduce(g, mesh) for w, g in grads.items()}
    total = distributed.all_reduce(loss, mesh)
    train = sf.compile([x, y], total, updates=optimiser.updates(grads))

    own = slice(mesh.rank * x.shape[0], (mesh.rank + 1) * x.shape[0])
    losses = []
    for step in range(1, steps + 1):
        sequence = sf.randn(LENGTH, WIDTH, dtype=sf.float64)
        means = sequence.cumsum(0) / sf.arange(1, LENGTH + 1).unsqueeze(1)
        losses.append(train(sequence[own], means[own]).item())
        if step % 50 == 0 and mesh.rank == 0:
            print(f"step {step}, {mesh.size} processes: loss {losses[-1]:.6f}", flush=True)
    return losses


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
