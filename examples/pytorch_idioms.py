"""What programs for PyTorch write, after one change: the import."""

import copy

import staticflow as torch
from staticflow import nn
from staticflow.autograd import Function, Variable
from staticflow.autograd.function import once_differentiable

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Clip(Function):  # changes its argument in place, and counts what it changed
    @staticmethod
    def forward(ctx, x, most):
        over = x > most
        ctx.save_for_backward(over)
        x.clamp_(max=most)
        ctx.mark_dirty(x)
        count = over.sum()
        ctx.mark_non_differentiable(count)
        return x, count

    @staticmethod
    @once_differentiable
    def backward(ctx, ct, _):
        (over,) = ctx.saved_tensors
        return ct.masked_fill(over, 0), None


def tensors() -> None:
    """Old and new idioms."""
    x = Variable(torch.arange(6).view(2, 3).type(torch.FloatTensor), requires_grad=True)
    y = x * 2
    y[y > 8] = 0
    y.sum().backward()
    print(f"size {tuple(x.size())}, {y.grad_fn is not None}, gradient {x.grad.data.tolist()}")
    x.data -= 0.5 * x.grad
    x.grad.zero_()
    clipped, count = Clip.apply(x * 1, 2.5)
    clipped.sum().backward()
    print(f"{count.item()} clipped, gradient {x.grad.T.tolist()}")
    z = torch.zeros(3)
    z[1:].add_(1).t_().mul_(3)
    print(f"changed {z._version} times through views: {z.tolist()}")
    with torch.set_grad_enabled(False):
        print(f"recorded: {(x * 2).requires_grad}")
    w = torch.ones(3, requires_grad=True)
    first, unused = torch.autograd.grad((x**2).sum(), [x, w], allow_unused=True)
    print(f"gradient {first[1].tolist()}, unused: {unused}")


def models() -> None:
    """On whichever device there is: weights copied, averaged and adapted."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
    average = copy.deepcopy(model).requires_grad_(False)
    before = torch.get_rng_state()
    x = torch.randn(8, 3).to(device)
    torch.set_rng_state(before)
    print(f"drawn again: {torch.equal(x.cpu(), torch.randn(8, 3))}")
    for a, p in zip(average.parameters(), model.parameters(), strict=True):
        a.mul_(0.9).add_(p.detach(), alpha=0.1)

    def loss(parameters):
        return torch.func.functional_call(model, parameters, x).pow(2).mean()

    parameters = {n: p.detach() for n, p in model.named_parameters()}
    slope = torch.func.grad(loss)(parameters)
    adapted = {n: p - 0.1 * slope[n] for n, p in parameters.items()}
    print(f"one step is better: {loss(adapted).item() < loss(parameters).item()}")


def main() -> None:
    tensors()
    models()


if __name__ == "__main__":
    main()
