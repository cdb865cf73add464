"""A function of one row for many rows at once: gradients of single samples, and a solver in which
each equation ends when it is done.

``sf.vmap`` calls a function once, on symbols of the shapes of a row, and computes it for all rows,
op by op. A ``while_loop`` goes on until the last row is done; the others stay as they are.
"""

import staticflow as sf


def gradients_of_samples() -> None:
    """The norm of each sample's gradient, as clipping for privacy needs it."""
    sf.manual_seed(0)
    model = sf.nn.Sequential(sf.nn.Linear(4, 8), sf.nn.Tanh(), sf.nn.Linear(8, 1))
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    x, y = sf.randn(5, 4), sf.randn(5, 1)

    def loss(parameters, x, y):
        return ((sf.func.functional_call(model, parameters, x) - y) ** 2).sum()

    of_each = sf.vmap(sf.func.grad(loss), in_dims=(None, 0, 0))
    gradients = of_each(parameters, x, y)
    norms = sum((g * g).reshape(5, -1).sum(1) for g in gradients.values()).sqrt()
    print("norms of gradients:", [round(n, 3) for n in norms.tolist()])

    compiled = sf.jit(of_each)(parameters, x, y)
    assert all(sf.allclose(gradients[name], compiled[name], atol=1e-6) for name in gradients)


def decay(rate):
    """``y' = -rate y`` from 1 to time 1, by steps of a tenth of the time in which it decays."""

    def step(t, y, count):
        h = sf.minimum(0.1 / rate, 1 - t)
        middle = y - 0.5 * h * rate * y
        return t + h, y - h * rate * middle, count + 1

    start = (sf.zeros_like(rate), sf.ones_like(rate), 0)
    return sf.while_loop(lambda t, y, count: t < 1 - 1e-6, step, start)


def many_equations() -> None:
    rates = sf.tensor([0.5, 1.0, 2.0, 4.0])
    for solve in (sf.vmap(decay), sf.jit(sf.vmap(decay))):
        _, ends, counts = solve(rates)
        assert sf.allclose(ends, (-rates).exp(), rtol=1e-2)
    print("steps:", counts.tolist(), "ends:", [round(y, 4) for y in ends.tolist()])


def main() -> None:
    """Both."""
    gradients_of_samples()
    many_equations()


if __name__ == "__main__":
    main()
