"""Functions with a backward of their own: linear with an optional bias, exp, ReLU.

Of symbols they become part of a compiled program, with the gradients that are written here.
"""

import staticflow as sf
from staticflow.autograd import Function, gradcheck

BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 100, 100, 10


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        return x.mm(weight.t()) + (0 if bias is None else bias)

    @staticmethod
    def backward(ctx, ct):
        x, weight = ctx.saved_tensors
        return (ct.mm(weight), ct.t().mm(x), ct.sum(0))[: len(ctx.needs_input_grad)]


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(y := x.exp())
        return y

    @staticmethod
    def backward(ctx, ct):
        return ct * ctx.saved_tensors[0]


class ReLU(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, ct):
        return ct * (ctx.saved_tensors[0] > 0)


def loss_of(x, y, w1, b1, w2):
    """A network of the three, of tensors or of symbols."""
    hidden = 1 - Exp.apply(-ReLU.apply(Linear.apply(x, w1, b1)))
    return (Linear.apply(hidden, w2) - y).pow(2).sum()


def main(steps: int = 500) -> list[float]:
    """Train by turns eagerly and by a compiled step; returns the losses."""
    sf.manual_seed(0)
    assert gradcheck(Exp.apply, sf.randn(3, dtype="float64", requires_grad=True))
    x, y = sf.randn(BATCH, INPUTS), sf.randn(BATCH, OUTPUTS)
    start = sf.randn(HIDDEN, INPUTS) / 10, sf.zeros(HIDDEN), sf.randn(OUTPUTS, HIDDEN) / 10
    weights = [w.requires_grad_() for w in start]
    optimizer = sf.optim.SGD(weights, lr=3e-3)
    a, b = sf.placeholder((None, INPUTS), name="a"), sf.placeholder((None, OUTPUTS), name="b")
    loss = loss_of(a, b, *weights)
    compiled_step = sf.compile([a, b], loss, updates=optimizer.minimize(loss))
    losses = []
    for number in range(1, steps + 1):
        if number % 2:
            loss = compiled_step(x, y)
        else:
            optimizer.zero_grad()
            loss = loss_of(x, y, *weights)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
        if number % 100 == 0:
            print(f"step {number}: loss {losses[-1]:.6g}")
    return losses


if __name__ == "__main__":
    main()
