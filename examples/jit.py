"""``jit``: a Python function becomes a compiled program, and stays a function.

It is traced once for each kind of arguments; sizes stay open. On tensors that require gradients it
is one operation of the tape, with a compiled backward. Python's ``if`` on a traced value cannot
work; the error says what can.
"""

import staticflow as sf


@sf.jit
def normalized(x, scale, power=2):
    """Rows divided by their norms."""
    print(f"  tracing {x.shape}")  # runs while tracing, not when called again
    norm = (x.abs() ** power).sum(dim=1, keepdim=True) ** (1 / power)
    return scale * x / norm


@sf.jit
def collatz(n):
    """How many steps to 1: a loop of the graph."""
    steps, _ = sf.while_loop(
        lambda steps, n: n != 1,
        lambda steps, n: (steps + 1, sf.where(n % 2 == 0, n // 2, 3 * n + 1)),
        (0, n),
    )
    return steps


@sf.jit
def absolute(x):
    return x if x.sum() > 0 else -x


@sf.jit
def absolute_too(x):
    return sf.cond(x.sum() > 0, lambda: x, lambda: -x)


def main() -> None:
    scale = sf.tensor(3.0, requires_grad=True)
    for rows in (2, 5, 1000):  # traced once for all of them
        out = normalized(sf.randn(rows, 4), scale)
        print(f"{rows} rows: {out.shape}, {out.grad_fn}")
    out.sum().backward()
    print(f"a gradient through the compiled call: {scale.grad.shape}")
    normalized(sf.randn(2, 4), scale, power=4)  # another Python number: another program

    print(f"27 takes {collatz(sf.tensor(27)).item()} steps")

    try:
        absolute(sf.tensor([-1.0]))
    except sf.SymbolicError as error:
        print(f"refused: {error}")
    print(f"with cond: {absolute_too(sf.tensor([-1.0])).item()}")


if __name__ == "__main__":
    main()
