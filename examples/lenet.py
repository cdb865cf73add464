"""LeNet on images of handwritten digits, trained in both modes.

Two networks begin alike and are given the same images, one define-then-run and one define-by-run:
their losses are the same numbers. The network is LeNet-5 (LeCun et al. 1998, "Gradient-based
learning applied to document recognition") with ReLU and maxima; the images, of 8x8 pixels, are
stretched to the 32x32 that it is made for.
"""

from time import perf_counter

import numpy as np

import staticflow as sf
from staticflow import nn
from staticflow.nn import functional as F
from staticflow.tools.digits import load_digits, shuffle_batches

example_inputs = ("x: f32[N=64, 1, 32, 32]", "target: i64[N] < 10")
optimizer = "sgd(lr=0.05, momentum=0.9)"
loss = F.cross_entropy


class LeNet(nn.Module):
    """Images (N, 1, 32, 32) to scores (N, 10)."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def pytorch(parameters, compiled=False):
    from counterparts.under_pytorch import sgd_steps

    return sgd_steps(LeNet, loss, parameters, 0.05, 0.9, compiled)


peers = {"PyTorch": pytorch, "PyTorch compiled": lambda p: pytorch(p, compiled=True)}


def images(pixels):
    """Rows of 64 pixels as images of 32x32."""
    return pixels.reshape(-1, 1, 8, 8).repeat(4, axis=2).repeat(4, axis=3)


def main(steps: int = 300) -> list[float]:
    """Train for some steps; returns the losses."""
    sf.manual_seed(0)
    model, twin = LeNet(), LeNet()
    twin.load_state_dict(model.state_dict())
    optimiser, twin_optimiser = (sf.optim.Adam(m.parameters(), lr=2e-3) for m in (model, twin))

    x = sf.placeholder(("N", 1, 32, 32), name="x")
    target = sf.placeholder(("N",), "int64", name="target")
    cost = loss(model(x), target)
    static_step = sf.compile([x, target], cost, updates=optimiser.minimize(cost))

    digits = load_digits()
    batches = shuffle_batches(len(digits.train_labels), 64)
    losses, seconds = [], np.zeros(2)
    for step in range(1, steps + 1):
        rows = next(batches)
        data, labels = images(digits.train_images[rows]), digits.train_labels[rows]
        began = perf_counter()
        losses.append(static_step(data, labels).item())
        half = perf_counter()
        twin_optimiser.zero_grad()
        twin_cost = loss(twin(sf.from_numpy(data)), sf.from_numpy(labels))
        twin_cost.backward()
        twin_optimiser.step()
        seconds += (half - began, perf_counter() - half)
        if step % 50 == 0:
            print(f"step {step}: loss {losses[-1]:.5f}, define-by-run {twin_cost.item():.5f}")

    scores = model(sf.from_numpy(images(digits.test_images)))
    right = (scores.argmax(1).numpy() == digits.test_labels).mean()
    static, eager = seconds / steps * 1e3
    print(f"right: {right:.1%}; a step took {static:.2f} ms, define-by-run {eager:.2f} ms")
    return losses


if __name__ == "__main__":
    main()
