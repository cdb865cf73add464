"""Truncated back-propagation through time: a recurrent network learns a wave, chunk by chunk.

The state goes on from chunk to chunk, but its history does not: a backward pass goes back one chunk
and no further, whatever the length. Define-by-run, ``detach`` gives the same values without their
history. Define-then-run, the state is a variable that each call updates, and what a call reads from
a variable has no history; the chunk is a loop of the graph, of any length.
"""

import numpy as np

import staticflow as sf
from staticflow import nn, optim

BATCH, HIDDEN, CHUNK = 16, 32, 20

example_inputs = ("now: f32[T=20, N=16, 1]", "state: f32[N, 32]", "following: f32[T, N, 1]")
optimizer = "adam(lr=5e-3)"


def loss(output, following):
    """How far the guesses are from the values that follow."""
    guess, _ = output
    return nn.functional.mse_loss(guess, following)


class Predictor(nn.Module):
    """From a wave (T, N, 1) and the state (N, HIDDEN) before it to its next values, and the state
    after it."""

    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(1, HIDDEN)
        self.out = nn.Linear(HIDDEN, 1)

    def forward(self, wave, state):
        last, states = sf.scan(lambda h, x: (self.cell(x, h),) * 2, state, wave)
        return self.out(states), last


def main(steps: int = 300) -> list[float]:
    """Train in both modes on one chunk after another; returns the losses."""
    sf.manual_seed(0)
    model, twin = Predictor(), Predictor()
    twin.load_state_dict(model.state_dict())
    optimizer, twin_optimizer = (optim.Adam(m.parameters(), lr=5e-3) for m in (model, twin))

    state = sf.variable(sf.zeros(BATCH, HIDDEN))
    now, following = (sf.placeholder(("T", BATCH, 1), name=name) for name in ("now", "following"))
    guess, last = model(now, sf.symbol(state))
    cost = loss((guess, last), following)
    updates = {**optimizer.minimize(cost), state: last}  # all at once, when the step is done
    train = sf.compile([now, following], cost, updates=updates)

    phase = np.random.default_rng(0).uniform(0, 6, (1, BATCH, 1))
    twin_state = sf.zeros(BATCH, HIDDEN)
    losses, differences = [], []
    for step in range(1, steps + 1):
        times = np.arange(step * CHUNK, (step + 1) * CHUNK + 1).reshape(-1, 1, 1)
        wave = np.sin(phase + 0.3 * times).astype(np.float32)
        losses.append(train(wave[:-1], wave[1:]).item())

        guess, last = twin(sf.from_numpy(wave[:-1]), twin_state)
        cost = loss((guess, last), sf.from_numpy(wave[1:]))
        twin_optimizer.zero_grad()
        cost.backward()
        twin_optimizer.step()
        twin_state = last.detach()  # here the history of this chunk ends
        differences.append(abs(cost.item() / losses[-1] - 1))
        if step % 100 == 0:
            print(f"step {step}: loss {losses[-1]:.6g}, define-by-run {cost.item():.6g}")
    print(f"100 steps of both modes differ by {max(differences[:100]):.0e}")
    return losses


if __name__ == "__main__":
    main()
