"""A pipeline: each process has some layers of one network, and passes on what they give.

`python -m staticflow launch -n 4 examples/pipeline.py` starts four; started alone, the script has
all layers. A batch goes through in micro-batches, one behind the other, so that all processes
compute at once. `distributed.pipeline` writes that as one loop over whole tensors, which a process
runs with its layers: in each turn it takes what the one before it gave in the turn before, and the
gradient goes the way back. Weights and their states are in the memory of their own process alone.
The losses are those of one process.
"""

import sys

import staticflow as sf
from staticflow import distributed

LAYERS, WIDTH, MICRO_BATCHES, ROWS = 4, 32, 6, 8


def run_layer(weight, x):
    """One layer, a stage, on a micro-batch."""
    return x + (x @ weight).tanh()


def main(steps: int = 200) -> list[float]:
    """Train for some steps; returns the losses."""
    mesh = distributed.mesh(stage=-1)
    sf.manual_seed(0)
    weights = sf.nn.Parameter(sf.randn(LAYERS, WIDTH, WIDTH, dtype=sf.float64) / WIDTH)
    turned = sf.linalg.qr(sf.randn(WIDTH, WIDTH, dtype=sf.float64)).Q  # what is to be learnt
    optimiser = sf.optim.Adam([weights], lr=3e-3)
    distributed.split_parameters(optimiser, mesh.axis("stage"), dim=0)

    shape = MICRO_BATCHES, ROWS, WIDTH
    x, y = (sf.placeholder(shape, sf.float64, name=name) for name in "xy")
    found = distributed.pipeline(sf.vmap(run_layer), weights, x, "stage")
    loss = ((found - y) ** 2).mean()
    train = sf.compile([x, y], loss, updates=optimiser.minimize(loss), mesh=mesh)

    losses = []
    for step in range(1, steps + 1):
        batch = sf.randn(*shape, dtype=sf.float64)
        losses.append(train(batch, batch @ turned).item())
        if step % 50 == 0 and mesh.rank == 0:
            print(f"step {step}, {mesh.size} processes: loss {losses[-1]:.6f}", flush=True)
    return losses


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
