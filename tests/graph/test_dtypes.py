"""Element types: what names them, and how they are promoted."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import staticflow as sf
import staticflow.graph.dtypes as dt
from staticflow.errors import DTypeError
from staticflow.graph.dtypes import DTYPES, DType, dtype_of, promote, weak_dtype

# PyTorch's documented result_type, row by row: torch.result_type(row, column).
RESULT_TYPE = """
          bool     uint8    int8     int16    int32    int64    float16  bfloat16 float32  float64
bool      bool     uint8    int8     int16    int32    int64    float16  bfloat16 float32  float64
uint8     uint8    uint8    int16    int16    int32    int64    float16  bfloat16 float32  float64
int8      int8     int16    int8     int16    int32    int64    float16  bfloat16 float32  float64
int16     int16    int16    int16    int16    int32    int64    float16  bfloat16 float32  float64
int32     int32    int32    int32    int32    int32    int64    float16  bfloat16 float32  float64
int64     int64    int64    int64    int64    int64    int64    float16  bfloat16 float32  float64
float16   float16  float16  float16  float16  float16  float16  float16  float32  float32  float64
bfloat16  bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float32  bfloat16 float32  float64
float32   float32  float32  float32  float32  float32  float32  float32  float32  float32  float64
float64   float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
"""
COLUMNS, *ROWS = (line.split() for line in RESULT_TYPE.strip().splitlines())
PAIRS = [
    (row[0], column, result)
    for row in ROWS
    for column, result in zip(COLUMNS, row[1:], strict=True)
]


def test_the_table_is_of_all_dtypes() -> None:
    assert sorted(COLUMNS) == sorted(d.name for d in DTYPES)
    assert {(a, b) for a, b, _ in PAIRS} == set(itertools.product(COLUMNS, COLUMNS))


@pytest.mark.parametrize(("a", "b", "result"), PAIRS)
def test_promotion_is_pytorchs(a: str, b: str, result: str) -> None:
    assert promote([dtype_of(a), dtype_of(b)]) is dtype_of(result)


def test_promoting_one_is_itself_and_none_is_refused() -> None:
    assert all(promote([d]) is d for d in DTYPES)
    assert promote([dt.uint8, dt.int8, dt.float16]) is dt.float16
    with pytest.raises(DTypeError, match="at least one"):
        promote([])


@pytest.mark.parametrize(
    ("scalar", "strong", "result"),
    [
        (True, None, "bool"),
        (2, None, "int64"),
        (2.5, None, "float32"),
        (True, "uint8", "uint8"),
        (2, "bool", "int64"),
        (2, "int8", "int8"),
        (300, "uint8", "uint8"),
        (2, "float16", "float16"),
        (2.5, "bool", "float32"),
        (2.5, "int64", "float32"),
        (2.5, "bfloat16", "bfloat16"),
        (2.5, "float64", "float64"),
    ],
)
def test_python_scalars_are_weak(scalar: Any, strong: str | None, result: str) -> None:
    assert weak_dtype(scalar, None if strong is None else dtype_of(strong)) is dtype_of(result)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_spelling_names_the_dtype(dtype: DType) -> None:
    for spelling in (dtype, dtype.name, dtype.short, dtype.numpy, dtype.numpy.type):
        assert dtype_of(spelling) is dtype
    assert dtype_of(np.zeros(1, dtype.numpy).dtype) is dtype
    assert repr(dtype) == f"staticflow.{dtype.name}" and str(dtype) == dtype.short
    assert dtype.itemsize == dtype.numpy.itemsize


def test_what_a_dtype_says_of_itself() -> None:
    assert dt.float16.is_floating_point and not dt.int64.is_floating_point
    assert dt.int8.is_signed and not dt.uint8.is_signed and not dt.bool_.is_signed
    assert not dt.float32.is_complex and dt.float64.itemsize == 8


def test_aliases() -> None:
    assert [dtype_of(t) for t in (bool, int, float)] == [dt.bool_, dt.int64, dt.float64]
    names = ("half", "float", "double", "long", "int")
    expected = [dt.float16, dt.float32, dt.float64, dt.int64, dt.int32]
    assert [dtype_of(n) for n in names] == expected
    assert dtype_of(ml_dtypes.bfloat16) is dt.bfloat16


@pytest.mark.parametrize(
    "what",
    ["float8", "", "FLOAT32", complex, np.complex64, str, None, 32, [], {}],
    ids=repr,
)  # fmt: skip
def test_anything_else_is_refused(what: Any) -> None:
    with pytest.raises(DTypeError, match="is no dtype that staticflow knows; use one of bool, ui"):
        dtype_of(what)


def test_complex_arrays_are_refused_by_what_they_are() -> None:
    for array in (np.ones(2, np.complex64), np.array(1j), [1 + 2j]):
        with pytest.raises(DTypeError, match="is complex, and staticflow has no complex numbers"):
            sf.tensor(array)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies_are_the_same_object(dtype: DType) -> None:
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.copy(dtype) is dtype and copy.deepcopy(dtype) is dtype


def test_another_order_of_bytes_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"another kind of machine.*astype\('float32'\)"):
        dtype_of(np.dtype(">f4"))
