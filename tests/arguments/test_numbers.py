"""Python's numbers beside tensors and in them, the same in both modes: what wraps, what must fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import DTypeError

U8 = np.array([100, 2], np.uint8)
I8 = np.array([100, -2], np.int8)
I64 = np.array([3, -2])

Function = Callable[[Any], Any]

# Of arithmetic and comparison, numbers as PyTorch 2.13 gives them.
WRAPPED: dict[str, tuple[Function, np.ndarray[Any, Any], list[Any]]] = {
    "u8 < 300": (lambda x: x < 300, U8, [False, True]),
    "u8 < -1": (lambda x: x < -1, U8, [True, True]),
    "u8 == 356": (lambda x: x == 356, U8, [True, False]),
    "u8 + 300": (lambda x: x + 300, U8, [144, 46]),
    "-300 + u8": (lambda x: -300 + x, U8, [56, 214]),
    "u8 * 300": (lambda x: x * 300, U8, [48, 88]),
    "u8 // 300": (lambda x: x // 300, U8, [2, 0]),
    "u8 % -1": (lambda x: x % -1, U8, [100, 2]),
    "u8 & 300": (lambda x: x & 300, U8, [36, 0]),
    "300 ** u8": (lambda x: 300**x, U8, [0, 144]),
    "i8 < 200": (lambda x: x < 200, I8, [False, False]),
    "i8 + 200": (lambda x: x + 200, I8, [44, -58]),
    "i64 < 2**63": (lambda x: x < 2**63, I64, [False, False]),
    "i64 + (2**64 - 1)": (lambda x: x + (2**64 - 1), I64, [2, -3]),
    "f32 < 2**70": (lambda x: x.float() < 2**70, U8, [True, True]),
    "stored -1": (lambda x: x.new_full((2,), -1), U8, [255, 255]),
    "stored 1.5": (lambda x: x.masked_fill(x > 50, 1.5), U8, [1, 2]),
    "where -1": (lambda x: sf.where(x > 50, x, -1), U8, [100, 255]),
    "by a tensor": (lambda x: x ** sf.tensor([-1, -2]), np.array([1, 2]), [1, 0]),
}

REFUSED: dict[str, tuple[Function, np.ndarray[Any, Any], str]] = {
    "add 2**64": (lambda x: x + 2**64, I64, "add: the number 18446744073709551616 has more than"),
    "full 300": (lambda x: x.new_full((2,), 300), U8, "full: the number 300 does not fit uint8"),
    "full -256": (lambda x: x.new_full((2,), -256), U8, "the number -256 does not fit uint8"),
    "full nan": (lambda x: x.new_full((2,), float("nan")), I64, "number nan does not fit int64"),
    "full inf": (lambda x: x.new_full((2,), float("inf")), I64, "number inf does not fit int64"),
    "fill with 10**400": (lambda x: x.float().fill_(10**400), I64, "does not fit float32"),
    "where 300": (lambda x: sf.where(x > 2, x, 300), U8, "where: the number 300 does not fit"),
    "maximum 300": (lambda x: sf.maximum(x, 300), U8, "maximum: the number 300 does not fit"),
    "pow 300": (lambda x: x**300, U8, "pow: the number 300 does not fit uint8"),
    "pow -1": (lambda x: x**-1, I64, r"pow: .* to the negative power -1 .* or -1\.0 as"),
    "pow_ -1": (lambda x: x.pow_(-1), I64, "pow: .* to the negative power -1"),
    "pad 300": (lambda x: sf.nn.functional.pad(x, (1, 1), value=300), U8, "does not fit uint8"),
}


@pytest.fixture(params=["eager", "static"])
def run(request: pytest.FixtureRequest) -> Callable[[Function, Any], Any]:
    def eagerly(fn: Function, data: Any) -> Any:
        return fn(sf.tensor(data))

    def compiled(fn: Function, data: Any) -> Any:
        x = sf.placeholder((None,), str(data.dtype), name="x")
        return sf.compile([x], fn(x))(data)

    return eagerly if request.param == "eager" else compiled


@pytest.mark.parametrize("case", WRAPPED)
def test_numbers_beside_integers_are_pytorchs(case: str, run: Any) -> None:
    fn, data, expected = WRAPPED[case]
    assert run(fn, data).tolist() == expected


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_names_the_op_and_the_line(case: str, run: Any) -> None:
    fn, data, says = REFUSED[case]
    with pytest.raises(DTypeError, match=f"{says}.*, at .*test_numbers"):
        run(fn, data)


@pytest.mark.parametrize("value", [300, -256, 2**70, float("nan"), 1e10])
@pytest.mark.parametrize("key", [0, slice(0, 1), (0,)], ids=str)
def test_an_assignment_that_does_not_fit_is_refused(key: Any, value: Any) -> None:
    x = sf.tensor(U8)
    with pytest.raises(DTypeError, match=r"does not fit uint8; use a wider dtype, at .*numbers"):
        x[key] = value
    assert x.tolist() == [100, 2]
    x[key] = -1
    assert x.tolist() == [255, 2]


def test_a_fraction_among_sorted_integers() -> None:
    assert sf.searchsorted(sf.tensor([2, 3]), 2.5).item() == 1
