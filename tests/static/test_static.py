"""Compiled programs: the same numbers as eager tensors and the interpreter, for every size and dtype;
outputs, updates, captured tensors, counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from opinfo.core import special, values
from static_programs import PROGRAMS

import staticflow as sf
from staticflow import pytree
from staticflow.codegen.program.routine import Copy, walk_steps
from staticflow.config import config
from staticflow.errors import IndexRangeError
from staticflow.graph.dtypes import DTYPES, DType, bfloat16, dtype_of, float16, float32, float64
from staticflow.graph.interpret import interpret_graph
from staticflow.nn import functional as F

FLOATS = (float64, float32, float16, bfloat16)


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "verify", True)


def unknown(arrays: Any, named: tuple[str | None, ...] = (None,) * 9) -> list[Any]:
    """A placeholder for each array, none of whose sizes is known."""
    return [sf.placeholder(named[: a.ndim], dtype_of(a.dtype)) for a in arrays]


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(t.detach() if isinstance(t, sf.Tensor) else t)
            for t in pytree.flatten(tree)[0]]  # fmt: skip


def tolerance(dtype: DType) -> float:
    return {8: 1e-12, 4: 2e-5, 2: 0.03}[dtype.itemsize] if dtype.is_floating else 0


def assert_close(got: Any, expected: Any) -> None:
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert (g.dtype, g.shape) == (e.dtype, e.shape)
        eps = tolerance(dtype_of(e.dtype))
        g, e = (a.astype(np.float64) for a in (g, e))
        np.testing.assert_allclose(g, e, rtol=eps, atol=eps, equal_nan=True)


def assert_agrees(program: Any, fn: Callable[..., Any], arrays: Any) -> None:
    """Compiled, interpreted as it was written, and eager."""
    got = leaves(program(*arrays))
    assert_close(got, [np.asarray(a) for a in interpret_graph(program.graph, arrays)])
    assert_close(got, leaves(fn(*map(sf.from_numpy, arrays))))


# -- one compilation for every size --------------------------------------------------------------


SIZES = ({"n": 17, "m": 2, "k": 64}, {"n": 1, "m": 1, "k": 1}, {"n": 2, "m": 64, "k": 17},
         {"n": 64, "m": 17, "k": 0}, {"n": 0, "m": 2, "k": 3}, {"n": 2, "m": 0, "k": 1})  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compilation_serves_every_size(name: str) -> None:
    fn, dims = PROGRAMS[name]
    inputs = [sf.placeholder(tuple(d), "float64", f"x{i}") for i, d in enumerate(dims)]
    program = sf.compile(inputs, fn(*inputs))
    for sizes in SIZES:
        if name == "running" and sizes["n"] == 0:
            continue  # eager, the shapes of the ys of no step are unknown
        arrays = [
            values(tuple(sizes[d] for d in shape), float64, seed=i) for i, shape in enumerate(dims)
        ]
        assert_agrees(program, fn, arrays)
    assert program.compile_count == 1


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["dense", "normalized", "attention", "statistics", "running"])
def test_every_floating_dtype(name: str, dtype: DType) -> None:
    fn, dims = PROGRAMS[name]
    arrays = [values(tuple({"n": 5, "m": 8, "k": 3}[d] for d in s), dtype, -1, 1) for s in dims]
    inputs = unknown(arrays)
    assert_agrees(sf.compile(inputs, fn(*inputs)), fn, arrays)


# -- dtypes and special values -------------------------------------------------------------------


def _integers(x: Any) -> Any:
    return (x * x + 3, x - 2, x // 3, x % 3, -x, x.sum(0), sf.maximum(x, 1), sf.where(x > 1, x, x + 1),
            x >= 2, x.to("float64") / 3, x / 4, x.argmax(0), x.clamp(1, 5), x.to("bool"))  # fmt: skip


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "iu"], ids=str)
def test_integers(dtype: DType) -> None:
    array = special(dtype)
    (x,) = unknown([array])
    assert_agrees(sf.compile([x], _integers(x)), _integers, [array])


def _bools(x: Any, y: Any) -> Any:
    return (x & ~y, x | y, x ^ y, x.all(), x.any(), x.sum(), x + y, x * y, sf.where(x, 1.0, y.to("float32")),
            x < y, x.to("int8"))  # fmt: skip


def test_bools() -> None:
    arrays = [np.array([True, False, True, False]), np.array([True, True, False, False])]
    inputs = unknown(arrays)
    assert_agrees(sf.compile(inputs, _bools(*inputs)), _bools, arrays)


def _signed(x: Any, y: Any) -> Any:
    return (x.clamp(-1, 1), sf.where(x > y, x, y), x.abs(), -x,
            x + 0.0, x * 0.0, x - -0.0, x * 1, x / 1, x * -1, -(-x), x - (-y))  # fmt: skip


def _awkward(x: Any, y: Any) -> Any:
    return (*_signed(x, y), sf.maximum(x, y), sf.minimum(x, y), x < y, x >= y, x == y, x != y, x.relu(),
            x.sign(), x.isnan(), x.to("bool"), sf.amax(x, (0,)), x.softmax(0), x.sum())  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_awkward_numbers_come_out_as_eagerly(dtype: DType) -> None:
    """NaN, infinities and the signs of zeros, each against each."""
    one = special(dtype)
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(one, one))
    inputs = unknown([x, y])
    program = sf.compile(inputs, _awkward(*inputs))
    assert_agrees(program, _awkward, [x, y])
    eager = leaves(_signed(sf.from_numpy(x), sf.from_numpy(y)))
    for got, expected in zip(leaves(program(x, y)), eager, strict=False):
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


def test_tensors_of_no_dims() -> None:
    def fn(x: Any) -> Any:
        return x.exp(), x.sum(), x.reshape(1, 1), x.expand(3), x > 0, x.mean(), x * x.reshape(1)

    x = sf.placeholder(())
    program = sf.compile([x], fn(x))
    assert_agrees(program, fn, [np.array(0.5, np.float32)])
    assert program(0.5)[0].item() == program(np.float32(0.5))[0].item()


def test_a_number_takes_the_dtype_of_its_input() -> None:
    x, i = sf.placeholder((), "float64"), sf.placeholder((), "int8")
    program = sf.compile([x, i], (x, i))
    assert leaves(program(0.1, 3)) == [np.float64(0.1), np.int8(3)]
    assert program(1, True)[0].item() == 1.0
    with pytest.raises(sf.DTypeError, match="is float32 and must be int8"):
        program(0.1, 0.5)


# -- inputs and outputs --------------------------------------------------------------------------


def test_outputs_are_trees() -> None:
    x = sf.placeholder((None, 3), name="x")
    tree = {"a": x, "b": (x.sum(), [x.T, None]), "c": 1.5}
    out = sf.compile([x], tree)(np.ones((2, 3), np.float32))
    assert pytree.flatten(out)[1] == pytree.flatten(tree)[1]
    assert (out["b"][0].item(), out["b"][1][0].shape, out["c"].item()) == (6, (3, 2), 1.5)
    assert sf.compile([x], [])(np.ones((2, 3), np.float32)) == []


def test_outputs_have_memory_of_their_own() -> None:
    """Inputs, variables, constants, views of them, and one value twice."""
    w = sf.variable([1.0, 2.0, 3.0])
    x = sf.placeholder((None, 3), name="x")
    numbers, many = np.array([4.0, 5.0], np.float32), np.arange(5000, dtype=np.float32)
    y = x.exp()
    wanted = (x, sf.symbol(w), x.reshape(-1), x.T, x[1:], sf.constant(numbers), sf.constant(many), y, y,
              y.reshape(3, -1), y.reshape(3, -1), sf.zeros_like(x), x.expand(2, *x.shape))  # fmt: skip
    program = sf.compile([x], wanted)
    array = values((4, 3), float32)
    results = leaves(program(array))
    for i, a in enumerate(results):
        assert not any(np.shares_memory(a, b) for b in (array, w.numpy(), *results[:i]))
    expected = (array, w.numpy(), array.ravel(), array.T, array[1:], numbers, many, np.exp(array),
                np.exp(array), np.exp(array).reshape(3, -1), np.exp(array).reshape(3, -1),
                np.zeros_like(array), np.stack([array, array]))  # fmt: skip
    assert_close(results, expected)
    for a in results:
        a[...] = -1
    assert_close(leaves(program(array)), expected)


def test_unused_and_repeated_inputs() -> None:
    x, y, z = (sf.placeholder(("n",), name=n) for n in "xyz")
    program = sf.compile({"first": x, "second": y, "third": z}, x + y)
    one = np.ones(3, np.float32)
    assert program(one, one, one).tolist() == [2, 2, 2]
    assert program(one, third=one, second=2 * one).tolist() == [3, 3, 3]
    assert program(one[::-1], one[::-1], one[::-1]).tolist() == [2, 2, 2]


def test_sizes_are_values_too() -> None:
    x = sf.placeholder((None, None), name="x")
    n, m = x.shape
    outputs = (x * n, x.sum() / (n * m), x.reshape(n * m)[: n + 1], sf.zeros_like(x) + (m - n) // 2)
    program = sf.compile([x], outputs)
    array = values((5, 4), float32)
    expected = (array * 5, array.sum() / 20, array.ravel()[:6], np.full((5, 4), -1, np.float32))
    assert_close(leaves(program(array)), [np.asarray(e, np.float32) for e in expected])


def test_a_size_may_be_an_expression_of_sizes() -> None:
    n = sf.placeholder(("n",), name="y")
    x = sf.placeholder((2 * n.shape[0] + 1,), name="x")
    program = sf.compile([n, x], x[1:].reshape(n.shape[0], 2) * n.reshape(n.shape[0], 1))
    y, array = values((3,), float32), values((7,), float32)
    assert_close(leaves(program(y, array)), [array[1:].reshape(3, 2) * y[:, None]])
    with pytest.raises(sf.ShapeError, match=r"x has 6 in dim 0 where f32\[2\*n \+ 1\] wants"):
        program(y, array[1:])


# -- updates -------------------------------------------------------------------------------------


def copies(program: Any) -> int:
    steps = walk_steps(program._executable.program.steps)
    return sum(isinstance(step, Copy) for step in steps)


def variables(*arrays: Any) -> list[Any]:
    return [sf.variable(np.array(a, np.float32)) for a in arrays]


def test_variables_swap() -> None:
    a, b = variables([1, 2], [3, 4])
    program = sf.compile(
        [], (sf.symbol(a), sf.symbol(b)), updates={a: sf.symbol(b), b: sf.symbol(a)}
    )
    assert [t.tolist() for t in program()] == [[1, 2], [3, 4]]
    assert (a.tolist(), b.tolist()) == ([3, 4], [1, 2])
    program()
    assert (a.tolist(), b.tolist()) == ([1, 2], [3, 4])


def test_updates_read_the_values_before() -> None:
    """A ring of sums, in which no order of updates in place would do."""
    a, b, c = variables([1, 10], [2, 20], [3, 30])
    sa, sb, sc = map(sf.symbol, (a, b, c))
    sf.compile([], None, updates=[(a, sa + sb), (b, sb + sc), (c, sc + sa)])()
    assert [t.tolist() for t in (a, b, c)] == [[3, 30], [5, 50], [4, 40]]


def test_an_update_from_the_updated_value_of_another() -> None:
    """Momentum: the new velocity is used, and only written once."""
    w, v = variables([1, 2], [0, 8])
    x = sf.placeholder((2,), name="x")
    new = sf.symbol(v) * 0.5 + x
    program = sf.compile([x], new, updates={v: new, w: sf.symbol(w) - new})
    assert program(np.array([1, 1], np.float32)).tolist() == [1, 5]
    assert (v.tolist(), w.tolist()) == ([1, 5], [0, -3])


def test_values_before_and_after_are_both_outputs() -> None:
    (w,) = variables([[1, 2], [3, 4]])
    old = sf.symbol(w)
    new = old * 2
    program = sf.compile([], (old, new, old.T, new.T, old.reshape(4), new.sum()), updates={w: new})
    results = [t.tolist() for t in program()]
    assert results == [[[1, 2], [3, 4]], [[2, 4], [6, 8]], [[1, 3], [2, 4]], [[2, 6], [4, 8]],
                       [1, 2, 3, 4], 20]  # fmt: skip
    assert w.tolist() == [[2, 4], [6, 8]]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (lambda w, x: x, [5, 6, 7]),
        (lambda w, x: x.reshape(3), [5, 6, 7]),
        (lambda w, x: sf.constant([7.0, 8.0, 9.0]), [7, 8, 9]),
        (lambda w, x: np.float32(2) + w, [3, 4, 5]),
        (lambda w, x: w, [1, 2, 3]),
        (lambda w, x: w[0] + x * 0, [1, 1, 1]),
        (lambda w, x: sf.cat([w[1:], w[:1]]), [2, 3, 1]),
        (lambda w, x: w + w.sum(), [7, 8, 9]),
        (lambda w, x: w - (w.reshape(3, 1) @ w.reshape(1, 3)).sum(0), [-5, -10, -15]),
        (lambda w, x: sf.gather(w, 0, sf.constant(np.array([2, 2, 0]))), [3, 3, 1]),
        (lambda w, x: sf.scan(lambda c, r: (c + r, None), w, x)[0], [19, 20, 21]),
        (lambda w, x: sf.scan(lambda c, r: (c, c.sum() + r), w, x)[1], [11, 12, 13]),
        (lambda w, x: sf.zeros_like(w), [0, 0, 0]),
    ],
)
def test_what_a_new_value_may_be(new: Callable[..., Any], expected: list[float]) -> None:
    (w,) = variables([1, 2, 3])
    x = sf.placeholder((3,), name="x")
    program = sf.compile([x], sf.symbol(w) * 1, updates={w: new(sf.symbol(w), x)})
    assert program(np.array([5, 6, 7], np.float32)).tolist() == [1, 2, 3]
    assert w.tolist() == expected


def test_rows_are_put_into_a_variable_where_it_lies() -> None:
    """The indices are looked at first, so that a wrong one changes nothing."""
    (w, v) = variables([[1, 1], [2, 2], [3, 3]], [5, 5, 5])
    rows, i = sf.placeholder((2, 2), name="rows"), sf.placeholder((2,), sf.int64, name="i")
    new = sf.index_add(sf.symbol(w), 0, i, rows)
    program = sf.compile([rows, i], new.sum(), updates={w: new, v: sf.symbol(v) * 2})
    assert copies(program) == 0
    ones = np.ones((2, 2), np.float32)
    assert program(ones, np.array([2, 2])) == 16
    with pytest.raises(sf.IndexRangeError, match="nothing was updated"):
        program(ones, np.array([0, 3]))
    assert w.tolist() == [[1, 1], [2, 2], [5, 5]] and v.tolist() == [10, 10, 10]
    read = sf.compile([rows, i], sf.symbol(w) + 1, updates={w: new})  # what reads it runs before
    assert read(ones, np.array([0, 1])).tolist() == [[2, 2], [3, 3], [6, 6]]
    assert copies(read) == 0 and w.tolist() == [[2, 2], [3, 3], [5, 5]]
    itself = sf.compile([i], None, updates={w: sf.index_add(sf.symbol(w), 0, i, sf.symbol(w)[1:])})
    itself(np.array([0, 1]))
    assert w.tolist() == [[5, 5], [8, 8], [5, 5]]


@pytest.mark.parametrize(
    "new",
    [
        lambda w: w.T * 0.5,
        lambda w: w + w.T,
        lambda w: w @ w,
        lambda w: w.T @ w - w,
        lambda w: w - w[7:8],
        lambda w: w - w[:, 7:8],
        lambda w: w * w.sum(1, keepdim=True),
        lambda w: w.reshape(-1, w.shape[0] // 2).T.reshape(*w.shape),
    ],
)
def test_a_matrix_that_is_read_elsewhere_than_it_is_written(new: Callable[[Any], Any]) -> None:
    """What would go wrong in place, where an element is gone before it is read."""
    start = values((96, 96), float64, -1, 1)
    w = sf.variable(start)
    sf.compile([], None, updates={w: new(sf.symbol(w))})()
    assert_close([w.numpy()], [new(sf.from_numpy(start)).numpy()])


def test_one_new_value_for_two_variables() -> None:
    a, b = variables([0, 0], [0, 0])
    x = sf.placeholder((2,), name="x")
    sf.compile([x], None, updates={a: x * 2, b: x * 2})(np.array([1, 2], np.float32))
    assert (a.tolist(), b.tolist()) == ([2, 4], [2, 4])


def test_a_loop_of_no_iterations_gives_what_it_began_with_not_what_replaces_it() -> None:
    (w,) = variables([1, 2])
    xs = sf.placeholder((None, 2), name="xs")
    last, _ = sf.scan(lambda c, x: (c + x, None), sf.symbol(w), xs)
    program = sf.compile([xs], last, updates={w: sf.symbol(w) + 10})
    assert program(np.zeros((0, 2), np.float32)).tolist() == [1, 2]
    assert w.tolist() == [11, 12]
    assert program(np.ones((3, 2), np.float32)).tolist() == [14, 15]


@pytest.mark.parametrize("direct", [True, False])
def test_nothing_is_updated_where_an_index_is_out_of_range(direct: bool) -> None:
    w, v = variables([1, 2, 3], [4, 5, 6])
    x, i = sf.placeholder((None,), name="x"), sf.placeholder((3,), "int64", name="i")
    found = sf.gather(x, 0, i)
    new = found if direct else found * 2
    program = sf.compile([x, i], None, updates={w: new, v: sf.symbol(v) + 1})
    with pytest.raises(IndexRangeError, match="an index lies outside the dim"):
        program(values((4,), float32), np.array([0, 1, 4]))
    assert (w.tolist(), v.tolist()) == ([1, 2, 3], [4, 5, 6])
    assert (w._version, v._version) == (0, 0)


# -- counts --------------------------------------------------------------------------------------


def _two_layers() -> tuple[Any, Any, list[Any]]:
    rng = np.random.default_rng(0)
    w1, w2 = (sf.nn.Parameter(rng.normal(size=s).astype(np.float32)) for s in ((64, 20), (20, 10)))
    x, t = sf.placeholder((None, 64), name="x"), sf.placeholder((None, 10), name="t")
    loss = F.mse_loss((x @ w1).clamp(min=0) @ w2, t)
    return (x, t), loss, [w1, w2]


def _steps(kind: str) -> Iterator[Any]:
    inputs, loss, weights = _two_layers()
    optimiser = sf.optim.SGD(weights, lr=0.1, momentum=0.9 if kind == "momentum" else 0.0)
    yield sf.compile(inputs, loss, updates=optimiser.minimize(loss))


def test_the_training_step_of_two_layers() -> None:
    """Six kernels, no copies; the arena holds the hidden layer, the error and what comes back."""
    inputs, loss, weights = _two_layers()
    updates = [(w, w - 0.1 * g) for w, g in zip(weights, sf.grad(loss, weights), strict=True)]
    program = sf.compile(inputs, loss, updates=updates)
    assert (program.kernel_count, copies(program)) == (6, 0)
    assert len(program._executable.program.steps) == 6
    before = [w.detach().numpy().copy() for w in weights]
    x, t = values((32, 64), float32), values((32, 10), float32)
    hidden = np.maximum(x @ before[0], 0)
    error = hidden @ before[1] - t
    assert program(x, t).item() == pytest.approx(float((error**2).mean()), rel=1e-5)
    back = error * np.float32(2 / error.size)
    first = x.T @ ((back @ before[1].T) * (hidden > 0))
    for w, old, g in zip(weights, before, (first, hidden.T @ back), strict=True):
        np.testing.assert_allclose(w.detach().numpy(), old - 0.1 * g, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["plain", "momentum"])
def test_an_optimiser_updates_in_place(kind: str) -> None:
    (program,) = _steps(kind)
    assert copies(program) == 0


def test_sizes_near_the_limits_of_the_index_type() -> None:
    """Products of sizes above 2**31 and 2**53 are exact in the plan, whatever is not run."""
    x, y = sf.placeholder(("n", 1), name="x"), sf.placeholder(("m",), name="y")
    table = (x * y).sin()
    program = sf.compile([x, y], (table.T @ x).sum())
    n, m = 3_000_000_019, 3_000_000_037
    assert program.plan.peak_bytes(n=n, m=m) >= 4 * n * m
    assert program.plan.peak_bytes(n=n, m=m) % 64 == 0
    assert_close(leaves(program(np.ones((3, 1), np.float32), np.ones(2, np.float32))),
                 [np.asarray(6 * np.sin(np.float32(1)))])  # fmt: skip
