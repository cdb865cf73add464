"""LeNet on several processes, each with its part of every batch: the losses are those of one.

`python -m staticflow launch -n 4 examples/data_parallel.py` starts four; without that, or without
MPI, the script runs alone. What differs from training by one process is that images and labels are
said to be split, and that the step is compiled for the mesh: the sums of gradients follow from it.
They are added in another order, and training makes what that rounds off grow: in float32 to some
percent in 100 steps, in float64 to nothing that matters.
"""

import sys

import staticflow as sf
from staticflow import distributed, nn
from staticflow.nn import functional as F
from staticflow.tools.digits import load_digits, shuffle_batches


def network():
    """LeNet-5 (LeCun et al. 1998) with ReLU and maxima: images (N, 1, 32, 32) to scores (N, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def main(steps: int = 300, dtype: str = "float32") -> list[float]:
    """Train for some steps; returns the losses."""
    mesh = distributed.mesh(data=-1)
    sf.manual_seed(0)
    model = network().to(getattr(sf, dtype))
    optimiser = sf.optim.Adam(model.parameters(), lr=2e-3)

    x = sf.placeholder(("N", 1, 32, 32), dtype, name="x")
    target = sf.placeholder(("N",), "int64", name="target")
    scores = model(distributed.shard(x, "data", None, None, None))
    cost = F.cross_entropy(scores, distributed.shard(target, "data"))
    train = sf.compile([x, target], cost, updates=optimiser.minimize(cost), mesh=mesh)

    digits = load_digits()
    batches = shuffle_batches(len(digits.train_labels), 64)
    losses = []
    for step in range(1, steps + 1):
        rows = next(batches)
        images = digits.train_images[rows].reshape(-1, 1, 8, 8).repeat(4, axis=2).repeat(4, axis=3)
        losses.append(train(images.astype(dtype), digits.train_labels[rows]).item())
        if step % 50 == 0 and mesh.rank == 0:
            print(f"step {step}, {mesh.size} processes: loss {losses[-1]:.6f}", flush=True)
    return losses


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
