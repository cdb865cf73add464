"""A pipeline: each process has some layers of one network, and passes on what they give.

`python -m staticflow launch -n 4 examples/pipeline.py` starts four; started alone, the script has
all layers. A batch goes through in micro-batches, one behind the other, so that all processes
compute at once: in each turn of a loop a process takes what the one before it gave in the turn
before. The gradient of that loop goes the way back by itself. The losses are those of one process.
"""

import sys

import staticflow as sf
from staticflow import distributed

LAYERS, WIDTH, MICRO_BATCHES, ROWS = 4, 16, 6, 8


def run_layers(weights, x):
    """The layers of this process, one behind the other, on a micro-batch."""
    for i in range(weights.shape[0]):
        x = x + (x @ weights[i]).tanh()
    return x


def pipeline_loss(mesh, weights, inputs, targets):
    """This process's share of the loss: the last one has all of it, the others 0. Tensors say which
    process this is, not Python, so that all have one graph, and the same messages in one order."""
    first, last = sf.tensor(mesh.rank == 0), sf.tensor(mesh.rank == mesh.size - 1)
    onwards = [(i, i + 1) for i in range(mesh.size - 1)]
    nothing = sf.zeros(ROWS, WIDTH, dtype=sf.float64)
    waits = sf.zeros(mesh.size - 1, ROWS, WIDTH, dtype=sf.float64)  # turns until the last begins

    def turn(given, micro_batch):
        taken = distributed.exchange(given, mesh, onwards)
        given = run_layers(weights, sf.where(first, micro_batch, taken))
        return given, given

    _, results = sf.scan(turn, nothing, sf.cat([inputs, waits]))
    loss = ((results[mesh.size - 1 :] - targets) ** 2).mean()
    return sf.where(last, loss, 0.0)


def main(steps: int = 200) -> list[float]:
    """Train for some steps; returns the losses."""
    mesh = distributed.mesh(stage=-1)
    if LAYERS % mesh.size:
        raise SystemExit(f"{LAYERS} layers are for 1, 2 or 4 processes, and there are {mesh.size}")
    sf.manual_seed(0)
    own = LAYERS // mesh.size
    every = sf.randn(LAYERS, WIDTH, WIDTH, dtype=sf.float64) / WIDTH
    weights = sf.nn.Parameter(every[mesh.rank * own : (mesh.rank + 1) * own].clone())
    optimiser = sf.optim.Adam([weights], lr=3e-3)

    shape = MICRO_BATCHES, ROWS, WIDTH
    x, y = (sf.placeholder(shape, sf.float64, name=name) for name in "xy")
    loss = pipeline_loss(mesh, weights, x, y)
    total = distributed.all_reduce(loss, mesh)  # which only one of them has, on all
    train = sf.compile([x, y], total, updates=optimiser.minimize(loss))

    turned = sf.linalg.qr(sf.randn(WIDTH, WIDTH, dtype=sf.float64)).Q  # what is to be learnt
    losses = []
    for step in range(1, steps + 1):
        batch = sf.randn(*shape, dtype=sf.float64)
        losses.append(train(batch, batch @ turned).item())
        if step % 50 == 0 and mesh.rank == 0:
            print(f"step {step}, {mesh.size} stages: loss {losses[-1]:.6f}", flush=True)
    return losses


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
