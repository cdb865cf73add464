"""Views and in-place operations: one memory, several names, in both modes.

A view shares the memory of its base, so that a change of one shows in the other; the tape and the
graph follow. What would make a gradient wrong is refused, and the error names the line.
"""

import staticflow as sf


def scaled_rows(x):
    """The first row doubled and the diagonal filled with ones, written in place."""
    y = x.clone()
    first = y[0]
    first.mul_(2)  # changes y: `first` is a view of it
    y.diagonal().fill_(1)
    y.t()[2] += 10  # the last column, through the transpose
    return y


def main() -> None:
    x = sf.arange(9.0).reshape(3, 3).requires_grad_()

    eager = scaled_rows(x)
    print(f"define-by-run:\n{eager}")

    symbol = sf.placeholder((None, None), name="x")
    static = sf.compile([symbol], scaled_rows(symbol))  # in place means: the name takes a new value
    print(f"define-then-run gives the same: {sf.equal(eager, static(x.detach()))}")

    eager.sum().backward()
    print(f"the gradient knows what was overwritten:\n{x.grad}")

    base = sf.zeros(4)
    window = base[1:3]
    window += 5
    base[base == 0] = -1  # by a mask
    print(f"base {base.tolist()}, its view {window.tolist()}")

    w = sf.ones(3, requires_grad=True)
    try:
        w.add_(1)  # a leaf: the gradient would be that of the value before
    except sf.AutogradError as error:
        print(f"refused: {error}")
    with sf.no_grad():
        w.add_(1)  # an update by hand

    squares = w * w
    product = squares * w  # keeps `squares` for its backward
    squares.zero_()
    try:
        product.sum().backward()
    except sf.AutogradError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
