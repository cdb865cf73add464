"""Whole derivatives: Jacobian, Hessian and products with them, in both modes.

Newton's method for a minimum needs the Hessian; written in symbols, one step is one program.
"""

import numpy as np

import staticflow as sf
from staticflow.autograd.functional import hessian, hvp, jacobian, jvp, vjp


def rosenbrock(x):
    """A curved valley with its lowest point, 0, at (1, ..., 1)."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def polar(x):
    """Radius and angle to a point of the plane."""
    return x[0] * sf.stack([x[1].cos(), x[1].sin()])


def main() -> None:
    at = sf.tensor([2.0, 0.5])
    print(f"Jacobian:\n{jacobian(polar, at)}")  # define-by-run
    _, forward = jvp(polar, at, sf.tensor([1.0, 0.0]))
    _, backward = vjp(polar, at, sf.tensor([1.0, 0.0]))
    print(f"its first column {forward.tolist()} and first row {backward.tolist()}")

    x = sf.placeholder((2,), "float64", name="x")  # define-then-run: the same functions of symbols
    program = sf.compile([x], jacobian(polar, x))
    print(f"compiled:\n{program(sf.tensor([2.0, 0.5], dtype='float64'))}")

    p = sf.placeholder((2,), "float64", name="p")
    slope, curvature = sf.grad(rosenbrock(p), p), hessian(rosenbrock, p)
    look = sf.compile([p], [rosenbrock(p), slope, curvature])
    point = sf.tensor([-1.2, 1.0], dtype="float64")
    for step in range(7):
        value, g, h = look(point)
        print(f"Newton step {step}: {value.item():.3g}")
        point = point - sf.from_numpy(np.linalg.solve(h.numpy(), g.numpy()))
    print(f"the lowest point: {[round(v, 6) for v in point.tolist()]}")

    direction = sf.tensor([1.0, 0.0], dtype="float64")
    _, column = hvp(rosenbrock, point, direction)  # without the Hessian itself
    print(f"a column of the Hessian there: {column.tolist()}")


if __name__ == "__main__":
    main()
