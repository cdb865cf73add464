"""Other views of memory: as_strided, bits as another dtype, other sizes in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.autograd import gradcheck, gradgradcheck


def test_as_strided_is_a_view_of_the_memory() -> None:
    x = sf.arange(12.0).reshape(3, 4)
    y = x.as_strided((2, 3), (4, 1), 5)
    assert y.tolist() == [[5, 6, 7], [9, 10, 11]]
    y.zero_()
    assert x[1:, 1:].tolist() == [[0, 0, 0], [0, 0, 0]] and float(x[1, 0]) == 4
    assert x.t().as_strided((2,), (1,)).tolist() == [0, 1]  # of the memory, not of the view
    assert x[1].as_strided((2,), (4,)).tolist() == [4, 8]
    assert x[1].as_strided((2,), (1,), 0).tolist() == [0, 1]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_derivatives_of_as_strided_add_up(compiled: bool) -> None:
    def windows(x: Any) -> Any:
        return sf.as_strided(x.contiguous(), (4, 3), (1, 2), 1) ** 2

    x = sf.randn(10, dtype=sf.float64, requires_grad=True)
    call: Callable[..., Any] = sf.jit(windows) if compiled else windows
    assert gradcheck(call, x) and gradgradcheck(call, x)
    assert "AsStridedBackward0" in repr(x.as_strided((2,), (1,)))


def test_a_change_of_a_strided_view_in_a_graph() -> None:
    @sf.jit
    def f(x: Any) -> Any:
        y = (x * 1).contiguous()
        y.as_strided((3,), (2,)).mul_(10)
        return y

    assert f(sf.arange(6.0)).tolist() == [0, 1, 20, 3, 40, 5]


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x * 2, lambda x: -x])
def test_of_what_may_lie_otherwise_it_is_refused_in_a_graph(make: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        return make(x).as_strided((2, 2), (2, 1))

    x = sf.arange(4.0).reshape(2, 2)
    for run in (sf.jit(f), lambda x: sf.scan(lambda c, r: (c, f(r)), (), sf.symbol(x)[None])):
        with pytest.raises(sf.SymbolicError, match=r"as_strided of a symbolic.*x\.contiguous\(\)"):
            run(x.t())
    safe = sf.jit(lambda x: make(x).contiguous().as_strided((2, 2), (2, 1)))
    assert safe(x.t()).tolist() == make(x.t()).contiguous().as_strided((2, 2), (2, 1)).tolist()


def test_what_leaves_the_memory_is_refused() -> None:
    with pytest.raises(
        sf.ShapeError,
        match=r"\[2\] elements apart from 0 on: 4 is too small; it must be at least 5",
    ):
        sf.ones(4).as_strided((3,), (2,))
    with pytest.raises(sf.ShapeError, match="for each dim"):
        sf.ones(4).as_strided((3,), (1, 1))


def test_bits_as_another_dtype() -> None:
    x = sf.tensor([1.0, -2.0])
    bits = x.view(sf.int32)
    assert bits.tolist() == x.numpy().view(np.int32).tolist() and not bits.requires_grad
    bits[0] = 0
    assert x.tolist() == [0, -2] and x._version == 1
    assert x.view(dtype=sf.uint8).shape == (8,) and sf.ones(2, 4).view(sf.float64).shape == (2, 2)
    assert sf.jit(lambda x: x.view(sf.int32))(x).tolist() == bits.tolist()
    with pytest.raises(sf.ShapeError, match="cannot be seen as float64"):
        sf.ones(3).view(sf.float64)
    with pytest.raises(sf.DTypeError, match="of one size"):
        sf.placeholder((2,), name="x").view(sf.float64)


def test_resize() -> None:
    x = sf.arange(4.0)
    assert x.resize_(2, 2).shape == (2, 2) and x.resize_((3,)).tolist() == [0, 1, 2]
    assert x.resize_as_(sf.ones(5)).tolist() == [0, 1, 2, 0, 0]
    with pytest.raises(sf.AutogradError, match="requires a gradient"):
        sf.ones(2, requires_grad=True).resize_(1)


def test_memory_of_another_tensor_and_functions_of_numbers() -> None:
    x, y = sf.zeros(3), sf.tensor([1.0, 2.0])
    x.set_(y).mul_(2)
    assert y.tolist() == [2, 4]
    assert y.apply_(lambda v: v + 1) is y and x.tolist() == [3, 5]
    assert y.map_(sf.tensor([10.0, 20.0]), lambda a, b: a * b).tolist() == [30, 100]


def test_combined_slices_and_flat_places() -> None:
    x, i = sf.ones(3), sf.tensor([0, 0, 2])
    source = sf.tensor([5.0, 7.0, 3.0])
    assert sf.index_reduce(x, 0, i, source, "prod").tolist() == [35, 1, 3]
    assert x.index_reduce_(0, i, source, "mean", include_self=False).tolist() == [6, 1, 3]
    table = sf.zeros(2, 2).put_(sf.tensor([0, -1]), sf.tensor([1.0, 2.0]))
    assert table.tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize(
    ("grad", "says"),
    [
        ([1.0, 2.0, 3.0], "a gradient must be a tensor or None, not a list"),
        (np.ma.ones(3, dtype=np.float32), "must be a tensor or None, not a MaskedArray"),
        (sf.ones(2), r"its shape is \[2\], that of the tensor \[3\]"),
        (sf.ones(3, dtype=sf.float64), "its dtype is float64"),
        (None, ""),
    ],
    ids=["type", "masked", "shape", "dtype", "none"],
)
def test_what_is_assigned_as_a_gradient_is_checked(grad: Any, says: str) -> None:
    x = sf.zeros(3, requires_grad=True)
    if grad is None:
        x.grad = None
        return
    with pytest.raises((sf.AutogradError, TypeError), match=says):
        x.grad = grad
    with pytest.raises(sf.AutogradError, match="its own gradient"):
        x.grad = x


def test_gradients_of_several_cotangents_at_once() -> None:
    x = sf.tensor([1.0, 2.0], requires_grad=True)
    rows = sf.autograd.grad(x * x, x, sf.eye(2), is_grads_batched=True)[0]
    assert rows.tolist() == [[2, 0], [0, 4]]


def test_logit_and_truth_of_unsigned_bytes() -> None:
    x = sf.tensor([0, 1], dtype=sf.uint8)
    assert x.logit().tolist() == [-np.inf, np.inf]
    assert x.any().dtype is sf.uint8 and x.all(0).dtype is sf.uint8


def test_what_is_sorted_downwards_lies_in_one_row() -> None:
    assert sf.arange(4.0).sort(descending=True).values.view(2, 2).tolist() == [[3, 2], [1, 0]]
