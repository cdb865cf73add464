"""What compiling and calling refuse: each message names the op, shapes and dtypes, the user's own line,
and what to do."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import (
    ArgumentError,
    AutogradError,
    DTypeError,
    IndexRangeError,
    ShapeError,
    SymbolicError,
)


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def refused(error: type[Exception], run: Callable[[], Any], *says: str, by: Any = None) -> None:
    """``run`` fails with ``error``, whose message has all of ``says``, and a line of ``run``, or of
    the function ``by`` that it calls."""
    with pytest.raises(error) as caught:
        run()
    message = str(caught.value)
    own = run if by is None or inspect.isclass(by) else by
    first = inspect.getsourcelines(own)[1]
    lines = [int(n) for n in re.findall(re.escape(__file__) + r":(\d+)", message)]
    assert any(first <= n < first + 4 for n in lines), message
    for part in says:
        assert part in message, message


# -- calls -----------------------------------------------------------------------------------------


def test_arrays_that_do_not_fit() -> None:
    x = sf.placeholder((None, 3), name="x")
    program = sf.compile([x], x * 2)
    refused(ShapeError, lambda: program(ones(2, 4)),
            "x has 4 in dim 1 where f32[x_0, 3] wants 3", "compiled at")  # fmt: skip
    refused(ShapeError, lambda: program(ones(3)),
            "x has 1 dims, shape [3], and must have 2: f32[x_0, 3]")  # fmt: skip
    refused(DTypeError, lambda: program(ones(2, 3, dtype=np.float64)),
            "x is float64 and must be float32", "array.astype('float32')")  # fmt: skip
    refused(ShapeError, lambda: program(), "takes 1 inputs (x), 0 were given")
    refused(ShapeError, lambda: program(ones(2, 3), ones(2, 3)), "2 were given")
    refused(ShapeError, lambda: program(y=ones(2, 3)), "no input is called 'y'; the inputs are x")
    refused(SymbolicError, lambda: program("abc"), "the input x is str; give a NumPy array")


def test_sizes_of_one_name_that_disagree() -> None:
    x, y = sf.placeholder(("T", 2), name="x"), sf.placeholder(("T",), name="y")
    program = sf.compile([x, y], x.sum(1) + y)
    refused(ShapeError, lambda: program(ones(3, 2), ones(4)),
            "y has 4 in dim 0 where f32[T] wants T, where T is 3 (dim 0 of x)")  # fmt: skip


def test_sizes_that_an_op_assumed_to_be_equal() -> None:
    """Both are named, and the line that needs it."""
    x, y = sf.placeholder((None,), name="x"), sf.placeholder((None,), name="y")
    total = x + y
    line = inspect.currentframe().f_lineno - 1
    program = sf.compile([x, y], total.sum())
    refused(ShapeError, lambda: program(ones(3), ones(4)), "x_0 and y_0 must be equal, but x_0 is 3 (dim 0 of x), y_0 is 4 (dim 0 of y)",
            "add: the sizes at dim -1", f"{__file__}:{line}")  # fmt: skip


def test_what_a_loop_assumes_of_sizes() -> None:
    xs, c = sf.placeholder((None, 3), name="xs"), sf.placeholder((None,), name="c")
    z = sf.placeholder((None,), name="z")
    last, _ = sf.scan(lambda carry, x: (carry * x.sum() + z, None), c, xs)
    program = sf.compile([xs, c, z], last)
    refused(ShapeError, lambda: program(ones(2, 3), ones(4), ones(5)), "scan", "must be equal")
    _, ys = sf.scan(lambda carry, x: (carry, x[0] + x[1]), c[0], (xs[:, 0], z))
    refused(ShapeError, lambda: sf.compile([xs, c, z], ys)(ones(2, 3), ones(1), ones(3)), "must be")


def test_a_size_that_was_assumed_of_an_update() -> None:
    w = sf.variable([1.0, 2.0, 3.0])
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], None, updates={w: x * 2})
    program(ones(3))
    refused(ShapeError, lambda: program(ones(500)),
            "the new value of a variable f32[3] is f32[x_0]", "500")  # fmt: skip
    assert w.tolist() == [2, 2, 2]


def test_an_index_that_is_out_of_range() -> None:
    x, i = sf.placeholder((None, 2), name="x"), sf.placeholder((None, 2), "int64", name="i")
    program = sf.compile([x, i], sf.gather(x, 0, i))
    refused(IndexRangeError, lambda: program(ones(3, 2), np.array([[0, 3]])),
            "gather(f32[x_0, 2], i64[i_0, 2])", "an index lies outside the dim")  # fmt: skip
    with pytest.raises(IndexRangeError):
        program(ones(3, 2), np.array([[-1, 0]]))


def test_an_element_of_nothing() -> None:
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], x[-1])
    assert program(ones(1)).item() == 1
    refused(
        ShapeError,
        lambda: program(ones(0)),
        "select: the index in dim 0 of f32[x_0]: x_0 - 1 must be at least 0",
    )


# -- compiling -------------------------------------------------------------------------------------


def test_inputs_that_are_none() -> None:
    x, w = sf.placeholder((2,), name="x"), sf.variable([1.0, 2.0])
    refused(SymbolicError, lambda: sf.compile([x * 2], x), "compile: an input is <symbol mul: f32[2]",
            "inputs are what sf.placeholder made")  # fmt: skip
    refused(SymbolicError, lambda: sf.compile([w], x), "compile: an input is tensor([1., 2.])")
    refused(SymbolicError, lambda: sf.compile([x, x], x), "compile: an input is named twice")
    y = sf.placeholder((2,), name="x")
    refused(SymbolicError, lambda: sf.compile([x, y], x), "two inputs are called 'x'")


def test_a_placeholder_that_is_no_input() -> None:
    x, y = sf.placeholder((2,), name="x"), sf.placeholder((2,), name="y")
    refused(SymbolicError, lambda: sf.compile([x], x + y), "need the placeholder 'y' (f32[2]",
            "which is not among the inputs")  # fmt: skip


def test_a_size_that_no_input_tells() -> None:
    n = sf.placeholder(("n",), name="other").shape[0]
    x = sf.placeholder((2 * n,), name="x")
    refused(ShapeError, lambda: sf.compile([x], x + 1), "no input has n as a dim of its own",
            "add a placeholder that has")  # fmt: skip


@pytest.mark.parametrize(
    "of",
    [
        lambda x, n: x * n,
        lambda x, n: sf.cat([x, x]).reshape(n, n + 1),
        lambda x, n: x.expand(n, 3),
        lambda x, n: x[:n],
        lambda x, n: sf.scan(lambda c, _: (c * n, c), x, None, length=3)[0],
        lambda x, n: sf.scan(lambda c, _: (c + 1, c), x, None, length=n)[0],
    ],
)
def test_a_size_of_a_placeholder_that_is_no_input(of: Callable[..., sf.Symbol]) -> None:
    n = sf.placeholder(("n",), name="other").shape[0]
    x = sf.placeholder((3,), name="x")
    for make in (lambda: sf.compile([x], of(x, n)), lambda: sf.jit(lambda x: of(x, n))(sf.ones(3))):
        refused(ShapeError, make, "takes the size n, which is of none of the inputs")


def test_a_size_of_no_input_that_an_equality_tells() -> None:
    n = sf.placeholder(("n",), name="other").shape[0]
    x = sf.placeholder((3,), name="x")
    step = sf.compile([x], sf.cat([x, x]).reshape(2 * n) * n)
    assert step(np.ones(3, np.float32)).tolist() == [3.0] * 6


def test_sizes_that_contradict_each_other() -> None:
    """The second op fits the first unless the sizes are known to differ by then."""
    x, y = sf.placeholder((None,), name="x"), sf.placeholder((None,), name="y")
    double = sf.cat([x, x]) + y
    refused(ShapeError, lambda: sf.compile([x, y], (double, x + np.ones(3, np.float32),
            y + np.ones(5, np.float32))), "6 and 5 differ")  # fmt: skip


def test_updates_that_are_none() -> None:
    w, x = sf.variable([1.0, 2.0]), sf.placeholder((3,), name="x")
    two = sf.placeholder((2,), name="two")
    refused(ShapeError, lambda: sf.compile([two], [], updates=[(w, two), (w, two * 2)]),
            "a tensor of shape [2] is updated twice")  # fmt: skip
    refused(ShapeError, lambda: sf.compile([x], [], updates={w: x}),
            "the new value of a variable f32[2] is f32[3]", "2 differ")  # fmt: skip
    refused(ShapeError, lambda: sf.compile([x], [], updates={w: x.sum()}),
            "the new value of a variable f32[2] is f32[]")  # fmt: skip
    refused(ShapeError, lambda: sf.compile([two], [], updates={w: two.double()}), "is f64[2]")
    refused(
        SymbolicError,
        lambda: sf.compile([x], [], updates={x: x}),
        "updates are a mapping {tensor: new value}",
    )


def test_unknown_numerics() -> None:
    x = sf.placeholder((3,), name="x")
    with pytest.raises(
        ArgumentError, match='numerics is "exact", "strict" or "fast", not \'loose\''
    ):
        sf.compile([x], x, numerics="loose")


# -- symbols have no values yet ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (bool, "instead of a Python if write sf.where(condition, a, b)"),
        (lambda x: 1 if x > 0 else 2, "the truth of a symbolic value (gt: bool[]"),
        (float, "keep computing with the symbol"),
        (int, "keep computing with the symbol"),
        (lambda x: [1, 2][x], "the number of a symbolic value"),
        (lambda x: x.item(), "compile it with sf.compile"),
        (lambda x: x.numpy(), "compile it with sf.compile"),
        (lambda x: np.asarray(x), "use the functions of sf instead of NumPy's"),
        (lambda x: x.backward(), "build it with sf.grad(loss, [w, ...])"),
        (list, "loop over the first dim with sf.scan"),
    ],
)
def test_a_symbol_used_as_a_number(use: Callable[[Any], Any], says: str) -> None:
    x = sf.placeholder((), name="x")
    refused(SymbolicError, lambda: use(x), says, "is known only when the program runs", by=use)


def test_a_symbol_of_an_unknown_size_is_not_iterated() -> None:
    x = sf.placeholder((None, 2), name="x")
    refused(SymbolicError, lambda: list(x), "the iteration of a symbolic value (param: f32[x_0, 2]")
    refused(SymbolicError, lambda: range(x.shape[0]), "the size x_0 is known only")
    refused(SymbolicError, lambda: x.shape[0] > 3, "whether x_0 > 3 depends on sizes")
    with pytest.raises(SymbolicError, match="the size x_0 is known only when the program runs"):
        len(x)
    a, b = sf.placeholder((2, 3), name="y")
    assert (a.shape, b.shape) == ((3,), (3,))


def test_ops_refuse_with_types_and_line() -> None:
    x = sf.placeholder((None, 3), name="x")
    refused(ShapeError, lambda: x @ sf.ones(4, 2), "matmul(f32[x_0, 3], f32[4, 2])", "differ")
    refused(ShapeError, lambda: x + sf.ones(4), "add(f32[x_0, 3], f32[4])", "3 and 4 differ")
    refused(DTypeError, lambda: sf.where(x, x, x), "where(f32[x_0, 3]", "must be bool")
    refused(SymbolicError, lambda: x + object(), "object cannot stand in a symbolic expression")


# -- gradients ---------------------------------------------------------------------------------------


def test_gradients_of_what_is_not_reached() -> None:
    x, y = sf.placeholder((2,), name="x"), sf.placeholder((2,), name="y")
    loss = y.sum()
    refused(AutogradError, lambda: sf.grad(loss, [y, x]), "do not depend on entry 1 of wrt",
            "symbol param: f32[2]", "allow_unused=True")  # fmt: skip
    refused(AutogradError, lambda: sf.grad(y.argmax().sum(), y), "do not depend on entry 0")
    refused(AutogradError, lambda: sf.grad(y.detach().sum(), y), "do not depend on entry 0")
    assert sf.grad(loss, [y, x], allow_unused=True)[1] is None


def test_cotangents_that_do_not_fit() -> None:
    x = sf.placeholder((None, 3), name="x")
    refused(
        AutogradError, lambda: sf.grad(x * 2, x), "an output of shape [x_0, 3] needs a cotangent"
    )
    refused(ShapeError, lambda: sf.grad(x * 2, x, cotangents=1.0),
            "the cotangent f32[] of an output f32[x_0, 3] must be of its type")  # fmt: skip
    refused(ShapeError, lambda: sf.grad(x * 2, x, cotangents=ones(2, 2)), "2 and 3 differ")
    refused(ShapeError, lambda: sf.grad(x * 2, x, cotangents=[x, x]), "2 cotangents for 1 outputs")
    refused(ShapeError, lambda: sf.grad(x * 2, x, cotangents=x.double()), "f64[x_0, 3]")


def test_a_cotangent_of_another_unknown_size_is_compared_at_the_call() -> None:
    x, ct = sf.placeholder((None,), name="x"), sf.placeholder((None,), name="ct")
    program = sf.compile([x, ct], sf.grad(x * 3, x, cotangents=ct))
    assert program(ones(2), ones(2)).tolist() == [3, 3]
    refused(ShapeError, lambda: program(ones(2), ones(3)), "x_0 is 2", "ct_0 is 3", "must be equal")


# -- loops -------------------------------------------------------------------------------------------


def test_loops_that_do_not_fit() -> None:
    xs, c = sf.placeholder((None, 2), name="xs"), sf.placeholder((2,), name="c")
    refused(
        ShapeError,
        lambda: sf.scan(lambda c, x: c, c, xs),
        "fn gives a Symbol; it must give a tuple of two",
    )
    refused(ShapeError, lambda: sf.scan(lambda c, x: ((c, c), x), c, xs), "the carry came in as")
    refused(ShapeError, lambda: sf.scan(lambda c, x: (c.sum(), x), c, xs),
            "carry came in as f32[2] and went out as f32[]")  # fmt: skip
    refused(DTypeError, lambda: sf.scan(lambda c, x: (c.double(), x), c, xs), "went out as f64[2]")
    refused(ShapeError, lambda: sf.scan(lambda c, x: (c, x), c), "give xs or length")
    refused(ShapeError, lambda: sf.scan(lambda c, x: (c, x), c, xs.sum()), "it has no first dim")
    three = sf.placeholder((3, 2), name="three")
    refused(
        ShapeError, lambda: sf.scan(lambda c, x: (c, x[0]), c, (three, c)), "has 2 rows where 3"
    )
    refused(ShapeError, lambda: sf.scan(lambda c, x: (c, c), c, length=-1), "of length -1")
