"""Eager tensors: values, dtypes, memory, indexing and conversions behave as PyTorch's."""

from __future__ import annotations

import copy
import itertools
import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import AutogradError, DTypeError, IndexRangeError, ShapeError
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import DTYPES, DType
from staticflow.graph.op import Op
from staticflow.nn import functional as F
from staticflow.ops.symbols.symbol import Symbol

inf, nan = float("inf"), float("nan")


def close_to(t: Any, wanted: Any) -> None:
    np.testing.assert_allclose(t.detach().numpy().astype(float), wanted, 1e-6)


# -- promotion ------------------------------------------------------------------------------------

# What PyTorch's result_type gives: dtypes in their order of width, by category.
_WIDTHS = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)
_MIXED = {("uint8", "int8"): "int16", ("float16", "bfloat16"): "float32"}


def _category(name: str) -> int:
    return 0 if name == "bool" else 2 if "float" in name else 1


def _meet(a: str, b: str) -> str:
    mixed = _MIXED.get((a, b)) or _MIXED.get((b, a))
    return mixed or max(a, b, key=_WIDTHS.index)


_NUMBERS = {"bool": True, "int64": 2, "float32": 2.5}
_RANKS = ("dims", "0-d", "number")


def _operand(rank: str, dtype: str) -> Any:
    if rank == "number":
        return _NUMBERS[dtype]
    return sf.ones(*((2,) if rank == "dims" else ()), dtype=dtype)


def _operands() -> list[tuple[str, str]]:
    tensors = [(rank, d.name) for rank in _RANKS[:2] for d in DTYPES]
    return [*tensors, *(("number", n) for n in _NUMBERS)]


def _combined(a: tuple[str, str], b: tuple[str, str]) -> str:
    if a[0] == b[0]:
        return _meet(a[1], b[1])
    high, low = sorted((a, b), key=lambda o: _RANKS.index(o[0]))
    return high[1] if _category(high[1]) >= _category(low[1]) else _meet(high[1], low[1])


def test_promotion_is_that_of_pytorch() -> None:
    """Every pair of a tensor with dims, a 0-d tensor and a number, of every dtype."""
    for a, b in itertools.product(_operands(), repeat=2):
        if a[0] == b[0] == "number":
            continue
        x, y = _operand(*a), _operand(*b)
        wanted = _combined(a, b)
        assert (x + y).dtype.name == wanted, (a, b)
        assert sf.where(sf.tensor([True, False]), x, y).dtype.name == wanted, (a, b)
        assert sf.result_type([x, y]).name == wanted, (a, b)
        assert (x / y).dtype.name == (wanted if "float" in wanted else "float32"), (a, b)
        assert (x < y).dtype is sf.bool_


def test_numbers_do_not_widen() -> None:
    for dtype in DTYPES:
        t = sf.ones(2, dtype=dtype)
        assert (t * True).dtype is dtype
        if dtype.kind != "b":
            assert (t + 1).dtype is (1 - t).dtype is dtype
        if dtype.is_floating:
            assert (t + 1.5).dtype is (1.5 / t).dtype is (t**2).dtype is (2**t).dtype is dtype
            assert sf.where(t > 0, t, 0.0).dtype is sf.maximum(t, 0.5).dtype is dtype
            assert t.clamp(0.5).dtype is dtype


def test_numpy_operands_keep_their_dtype() -> None:
    t, a = sf.ones(2), np.ones(2)
    for out in (t + a, a + t, t * np.float64(2) + a):
        assert isinstance(out, sf.Tensor) and out.dtype is sf.float64


def test_scalars_of_numpy_are_numbers_beside_tensors() -> None:
    def dtypes(x: Any, scalar: Any) -> set[sf.dtype]:
        return {(x * scalar).dtype, (scalar * x).dtype, sf.maximum(x, scalar).dtype}

    for x in (sf.ones(2), sf.tensor(1.0), sf.tensor(1), sf.tensor([True])):
        symbol = sf.placeholder(x.shape, dtype=x.dtype)
        for y in (x, symbol):
            assert dtypes(y, np.float64(2)) == dtypes(y, np.float16(2)) == {sf.float32}
            assert dtypes(y, np.int8(2)) == {sf.int64 if x.dtype.kind in "bi" else sf.float32}
    assert (sf.tensor([1], dtype="int8") * np.int64(2)).dtype is sf.int8
    scaled = sf.tensor(3.0, requires_grad=True) * np.sqrt(2)
    assert scaled.dtype is sf.float32 and scaled.requires_grad


