"""A two-layer network of modules, trained by an optimiser in both modes, taking turns.

One model and one optimiser serve both: parameters, momentum and learning rate are tensors that the
eager code and the compiled step share. So training can pass from one mode to the other at any step.
"""

import staticflow as sf
from staticflow import nn

BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 1000, 100, 10

example_inputs = ("x: f32[N=64, 1000]", "y: f32[N, 10]")
optimizer = "sgd(lr=0.005, momentum=0.9)"
loss = nn.functional.mse_loss


def network():
    """Rows (N, INPUTS) to (N, OUTPUTS)."""
    return nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, OUTPUTS))


def main(steps: int = 500) -> list[float]:
    """Train for some steps; returns the losses."""
    sf.manual_seed(0)
    data_x, data_y = sf.randn(BATCH, INPUTS), sf.randn(BATCH, OUTPUTS)
    model = network()
    optimiser = sf.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    print(model)

    # define-then-run: the model on placeholders gives a graph
    x = sf.placeholder(("N", INPUTS), name="x")
    y = sf.placeholder(("N", OUTPUTS), name="y")
    cost = loss(model(x), y)
    static_step = sf.compile([x, y], cost, updates=optimiser.minimize(cost))

    def eager_step(x: sf.Tensor, y: sf.Tensor) -> sf.Tensor:
        # define-by-run: the model on tensors gives numbers
        optimiser.zero_grad()
        cost = loss(model(x), y)
        cost.backward()
        optimiser.step()
        return cost

    losses = []
    for step in range(steps):
        run = static_step if step // 50 % 2 == 0 else eager_step
        losses.append(run(data_x, data_y).item())
        if step % 50 == 49:
            name = "static" if run is static_step else "eager"
            print(f"step {step + 1}, {name}: loss {losses[-1]:.6g}")
        if step == steps // 2:
            optimiser.param_groups[0]["lr"] = 0.002  # both modes follow; nothing is recompiled
    return losses


if __name__ == "__main__":
    main()
