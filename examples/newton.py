"""A loop of unknown length with a derivative: Newton's method for a root.

The number of iterations shows only as the program runs; no bound is given. The derivative of the
root by the coefficients goes back through all iterations, and can be checked: for ``f(x, a) = 0``
it is ``-f_a / f_x``.
"""

import staticflow as sf


def cube_root(a):
    """The x with ``x ** 3 = a``, to the last digit."""

    def unfinished(x, step):
        return step.abs() > 1e-12 * x.abs()

    def improve(x, _):
        step = (x**3 - a) / (3 * x**2)
        return x - step, step

    root, _ = sf.while_loop(unfinished, improve, (a, a))
    return root


def iterations(a):
    """How many of them it takes."""

    def more(n, x, step):
        return step.abs() > 1e-12 * x.abs()

    def again(n, x, _):
        step = (x**3 - a) / (3 * x**2)
        return n + 1, x - step, step

    return sf.while_loop(more, again, (0, a, a))[0]


def main() -> None:
    a = sf.placeholder((), "float64", name="a")
    root = cube_root(a)
    slope = sf.grad(root, a)
    bend = sf.grad(slope, a)  # a derivative of a derivative of a loop
    program = sf.compile([a], [root, slope, bend, iterations(a)])
    for value in (8.0, 1e-3, 1e9):
        x, dx, ddx, count = (v.item() for v in program(value))
        print(
            f"a = {value:g}: root {x:.12g} after {count} iterations, slope {dx:.6g}, bend {ddx:.6g}"
        )
        assert abs(dx - 1 / (3 * x**2)) <= 1e-9 * dx
    print(f"compiled {program.compile_count} time")

    eager = sf.tensor(8.0, dtype="float64", requires_grad=True)
    cube_root(eager).backward()  # the same functions, define-by-run
    print(f"define-by-run: slope {eager.grad.item():.6g}")


if __name__ == "__main__":
    main()
