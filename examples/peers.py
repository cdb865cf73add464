"""The network of `compare examples/peers.py:two_layer`, its step by hand, in PyTorch and JAX."""

import numpy as np

import staticflow as sf

LR = 0.05
example_inputs = ("x: f32[batch=64, 1000]", "y: f32[batch, 10]")
optimizer, loss = f"sgd(lr={LR})", "mse"


def two_layer(width=100):
    return sf.nn.Sequential(sf.nn.Linear(1000, width), sf.nn.ReLU(), sf.nn.Linear(width, 10))


def by_hand(parameters):
    """A contestant takes the initial parameters by name; gives a step, and a look at them."""
    w1, b1, w2, b2 = parameters.values()

    def step(x, y):
        hidden = np.maximum(x @ w1.T + b1, 0)
        error = hidden @ w2.T + b2 - y
        d_out = error * np.float32(2 / error.size)
        d_hidden = (d_out @ w2) * (hidden > 0)
        gradients = d_hidden.T @ x, d_hidden.sum(0), d_out.T @ hidden, d_out.sum(0)
        for p, g in zip(parameters.values(), gradients, strict=True):
            p -= LR * g
        return np.square(error).mean()

    return step, lambda: parameters


def cost_of(p, x, y):
    """In methods that tensors of PyTorch and arrays of JAX both have."""
    hidden = (x @ p["0.weight"].T + p["0.bias"]).clip(0)
    return ((hidden @ p["2.weight"].T + p["2.bias"] - y) ** 2).mean()


def pytorch(parameters, compiled=False):
    import torch

    p = {n: torch.from_numpy(a).requires_grad_() for n, a in parameters.items()}
    sgd = torch.optim.SGD(p.values(), lr=LR)
    forward = torch.compile(cost_of) if compiled else cost_of

    def step(x, y):
        sgd.zero_grad()
        cost = forward(p, torch.from_numpy(x), torch.from_numpy(y))
        cost.backward()
        sgd.step()
        return cost

    return step, lambda: {n: t.detach().numpy() for n, t in p.items()}


def jax_jit(parameters):
    import jax

    @jax.jit
    def step(p, x, y):
        cost, gradients = jax.value_and_grad(cost_of)(p, x, y)
        return cost, {n: p[n] - LR * gradients[n] for n in p}

    def keep(x, y):
        nonlocal parameters
        cost, parameters = step(parameters, x, y)
        return cost

    return keep, lambda: parameters


peers = {"NumPy by hand": by_hand, "PyTorch": pytorch, "JAX jit": jax_jit}
peers["torch.compile"] = lambda parameters: pytorch(parameters, compiled=True)


def main():
    model, x, y = two_layer(), sf.randn(64, 1000), sf.randn(64, 10)
    step, _ = by_hand({n: p.detach().numpy().copy() for n, p in model.named_parameters()})
    eager, hand = cost_of(dict(model.named_parameters()), x, y), step(x.numpy(), y.numpy())
    print(f"the same loss: {abs(eager.item() - hand) < 1e-5}")


if __name__ == "__main__":
    main()
