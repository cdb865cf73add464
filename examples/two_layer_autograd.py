"""A two-layer network with automatic gradients: define-by-run as in PyTorch.

Every operation on a tensor that requires a gradient is recorded; ``backward`` walks the record.
The graph is built anew at each step, so ordinary Python decides what is computed.
"""

import staticflow as sf

BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 1000, 100, 10
LEARNING_RATE = 1e-6


def main(steps: int = 500) -> list[float]:
    """Train for some steps; returns the losses."""
    sf.manual_seed(0)
    x, y = sf.randn(BATCH, INPUTS), sf.randn(BATCH, OUTPUTS)
    w1 = sf.randn(INPUTS, HIDDEN, requires_grad=True)
    w2 = sf.randn(HIDDEN, OUTPUTS, requires_grad=True)

    losses = []
    for step in range(steps):
        loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
        losses.append(loss.item())
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.6g}, from {loss.grad_fn}")

        loss.backward()
        with sf.no_grad():  # the update is no part of what is differentiated
            for w in (w1, w2):
                w -= LEARNING_RATE * w.grad
                w.grad = None  # gradients add up otherwise
    return losses


if __name__ == "__main__":
    main()
