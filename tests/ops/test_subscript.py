"""``x[key]`` and ``x[key] = value`` in both modes, against NumPy, and what is a view of what."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import DTypeError, IndexRangeError, ShapeError

X = np.arange(24.0).reshape(2, 3, 4)
MASK = X % 3 == 0

KEYS: tuple[Any, ...] = (
    0, -1, (0, 1), (1, 2, 3), slice(1, None), (slice(None), 0), (Ellipsis, 1), (None, 0), (0, None, slice(0, 2)),
    [0, 1], ([0, 1], [1, 2]), ([0, 1], slice(None), [1, 2]), (slice(None), [0, -1]), np.array([[0, 1], [1, 0]]),
    (np.array([[0, 1], [1, 0]]), slice(0, 2), np.array([0, 1])), ([True, False],), ([True, False], slice(None), [0]),
    (slice(None), [True, False, True]), np.ones((2, 3), bool), (None, [0, 1]), ([[0], [1]], [0, 1, 2]), [], True,
    (slice(None, None, 2), None, Ellipsis, -1), (slice(None), slice(1, 1), [0]), range(2), False,
    slice(None, None, -1), (0, slice(None, None, -2)), (Ellipsis, slice(2, None, -1), None), slice(-2, -9, -3),
    (slice(None, None, -1), 0, slice(3, 0, -2)), (None, slice(None, None, -1), [2, 0], slice(0, 3, -1)),
    (slice(None, None, -1), [True, False, True]),
)  # fmt: skip


def compiled(fn: Callable[..., Any], *arrays: Any) -> Any:
    """``fn`` as a program whose sizes are all unknown, run on ``arrays``."""
    inputs = [
        sf.placeholder((None,) * np.ndim(a), np.asarray(a).dtype.name, f"x{i}")
        for i, a in enumerate(arrays)
    ]
    return sf.compile(inputs, fn(*inputs))(*map(np.asarray, arrays))


def stored(x: Any, key: Any, value: Any) -> Any:
    out = x.clone() if hasattr(x, "clone") else x.copy()
    out[key] = value
    return out


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_reading(key: Any) -> None:
    np.testing.assert_array_equal(sf.from_numpy(X)[key].numpy(), X[key])
    np.testing.assert_array_equal(compiled(lambda x: x[key], X).numpy(), X[key])


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_storing(key: Any) -> None:
    part = np.asarray(X[key])
    for value in (7, part * 2, part[..., :1] - 1 if part.ndim else part, np.float32(3)):
        wanted = stored(X, key, value)
        np.testing.assert_array_equal(stored(sf.from_numpy(X), key, value).numpy(), wanted)
        np.testing.assert_array_equal(compiled(lambda x: stored(x, key, value), X).numpy(), wanted)  # noqa: B023


def test_masks_that_are_tensors() -> None:
    x, mask = sf.from_numpy(X.copy()), sf.from_numpy(MASK)
    np.testing.assert_array_equal(x[mask].numpy(), X[MASK])
    np.testing.assert_array_equal(x[mask[0, 0, 0]].numpy(), X[None])
    for value in (0.5, X[MASK] * 2, np.array([4.0])):
        wanted = stored(X, MASK, value)
        np.testing.assert_array_equal(stored(x, mask, value).numpy(), wanted)
        if np.shape(value) != (1,):  # a size that is not known yet does not broadcast
            found = compiled(lambda x, m, v: stored(x, m, v), X, MASK, np.asarray(value))
            np.testing.assert_array_equal(found.numpy(), wanted)
    rows = sf.tensor([True, False])
    np.testing.assert_array_equal(stored(x, rows, sf.zeros(4)).numpy(), stored(X, [0], 0.0))


def test_ints_take_their_dim_away_before_index_tensors_select() -> None:
    """As in PyTorch; NumPy takes an int for an index tensor."""
    x = sf.from_numpy(X)
    assert x[0, :, [0, 1]].shape == (3, 2)
    assert x[:, 0, [0, 1]].shape == (2, 2)
    assert compiled(lambda x: x[0, :, [0, 1]], X).shape == (3, 2)


def test_a_number_of_the_graph_is_an_index() -> None:
    def program(x: Any, i: Any) -> Any:
        y = x.clone()
        y[:, i] = 5
        return x[i], x[:, i, 0], y, x.select(0, i)

    row, column, changed, same = compiled(program, X, np.int64(-1))
    np.testing.assert_array_equal(row.numpy(), X[-1])
    np.testing.assert_array_equal(same.numpy(), X[-1])
    np.testing.assert_array_equal(column.numpy(), X[:, -1, 0])
    np.testing.assert_array_equal(changed.numpy(), stored(X, (slice(None), -1), 5))


PARTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a number": lambda n, m, rows: n,
    "another": lambda n, m, rows: m,
    "rows": lambda n, m, rows: rows,
    "an int": lambda n, m, rows: 1,
    "all": lambda n, m, rows: slice(None),
}


@pytest.mark.parametrize("first", PARTS)
def test_parts_of_a_key_may_be_one_tensor(first: str) -> None:
    """Whatever stands twice in a key speaks of each dim on its own."""
    keys = [(PARTS[first], *rest) for rest in itertools.product(PARTS.values(), repeat=2)]

    def read_and_stored(x: Any, n: Any, m: Any, rows: Any) -> list[Any]:
        made = []
        for key in keys:
            at = tuple(part(n, m, rows) for part in key)
            made += [x[at], stored(x, at, x[at] * 2 + 1), stored(x, at, 0.5)]
        return made

    def by_numpy(x: Any, n: int, m: int, rows: Any) -> list[Any]:
        made = []
        for key in keys:
            at = [part(n, m, rows) for part in key]
            numbers = tuple(k if isinstance(k, int) else slice(None) for k in at)
            rest = tuple(k for k in at if not isinstance(k, int))
            value = x[numbers][rest] if rest else x[numbers]
            made.append(value)
            for new in (value * 2 + 1, 0.5):
                out = x.copy()
                view = out[numbers] if rest else out
                view[rest if rest else numbers] = new
                made.append(out)
        return made

    x = np.random.default_rng(0).normal(size=(3, 4, 3))
    given = x, np.int64(2), np.int64(0), np.array([1, 0])
    wanted = by_numpy(x, 2, 0, given[3])
    for got in (read_and_stored(*map(sf.tensor, given)), compiled(read_and_stored, *given)):
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)


def _change_by_numbers(c: Any, n: Any, m: Any) -> tuple[Any, ...]:
    c = c.clone()
    row = c[n]
    c[n] = c[n] * 2 + 1
    total = row.sum()
    row += 1
    c[n, 1] += 5
    other = c[m]
    other[1:] = 7
    other[0] *= 2
    column = c[:, n]
    column.mul_(3)
    c[m][n] = c[n][None][0, 1] * 4
    return c, total, row, other, column


@pytest.mark.parametrize("taken", ["given", "closed over"])
def test_what_a_number_selects_is_a_view(taken: str) -> None:
    """Also where the number is one of the graph, which only the run knows."""
    x = np.random.default_rng(1).normal(size=(4, 3))
    for i, j in ((0, 1), (2, 2), (1, 0)):
        places = sf.tensor(i), sf.tensor(j)
        if taken == "given":
            got = compiled(_change_by_numbers, x, np.int64(i), np.int64(j))
        else:
            got = compiled(lambda c: _change_by_numbers(c, *places), x)  # noqa: B023
        for a, b in zip(got, _change_by_numbers(sf.tensor(x), i, j), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12)
        grads = []
        for mode in ("graph", "eager"):
            c = sf.tensor(x, requires_grad=True)
            if mode == "graph":
                s = sf.placeholder(x.shape, "float64", name="s")
                out = sum((y**2).sum() for y in _change_by_numbers(s, *places))
                grads.append(sf.compile([s], sf.grad(out, s))(x).numpy())
            else:
                sum((y**2).sum() for y in _change_by_numbers(c, *places)).backward()
                grads.append(c.grad.numpy())
        np.testing.assert_allclose(*grads, 1e-12)


def test_a_view_stays_where_the_number_was() -> None:
    x, n = sf.placeholder((4, 3), name="x"), sf.placeholder((), "int64", name="n")
    y, place = x.clone(), n + 0
    row = y[place]
    place += 1
    row -= 2
    program = sf.compile([x, n], y)
    np.testing.assert_array_equal(program(np.zeros((4, 3), "f"), 2).numpy().sum(1), [0, 0, -6, 0])


def test_a_view_by_a_number_is_put_once() -> None:
    x, n = sf.placeholder((4, 3), name="x"), sf.placeholder((), "int64", name="n")
    y = x.clone()
    y[n, 1] += 1
    y[n] *= 2
    assert str(sf.compile([x, n], y).graph).count("index_put") == 2


def test_a_view_by_a_number_without_recording() -> None:
    x, n = sf.placeholder((4, 3), name="x"), sf.placeholder((), "int64", name="n")
    y = x.clone()
    with sf.no_grad():
        row = y[n]
    with pytest.raises(sf.errors.AutogradError, match="no_grad"):
        row += 1
    with sf.no_grad():
        row += 1
    program = sf.compile([x, n], y)
    np.testing.assert_array_equal(program(np.zeros((4, 3), "f"), 2).numpy().sum(1), [0, 0, 3, 0])


def test_a_row_chosen_in_a_loop() -> None:
    x = sf.placeholder((None, 3), "float64", "x")
    order = sf.placeholder((None,), "int64", "order")
    total, rows = sf.scan(lambda c, i: (c + x[i], x[i] * 2), sf.zeros_like(x[0]), order)
    program = sf.compile([x, order], [total, rows, sf.grad(total.sum(), x)])
    array, picks = np.arange(12.0).reshape(4, 3), np.array([3, 0, 3])
    found, stacked, gradient = program(array, picks)
    np.testing.assert_array_equal(found.numpy(), array[picks].sum(0))
    np.testing.assert_array_equal(stacked.numpy(), array[picks] * 2)
    np.testing.assert_array_equal(gradient.numpy()[:, 0], [1, 0, 0, 2])


def test_adding_where_an_index_says() -> None:
    def program(x: Any, i: Any) -> Any:
        y = x * 1
        y[i] += 10
        y[:, 0] *= -1
        return y

    wanted = X.copy()
    wanted[[1]] += 10
    wanted[:, 0] *= -1
    np.testing.assert_array_equal(program(sf.from_numpy(X), sf.tensor([1])).numpy(), wanted)
    np.testing.assert_array_equal(compiled(program, X, np.array([1])).numpy(), wanted)


def test_gradients_of_storing() -> None:
    """To what was there, without what is gone, and to what is stored."""

    def loss(x: Any, v: Any, i: Any) -> Any:
        y = x * 2
        y[i] = v
        y[0, 1:] = y[0, 1:] * v[0, 1:]
        return (y * y).sum()

    x, v, i = np.arange(6.0).reshape(2, 3), np.ones((1, 3)) * 3, np.array([1])
    leaves = [sf.tensor(a, requires_grad=True) for a in (x, v)]
    loss(*leaves, sf.from_numpy(i)).backward()
    found = compiled(lambda x, v, i: sf.grad(loss(x, v, i), [x, v]), x, v, i)
    for leaf, symbolic in zip(leaves, found, strict=True):
        np.testing.assert_allclose(symbolic.numpy(), leaf.grad.numpy())
    np.testing.assert_array_equal(leaves[0].grad.numpy()[1], 0)


def test_a_negative_step_has_a_gradient_and_gives_a_copy() -> None:
    x = sf.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    (x[::-2] * sf.tensor([1.0, 10.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 10, 0, 1]
    y = x.detach().clone()
    part = y[::-1]
    part[0] = 7
    assert y.tolist() == [1, 2, 3, 4] and part.tolist() == [7, 3, 2, 1]
    y[::-1] += sf.arange(4)
    assert y.tolist() == [4, 4, 4, 4]


def test_a_slice_back_of_an_open_size_for_every_size() -> None:
    p = sf.placeholder((None,), "int64", "p")
    for start, stop, step in ((None, None, -3), (4, None, -2), (-1, 1, -1), (None, 5, -2)):
        reverse = sf.compile([p], p[start:stop:step])
        for n in range(9):
            assert reverse(np.arange(n)).tolist() == [*range(n)][start:stop:step]


def test_views_show_changes_both_ways_in_both_modes() -> None:
    def program(x: Any) -> Any:
        x = x.clone()
        first, turned, diagonal = x[0], x.t(), x.diagonal()
        first.add_(1)
        turned.mul_(2)
        diagonal.zero_()
        x[1] += 5
        flat = x.view(-1)
        flat[2:4] = 7
        x.view(-1)[1:].unsqueeze(0)[0, 0] = 100
        copy = x.flip(0)
        copy.zero_()
        return x, first, turned, diagonal, flat

    array = np.arange(9.0).reshape(3, 3) + 1
    eager = program(sf.from_numpy(array))
    for e, s in zip(eager, compiled(program, array), strict=True):
        np.testing.assert_array_equal(e.numpy(), s.numpy())


def test_an_expanded_symbol_is_not_written() -> None:
    x = sf.placeholder((1, 3), name="x")
    with pytest.raises(RuntimeError, match=r"expand.*clone.*test_subscript\.py"):
        x.expand(2, 3).add_(1)


def test_shapes_change_in_place() -> None:
    x = sf.zeros(2, 3)
    column = x[:, 2]
    assert x.t_() is x and x.shape == (3, 2)
    x.add_(1)
    assert column.tolist() == [1, 1]
    assert x.unsqueeze_(0).transpose_(0, 1).shape == (3, 1, 2) and x.squeeze_(1).shape == (3, 2)
    y = sf.placeholder((None, 3), name="y")
    assert y.t_().shape[0] == 3
    w = sf.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        w.t_()
    with sf.no_grad():
        assert w.t_().is_leaf and w.requires_grad


def test_history_follows_a_shape_that_changes() -> None:
    a = sf.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    b = a * 2
    row = b[0]
    b.t_()
    b.mul_(3)
    (row.sum() + b.sum()).backward()
    assert a.grad.tolist() == [[12, 12, 12], [6, 6, 6]]


@pytest.mark.parametrize(
    ("key", "error", "says"),
    [
        (sf.tensor([0, 2]), IndexRangeError, r"index 2, at \[1\], is outside dim 0 of size 2"),
        ((slice(None), [0, -4]), IndexRangeError, r"index -4, at \[1\], is outside dim 1 of size 3"),
        (sf.tensor([True]), IndexRangeError, r"dim 0 of the mask, of shape \[1\], meets dim 0 of size 2"),
        (([0, 1], [0, 1, 2]), ShapeError, "2 and 3 differ"),
        (slice(None, None, 0), ShapeError, "step of 0; it must be positive, or negative"),
        (sf.tensor([0.0]), DTypeError, "tensor of float32"),
        ((0, 0, 0, 0), ShapeError, "4 indices for a tensor of 3 dims"),
        ("a", IndexRangeError, "indexing by 'a'"),
        (2, IndexRangeError, "index 2 is outside dim 0 of size 2"),
    ],
    ids=lambda v: repr(v)[:30],
)  # fmt: skip
def test_errors(key: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=rf"(?s){says}.*test_subscript\.py"):
        sf.from_numpy(X)[key]
    with pytest.raises(error, match=rf"(?s){says}.*test_subscript\.py"):
        sf.from_numpy(X.copy())[key] = 0


def test_a_program_names_the_index_that_is_out_of_range() -> None:
    x = sf.placeholder((None, 3), name="x")
    i = sf.placeholder((None,), "int64", name="i")
    program = sf.compile([x, i], x[:, i])
    with pytest.raises(IndexRangeError, match=r"index 3, at \[1\], is outside dim 1 of size 3"):
        program(sf.ones(2, 3), sf.tensor([0, 3]))


def test_what_a_mask_selects_in_a_graph_is_as_large_as_it_turns_out() -> None:
    """In one program for all sizes, with gradients of both orders."""

    def program(x: Any) -> list[Any]:
        picked = x[x > 0]
        doubled = x.clone()
        doubled[doubled > 0] *= 2
        first = sf.grad((picked * picked * picked).sum(), x)
        return [
            picked, x[x[:, 0] > 0], sf.nonzero(x > 0), *sf.where(x > 0), x.masked_select(x > 0) * 2, doubled,
            picked.sum(), first, sf.grad(first.sum(), x),
        ]  # fmt: skip

    symbol = sf.placeholder((None, 3), "float64", "x")
    run = sf.compile([symbol], program(symbol))
    for rows in (2, 0, 1, 5):
        a = np.random.default_rng(rows).normal(size=(rows, 3))
        m = a > 0
        wanted = [
            a[m], a[a[:, 0] > 0], np.argwhere(m), *np.nonzero(m), a[m] * 2, np.where(m, a * 2, a), a[m].sum(),
            np.where(m, 3 * a * a, 0), np.where(m, 6 * a, 0),
        ]  # fmt: skip
        for f, w in zip(run(a), wanted, strict=True):
            np.testing.assert_allclose(f.numpy(), w)


@pytest.mark.parametrize("kind", [IndexError, ValueError])
def test_dims_that_are_not_there_are_index_errors(kind: type[Exception]) -> None:
    """As in PyTorch, and `ValueError`s as in NumPy."""
    x = sf.ones(2, 3)
    for fails in (
        lambda: x.sum(2),
        lambda: x.size(5),
        lambda: x.transpose(0, -3),
        lambda: x[0, 0, 0],
    ):
        with pytest.raises(kind, match="dims"):
            fails()
    with pytest.raises(IndexError):
        sf.tensor(1.0)[0]
