"""A differential equation solved with a step size of its own, and fitted to data by gradients.

A swinging pendulum with unknown friction and gravity is solved by Heun's method, whose steps grow
and shrink with the error that each one makes. How many there are depends on the parameters, which
change as they are learned; the gradient goes back through the very steps that were made.
"""

import numpy as np

import staticflow as sf
from staticflow import nn

TOLERANCE, END, MOST = 1e-3, 4.0, 1000

example_inputs = ("start: f64[2]", "seen: f64[2]")
optimizer = "adam(lr=0.02)"


class Pendulum(nn.Module):
    """From the angle and speed (2,) of a pendulum at the start to those at the end, and the number
    of steps that were tried."""

    def __init__(self, friction=0.1, gravity=1.5):
        super().__init__()
        self.friction = nn.Parameter(sf.tensor(friction, dtype="float64"))
        self.gravity = nn.Parameter(sf.tensor(gravity, dtype="float64"))

    def slope(self, state):
        """The change of angle and speed."""
        angle, speed = state
        return sf.stack([speed, -self.friction * speed - self.gravity * sf.sin(angle)])

    def forward(self, start):
        def going(t, state, dt, tries):
            return (t < END) & (tries < MOST)

        def attempt(t, state, dt, tries):
            dt = sf.minimum(dt, END - t)
            k1 = self.slope(state)
            k2 = self.slope(state + dt * k1)
            error = (k2 - k1).abs().max().detach() * dt / 2
            good = error <= TOLERANCE
            t = sf.where(good, t + dt, t)
            state = sf.where(good, state + dt * (k1 + k2) / 2, state)
            wider = (TOLERANCE / (error + 1e-12)).sqrt().clamp(0.2, 2.0)
            return t, state, 0.9 * dt * wider, tries + 1

        zero = start.sum() * 0
        _, state, _, tries = sf.while_loop(going, attempt, (zero, start, zero + 0.01, 0))
        return state, tries


def loss(output, seen):
    """How far the state at the end is from the one that was seen."""
    state, _ = output
    return (state - seen).pow(2).sum()


def batches(seed):
    """How a pendulum is let go, and how it is found at the end, without end."""
    draw = np.random.default_rng(seed)
    truth = Pendulum(0.3, 2.0)
    while True:
        start = np.array([draw.uniform(0.5, 2.0), 0.0])
        yield start, truth(sf.from_numpy(start))[0].detach().numpy()  # define-by-run


def main(steps: int = 200) -> list[float]:
    """Learn friction and gravity from where the pendulum is at the end; returns the losses."""
    model = Pendulum()
    optimiser = sf.optim.Adam(model.parameters(), lr=0.02)
    start, seen = (sf.placeholder((2,), "float64", name=name) for name in ("start", "seen"))
    state, tries = model(start)
    cost = loss((state, tries), seen)
    train = sf.compile([start, seen], [cost, tries], updates=optimiser.minimize(cost))

    losses = []
    for step, batch in zip(range(1, steps + 1), batches(0), strict=False):
        cost, tries = train(*batch)
        losses.append(cost.item())
        if step % 20 == 0:
            print(f"step {step}: loss {losses[-1]:.3g}, {tries.item()} steps of the solver")
    print(f"friction {model.friction.item():.3f}, gravity {model.gravity.item():.3f}")
    return losses


if __name__ == "__main__":
    main()
