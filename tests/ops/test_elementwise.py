"""Elementwise functions beyond the op table: PyTorch's stored answers, dtypes, names, arguments,
in-place forms."""

from __future__ import annotations

import inspect
import json
import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.dtypes import DTYPES, dtype_of, promote
from staticflow.ops.declaring.promote import result_type
from staticflow.ops.elementwise import synonyms
from staticflow.ops.tensors.elementwise_methods import ElementwiseMethods

ROOT = Path(__file__).parents[2]
TORCH = json.loads((ROOT / "tests" / "reference" / "elementwise.json").read_text())
F = sf.nn.functional


# -- PyTorch's answers ----------------------------------------------------------------------------


def operand(words: list[str]) -> Any:
    """The second operand that a key of the stored table names."""
    kinds: dict[str, Callable[[str], Any]] = {
        "number": lambda word: {"True": True, "2": 2, "2.5": 2.5}[word],
        "0-d": lambda word: sf.ones((), dtype=word),
    }
    return kinds[words[0]](words[1]) if len(words) == 2 else sf.ones(2, dtype=words[0])


@pytest.mark.parametrize("key", TORCH["promotion"])
def test_operands_meet_where_they_do_in_pytorch(key: str) -> None:
    first, *second = key.split()
    wanted = dtype_of(TORCH["promotion"][key])
    x, y = sf.ones(2, dtype=first), operand(second)
    assert result_type([x, y]) is wanted
    assert sf.mul(x, y).dtype is wanted and sf.where(sf.tensor([True, False]), x, y).dtype is wanted


@pytest.mark.parametrize("name", TORCH["dtypes"])
def test_dtypes_of_results_are_those_of_pytorch(name: str) -> None:
    fn = getattr(sf, name)
    for dtype, wanted in TORCH["dtypes"][name].items():
        for count in (1, 2):
            x = sf.ones(2, dtype=dtype)
            symbol = sf.placeholder((2,), dtype, name="x")
            try:
                eager, static = fn(*[x] * count), fn(*[symbol] * count)
            except TypeError as error:  # of the number of arguments, or indeed refused
                if isinstance(error, DTypeError):
                    assert wanted is None, dtype
                continue
            assert eager.dtype is static.dtype is dtype_of(wanted), dtype


@pytest.mark.parametrize("name", TORCH["values"])
def test_awkward_numbers_give_what_pytorch_gives(name: str) -> None:
    fn, kwargs = getattr(sf, name, None) or getattr(F, name), TORCH["kwargs"][name]
    points = np.array([float(p) for p in TORCH["points"]])
    x = sf.tensor(points, requires_grad=True)
    y = fn(x, **kwargs)
    y.sum().backward()
    symbol = sf.placeholder((None,), "float64", name="x")
    program = sf.compile([symbol], fn(symbol, **kwargs))
    values, slopes = (np.array([float(v) for v in row]) for row in TORCH["values"][name])
    assert x.grad is not None
    for found, wanted, error in (
        (y.detach(), values, 1e-300),
        (program(points), values, 1e-300),
        (x.grad, slopes, 2**-52),  # of ``1 - y`` where y is next to 1
    ):
        np.testing.assert_allclose(found.numpy(), wanted, 1e-7, error)
        zeros = wanted == 0
        np.testing.assert_array_equal(np.signbit(found.numpy()[zeros]), np.signbit(wanted[zeros]))


def test_the_table_of_the_docs_is_the_rule() -> None:
    page = (ROOT / "docs" / "dtypes.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| **")]
    assert [row[0].strip("*") for row in rows] == [d.short for d in DTYPES]
    for a, row in zip(DTYPES, rows, strict=True):
        assert row[1:] == [promote((a, b)).short for b in DTYPES]


# -- names ----------------------------------------------------------------------------------------

METHODS = {n: m for n, m in vars(ElementwiseMethods).items() if not n.startswith("__")}
IN_PLACE = [n for n in METHODS if n.endswith("_")]


def test_every_method_is_a_function_too() -> None:
    assert [n for n in METHODS if not n.endswith("_") and not hasattr(sf, n)] == []
    assert [n for n in IN_PLACE if n[:-1] not in METHODS and not hasattr(sf.Tensor, n)] == []


def test_aliases_are_the_functions_themselves() -> None:
    for name in synonyms.__all__:
        public, own = (getattr(room, name) for room in (sf, synonyms))
        assert public is own or inspect.unwrap(public) is inspect.unwrap(own)
    assert sf.clip is sf.clamp and sf.swapaxes is sf.transpose


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "addcdiv_": (0.5, 0.25), "addcmul_": (0.5, 0.25), "clamp_": (0.6, 0.8), "clip_": (0.6, 0.8),
    "lerp_": (0.5, 0.25),
}  # fmt: skip
DRAWN = (
    "uniform_", "normal_", "bernoulli_", "exponential_", "random_", "log_normal_", "cauchy_",
    "geometric_",
)  # fmt: skip


