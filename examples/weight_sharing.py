"""Control flow and weight sharing: a hidden layer that is used one to four times, drawn at random.

Ordinary Python decides at each call how deep the network is; the tape records what was done, and
the gradient of the shared layer adds up over its uses. ``DEVICE = "cuda"`` runs it on a GPU.
"""

import random

import staticflow as sf
from staticflow import nn, optim

DEVICE = "cpu"
BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 100, 50, 10


class RandomDepth(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(INPUTS, HIDDEN)
        self.shared = nn.Linear(HIDDEN, HIDDEN)
        self.last = nn.Linear(HIDDEN, OUTPUTS)

    def forward(self, x):
        h = self.first(x).relu()
        for _ in range(random.randint(1, 4)):
            h = self.shared(h).relu()
        return self.last(h)


def main(steps: int = 500) -> list[float]:
    """Train for some steps; returns the losses."""
    sf.manual_seed(0)
    random.seed(0)
    x, y = sf.randn(BATCH, INPUTS, device=DEVICE), sf.randn(BATCH, OUTPUTS, device=DEVICE)
    model = RandomDepth().to(DEVICE)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    loss_of = nn.MSELoss(reduction="sum")

    losses = []
    for step in range(1, steps + 1):
        loss = loss_of(model(x), y)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.6g}")
    return losses


if __name__ == "__main__":
    main()