def test_numpy_stands_on_either_side_of_a_product() -> None:
    t, a = sf.tensor([[1.0, 2.0], [3.0, 4.0]]), np.array([[1, 2], [3, 4]], np.float32)
    assert (t @ a).tolist() == (a @ t).tolist() == [[7, 10], [15, 22]]
    assert (t @ a[0]).tolist() == [5, 11] and (a[0] @ t).tolist() == [7, 10]
    assert (a[0] @ t[0]).item() == 5


def test_truth_values_stand_on_either_side_of_logic() -> None:
    t = sf.tensor([True, False])
    assert (True & t).tolist() == [True, False] and (False | t).tolist() == [True, False]
    assert (True ^ t).tolist() == [False, True]


def test_bounds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DTypeError, match=r"bound 300 does not fit int8"):
        sf.tensor([1], dtype="int8").clamp(max=300)


def test_clamp_of_integers_by_a_float_gives_floats() -> None:
    assert sf.tensor([1, 2, 3]).clamp(min=1.5).tolist() == [1.5, 2.0, 3.0]
    assert sf.tensor([1, 2, 3]).clamp(1, 2).dtype is sf.int64


def test_an_unknown_size_in_an_expression_makes_it_symbolic() -> None:
    n = Dim.of(Sym("n"))
    assert isinstance(sf.ones(2) * n, Symbol)


# -- operators ------------------------------------------------------------------------------------


def test_operators() -> None:
    x, y = sf.tensor([5.0, -7.0]), sf.tensor([2.0, 2.0])
    cases = {
        "add": [7, -5], "sub": [3, -9], "mul": [10, -14], "truediv": [2.5, -3.5],
        "floordiv": [2, -4], "mod": [1, 1], "pow": [25, 49],
        "lt": [False, True], "le": [False, True], "gt": [True, False], "ge": [True, False],
        "eq": [False, False], "ne": [True, True],
    }  # fmt: skip
    for name, wanted in cases.items():
        op = getattr(operator, name)
        for a, b in ((x, y), (x, 2), (x, y.numpy())):
            assert op(a, b).tolist() == wanted, name
    assert [(2 - x).tolist(), (10 / y).tolist(), (7 // y).tolist()] == [[-3, 9], [5, 5], [3, 3]]
    assert [(7 % y).tolist(), (2**y).tolist()] == [[1, 1], [4, 4]]
    assert (-x).tolist() == [-5, 7] and abs(x).tolist() == [5, 7] and (+x) is x
    p, q = sf.tensor([True, False]), sf.tensor([True, True])
    assert (p & q).tolist() == [True, False] and (p | q).tolist() == [True, True]
    assert (p ^ q).tolist() == [False, True] and (~p).tolist() == [False, True]
    assert (x @ y).item() == -4


def test_comparison_with_none_is_false() -> None:
    assert (sf.ones(2) == None) is False  # noqa: E711
    assert (sf.ones(2) != None) is True  # noqa: E711


def test_tensors_are_hashed_by_identity() -> None:
    a, b = sf.ones(2), sf.ones(2)
    assert {a: 1, b: 2}[a] == 1 and len({a, b}) == 2


def test_nan_and_infinity() -> None:
    x = sf.tensor([nan, inf, -inf, 0.0])
    zero = sf.zeros(4)
    np.testing.assert_array_equal(sf.maximum(x, zero).numpy(), [nan, inf, 0, 0])
    np.testing.assert_array_equal(sf.minimum(zero, x).numpy(), [nan, 0, -inf, 0])
    np.testing.assert_array_equal(x.relu().numpy(), [nan, inf, 0, 0])
    np.testing.assert_array_equal(x.clamp(-1, 1).numpy(), [nan, 1, -1, 0])
    np.testing.assert_array_equal(x.sigmoid().numpy(), [nan, 1, 0, 0.5])
    np.testing.assert_array_equal(x.max().numpy(), nan)
    values, indices = sf.tensor([1.0, nan, 3.0, nan]).max(0)
    assert np.isnan(values.item()) and indices.item() == 1
    assert sf.tensor([1.0, nan]).argmin().item() == 1
    for name, wanted in {"lt": 0, "le": 0, "gt": 0, "ge": 0, "eq": 0, "ne": 1}.items():
        assert getattr(x, name)(nan).tolist() == [bool(wanted)] * 4


# -- 16 bits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_16_bit_floats_are_made_in_32(dtype: str) -> None:
    ones = sf.ones(5000, dtype=dtype)
    assert ones.sum().dtype is ones.dtype
    assert ones.sum().item() == float(np.float32(5000).astype(ones.numpy().dtype))
    many = sf.ones(70_000, dtype=dtype)  # the sum is out of range, the mean is not
    assert many.mean().item() == 1
    a, b = sf.ones(1, 4097, dtype=dtype), sf.ones(4097, 1, dtype=dtype)
    assert (a @ b).item() == float(np.float32(4097).astype(ones.numpy().dtype))


SUMS: dict[str, Any] = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean() * 4096,
    "cumsum": lambda x: x.cumsum(0)[-1],
    "dot": lambda x: x.dot(x),
    "matrix product": lambda x: (x.view(1, -1) @ x.view(-1, 1)).sum(),
    "norm": lambda x: x.norm() ** 2,
    "convolution": lambda x: F.conv1d(x.view(1, 1, -1), x.view(1, 1, -1)).sum(),
    "average": lambda x: F.avg_pool1d(x.view(1, 1, -1), 4096).sum() * 4096,
    "variance": lambda x: (
        ((x.view(2, -1) * sf.tensor([[0.0], [2.0]]).to(x.dtype)).var(correction=0)) * 4096
    ),
    "scatter_add": lambda x: sf.zeros(1, dtype=x.dtype).scatter_add(0, NOWHERE, x)[0],
    "index_add": lambda x: sf.zeros(1, dtype=x.dtype).index_add(0, NOWHERE, x)[0],
    "index_put": lambda x: sf.zeros(1, dtype=x.dtype).index_put((NOWHERE,), x, accumulate=True)[0],
    "gradient of x[i]": lambda x: slope(lambda w: w[NOWHERE].dot(x), x),
    "gradient of gather": lambda x: slope(lambda w: w.gather(0, NOWHERE).dot(x), x),
    "gradient of an embedding": lambda x: slope(
        lambda w: F.embedding(NOWHERE, w[:, None]).sum(), x
    ),
    "gradient of a broadcast": lambda x: slope(lambda w: (w * x).sum(), x),
    "gradient of a bias": lambda x: slope(lambda w: F.linear(x[:, None], x[:1, None], w).sum(), x),
}
NOWHERE = sf.zeros(4096, dtype=sf.int64)


def slope(loss: Any, like: Any) -> Any:
    """The derivative of ``loss`` by a vector of one element, in the mode of ``like``."""
    w = (
        sf.ones(1, dtype=like.dtype, requires_grad=True)
        if isinstance(like, sf.Tensor)
        else like[:1] * 0
    )
    return sf.grad(loss(w), w)[0]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SUMS)
