"""Control flow and weight sharing: a hidden layer that is used one to four times, drawn at random.

Define-by-run, ordinary Python decides at each call how deep the network is, and the tape records
what was done. Define-then-run, the number of repeats is an input and the loop is part of the graph:
one program for every depth. Either way the gradient of the shared layer adds up over its uses.
``DEVICE = "cuda"`` runs the define-by-run half on a GPU. The two are trained in float64: in float32
they part as soon as a unit is so near to ReLU's zero that rounding puts it on either side.
"""

import numpy as np

import staticflow as sf
from staticflow import nn, optim

DEVICE = "cpu"
BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 100, 50, 10

example_inputs = ("x: f32[N=64, 100]", "repeats: i64[] < 5", "y: f32[N, 10]")
optimizer = "adam(lr=1e-2)"
loss = nn.MSELoss(reduction="sum")


def batches(seed):
    """The same rows at every step, and one to four uses of the hidden layer."""
    draw = np.random.default_rng(seed)
    x, y = (draw.standard_normal((BATCH, size)) for size in (INPUTS, OUTPUTS))
    while True:
        yield x, draw.integers(1, 5), y


class RandomDepth(nn.Module):
    """Rows (N, INPUTS) to (N, OUTPUTS), through ``repeats`` uses of one hidden layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(INPUTS, HIDDEN)
        self.shared = nn.Linear(HIDDEN, HIDDEN)
        self.last = nn.Linear(HIDDEN, OUTPUTS)

    def forward(self, x, repeats):
        h = self.first(x).relu()
        h = sf.fori_loop(0, repeats, lambda i, h: self.shared(h).relu(), h)
        return self.last(h)


class PythonDepth(RandomDepth):
    """The same with Python's loop."""

    def forward(self, x, repeats):
        h = self.first(x).relu()
        for _ in range(repeats):
            h = self.shared(h).relu()
        return self.last(h)


def main(steps: int = 500) -> list[float]:
    """Train for some steps in both modes; returns the losses."""
    sf.manual_seed(0)
    model, twin = RandomDepth().double(), PythonDepth().double().to(DEVICE)
    twin.load_state_dict(model.state_dict())
    optimizer, twin_optimizer = (optim.Adam(m.parameters(), lr=1e-2) for m in (model, twin))

    x = sf.placeholder(("N", INPUTS), "float64", name="x")
    y = sf.placeholder(("N", OUTPUTS), "float64", name="y")
    repeats = sf.placeholder((), "int64", name="repeats")
    cost = loss(model(x, repeats), y)
    train = sf.compile([x, repeats, y], cost, updates=optimizer.minimize(cost))

    losses, differences = [], []
    for step, (data, depth, wanted) in zip(range(1, steps + 1), batches(1), strict=False):
        losses.append(train(data, depth, wanted).item())
        data, wanted = (sf.from_numpy(a).to(DEVICE) for a in (data, wanted))
        cost = loss(twin(data, depth), wanted)
        twin_optimizer.zero_grad()
        cost.backward()
        twin_optimizer.step()
        differences.append(abs(cost.item() / losses[-1] - 1))
        if step % 100 == 0:
            print(f"step {step}: loss {losses[-1]:.6g}, define-by-run {cost.item():.6g}")
    print(f"compiled {train.compile_count} time for all depths")
    print(f"100 steps of both modes differ by {max(differences[:100]):.0e}")
    return losses


if __name__ == "__main__":
    main()
