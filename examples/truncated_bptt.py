"""Truncated back-propagation through time: a recurrent network learns a wave, chunk by chunk.

The state goes on from chunk to chunk, but its history does not: ``detach`` gives the same values
without it, so that a backward pass goes back one chunk and no further, whatever the length.
"""

import staticflow as sf
from staticflow import nn, optim

BATCH, HIDDEN, CHUNK = 16, 32, 20


class Predictor(nn.Module):
    """From one value of a wave to the next."""

    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(1, HIDDEN)
        self.out = nn.Linear(HIDDEN, 1)

    def forward(self, x, state):
        state = self.cell(x, state)
        return self.out(state), state


def main(steps: int = 300) -> list[float]:
    """Train on one chunk after another; returns the losses."""
    sf.manual_seed(0)
    model = Predictor()
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    phase = sf.rand(BATCH, 1) * 6
    state = sf.zeros(BATCH, HIDDEN)

    losses = []
    for step in range(1, steps + 1):
        state = state.detach()  # here the history of earlier chunks ends
        loss = 0.0
        for t in range(CHUNK):
            now = sf.sin(phase + 0.3 * (step * CHUNK + t))
            guess, state = model(now, state)
            loss = loss + (guess - sf.sin(phase + 0.3 * (step * CHUNK + t + 1))).pow(2).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.6g}")
    return losses


if __name__ == "__main__":
    main()
