"""What a program may hand to a function by mistake: a table of values that few arguments take."""

from __future__ import annotations

import fractions
from collections.abc import Callable
from typing import Any

import numpy as np

import staticflow as sf

__all__ = ["UNUSUAL"]


def _structured() -> Any:
    return np.zeros(3, [("x", np.float32), ("y", np.int64)])


UNUSUAL: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "minus_one": lambda: -1,
    "minus_seven": lambda: -7,
    "zero": lambda: 0,
    "huge": lambda: 10**30,
    "int64_max": lambda: 2**63 - 1,
    "float": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "complex": lambda: 1 + 2j,
    "fraction": lambda: fractions.Fraction(1, 3),
    "word": lambda: "abc",
    "bytes": lambda: b"",
    "empty_list": list,
    "empty_tuple": tuple,
    "dict": dict,
    "set": lambda: {1, 2},
    "ragged": lambda: [[1, 2], [3]],
    "negative_sizes": lambda: (-3, 2),
    "nested": lambda: [[[1.0]]],
    "words": lambda: ["a", "b"],
    "object": object,
    "class": lambda: int,
    "lambda": lambda: lambda *args: None,
    "range": lambda: range(3),
    "generator": lambda: (i for i in range(3)),
    "slice": lambda: slice(None),
    "ellipsis": lambda: ...,
    "dtype": lambda: sf.float32,
    "numpy_dtype": lambda: np.dtype("datetime64[s]"),
    "module": lambda: sf.nn.Linear(3, 3),
    "parameter": lambda: sf.nn.Parameter(sf.ones(2)),
    "empty_tensor": lambda: sf.zeros(0),
    "scalar_tensor": lambda: sf.tensor(1.0),
    "integer_tensor": lambda: sf.tensor([[1, 2, 7]]),
    "bool_tensor": lambda: sf.tensor([True, False]),
    "grad_tensor": lambda: sf.ones(3, 3, requires_grad=True),
    "wide_tensor": lambda: sf.ones(1, 2, 1, 2, 1, 2),
    "half_tensor": lambda: sf.ones(3, dtype=sf.float16),
    "tensors": lambda: [sf.ones(2), sf.ones(3)],
    "symbol": lambda: sf.placeholder((3, 3), name="u"),
    "open_symbol": lambda: sf.placeholder((None, None), name="o"),
    "integer_symbol": lambda: sf.placeholder((), "int64", name="n"),
    "dim": lambda: sf.placeholder((None,), name="d").shape[0],
    "object_array": lambda: np.array([object(), None], dtype=object),
    "word_array": lambda: np.array(["a", "bc"]),
    "dates": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "structured": _structured,
    "masked": lambda: np.ma.masked_array(np.ones(3), [True, False, True]),
    "complex_array": lambda: np.ones(3, np.complex64),
    "numpy_scalar": lambda: np.float64(0.5),
    "device": lambda: "cuda:99",
    "placeholder_list": lambda: [sf.placeholder((2,), name="l"), 3],
    "generator_state": lambda: sf.Generator(),
    "exception": lambda: ValueError("given as an argument"),
}
"""Each is made anew for every call."""
