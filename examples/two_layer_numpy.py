"""A two-layer network in NumPy alone: forward and backward by hand.

The warm-up of the series. The same network follows with tensors (two_layer_tensors.py), with
automatic gradients (two_layer_autograd.py), as a static graph (two_layer_static.py) and with
modules and an optimiser (two_layer_nn.py). All fit random targets; the loss falls.
"""

import numpy as np

BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 1000, 100, 10
LEARNING_RATE = 1e-6


def main(steps: int = 500) -> list[float]:
    """Train for some steps; returns the losses."""
    random = np.random.default_rng(0)
    x = random.standard_normal((BATCH, INPUTS), np.float32)
    y = random.standard_normal((BATCH, OUTPUTS), np.float32)
    w1 = random.standard_normal((INPUTS, HIDDEN), np.float32)
    w2 = random.standard_normal((HIDDEN, OUTPUTS), np.float32)

    losses = []
    for step in range(steps):
        # forward: y_pred = relu(x w1) w2, loss = sum of squares
        h = x @ w1
        h_relu = np.maximum(h, 0)
        y_pred = h_relu @ w2
        loss = float(np.square(y_pred - y).sum())
        losses.append(loss)
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss:.6g}")

        # backward: the chain rule, from the loss to the weights
        grad_y_pred = 2 * (y_pred - y)
        grad_w2 = h_relu.T @ grad_y_pred
        grad_h = (grad_y_pred @ w2.T) * (h > 0)
        grad_w1 = x.T @ grad_h

        w1 -= LEARNING_RATE * grad_w1
        w2 -= LEARNING_RATE * grad_w2
    return losses


if __name__ == "__main__":
    main()
