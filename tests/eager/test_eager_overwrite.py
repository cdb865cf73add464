"""In-place operations on large arrays: one program that writes where it reads."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import in_place, overwrite, programs
from staticflow.eager.bind import inherited_members
from staticflow.eager.fast.in_place_forms import in_place_methods
from staticflow.errors import IndexRangeError

SHAPE = (6, 8)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The programs that are compiled, every array being large."""
    found: list[Any] = []

    def counted(graph: Any) -> Any:
        program = programs.compile_graph(graph)
        found.append(program)
        return program

    monkeypatch.setattr(overwrite, "compile_graph", counted)
    monkeypatch.setattr(overwrite, "programs_of", functools.cache(lambda fn: programs.Programs()))
    monkeypatch.setattr(overwrite, "SPREAD", 1)
    for module in (in_place, overwrite):
        monkeypatch.setattr(module, "LARGE", 1)
    sf.ones(1).neg()  # by which the methods have become native; those leave large arrays to these
    for name, method in in_place_methods(inherited_members()).items():
        monkeypatch.setattr(sf.Tensor, name, method.general)
    monkeypatch.setattr(overwrite, "get_num_threads", lambda: 2)
    yield found


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


ROWS = sf.tensor([4, 0, 2])


def added(x: Any, y: Any) -> Any:
    out = x.copy()
    np.add.at(out, ROWS.numpy(), y[:3])
    return out


def moved(x: Any, y: Any) -> Any:
    out = x.copy()
    out[:, ROWS.numpy()] = y[:, :3]
    return out


def filled(x: Any, value: Any, place: Any = None) -> Any:
    out = x.copy()
    out[ROWS.numpy() if place is None else place] = value
    return out


FORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda x, y: x.add_(y), lambda x, y: x + y),
    "alpha": (lambda x, y: x.add_(y, alpha=-0.3), lambda x, y: x + y * np.float32(-0.3)),
    "mul": (lambda x, y: x.mul_(-0.7), lambda x, y: x * np.float32(-0.7)),
    "square": (lambda x, y: x.mul_(x), lambda x, y: x * x),
    "relu": (lambda x, y: x.relu_(), lambda x, y: np.maximum(x, 0)),
    "clamp": (lambda x, y: x.clamp_(-0.5, 0.25), lambda x, y: x.clip(-0.5, 0.25)),
    "addcmul": (
        lambda x, y: x.addcmul_(y, y, value=0.1), lambda x, y: x + y * y * np.float32(0.1)
    ),
    "row": (lambda x, y: x.sub_(y[0]), lambda x, y: x - y[0]),
    "vector": (lambda x, y: x.sub_(y[0].clone()), lambda x, y: x - y[0]),
    "column": (lambda x, y: x.div_(y[:, :1].clone()), lambda x, y: x / y[:, :1]),
    "masked_fill": (lambda x, y: x.masked_fill_(y > 0, 2.5), lambda x, y: np.where(y > 0, 2.5, x)),
    "gt": (lambda x, y: x.gt_(y), lambda x, y: x > y),
    "copy": (lambda x, y: x.copy_(y), lambda x, y: y),
    "copy of a row": (lambda x, y: x.copy_(y[:1]), lambda x, y: np.broadcast_to(y[:1], x.shape)),
    "copy of doubles": (lambda x, y: x.copy_(y.to(sf.float64) / 3), lambda x, y: y / np.float64(3)),
    "copy of a transposed": (lambda x, y: x.copy_(y.t().contiguous().t()), lambda x, y: y),
    "fill": (lambda x, y: x.fill_(0.3), lambda x, y: np.full_like(x, 0.3)),
    "zero": (lambda x, y: x.zero_(), lambda x, y: np.zeros_like(x)),
    "tril": (lambda x, y: x.tril_(1), lambda x, y: np.tril(x, 1)),
    "index_add": (lambda x, y: x.index_add_(0, ROWS, y[:3]), lambda x, y: added(x, y)),
    "index_copy": (lambda x, y: x.index_copy_(1, ROWS, y[:, :3].contiguous()), lambda x, y: moved(x, y)),
    "index_fill": (lambda x, y: x.index_fill_(0, ROWS, 0.5), lambda x, y: filled(x, 0.5)),
    "index_put": (lambda x, y: x.index_put_((ROWS,), y[:3]), lambda x, y: filled(x, y[:3])),
    "scatter": (lambda x, y: x.scatter_(0, ROWS[:, None], 2.0), lambda x, y: filled(x, 2.0, (ROWS.numpy(), 0))),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_in_the_same_memory(name: str, made: list[Any]) -> None:
    form, wanted = FORMS[name]
    for shape in (SHAPE, (5, 7)):
        a, b = drawn(*shape), drawn(*shape, seed=1)
        x, y = sf.from_numpy(a.copy()), sf.from_numpy(b.copy())
        array, version = x.numpy(), x._version
        assert form(x, y) is x and x.numpy() is array and x._version == version + 1
        np.testing.assert_array_equal(array, np.asarray(wanted(a, b), np.float32))
        np.testing.assert_array_equal(y.numpy(), b)
    programs = [p for p in made if p is not None]
    assert len(programs) == (name != "copy of a transposed")
    by_copy = name.startswith(("copy", "fill", "zero")) and name != "copy of a transposed"
    assert bool(overwrite.programs_of(overwrite._spread).by_kind) == by_copy
    for program in programs:
        assert all(buffer.shape == () for buffer in program.program.buffers)


