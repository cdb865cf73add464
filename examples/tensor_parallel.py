"""A transformer on several processes, split in two ways: its batches over one axis of the mesh, its
heads and hidden units over the other. The losses are those of one process.

`python -m staticflow launch -n 4 examples/tensor_parallel.py` starts four, two along each axis;
without that, or without MPI, the script runs alone. Every layer is written in whole tensors. What
is said of it is how its weights are split: columns of the first matrix of a pair, rows of the
second, so that the processes add up once behind each pair (Shoeybi et al. 2019, arXiv:1909.08053).
The task is to say of each of twelve letters which one came before it.
"""

import sys

import numpy as np

import staticflow as sf
from staticflow import distributed, nn
from staticflow.nn import functional as F

LETTERS, LENGTH, WIDTH, HEADS = 8, 12, 32, 4


def matrix(rows, columns):
    """A weight whose products are about as large as what it is multiplied with."""
    return nn.Parameter(sf.randn(rows, columns) / rows**0.5)


def make_layer():
    """The weights of a layer, and its norms."""
    shapes = {name: (WIDTH, WIDTH) for name in ("query", "key", "value", "joined")}
    shapes |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    return nn.ModuleDict({
        "weights": nn.ParameterDict({name: matrix(*shape) for name, shape in shapes.items()}),
        "before_attention": nn.LayerNorm(WIDTH),
        "before_perceptron": nn.LayerNorm(WIDTH),
    })  # fmt: skip


def apply_layer(layer, x):
    """Attention and a perceptron, each behind a norm and beside what it is given, (N, L, WIDTH)."""

    def by_columns(x, name):
        return x @ distributed.shard(layer["weights"][name], None, "model")

    def by_rows(x, name):
        return x @ distributed.shard(layer["weights"][name], "model", None)

    def heads(name):
        return by_columns(y, name).reshape(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)

    y = layer["before_attention"](x)
    seen = F.scaled_dot_product_attention(*map(heads, ("query", "key", "value")), is_causal=True)
    x = x + by_rows(seen.transpose(1, 2).reshape(*x.shape), "joined")
    hidden = F.gelu(by_columns(layer["before_perceptron"](x), "up"))
    return x + by_rows(hidden, "down")


def main(steps: int = 60, dtype: str = "float32", layers: int = 2) -> list[float]:
    """Train for some steps; returns the losses."""
    alone = distributed.mesh(data=-1).size
    mesh = distributed.mesh(data=-1, model=2 if alone % 2 == 0 else 1)
    sf.manual_seed(0)
    model = nn.ModuleDict({
        "letters": nn.Embedding(LETTERS, WIDTH),
        "places": nn.Embedding(LENGTH, WIDTH),
        "layers": nn.ModuleList([make_layer() for _ in range(layers)]),
        "scores": nn.Linear(WIDTH, LETTERS),
    }).to(getattr(sf, dtype))  # fmt: skip
    optimiser = sf.optim.Adam(model.parameters(), lr=3e-3)

    x, before = (sf.placeholder((None, LENGTH), "int64", name=name) for name in ("x", "before"))
    rows, targets = (distributed.shard(v, "data", None) for v in (x, before))
    found = model["letters"](rows) + sf.symbol(model["places"].weight)
    for layer in model["layers"]:
        found = apply_layer(layer, found)
    cost = F.cross_entropy(model["scores"](found).reshape(-1, LETTERS), targets.reshape(-1))
    train = sf.compile([x, before], cost, updates=optimiser.minimize(cost), mesh=mesh)

    rng = np.random.default_rng(0)
    losses = []
    for step in range(1, steps + 1):
        letters = rng.integers(0, LETTERS, (32, LENGTH))
        losses.append(train(letters, np.roll(letters, 1, axis=1) * (np.arange(LENGTH) > 0)).item())
        if step % 20 == 0 and mesh.rank == 0:
            print(f"step {step}, {mesh.size} processes: loss {losses[-1]:.6f}", flush=True)
    return losses


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
