"""Functions that make tensors: defaults, dtypes, sizes that are known only later, refusals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import DTypeError, ShapeError


@pytest.fixture
def double() -> Any:
    sf.set_default_dtype("float64")
    yield
    sf.set_default_dtype("float32")


# -- filled -----------------------------------------------------------------------------------------


def test_sizes_are_numbers_or_a_tuple() -> None:
    for make in (sf.zeros, sf.ones, sf.empty):
        assert make(2, 3).shape == make((2, 3)).shape == make([2, 3]).shape == (2, 3)
        assert make(()).shape == make().shape == () and make(0, 2).shape == (0, 2)
        assert make(size=(2,)).shape == (2,)
        assert make(2, dtype="int8", requires_grad=False).dtype is sf.int8
        with pytest.raises(ShapeError, match=r"in \[2, -1\] is negative.*test_creation\.py:\d+"):
            make(2, -1)
    assert sf.zeros(2, requires_grad=True).requires_grad


def test_numbers_too_large_for_a_dtype_are_infinite_without_a_warning() -> None:
    large = np.array([1e40])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (
            sf.tensor([1e40]), sf.tensor(1e40), sf.tensor([1e40], dtype=sf.float32),
            sf.tensor(large, dtype=sf.float32), sf.from_numpy(large).float(),
            sf.tensor([70000.0], dtype=sf.float16), sf.full((1,), 1e40), sf.ones(1) * 1e40,
        ):  # fmt: skip
            assert x.isinf().all()


def test_full_takes_the_dtype_of_its_value() -> None:
    for number in (np.float64(2.5), np.float16(2.5)):
        assert sf.full((2,), number).dtype is sf.float32
    assert sf.full((2,), np.int8(2)).dtype is sf.int64
    assert sf.full((2,), 3).dtype is sf.int64 and sf.full((2,), 3.0).dtype is sf.float32
    assert sf.full((2,), True).tolist() == [True, True] and sf.full((), 2).shape == ()
    assert sf.full((2,), 1.5, dtype="int64").tolist() == [1, 1]
    with pytest.raises(DTypeError, match=r"300.*test_creation\.py:\d+"):
        sf.full((2,), 300, dtype="int8")


def test_data_that_does_not_fit_says_where() -> None:
    for data, dtype, error in ((300, "int8", DTypeError), (float("nan"), "int64", DTypeError)):
        with pytest.raises(error, match=r"tensor: .*test_creation\.py:\d+"):
            sf.tensor(data, dtype=dtype)
    with pytest.raises(
        ShapeError, match=r"data\[0\] has shape \[2\] and data\[1\] \[1\].*test_creation\.py:\d+"
    ):
        sf.tensor([[1, 2], [3]])


def test_like() -> None:
    x = sf.ones(2, 3, dtype="int8")
    assert sf.full_like(x, 7).tolist() == [[7] * 3] * 2 and sf.full_like(x, 7).dtype is sf.int8
    assert sf.full_like(x, 1.5, dtype="float64").dtype is sf.float64
    for make, value in ((sf.zeros_like, 0), (sf.ones_like, 1), (sf.empty_like, 0)):
        assert make(x).tolist() == [[value] * 3] * 2 and make(x).dtype is sf.int8
        assert make(x, dtype="float32", requires_grad=True, device="cpu").requires_grad
    assert x.new_zeros(2).tolist() == x.new_empty((2,)).tolist() == [0, 0]
    assert x.new_ones(2, dtype="float32").tolist() == [1, 1]
    assert x.new_full((2,), 5).dtype is sf.int8
    assert sf.zeros_like(sf.ones(2, requires_grad=True)).requires_grad is False


def test_scalar_tensor_and_eye() -> None:
    assert sf.scalar_tensor(3).dtype is sf.float32 and sf.scalar_tensor(3, dtype="int8").item() == 3
    assert sf.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]] and sf.eye(0).shape == (0, 0)
    with pytest.raises(ShapeError, match=r"in \[-1, -1\] is negative"):
        sf.eye(-1)
    assert sf.eye(2, dtype="bool").dtype is sf.bool_ and sf.eye(2, requires_grad=True).requires_grad


# -- ranges -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        ((3,), [0, 1, 2]), ((0,), []), ((1, 4), [1, 2, 3]), ((5, 0, -2), [5, 3, 1]),
        ((0.0, 1.0, 0.25), [0, 0.25, 0.5, 0.75]), ((1, 2, 0.3), [1, 1.3, 1.6, 1.9]), ((2.5,), [0, 1, 2]),
        ((3, 3), []), ((0, 10, 3), [0, 3, 6, 9]), ((np.int32(2),), [0, 1]), ((sf.tensor(2),), [0, 1]),
    ],
)  # fmt: skip
def test_arange(args: Any, wanted: list[float]) -> None:
    x = sf.arange(*args)
    np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-6)
    ints = all(not isinstance(a, float) for a in args)
    assert x.dtype is (sf.int64 if ints else sf.float32)
    assert sf.arange(*args, dtype="float16").dtype is sf.float16


def test_arange_refuses_what_does_not_end() -> None:
    for args in ((0, 3, 0), (3, 0, 1), (0, 3, -1), (0, float("inf")), (float("nan"),)):
        with pytest.raises(ShapeError, match=r"arange: .*test_creation\.py:\d+"):
            sf.arange(*args)


def test_linspace_and_logspace() -> None:
    assert sf.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert sf.linspace(3, 7, 1).tolist() == [3] and sf.linspace(0, 1, 0).shape == (0,)
    assert sf.linspace(0, 1, 5, dtype="int64").tolist() == [0, 0, 0, 0, 1]
    assert sf.linspace(0, 1, 4, endpoint=False).tolist() == [0, 0.25, 0.5, 0.75]
    assert sf.linspace(3, 7, 1, endpoint=False).tolist() == [3]
    x = sf.placeholder((None,), name="x")
    spaces = sf.compile([x], sf.linspace(2, 4, x.shape[0], dtype="float64", endpoint=False))
    for n in (0, 1, 5):
        assert spaces(sf.ones(n)).tolist() == np.linspace(2, 4, n, endpoint=False).tolist()
    assert sf.logspace(0, 2, 3).tolist() == [1, 10, 100]
    assert sf.logspace(0, 3, 4, base=2, dtype="int64").tolist() == [1, 2, 4, 8]
    with pytest.raises(ShapeError, match="-1 steps"):
        sf.linspace(0, 1, -1)


def test_indices_of_triangles() -> None:
    assert sf.tril_indices(3, 2).tolist() == [[0, 1, 1, 2, 2], [0, 0, 1, 0, 1]]
    assert sf.triu_indices(2, 3, offset=1).tolist() == [[0, 0, 1], [1, 2, 2]]
    assert sf.tril_indices(0, 3, dtype="int32").dtype is sf.int32


# -- the default dtype ------------------------------------------------------------------------------


def test_the_default_dtype(double: None) -> None:
    assert sf.get_default_dtype() is sf.float64
    for x in (
        sf.tensor(1.0), sf.tensor([1.5]), sf.zeros(2), sf.ones(2), sf.full((2,), 1.0), sf.eye(2),
        sf.linspace(0, 1, 2), sf.arange(2.0), sf.tensor([1, 2]) / 2, sf.tensor([1]).exp(),
        sf.tensor([1]) * 1.5, sf.as_tensor(2.0), sf.scalar_tensor(1),
    ):  # fmt: skip
        assert x.dtype is sf.float64
    assert (sf.ones(2, dtype="float32") * 1.5).dtype is sf.float32
    assert sf.ones(2, dtype="float32").double().float().dtype is sf.float32
    assert sf.tensor([1]).dtype is sf.int64


def test_the_default_dtype_is_floating() -> None:
    with pytest.raises(DTypeError, match=r"int64 is not floating.*test_creation\.py:\d+"):
        sf.set_default_dtype("int64")
    assert sf.get_default_dtype() is sf.float32


# -- sizes that are known only as a program runs ----------------------------------------------------


def test_symbolic_sizes_make_symbols() -> None:
    x = sf.placeholder((None, 3), name="x")
    n, k = x.shape
    f = sf.compile(
        [x],
        [
            sf.zeros(n, k), sf.ones((n,)), sf.full((n, 2), 7), sf.eye(n), sf.arange(n), sf.arange(1, n),
            sf.arange(0, 2 * n, 2, dtype="float32"), sf.zeros_like(x) + sf.full_like(x, 2), x.new_ones(n),
        ],
    )  # fmt: skip
    for rows in (0, 1, 4):
        found = [t.numpy() for t in f(np.zeros((rows, 3), np.float32))]
        wanted = [
            np.zeros((rows, 3)), np.ones(rows), np.full((rows, 2), 7), np.eye(rows), np.arange(rows),
            np.arange(1, max(rows, 1)), np.arange(0, 2 * rows, 2), np.full((rows, 3), 2), np.ones(rows),
        ]  # fmt: skip
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
    assert f.compile_count == 1


def test_what_is_made_in_a_trace_is_part_of_the_graph() -> None:
    @sf.jit
    def fn(x: Any) -> Any:
        mask = sf.ones(3) * sf.arange(3)
        return x * mask + sf.eye(3).sum()

    assert fn(sf.ones(3)).tolist() == [3, 4, 5]
    assert not fn.programs[0].graph.params[1:]


# -- kinds of old -----------------------------------------------------------------------------------


def test_kinds_of_tensors() -> None:
    x = sf.ones(2)
    assert x.type() == str(sf.FloatTensor) == "staticflow.FloatTensor"
    assert sf.tensor([True]).type() == "staticflow.BoolTensor"
    assert x.bfloat16().type() == "staticflow.BFloat16Tensor"
    assert x.type(sf.DoubleTensor).dtype is sf.float64
    assert x.type("staticflow.IntTensor").dtype is sf.int32 and x.type(sf.int8).dtype is sf.int8
    assert isinstance(x, sf.FloatTensor) and not isinstance(x, sf.LongTensor)
    assert not isinstance(x, sf.cuda.FloatTensor) and not isinstance(3, sf.FloatTensor)
    assert sf.FloatTensor([1, 2]).tolist() == [1, 2] and sf.FloatTensor(2, 3).shape == (2, 3)
    assert sf.LongTensor().shape == (0,) and sf.IntTensor([1.5]).tolist() == [1]
    assert sf.placeholder((2,)).type() == "staticflow.FloatTensor"
    with pytest.raises(TypeError, match=r"takes data or sizes, and no argument 'dtype'; .*, at "):
        sf.FloatTensor(2, dtype=sf.float64)


def test_casts() -> None:
    x = sf.tensor([0, 1, 2])
    casts = {
        "float": sf.float32, "double": sf.float64, "half": sf.float16, "bfloat16": sf.bfloat16,
        "bool": sf.bool_, "byte": sf.uint8, "char": sf.int8, "short": sf.int16, "int": sf.int32,
    }  # fmt: skip
    for name, dtype in casts.items():
        assert getattr(x, name)().dtype is dtype
    assert x.long() is x and x.type_as(sf.ones(1)).dtype is sf.float32
    assert sf.ones(1).is_floating_point() and not sf.is_floating_point(x)
    assert x.is_signed() and not x.byte().is_signed() and not sf.is_complex(x)
    assert x.nelement() == 3


def test_the_old_constructor_takes_data_or_sizes() -> None:
    made = sf.Tensor([1, 2])
    assert made.dtype is sf.float32 and made.tolist() == [1.0, 2.0]
    assert sf.Tensor(2, 3).tolist() == [[0.0] * 3] * 2 and sf.Tensor(np.int64(2)).shape == (2,)
    assert sf.Tensor().shape == (0,) and sf.Tensor(range(2)).tolist() == [0.0, 1.0]
    assert sf.Tensor(np.array([True]), device="cpu").dtype is sf.float32
    whole = sf.tensor([1, 2])
    same = sf.Tensor(whole)
    same.add_(1)
    assert same is not whole and whole.tolist() == [2, 3]
    with pytest.raises(DTypeError, match="must be an integer"):
        sf.Tensor(2.5)


@pytest.mark.parametrize("data", ["abc", {"a": 1}, [["a", "b"]], None], ids=repr)
def test_data_that_are_no_numbers_are_named(data: object) -> None:
    with pytest.raises(DTypeError, match="is not made of numbers; give numbers, nested lists"):
        sf.tensor(data)


def test_a_tensor_that_was_never_initialised_is_empty() -> None:
    class Own(sf.Tensor):
        def __init__(self, note: str, other: int) -> None:
            pass

    for x in (sf.Tensor.__new__(sf.Tensor), sf.Tensor.__new__(sf.nn.Parameter), Own("a", other=2)):
        assert (x.shape, x.dtype, (x + 1).tolist()) == ((0,), sf.float32, [])
        assert not x.requires_grad and x.grad is None and repr(x)
