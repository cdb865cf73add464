"""One mask or index tensor as a key goes to NumPy at once: the same values, gradients, versions and
errors as by the general reading of keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import AutogradError, DTypeError, IndexRangeError, ShapeError
from staticflow.ops.tensors import subscript

ROWS = sf.tensor([2, 0, -1, 2])
KEYS: dict[str, Any] = {
    "rows": ROWS,
    "a table of rows": ROWS.view(2, 2),
    "small integers": sf.tensor([1, 0], dtype=sf.uint8),
    "no rows": sf.tensor([], dtype=sf.int64),
    "a mask of everything": sf.arange(12).view(3, 4) % 3 == 0,
    "a mask of rows": sf.tensor([True, False, True]),
    "an empty mask": sf.tensor([False, False, False]),
    "None": None,
    "dots": ...,
}


def new() -> sf.Tensor:
    return sf.arange(12.0).view(3, 4).requires_grad_()


@pytest.mark.parametrize("name", KEYS)
def test_reading(name: str) -> None:
    key = KEYS[name]
    x, y = new(), new()
    for a, b in ((x, y), (x * 2, y * 2), ((x * 2).t().t(), (y * 2).t().t())):
        got, wanted = a[key], subscript.get(b, key)
        assert sf.equal(got, wanted) and str(got.grad_fn) == str(wanted.grad_fn)
        weights = sf.arange(1.0, wanted.numel() + 1).view(wanted.shape)
        (got * weights).sum().backward()
        (wanted * weights).sum().backward()
        assert sf.equal(x.grad, y.grad)
    with sf.no_grad():
        assert x[key].grad_fn is None
    assert (x[key] ** 2).sum().requires_grad


@pytest.mark.parametrize("name", [n for n in KEYS if n not in ("None", "dots")])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("value", [0, 2, True, -1.5])
def test_storing_a_number(name: str, dtype: str, value: Any) -> None:
    x, y = (sf.arange(12).view(3, 4).to(dtype) for _ in range(2))
    row = x[0]
    x[KEYS[name]] = value
    subscript.put_in_place(y, KEYS[name], value)
    assert sf.equal(x, y) and x._version == y._version == 1
    assert row.tolist() == y[0].tolist()


def test_second_derivatives() -> None:
    x = sf.tensor([1.0, 2.0, 3.0], requires_grad=True, dtype=sf.float64)
    for key in (sf.tensor([0, 0, 2]), sf.tensor([True, False, True])):
        assert sf.autograd.gradgradcheck(lambda t, key=key: t[key] ** 3, (x,))


def test_what_is_recorded_is_not_stored_at_once() -> None:
    x = sf.ones(3, requires_grad=True)
    y = x * 2
    y[sf.tensor([True, False, False])] = 0.0
    y[sf.tensor([1])] = 5.0
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 0, 2]
    with pytest.raises(AutogradError, match="leaf"):
        x[sf.tensor([0])] = 1.0
    with pytest.raises(AutogradError, match="leaf"):
        x.zero_()
    with pytest.raises(AutogradError, match="leaf"):
        x.fill_(1.0)
    with pytest.raises(AutogradError, match="was expanded"):
        sf.ones(1).expand(3)[:] = sf.ones(3)


def test_a_change_of_the_index_is_caught() -> None:
    x, rows = sf.ones(3, requires_grad=True), sf.tensor([0, 1])
    y = x[rows].sum()
    rows.zero_()
    with pytest.raises(AutogradError, match="argument 1, int64"):
        y.backward()
    mask = sf.tensor([True, False, False])
    z = x[mask].sum()
    mask.fill_(True)  # whose places were kept
    z.backward()
    assert x.grad is not None and x.grad.tolist() == [1, 0, 0]


def test_errors_are_those_of_the_general_way() -> None:
    x = sf.ones(3)
    for key, says in ((sf.tensor([3]), "is outside dim 0"), (sf.tensor([True]), "of the mask")):
        with pytest.raises(IndexRangeError, match=says):
            x[key]
        with pytest.raises(IndexRangeError, match=says):
            x[key] = 1.0
    assert x._version == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_filling(dtype: str) -> None:
    x = sf.ones(2, 3).to(dtype)
    column = x[:, 1]
    assert x.fill_(1) is x and x.zero_() is x and x._version == 2
    assert not column.any() and column.fill_(True)[0] and x[0].tolist() == [0, 1, 0]
    assert x.fill_(sf.tensor(1)).all() and x.dtype.name == dtype
    y = sf.inference_mode()(sf.ones)(2)
    with pytest.raises(AutogradError, match="made in inference mode"):
        y.zero_()


PLACES: list[Any] = [
    0, -1, slice(None), slice(1, None, 2), (1, 2), (slice(0, 2), -1), (slice(None), slice(1, 3)),
    ROWS, sf.arange(12).view(3, 4) % 3 == 0,
]  # fmt: skip
VALUES: dict[str, Any] = {
    "a number": 7.0,
    "one": sf.tensor(5.0),
    "a row": sf.tensor([1.0]),
    "too many dims": sf.tensor([[[9.0]]]),
    "integers": sf.tensor([3]),
    "a list": [2.0],
    "an array": np.array([4.0]),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("place", range(len(PLACES)))
def test_storing(place: int, value: str) -> None:
    x, y = (sf.arange(12.0).view(3, 4) for _ in range(2))
    x[PLACES[place]] = VALUES[value]
    subscript.put_in_place(y, PLACES[place], VALUES[value])
    assert sf.equal(x, y) and x._version == y._version == 1


def test_storing_a_part_of_itself() -> None:
    x, y = sf.arange(6.0), np.arange(6.0)
    x[1:] = x[:-1]
    y[1:] = y[:-1].copy()
    assert x.tolist() == y.tolist()


@pytest.mark.parametrize(
    "key, error, says",
    [
        (3, IndexRangeError, "index 3"),
        ((0, 4), IndexRangeError, "index 4"),
        ((0, 0, 0), IndexError, "3 indices for a tensor of 2 dims"),
        (slice(None, None, 0), ValueError, "step of 0"),
    ],
    ids=["row", "column", "dims", "nowhere"],
)
def test_refusals_of_storing(key: Any, error: type[Exception], says: str) -> None:
    x = sf.zeros(3, 4)
    with pytest.raises(error, match=says):
        x[key] = 1.0
    with pytest.raises(ShapeError, match="5 and 4 differ"):
        x[0] = sf.ones(5)
    assert not x.any() and x._version == 0


@pytest.mark.parametrize(
    "value", [0.5, 3, True, sf.tensor(2.0)], ids=["float", "int", "bool", "0-d"]
)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_filling_where_a_mask_says(dtype: str, value: Any) -> None:
    for mask in (sf.arange(12).view(3, 4) > 5, sf.tensor([True, False, False, True])):
        x = sf.arange(12).view(3, 4).to(dtype)
        wanted = sf.masked_fill(x, mask, value)
        assert x.masked_fill_(mask, value) is x and sf.equal(x, wanted) and x._version == 1
    with pytest.raises(DTypeError, match="must be bool"):
        sf.ones(2).masked_fill_(sf.tensor([0, 1]), 0.0)
    y = sf.ones(2, requires_grad=True) * 1
    assert y.masked_fill_(mask=sf.tensor([True, False]), value=0.0).grad_fn is not None
