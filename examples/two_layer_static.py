"""A two-layer network as a static graph: define-then-run.

The expression of two_layer_autograd.py, on placeholders. It is written once, differentiated once
and compiled once to native code; the compiled step is then called again and again, and updates the
weights in place. The batch is left open: any size runs in the same program.
"""

import staticflow as sf

BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 1000, 100, 10
LEARNING_RATE = 1e-6


def main(steps: int = 500) -> list[float]:
    """Train for some steps; returns the losses."""
    sf.manual_seed(0)
    data_x, data_y = sf.randn(BATCH, INPUTS), sf.randn(BATCH, OUTPUTS)
    w1, w2 = sf.randn(INPUTS, HIDDEN), sf.randn(HIDDEN, OUTPUTS)

    x = sf.placeholder(("N", INPUTS), name="x")
    y = sf.placeholder(("N", OUTPUTS), name="y")
    loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
    grad_w1, grad_w2 = sf.grad(loss, [w1, w2])
    train = sf.compile(
        [x, y],
        loss,
        updates={
            w1: w1 - LEARNING_RATE * grad_w1,
            w2: w2 - LEARNING_RATE * grad_w2,
        },
    )
    print(train)

    losses = []
    for step in range(steps):
        loss_now = train(data_x, data_y).item()
        losses.append(loss_now)
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss_now:.6g}")
    train(data_x[:7], data_y[:7])  # another batch size
    print(f"compiled {train.compile_count} time, in {train.compile_seconds * 1e3:.0f} ms")
    return losses


if __name__ == "__main__":
    main()
