"""Code that others wrote for any array library, on our tensors: with gradients, and in a graph."""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported: it asks arrays for their namespace

import numpy as np
import scipy.special

import staticflow as sf


# what a library writes: no array library is named, each array says its own
def attend(queries, keys, values):
    """The values, weighted by how well their keys fit the queries."""
    xp = queries.__array_namespace__()
    fit = xp.matmul(queries, xp.matrix_transpose(keys)) / keys.shape[-1] ** 0.5
    weights = xp.exp(fit - xp.max(fit, axis=-1, keepdims=True))
    return xp.matmul(weights / xp.sum(weights, axis=-1, keepdims=True), values)


def main() -> None:
    arrays = np.random.default_rng(0).normal(size=(3, 5, 4))

    # on tensors: values now, and a gradient
    tensors = [sf.tensor(a, requires_grad=True) for a in arrays]
    out = attend(*tensors)
    out.square().sum().backward()
    print(f"NumPy's values: {np.allclose(out.detach().numpy(), attend(*arrays))}")

    # on placeholders: a graph, of any number of rows, and its gradient
    symbols = [sf.placeholder((None, 4), dtype="float64", name=name) for name in "qkv"]
    graph = attend(*symbols)
    step = sf.compile(symbols, [graph, *sf.grad(graph.square().sum(), symbols)])
    values, *grads = step(*arrays)
    print(f"compiled, the same: {sf.allclose(values, out)}")
    same = all(sf.allclose(t.grad, g) for t, g in zip(tensors, grads, strict=True))
    print(f"and the same gradients: {same}")

    # SciPy's own lines, on the tape and in a graph
    logits = sf.tensor(arrays[0], requires_grad=True)
    scipy.special.logsumexp(logits, axis=-1).sum().backward()
    softmax = sf.softmax(logits.detach(), dim=-1)
    print(f"a gradient through scipy.special.logsumexp: {sf.allclose(logits.grad, softmax)}")
    x = sf.placeholder((None, 4), dtype="float64", name="x")
    program = sf.compile([x], scipy.special.softmax(x, axis=-1))
    print(f"scipy.special.softmax, compiled: {sf.allclose(program(arrays[0]), softmax)}")

    # what the standard has and there is not says why
    try:
        print(logits.__array_namespace__().complex64)
    except AttributeError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