def test_whatever_adds_16_bit_floats_adds_in_32(name: str, dtype: str, compiled: bool) -> None:
    """In 16 bits a count by ones would stop at 2048 or at 256."""
    ones = sf.ones(4096, dtype=dtype)
    if compiled:
        x = sf.placeholder((4096,), dtype, name="x")
        out = sf.compile([x], SUMS[name](x))(ones)
    else:
        out = SUMS[name](ones)
    assert out.dtype is ones.dtype and out.item() == 4096


def test_the_gradient_of_a_mean_of_many_halves_is_not_zero() -> None:
    x = sf.ones(70_000, dtype="float16", requires_grad=True)
    x.mean().backward()
    assert x.grad is not None and x.grad[0].item() == float(np.float16(1 / 70_000))


def test_bfloat16_is_numpy_s_of_ml_dtypes() -> None:
    t = sf.tensor([1.5], dtype="bfloat16")
    assert t.numpy().dtype == ml_dtypes.bfloat16
    assert sf.from_numpy(np.ones(2, ml_dtypes.bfloat16)).dtype is sf.bfloat16
    assert type(t.item()) is float and type(t.tolist()[0]) is float


# -- making tensors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"), (1, "int64"), (True, "bool"), ([1.0, 2], "float32"), ([[1], [2]], "int64"),
        ([True], "bool"), ([], "float32"), (np.ones(2), "float64"), (np.float64(1), "float64"),
        ([np.float64(1)], "float64"), ([np.ones(2), np.ones(2)], "float64"), (np.ones(2, "f2"), "float16"),
        ([np.float32(1)], "float32"), ([np.float32(1), 2], "float32"), ([1.0, np.float64(2)], "float64"),
        ([[sf.tensor(1)], [2.5]], "float32"), ([np.float16(1), 1.0], "float32"), (np.int8(3), "int8"), (sf.ones(2, dtype="int16"), "int16"),
        ([sf.tensor(1.0), sf.tensor(2.0)], "float32"),
    ],
)  # fmt: skip
def test_dtype_of_new_tensors(data: Any, dtype: str) -> None:
    assert sf.tensor(data).dtype.name == dtype
    assert sf.tensor(data, dtype="float64").dtype is sf.float64


