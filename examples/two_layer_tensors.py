"""A two-layer network with tensors: define-by-run, gradients still by hand.

The NumPy program (two_layer_numpy.py) with PyTorch's names. Tensors and NumPy arrays share memory
both ways (``sf.from_numpy(a)``, ``t.numpy()``).
"""

import staticflow as sf

BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 1000, 100, 10
LEARNING_RATE = 1e-6


def main(steps: int = 500) -> list[float]:
    """Train for some steps; returns the losses."""
    sf.manual_seed(0)
    x, y = sf.randn(BATCH, INPUTS), sf.randn(BATCH, OUTPUTS)
    w1, w2 = sf.randn(INPUTS, HIDDEN), sf.randn(HIDDEN, OUTPUTS)

    losses = []
    for step in range(steps):
        h = x.mm(w1)
        h_relu = h.clamp(min=0)
        y_pred = h_relu.mm(w2)
        loss = (y_pred - y).pow(2).sum().item()
        losses.append(loss)
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss:.6g}")

        grad_y_pred = 2.0 * (y_pred - y)
        grad_w2 = h_relu.t().mm(grad_y_pred)
        grad_h = grad_y_pred.mm(w2.t()) * (h > 0)
        grad_w1 = x.t().mm(grad_h)

        w1 -= LEARNING_RATE * grad_w1  # in place
        w2 -= LEARNING_RATE * grad_w2
    return losses


if __name__ == "__main__":
    main()
