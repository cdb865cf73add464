"""A recurrent network on sequences of any length, in batches of any size: one compiled program.

``sf.scan`` is a loop of the graph. Its gradient is another loop, so neither direction is unrolled
and a new length compiles nothing. The network learns to follow a sequence of numbers by its leaky
average, which a second loop works out.
"""

import numpy as np

import staticflow as sf
from staticflow import nn

HIDDEN = 16

example_inputs = ("xs: f32[T=20, N=32, 1]",)
optimizer = "sgd(lr=0.05, momentum=0.9)"


class Recurrent(nn.Module):
    """``h = tanh(x w_in + h w_h + b)`` along time; the last h gives the prediction."""

    def __init__(self) -> None:
        self.encode = nn.Linear(1, HIDDEN)
        self.recur = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.decode = nn.Linear(HIDDEN, 1)
        self.start = nn.Parameter(sf.zeros(HIDDEN))

    def forward(self, xs):
        """Sequences (T, N, 1) to predictions (N, 1)."""

        def step(h, x):
            return (x + self.recur(h)).tanh(), None

        start = self.start.expand(xs.shape[1], HIDDEN)
        last, _ = sf.scan(step, start, self.encode(xs))
        return self.decode(last)


def leaky_average(xs):
    """The last of ``a = 0.6 a + 0.4 x`` along sequences (T, N, 1), from 0."""
    average, _ = sf.scan(lambda a, x: (0.6 * a + 0.4 * x, None), sf.zeros_like(xs[0]), xs)
    return average


def loss(predicted, xs):
    """How far the predictions are from the leaky averages of the sequences."""
    return nn.functional.mse_loss(predicted, leaky_average(xs))


def main(steps: int = 300) -> list[float]:
    """Train for some steps; returns the losses."""
    sf.manual_seed(0)
    random = np.random.default_rng(0)
    model = Recurrent()
    optimiser = sf.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    xs = sf.placeholder(("T", "N", 1), name="xs")
    cost = loss(model(xs), xs)
    train = sf.compile([xs], cost, updates=optimiser.minimize(cost))

    losses, shapes = [], set()
    for step in range(steps):
        length, batch = random.integers(2, 20), random.integers(8, 64)
        shapes.add((length, batch))
        losses.append(train(random.standard_normal((length, batch, 1), np.float32)).item())
        if step % 50 == 49:
            print(f"step {step + 1}: mean loss of 50 steps {np.mean(losses[-50:]):.6g}")
    print(f"{len(shapes)} shapes, compiled {train.compile_count} time")

    sequence = sf.randn(7, 1, 1)  # the same model, define-by-run
    wanted, predicted = leaky_average(sequence).item(), model(sequence).item()
    print(f"an average of {wanted:.3f} is predicted as {predicted:.3f}")
    return losses


if __name__ == "__main__":
    main()