@pytest.mark.parametrize("name", [n for n in IN_PLACE if n not in DRAWN])
def test_in_place_forms_store_what_the_function_gives(name: str) -> None:
    whole = name.startswith("bitwise") or name in ("gcd_", "lcm_")
    x = sf.tensor([3, 5, 6]) if whole else sf.tensor([0.5, 0.75, 0.875])
    fn = getattr(sf.Tensor, name[:-1])
    options = [ARGUMENTS[name]] if name in ARGUMENTS else [(), (2,)]
    for args in options:
        args = tuple(sf.tensor(a) if isinstance(a, float) and "addc" in name else a for a in args)
        try:
            wanted = fn(x, *args)
        except TypeError:  # of the number of arguments
            continue
        y, memory = x.clone(), None
        memory = y.numpy()
        assert getattr(y, name)(*args) is y and y.numpy() is memory
        np.testing.assert_allclose(y.numpy(), wanted.numpy().astype(memory.dtype), 1e-6)
        return
    raise AssertionError(name)


def test_operators_on_bits() -> None:
    x, y = sf.tensor([12, 10]), sf.tensor([10, 3])
    for op in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        wanted = [op(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        assert op(x, y).tolist() == wanted
        assert op(x, 3).tolist() == [op(a, 3) for a in x.tolist()]
        assert op(7, y).tolist() == [op(7, b) for b in y.tolist()]
    assert (~x).tolist() == [-13, -11] and (~sf.tensor([True, False])).tolist() == [False, True]
    x <<= 2
    x |= 1
    assert x.tolist() == [49, 41]
    with pytest.raises(DTypeError, match=r"not defined for float32.*test_elementwise\.py:\d+"):
        sf.ones(2) & sf.ones(2)


# -- arguments ------------------------------------------------------------------------------------


def test_what_the_second_operand_is_scaled_by() -> None:
    x, y = sf.tensor([1.0, 2.0]), sf.tensor([10.0, 20.0])
    assert sf.add(x, y, alpha=2).tolist() == x.add(y, alpha=2).tolist() == [21, 42]
    assert sf.sub(x, 1, alpha=3).tolist() == [-2, -1] and sf.rsub(x, y, alpha=2).tolist() == [8, 16]
    assert x.add_(y, alpha=-0.1).tolist() == [0, 0]
    with pytest.raises(DTypeError, match=r"add: .*alpha = 0\.5.*test_elementwise\.py:\d+"):
        sf.add(sf.tensor([1]), sf.tensor([2]), alpha=0.5)


@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_rounded_division(mode: str) -> None:
    round_ = math.trunc if mode == "trunc" else math.floor
    for numbers in ([7, -7, 6, -6, 1, 0], [7.5, -7.5, 6.0, -6.0, 0.1, 0.0]):
        x = sf.tensor(numbers)
        for y in (2, -4):
            found = sf.div(x, y, rounding_mode=mode)
            assert found.dtype is x.dtype and found.tolist() == [round_(v / y) for v in numbers]
    large = 2**62 + 1
    assert sf.div(sf.tensor([-large]), 3, rounding_mode=mode).tolist() == [
        -(large // 3) - (mode == "floor" and large % 3 > 0)
    ]
    with pytest.raises(ArgumentError, match=r"not 'up'.*test_elementwise\.py:\d+"):
        sf.div(sf.ones(2), 2, rounding_mode="up")


def test_rounding_to_decimals() -> None:
    x = sf.tensor([1.25, -3.14159, 1234.5], dtype="float64")
    assert sf.round(x, decimals=2).tolist() == [1.25, -3.14, 1234.5]
    assert x.round(decimals=-2).tolist() == [0, 0, 1200] and x.round().tolist() == [1, -3, 1234]


def test_closeness() -> None:
    x, nan = sf.tensor([1.0, math.inf, math.nan]), math.nan
    near = x + sf.tensor([1e-6, 0, 0])
    assert sf.isclose(x, near).tolist() == [True, True, False]
    assert sf.isclose(x, near, equal_nan=True).tolist() == [True, True, True]
    assert sf.isclose(sf.tensor([1.0]), sf.tensor([math.inf])).tolist() == [False]
    assert sf.isclose(sf.tensor([1, 2]), sf.tensor([1, 3])).tolist() == [True, False]
    assert sf.allclose(x[:2], near[:2]) is True and sf.allclose(x, x) is False
    assert x.allclose(x, equal_nan=True) and sf.equal(x[:2], x[:2]) is True
    assert not sf.equal(x, x[:2]) and not sf.equal(sf.tensor(nan), sf.tensor(nan))
    assert sf.isposinf(x).tolist() == [False, True, False]
    assert sf.isneginf(sf.tensor([1])).tolist() == [False]


def test_plain_functions_of_ops() -> None:
    x = sf.tensor([0.25, 0.75])
    np.testing.assert_allclose(sf.logit(x).numpy(), [-math.log(3), math.log(3)], 1e-6)
    np.testing.assert_allclose(sf.logit(sf.tensor([0.0]), 0.25).numpy(), [-math.log(3)], 1e-6)
    assert sf.float_power(sf.tensor([2]), 0.5).item() == math.sqrt(2)
    assert sf.float_power(2, sf.tensor([3])).dtype is sf.float64
    assert sf.nan_to_num(sf.tensor([1, 2])).tolist() == [1, 2]


def test_special_functions() -> None:
    x = sf.tensor([0.1, 0.5, 0.9], dtype="float64")
    assert set(sf.special.__all__) <= set(dir(sf.special))
    np.testing.assert_allclose(sf.special.ndtr(sf.special.ndtri(x)).numpy(), x.numpy(), 1e-14)
    np.testing.assert_allclose(sf.special.expit(sf.special.logit(x)).numpy(), x.numpy(), 1e-14)
    wanted = [-v * math.log(v) for v in x.tolist()]
    np.testing.assert_allclose(sf.special.entr(x).numpy(), wanted, 1e-14)
    ends = sf.tensor([0.0, -1.0, math.nan])
    np.testing.assert_array_equal(sf.special.entr(ends).numpy(), [0, -math.inf, math.nan])
    assert sf.special.xlog1py(sf.tensor(0.0), sf.tensor(-1.0)).item() == 0


def test_the_parts_of_a_float_make_it_again() -> None:
    x = sf.tensor([3.0, -0.1, 1e-45, 3e38, 0.0], requires_grad=True)
    parts = sf.frexp(x)
    assert parts.exponent.dtype is sf.int32 and not parts.exponent.requires_grad
    assert sf.ldexp(*parts).tolist() == x.tolist()
    parts.mantissa.backward(sf.tensor([1.0, 1.0, 0.0, 1.0, 1.0]))
    assert x.grad.tolist() == [0.25, 8, 0, 2.0**-128, 1]
    with pytest.raises(DTypeError, match=r"^frexp\(i64\[1\]\): not defined for int64.*\.py:\d+"):
        sf.frexp(sf.tensor([1]))


# -- integers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "iu"], ids=str)
def test_extremes_wrap_and_zeros_divide_to_zero(dtype: Any) -> None:
    limits = np.iinfo(dtype.numpy)
    x = sf.tensor([limits.min, limits.max], dtype=dtype)
    symbol = sf.placeholder((2,), dtype, name="x")

    def both(fn: Callable[[Any], Any]) -> list[int]:
        eager, static = fn(x), sf.compile([symbol], fn(symbol))(x)
        assert eager.dtype is static.dtype is dtype and eager.tolist() == static.tolist()
        return eager.tolist()

    assert both(lambda x: x + 1) == [limits.min + 1, limits.min]
    assert (
        both(lambda x: x // 0) == both(lambda x: x % 0) == both(lambda x: sf.fmod(x, 0)) == [0, 0]
    )
    if dtype.kind == "i":
        assert both(lambda x: x // -1) == [limits.min, -limits.max]
        assert both(abs) == [limits.min, limits.max]
        assert both(lambda x: sf.fmod(x, -1)) == [0, 0]
    assert both(lambda x: x << dtype.bits) == [0, 0]
    assert both(lambda x: x >> dtype.bits) == [-1 if dtype.kind == "i" else 0, 0]


def test_a_common_divisor_behind_a_product_goes_on_for_every_lane() -> None:
    generator = np.random.default_rng(0)
    x, w = (generator.integers(-99, 99, shape, np.int32) for shape in ((7, 16), (16, 24)))
    symbol = sf.placeholder((None, 16), sf.int32, name="x")
    program = sf.compile([symbol], sf.gcd(symbol @ sf.tensor(w), 720))
    np.testing.assert_array_equal(program(sf.tensor(x)).numpy(), np.gcd(x @ w, 720))


def test_where_as_a_method_takes_the_condition_first() -> None:
    x = sf.tensor([1.0, 2.0], requires_grad=True)
    y = x.where(x > 1, 0.0)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([0, 2], [0, 1])
