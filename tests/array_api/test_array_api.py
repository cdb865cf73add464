"""The namespace of the array API, held to the standard as data and to NumPy, in both modes."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import standard

import staticflow as sf
from staticflow.array_api.refused import LINALG, MAIN
from staticflow.errors import ArgumentError, DTypeError, ShapeError

xp = sf.ones(1).__array_namespace__()

NAMES = [
    *((xp, name, says) for name, says in standard.MAIN.items() if name not in MAIN),
    *((xp.linalg, name, says) for name, says in standard.LINALG.items() if name not in LINALG),
    *((xp.__array_namespace_info__(), n, says) for n, says in standard.INFO.items() if n[0] != "_"),
]


@pytest.mark.parametrize(("where", "name", "says"), NAMES, ids=[n for _, n, _ in NAMES])
def test_parameters_are_the_standards(where: Any, name: str, says: str) -> None:
    """Those by name have it, in the same order; the function may take more."""
    wanted = _parameters(says)
    given = list(inspect.signature(getattr(where, name)).parameters.values())
    by_place = [p for p in wanted if p.kind is not p.KEYWORD_ONLY]
    for theirs, ours in zip(by_place, given, strict=False):
        assert ours.kind is theirs.kind or theirs.kind is theirs.POSITIONAL_ONLY
        assert ours.name == theirs.name or theirs.kind is theirs.POSITIONAL_ONLY
    assert len(given) >= len(by_place)
    named = {p.name: p for p in given}
    for theirs in wanted:
        if theirs.kind is theirs.KEYWORD_ONLY:
            assert named[theirs.name].kind is not theirs.POSITIONAL_ONLY
        if theirs.name in named and theirs.default is not theirs.empty:
            assert named[theirs.name].default == theirs.default
    extra = [p for p in given[len(by_place) :] if p.name not in {q.name for q in wanted}]
    assert all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in extra)


def _parameters(says: str) -> list[inspect.Parameter]:
    made: dict[str, Any] = {}
    exec(f"def f({says}): pass", made)  # of the table beside this file
    return list(inspect.signature(made["f"]).parameters.values())


@pytest.mark.parametrize("name", sorted({*MAIN, "fft"}))
def test_what_is_refused_says_why(name: str) -> None:
    with pytest.raises(AttributeError, match=f"array_api.{name} of the array API is not there: "):
        getattr(xp, name)
    assert not hasattr(xp, name)


@pytest.mark.parametrize("name", sorted(LINALG))
def test_what_linalg_refuses_says_why(name: str) -> None:
    with pytest.raises(AttributeError, match=f"linalg.{name} of the array API is not there: "):
        getattr(xp.linalg, name)


def in_both_modes(fn: Any, *arrays: Any) -> list[Any]:
    """What ``fn`` gives of tensors, and compiled."""
    now = fn(*map(sf.tensor, arrays))
    symbols = [
        sf.placeholder(a.shape, dtype=a.dtype.name, name=f"x{i}") for i, a in enumerate(arrays)
    ]
    return [now, sf.compile(symbols, fn(*symbols))(*map(sf.tensor, arrays))]


def assert_same_bits(got: Any, wanted: Any, of: Any) -> None:
    got, wanted = got.numpy(), np.asarray(wanted, got.numpy().dtype)
    np.testing.assert_allclose(got, wanted, rtol=1e-6, err_msg=str(of))
    zero = wanted == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(wanted[zero])), (of, got, wanted)


@pytest.mark.parametrize("name", sorted(standard.SPECIAL_OF_ONE))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values_of_one_number(name: str, dtype: Any) -> None:
    numbers, values = zip(*standard.SPECIAL_OF_ONE[name], strict=True)
    for got in in_both_modes(getattr(xp, name), np.array(numbers, dtype)):
        assert_same_bits(got, values, numbers)


@pytest.mark.parametrize("name", sorted(standard.SPECIAL_OF_TWO))
def test_special_values_of_two_numbers(name: str) -> None:
    x1, x2, values = map(np.array, zip(*standard.SPECIAL_OF_TWO[name], strict=True))
    for got in in_both_modes(getattr(xp, name), x1, x2):
        assert_same_bits(got, values, (x1, x2))


def _of_numpy(name: str, *args: Any, **options: Any) -> Any:
    where = np.linalg if name.startswith("linalg.") else np
    return getattr(where, name.removeprefix("linalg."))(*args, **options)


def _of_ours(name: str, *args: Any, **options: Any) -> Any:
    where = xp.linalg if name.startswith("linalg.") else xp
    return getattr(where, name.removeprefix("linalg."))(*args, **options)


FLOATS = np.random.default_rng(0).normal(size=(2, 3, 4))
INTS = np.array([[3, -1, 3], [2, 3, -1]], np.int16)
SQUARE = np.array([[4.0, 1.0], [1.0, 3.0]])

CALLS = [
    *((n, (FLOATS,), {"axis": a, "keepdims": k})
      for n in ("sum", "prod", "mean", "std", "var", "max", "min", "all", "any", "count_nonzero")
      for a, k in ((None, False), (1, True), ((0, -1), False), ((0, 2), True), ((), False))),
    *((n, (FLOATS,), {"axis": a, "keepdims": k})
      for n in ("argmax", "argmin") for a, k in ((None, True), (-2, False))),
    ("std", (FLOATS,), {"correction": 1.0}),
    ("cumulative_sum", (INTS,), {"axis": 1, "include_initial": True}),
    ("cumulative_prod", (INTS,), {"axis": 0, "include_initial": True, "dtype": "int64"}),
    ("diff", (INTS,), {"axis": 0}),
    ("expand_dims", (FLOATS,), {"axis": (0, -1)}),
    ("squeeze", (FLOATS[:1],), {"axis": 0}),
    ("flip", (FLOATS,), {}), ("flip", (FLOATS,), {"axis": (0, -1)}),
    ("roll", (FLOATS, 2), {"axis": (0, 1)}), ("roll", (FLOATS, 3), {}),
    ("tile", (INTS, (2, 1, 2)), {}), ("repeat", (INTS, 2), {"axis": 1}),
    ("moveaxis", (FLOATS, 0, -1), {}), ("permute_dims", (FLOATS, (2, 0, 1)), {}),
    ("take", (FLOATS, np.array([1, 0, 1])), {"axis": 1}),
    ("take_along_axis", (INTS, np.array([[0], [2]])), {"axis": 1}),
    ("sort", (FLOATS,), {"axis": 0}), ("argsort", (INTS,), {"axis": 1, "stable": True}),
    ("searchsorted", (np.array([1.0, 3.0]), FLOATS), {"side": "right"}),
    ("isin", (INTS, np.array([3, 7], np.int16)), {"invert": True}),
    ("tril", (FLOATS,), {"k": 1}), ("triu", (FLOATS,), {"k": -1}),
    ("tensordot", (FLOATS, FLOATS), {"axes": ((0, 1), (0, 1))}),
    ("vecdot", (FLOATS, FLOATS[:, :1]), {}), ("linalg.outer", (SQUARE[0], SQUARE[1]), {}),
    ("linalg.matrix_norm", (FLOATS,), {"ord": 1, "keepdims": True}),
    ("linalg.vector_norm", (FLOATS,), {"axis": (0, 1), "ord": 1}),
    ("linalg.trace", (FLOATS,), {"offset": 1}), ("linalg.diagonal", (FLOATS,), {"offset": -1}),
    ("linalg.solve", (SQUARE, SQUARE), {}), ("linalg.solve", (SQUARE, SQUARE[0]), {}),
    ("linalg.inv", (SQUARE,), {}), ("linalg.det", (SQUARE,), {}),
    ("linalg.cholesky", (SQUARE,), {"upper": True}),
    ("linalg.svdvals", (FLOATS,), {}), ("linalg.matrix_rank", (FLOATS,), {}),
    ("linalg.pinv", (FLOATS,), {"rtol": 1e-9}), ("linalg.eigvalsh", (SQUARE,), {}),
    ("linalg.matrix_power", (SQUARE, -2), {}),
    ("unique_values", (INTS,), {}), ("unique_counts", (INTS,), {}),
    ("unique_inverse", (INTS,), {}), ("unique_all", (INTS,), {}), ("nonzero", (INTS,), {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "args", "options"), CALLS, ids=[f"{n}-{i}" for i, (n, *_) in enumerate(CALLS)]
)
def test_calls_are_numpys(name: str, args: Any, options: Any) -> None:
    """In the signatures of the standard, which NumPy has, too."""
    if name == "vecdot":
        wanted = (args[0] * args[1]).sum(-1)
    elif name == "unique_values":  # which NumPy leaves in any order
        wanted = np.unique(*args)
    elif name == "linalg.vector_norm":
        wanted = np.abs(args[0]).sum(options["axis"])
    else:
        wanted = _of_numpy(name, *args, **options)
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    others = args[len(arrays) :]
    for got in in_both_modes(lambda *xs: _of_ours(name, *xs, *others, **options), *arrays):
        many = isinstance(wanted, tuple)
        for ours, theirs in zip(got if many else [got], wanted if many else [wanted], strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-10, atol=1e-12)
            assert ours.shape == np.shape(theirs)
            assert ours.numpy().dtype == np.asarray(theirs).dtype


def test_arrays_of_no_dims_count_as_much_as_others() -> None:
    small, wide = sf.ones(2, dtype="int8"), sf.tensor(3, dtype="int64")
    assert (small + wide).dtype is sf.int8  # PyTorch's rule
    for fn in (xp.add, xp.multiply, xp.maximum, xp.bitwise_and, xp.floor_divide):
        assert fn(small, wide).dtype is fn(wide, small).dtype is sf.int64
    assert xp.where(small > 0, small, wide).dtype is sf.int64
    assert xp.result_type(small, wide) is sf.int64
    assert xp.add(small, 3).dtype is sf.int8
    assert xp.equal(small, wide).dtype is sf.bool_


def test_dtypes() -> None:
    assert xp.can_cast(sf.int8, sf.int16) and not xp.can_cast(sf.int16, sf.int8)
    assert not xp.can_cast(sf.float32, sf.int64)
    assert xp.isdtype(sf.uint8, "unsigned integer") and not xp.isdtype(sf.bool_, "numeric")
    assert xp.finfo(sf.ones(1)).dtype is sf.float32 and xp.iinfo(sf.int8).max == 127
    x = sf.ones(2)
    assert xp.astype(x, sf.float32, copy=False) is x
    assert xp.astype(x, sf.float32) is not x and xp.astype(x, sf.int8).dtype is sf.int8
    info = xp.__array_namespace_info__()
    assert set(info.dtypes(kind="integral")) == {"uint8", "int8", "int16", "int32", "int64"}
    assert info.dtypes(kind=("bool", "complex floating")) == {"bool": sf.bool_}
    assert info.default_device() in info.devices()
    with pytest.raises(DTypeError, match="'real' is no kind of dtypes"):
        xp.isdtype(sf.int8, "real")
    with pytest.raises(DTypeError, match="of numbers alone"):
        xp.result_type(1, 2.0)


def test_making_arrays() -> None:
    assert xp.arange(3, 0).shape == (0,) and xp.arange(3, 0).dtype is sf.int64
    assert xp.arange(0.0, 1.0, -0.5).dtype is sf.float32
    assert xp.linspace(0, 1, 4, endpoint=False).tolist() == [0, 0.25, 0.5, 0.75]
    assert xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert xp.eye(2, k=-5).tolist() == [[0, 0], [0, 0]]
    assert [a.tolist() for a in xp.meshgrid(xp.arange(2), xp.arange(1))] == [[[0, 1]], [[0, 0]]]
    assert xp.full(2, 3).dtype is sf.int64 and xp.zeros(()).dtype is sf.float32
    assert xp.ones((2,), dtype=sf.int8).dtype is sf.int8


def test_an_array_knows_its_namespace() -> None:
    x = sf.ones(2)
    assert x.__array_namespace__(api_version="2024.12") is xp
    assert sf.placeholder((2,), name="x").__array_namespace__() is xp
    with pytest.raises(ArgumentError, match=r"the version '2019\.12' of the array API"):
        x.__array_namespace__(api_version="2019.12")
    assert x.to_device("cpu") is x and complex(sf.tensor(2.0)) == 2
    with pytest.raises(ArgumentError, match="the stream is 1"):
        x.to_device(x.device, stream=1)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"squeeze: dim 0 of shape \[2\]"):
        xp.squeeze(sf.ones(2), axis=0)
    with pytest.raises(ShapeError, match="vecdot: the sizes of dim -1"):
        xp.vecdot(sf.ones(2), sf.ones(1))
    with pytest.raises(ShapeError, match="nonzero: of an array of no dims"):
        xp.nonzero(sf.tensor(1))
    with pytest.raises(ShapeError, match="cumulative_sum: an array of 2 dims needs an axis"):
        xp.cumulative_sum(sf.ones(2, 2))


def test_gradients_flow_through_the_namespace() -> None:
    def loss(x: Any) -> Any:
        xp = x.__array_namespace__()
        weights = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        rows = xp.take(weights / xp.sum(weights, axis=-1, keepdims=True), xp.arange(2), axis=0)
        return xp.sum(xp.square(xp.linalg.vector_norm(rows, axis=-1)))

    values = np.random.default_rng(1).normal(size=(3, 4))
    x = sf.tensor(values, requires_grad=True)
    assert sf.autograd.gradcheck(loss, (x,))
    loss(x).backward()
    p = sf.placeholder((None, 4), dtype="float64", name="x")
    compiled = sf.compile([p], sf.grad(loss(p), [p])[0])(sf.tensor(values))
    np.testing.assert_allclose(compiled.numpy(), x.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda xp: xp.all(None), "all: 'x' must be a tensor, not NoneType"),
        (lambda xp: xp.max("a"), "max: 'x' must be a tensor, not 'a'"),
        (lambda xp: xp.sign(3.5), "sign: 'x' must be a tensor, not float"),
        (lambda xp: xp.concat(3.5), "concat: 'arrays' must be"),
        (
            lambda xp: xp.cumulative_prod(xp.ones(2), axis="a"),
            "cumulative_prod: 'axis' must be int",
        ),
    ],
)
def test_arguments_of_wrong_kinds_are_named(call: Any, says: str) -> None:
    from staticflow import array_api

    with pytest.raises(sf.StaticflowError, match=says):
        call(array_api)