def test_tensor_copies_and_refuses_what_it_does_not_know() -> None:
    a = np.zeros(2)
    t = sf.tensor(a)
    a[0] = 1
    assert t.tolist() == [0, 0]
    bads = (np.ones(2, complex), np.array(["a"]), np.ones(2, "u8"), "text", [object()], [2**63, -1])
    for bad in bads:
        with pytest.raises(DTypeError):
            sf.tensor(bad)
    with pytest.raises(ValueError, match=r"data\[1\] \[1\]"):
        sf.tensor([[1, 2], [3]])


def test_creation() -> None:
    assert sf.zeros(2, 3).shape == sf.ones((2, 3)).shape == (2, 3) and sf.zeros(()).shape == ()
    assert sf.full((2,), 7).tolist() == [7, 7] and sf.full((), 1.5).dtype is sf.float32
    assert sf.arange(3).tolist() == [0, 1, 2] and sf.arange(3).dtype is sf.int64
    assert sf.arange(1, 2, 0.5).tolist() == [1, 1.5] and sf.arange(0).shape == (0,)
    assert sf.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert sf.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    assert sf.zeros_like(sf.ones(2, dtype="int8")).dtype is sf.int8
    with pytest.raises(AutogradError, match="int64"):
        sf.full((2,), 1, requires_grad=True)


# -- memory ---------------------------------------------------------------------------------------


def test_numpy_and_tensor_share_memory_both_ways() -> None:
    a = np.zeros(3, np.float32)
    t = sf.from_numpy(a)
    a[0] = 1
    t.add_(2)
    assert t.tolist() == [3, 2, 2] and a.tolist() == [3, 2, 2]
    assert t.numpy() is a or np.shares_memory(t.numpy(), a)
    t.numpy()[1] = 9
    assert t.tolist() == [3, 9, 2]
    assert np.shares_memory(np.asarray(t), a) and not np.shares_memory(np.array(t), a)


def test_subclasses_of_arrays_become_plain() -> None:
    class Odd(np.ndarray):
        def __mul__(self, other: object) -> Any:
            raise AssertionError("not called")

    a = np.ones(2).view(Odd)
    t = sf.from_numpy(a)
    assert type(t.numpy()) is type((t * t).numpy()) is type((sf.ones(2) * a).numpy()) is np.ndarray
    assert np.shares_memory(t.numpy(), a)


def test_from_numpy_refuses_other_things() -> None:
    with pytest.raises(DTypeError, match="list"):
        sf.from_numpy([1.0])
    with pytest.raises(DTypeError, match="complex"):
        sf.from_numpy(np.ones(2, complex))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape(3, 2), lambda x: x.t(), lambda x: x[1], lambda x: x[:, 1:], lambda x: x[..., ::2],
        lambda x: x.permute(1, 0), lambda x: x.unsqueeze(0), lambda x: x.flatten(), lambda x: x.detach(),
        lambda x: x.narrow(1, 0, 2), lambda x: x.view(-1), lambda x: x.data, lambda x: x[None],
    ],
)  # fmt: skip
def test_views_alias(view: Any) -> None:
    x = sf.zeros(2, 3)
    v = view(x)
    v.add_(1)
    assert x.numpy().sum() == v.numpy().size
    x.zero_()
    assert v.numpy().sum() == 0


def test_expanded_tensors_alias_and_are_not_written() -> None:
    x = sf.zeros(2, 1)
    v = x.expand(2, 3)
    x.add_(1)
    assert v.numpy().sum() == 6
    with pytest.raises(AutogradError, match=r"expanded.*clone.*test_eager\.py:\d+"):
        v.add_(1)


def test_a_reshape_that_copies_is_no_alias() -> None:
    x = sf.ones(2, 3, requires_grad=True)
    y = x * 2
    flat = y.t().reshape(-1)
    loss = (y * y).sum()
    with sf.no_grad():
        flat.add_(1)
    assert y.detach().numpy().max() == 2
    loss.backward()


