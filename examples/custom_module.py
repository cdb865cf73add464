"""A module of one's own: a parameter, a buffer, a state, the same in both modes.

The module fits a sine by a polynomial, of inputs that it brings to the range -1 to 1 first.
Whatever is assigned to an attribute counts by its class: a parameter is trained, a buffer is saved.
"""

import math

import staticflow as sf
from staticflow import nn

example_inputs = ("x: f32[N=200]",)
optimizer = "adam(lr=0.05)"


def loss(output, x):
    """How far the outputs are from the sines of x."""
    return nn.functional.mse_loss(output, x.sin())


class Polynomial(nn.Module):
    """``a + b z + c z^2 + d z^3`` of inputs x, with ``z = x / width``."""

    def __init__(self, width=math.pi):
        super().__init__()
        self.coefficients = nn.Parameter(sf.zeros(4))
        self.register_buffer("width", sf.tensor(width))

    def forward(self, x):
        z = x / self.width
        powers = sf.stack([sf.ones_like(z), z, z * z, z * z * z], dim=-1)
        return powers @ self.coefficients

    def extra_repr(self):
        return "degree=3"


def main(steps: int = 300) -> list[float]:
    """Train by turns in both modes; returns the losses."""
    sf.manual_seed(0)
    model = Polynomial()
    print(model, [name for name, _ in model.named_parameters()], list(model.state_dict()))
    optimiser = sf.optim.Adam(model.parameters(), lr=0.05)
    data = sf.linspace(-math.pi, math.pi, 200)

    x = sf.placeholder((None,), name="x")
    cost = loss(model(x), x)
    static_step = sf.compile([x], cost, updates=optimiser.minimize(cost))

    losses = []
    for step in range(1, steps + 1):
        if step % 2:
            cost = static_step(data)
        else:
            optimiser.zero_grad()
            cost = loss(model(data), data)
            cost.backward()
            optimiser.step()
        losses.append(cost.item())
        if step % 50 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}")

    a, b, c, d = model.coefficients.tolist()
    print(f"sin(x) is near {a:.2f} + {b:.2f} z + {c:.2f} z^2 + {d:.2f} z^3 with z = x / pi")
    twin = Polynomial(1.0)
    twin.load_state_dict(model.state_dict())
    print(f"a copy by its state gives the same: {sf.equal(twin(data), model(data))}")
    return losses


if __name__ == "__main__":
    main()