BY_ELEMENT = {"add", "alpha", "mul", "square", "relu", "clamp", "addcmul", "masked_fill", "gt"}


@pytest.mark.parametrize("name", FORMS)
def test_in_the_same_memory_of_columns(name: str, made: list[Any]) -> None:
    form, wanted = FORMS[name]
    a, b = drawn(*SHAPE), drawn(*SHAPE, seed=1)
    x, y = (sf.from_numpy(v.T.copy()).t() for v in (a, b))
    memory = x.t()
    assert form(x, y) is x and x.stride() == (1, SHAPE[0])
    changed = np.asarray(wanted(a, b), np.float32)
    np.testing.assert_array_equal(x.numpy(), changed)
    np.testing.assert_array_equal(memory.numpy(), changed.T)
    np.testing.assert_array_equal(y.numpy(), b)
    if name in BY_ELEMENT or name in ("index_fill", "scatter", "row", "vector", "fill", "zero"):
        (program,) = made
        assert all(buffer.shape == () for buffer in program.program.buffers)


ALONG: dict[str, Callable[..., Any]] = {
    "scatter": lambda x, dim, index, rows, src: x.scatter_(dim, index, src),
    "scatter of a number": lambda x, dim, index, rows, src: x.scatter_(dim, index, 2.5),
    "scatter_add": lambda x, dim, index, rows, src: x.scatter_add_(dim, index, src),
    "prod": lambda x, dim, index, rows, src: x.scatter_reduce_(dim, index, src, "prod"),
    "amax": lambda x, dim, index, rows, src: x.scatter_reduce_(dim, index, src, "amax"),
    "index_add": lambda x, dim, index, rows, src: x.index_add_(dim, rows, src),
    "index_copy": lambda x, dim, index, rows, src: x.index_copy_(dim, rows, src),
    "index_fill": lambda x, dim, index, rows, src: x.index_fill_(dim, rows, 2.5),
}


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
@pytest.mark.parametrize("name", ALONG)
def test_elements_are_put_along_a_dim_of_turned_arrays(
    name: str, order: tuple[int, ...], made: list[Any]
) -> None:
    """Of places that come again the last element stays, and sums are added up in one order."""
    shape, rng = (33, 34, 35), np.random.default_rng(0)
    back = np.argsort(order)

    def turned(a: Any) -> Any:
        return sf.from_numpy(a.transpose(order).copy()).permute(*back)

    for dim in range(3):
        a, src = drawn(*shape), drawn(*shape, seed=1)
        index = rng.integers(0, shape[dim] // 2, shape)
        rows = sf.from_numpy(rng.integers(0, shape[dim] // 2, shape[dim]))
        whole = sf.from_numpy(a.copy())
        ALONG[name](whole, dim, sf.from_numpy(index), rows, sf.from_numpy(src))
        made.clear()
        x = turned(a)
        assert ALONG[name](x, dim, turned(index), rows, turned(src)).stride() == turned(a).stride()
        np.testing.assert_array_equal(x.numpy(), whole.numpy())
        assert made or order == (0, 1, 2)
        assert all(b.shape == () for program in made for b in program.program.buffers)


def test_what_depends_on_places_is_not_computed_of_turned_arrays(made: list[Any]) -> None:
    a = drawn(8, 8)
    for change, wanted in (
        (lambda t: t.tril_(), np.tril),
        (lambda t: t.cumsum_(0), lambda a: a.cumsum(0)),
        (lambda t: t.copy_(t.flip(0)), lambda a: a[::-1]),
        (lambda t: t.t_(), lambda a: a.T),
        (lambda t: t.sub_(t[0]), lambda a: a - a[0]),
        (lambda t: t.add_(t.t().contiguous()), lambda a: a + a.T),
    ):
        x = sf.from_numpy(a.T.copy()).t()
        np.testing.assert_allclose(change(x).numpy(), wanted(a), 1e-6, 1e-6)


def test_nothing_is_written_where_an_index_is_wrong(made: list[Any]) -> None:
    wrong = sf.tensor([0, 1, 99])
    for change in (
        lambda x, y: x.index_add_(0, wrong, y),
        lambda x, y: x.index_put_((wrong,), y),
        lambda x, y: x.scatter_(0, wrong[:, None], y),
    ):
        a = drawn(*SHAPE)
        x = sf.from_numpy(a.copy())
        with pytest.raises(IndexRangeError, match="99"):
            change(x, sf.ones(3, SHAPE[1]))
        np.testing.assert_array_equal(x.numpy(), a)
        assert x._version == 0


def test_numbers_share_a_program(made: list[Any]) -> None:
    x, y = sf.from_numpy(drawn(*SHAPE)), sf.from_numpy(drawn(*SHAPE, seed=1))
    for v in (0.3, -0.2, 1e-3):
        x.add_(y, alpha=v)
        x.clamp_(-v - 1, v + 1)
        x.mul_(v)
        x.addcdiv_(y, y * y + 1, value=v)
        x.nan_to_num_(v)
    assert len(made) == 5
    assert not overwrite.programs_of(overwrite._spread).by_kind  # none copies what others computed


def test_a_very_large_array_is_filled_by_a_program(
    made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overwrite, "get_num_threads", lambda: 1)
    monkeypatch.setattr(overwrite, "BEYOND", 48)
    few, many = sf.ones(6, 7), sf.ones(6, 8)
    few.fill_(2.0)
    assert not made
    many.fill_(2.0)
    many[0].copy_(few[0, :1].expand(8))
    assert len(made) == 1
    assert few.sum() == 84 and many.sum() == 96


def test_views_of_one_memory() -> None:
    """Rows that follow each other, columns, a transposed matrix: as NumPy, which copies first."""
    n = 1 << 10
    a = drawn(n, n)
    for change, wanted in (
        (lambda t: t[1:].add_(t[:-1]), lambda a: a[1:] + a[:-1]),
        (lambda t: t.add_(t.t()), lambda a: a + a.T),
        (lambda t: t.t().sub_(1), lambda a: (a - 1).T),
        (lambda t: t[:, 1:].mul_(t[:, :-1]), lambda a: a[:, 1:] * a[:, :-1]),
        (lambda t: t[1:].copy_(t[:-1]), lambda a: a[:-1]),
        (lambda t: t.add_(t[0]), lambda a: a + a[0]),
        (lambda t: t.add_(t[3, 5]), lambda a: a + a[3, 5]),
        (lambda t: t.clamp_(max=t), lambda a: a),
    ):
        np.testing.assert_array_equal(change(sf.from_numpy(a.copy())).numpy(), wanted(a))


def test_what_is_recorded_goes_op_by_op(made: list[Any]) -> None:
    x = sf.from_numpy(drawn(*SHAPE)).requires_grad_()
    y = x * 2
    y.add_(x).relu_().mul_(3.0)
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), 9 * (x.detach().numpy() > 0))
    copies = len(made)
    with sf.no_grad():
        x.sub_(x.grad, alpha=0.5)
    assert len(made) == copies + 1
    with pytest.raises(sf.AutogradError, match="leaf"):
        x.add_(1.5)
    saved = (x * 1).exp()
    with sf.no_grad():
        saved.mul_(2.5)
    with pytest.raises(sf.AutogradError, match=r"changed in place.*version 1, version 0"):
        saved.sum().backward()


def test_errors_are_those_of_the_operations(made: list[Any]) -> None:
    x = sf.from_numpy(drawn(*SHAPE))
    before = x.numpy().copy()
    for wrong, error, text in (
        (lambda: x.add_(sf.ones(3, 6, 8)), sf.ShapeError, "cannot change the shape"),
        (lambda: x.add_(sf.ones(5, 8)), sf.ShapeError, "6"),
        (lambda: x.add_(sf.ones(5, 8), alpha=0.5), sf.ShapeError, "6"),
        (lambda: x.copy_(sf.ones(5, 8)), sf.ShapeError, "expand"),
        (lambda: sf.ones(6, 8, dtype=sf.int64).addcmul_(x, x), sf.DTypeError, "float32"),
        (lambda: sf.ones(6, 8, dtype=sf.int64).add_(0.5), sf.DTypeError, "float32"),
    ):
        with pytest.raises(error, match=text):
            wrong()
    np.testing.assert_array_equal(x.numpy(), before)
    fixed = drawn(*SHAPE)
    fixed.flags.writeable = False
    for change in ("relu_", "zero_", "exp_"):
        with pytest.raises(sf.AutogradError, match="read-only"):
            getattr(sf.from_numpy(fixed), change)()
    with pytest.raises(sf.AutogradError, match="one place in memory"):
        sf.ones(1, 8).expand(6, 8).add_(1.5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool"])
def test_other_dtypes(dtype: str, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def changed() -> list[Any]:
        x = (sf.from_numpy(drawn(*SHAPE)) * 3).to(getattr(sf, dtype))
        y = (sf.from_numpy(drawn(*SHAPE, seed=1)) * 3).to(getattr(sf, dtype))
        results = [x.clone().copy_(y), x.clone().fill_(1), x.clone().add_(y), x.clone().mul_(y)]
        if dtype != "bool":
            results += [x.clone().clamp_(-1, 2), x.clone().add_(y, alpha=3)]
        if x.dtype.is_floating:
            results += [x.clone().mul_(0.3), x.clone().add_(y, alpha=0.3), x.clone().div_(y)]
        return [r.to(sf.float64).numpy() for r in results]

    found = changed()
    assert made
    for module in (in_place, overwrite):
        monkeypatch.setattr(module, "LARGE", 1 << 62)
    for a, b in zip(found, changed(), strict=True):
        np.testing.assert_array_equal(a, b)