def test_clone_and_results_do_not_alias() -> None:
    x = sf.ones(3)
    for y in (x.clone(), x + 0, x.to("float64").to("float32"), sf.cat([x]), abs(x), sf.floor(x)):
        y.zero_()
    assert x.tolist() == [1, 1, 1]
    assert sf.tensor([1, 2]).floor().tolist() == [1, 2]


def test_data() -> None:
    x = sf.ones(2, requires_grad=True)
    x.data.add_(1)
    assert x.tolist() == [2, 2] and x.data.requires_grad is False
    x.data = sf.zeros(3)
    assert x.shape == (3,) and x.requires_grad


def test_deepcopy_of_leaves() -> None:
    x = sf.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    x.name = "x"
    y, again = copy.deepcopy([x, x])
    with sf.no_grad():
        y.add_(1)
    assert x.tolist() == [1, 1] and y.requires_grad and y.is_leaf and y is again
    assert y.name == "x" and y.grad is not None
    assert y.grad is not x.grad and y.grad.tolist() == [2, 2]
    assert type(copy.deepcopy(sf.nn.Parameter([1.0]))) is sf.nn.Parameter
    with pytest.raises(AutogradError, match=r"leaves.*detach"):
        copy.deepcopy(x * 2)


# -- in-place forms -------------------------------------------------------------------------------


def test_in_place_forms_change_the_tensor_itself() -> None:
    x = sf.tensor([1.0, 2.0])
    before = x
    x += 1
    x -= sf.tensor([1.0, 0.0])
    x *= 2
    x /= 4
    assert x is before and x.tolist() == [0.5, 1.5]
    assert x.clamp_(max=1).tolist() == [0.5, 1]
    assert x.copy_(sf.tensor([3.0])).tolist() == [3, 3] and x.zero_().tolist() == [0, 0]


def test_in_place_forms_keep_shape_and_dtype() -> None:
    x = sf.tensor([1, 2])
    with pytest.raises(DTypeError, match=r"float32.*int64.*test_eager\.py:\d+"):
        x.add_(1.5)
    with pytest.raises(DTypeError, match=r"int64.*bool"):
        sf.tensor([True]).add_(1)
    y = sf.ones(2)
    assert y.add_(sf.ones(2, dtype="float64")).dtype is sf.float32
    assert y.mul_(sf.tensor([2, 3])).tolist() == [4, 6]
    with pytest.raises(ShapeError, match=r"\[2\] to \[3, 2\].*test_eager\.py:\d+"):
        y.add_(sf.ones(3, 2))
    assert y.tolist() == [4, 6]


def test_copy_takes_values_of_any_dtype() -> None:
    x = sf.zeros(2)
    assert np.signbit(x.copy_(sf.tensor([-0.0, nan])).numpy()[0])
    assert sf.zeros(2, dtype="int64").copy_(sf.tensor([2.7, -2.7])).tolist() == [2, -2]
    assert sf.zeros(2, dtype="bool").copy_(sf.tensor([0.0, 2.0])).tolist() == [False, True]
    assert sf.zeros(2).copy_(3).tolist() == [3, 3]


# -- indexing -------------------------------------------------------------------------------------


def test_setitem() -> None:
    x = sf.zeros(2, 3)
    x[0] = 1
    x[:, 1] = sf.tensor([5.0, 6.0])
    x[1, 2] = sf.tensor(7)
    x[..., 0] = np.array([8.0, 9.0])
    assert x.tolist() == [[8, 5, 1], [9, 6, 7]]
    x[:] = 0
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]
    x[0, 1:] = 3.0
    assert x.tolist() == [[0, 3, 3], [0, 0, 0]]
    i = sf.tensor([1, 2])
    i[0] = 2.7
    assert i.tolist() == [2, 2]
    with pytest.raises(ShapeError):
        x[0] = sf.ones(2)
    with pytest.raises(IndexRangeError):
        x[5] = 1


def test_integer_tensors_and_numpy_integers_are_indices() -> None:
    x = sf.tensor([1.0, 2.0, 3.0])
    assert x[np.int32(1)].item() == x[sf.tensor(1)].item() == 2
    assert x[sf.tensor(1) : np.int64(2)].tolist() == [2]
    assert [10, 20, 30][sf.tensor(2)] == 30
    with pytest.raises(DTypeError):
        x[sf.tensor(1.0)]


def test_gather_and_scatter_name_the_index_that_is_out_of_range() -> None:
    x = sf.zeros(2, 3)
    index = sf.tensor([[0, 1], [3, 0]])
    pattern = r"index 3, at \[1, 0\], is outside.*size 3.*test_eager\.py:\d+"
    with pytest.raises(IndexRangeError, match="gather: the " + pattern):
        sf.gather(x, 1, index)
    with pytest.raises(IndexRangeError, match="scatter_add: the " + pattern):
        x.scatter_add(1, index, sf.ones(2, 2))


def test_a_class_out_of_range_is_refused() -> None:
    for wrong in (3, -1):
        with pytest.raises(
            IndexRangeError, match=rf"cross_entropy.* {wrong}, at \[1\].*test_eager\.py"
        ):
            sf.nn.functional.cross_entropy(sf.zeros(2, 3), sf.tensor([0, wrong]))


# -- as Python values -----------------------------------------------------------------------------


def test_one_element_is_a_number() -> None:
    t = sf.tensor([[2.5]])
    assert (t.item(), float(t), int(t), bool(t)) == (2.5, 2.5, 2, True)
    assert type(t.item()) is float and type(sf.tensor(3).item()) is int
    assert type(sf.tensor(True).item()) is bool and not sf.tensor(0)
    assert sf.ones(2, 2).tolist() == [[1, 1], [1, 1]] and sf.tensor(1.5).tolist() == 1.5


def test_several_elements_are_not() -> None:
    t = sf.ones(2)
    with pytest.raises(ShapeError, match="ambiguous"):
        bool(t)
    with pytest.raises(ShapeError, match="ambiguous"):
        bool(sf.ones(0))
    for convert in (int, float, lambda x: x.item()):
        with pytest.raises(ShapeError, match="one element"):
            convert(t)
    with pytest.raises(DTypeError, match="integer"):
        operator.index(sf.tensor(1.0))


def test_length_and_iteration() -> None:
    x = sf.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2 and [r.tolist() for r in x] == x.tolist() and len(sf.ones(0, 2)) == 0
    a, b = x
    assert b.tolist() == [3, 4] and a.tolist() == [1, 2]
    with pytest.raises(TypeError, match="0-d"):
        len(sf.tensor(1.0))
    with pytest.raises(TypeError, match="0-d"):
        iter(sf.tensor(1.0))


def test_about_itself() -> None:
    x = sf.ones(2, 3)
    assert (x.ndim, x.dim(), x.size(), x.size(1), x.numel()) == (2, 2, (2, 3), 3, 6)
    assert x.device == sf.device("cpu")
    assert x.float() is x and x.double().dtype is sf.float64 and x.half().dtype is sf.float16
    assert x.long().dtype is sf.int64 and x.bool().tolist() == [[True] * 3] * 2
    assert x.type("torch.DoubleTensor").dtype is sf.float64
    assert x.type("int8").dtype is sf.int8 and x.T.shape == x.mT.shape == (3, 2)


# -- errors ---------------------------------------------------------------------------------------


def test_errors_name_op_types_and_line() -> None:
    with pytest.raises(
        ShapeError, match=r"add\(f32\[3\], f32\[2\]\): .*3 and 2.*test_eager\.py:\d+"
    ):
        sf.ones(3) + sf.ones(2)
    with pytest.raises(
        ShapeError, match=r"matmul\(f32\[2, 3\], f64\[2, 3\]\)|matmul\(f64\[2, 3\], f64"
    ):
        sf.ones(2, 3) @ sf.ones(2, 3, dtype="float64")
    with pytest.raises(DTypeError, match=r"neg\(bool\[1\]\): .*bool.*test_eager\.py:\d+"):
        -sf.tensor([True])
    with pytest.raises(DTypeError, match=r"must be a tensor, not NoneType.*test_eager\.py:\d+"):
        sf.ones(2) + None
    with pytest.raises(sf.DTypeError, match=r"exp\(ndarray\).*from_numpy"):
        sf.exp(np.ones(2))


def test_an_error_that_no_rule_knows_says_where() -> None:
    def reference(xp: Any, x: Any) -> Any:
        raise RuntimeError("odd")

    odd = Op("odd", "Fails.", lambda facts, x: x, reference, None)
    with pytest.raises(RuntimeError, match="odd") as caught:
        odd(sf.ones(2))
    (note,) = caught.value.__notes__
    assert "odd(f32[2])" in note and "test_eager.py" in note


def test_dtypes_are_named_both_ways() -> None:
    dtype: DType = sf.float64
    assert sf.ones(1, dtype=dtype).to("float16").dtype is sf.float16
    with pytest.raises(DTypeError, match="float12"):
        sf.ones(1, dtype="float12")
