"""The stand-in for cupy is as strict as cupy: its names, what they take, and what they mean."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fake_cupy import fake_cupy
from fake_cupy.arrays import CURRENT
from fake_cupy.functions import errstate
from fake_cupy.table import NAMES, VERSION

from tests.reference.make_cupy import describe

xp = fake_cupy
special = CURRENT.modules["cupyx.scipy.special"]


def test_the_table_is_that_of_the_installed_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    if cupy.__version__ != VERSION:
        pytest.skip(f"the table is of cupy {VERSION}, not {cupy.__version__}")
    assert describe() == {"cupy": VERSION, "names": NAMES}


def test_names_that_references_use_are_names_of_cupy() -> None:
    """Also those that no sample of the op table reaches."""
    folder = Path(sys.modules["staticflow"].__file__ or "").parent / "ops"
    used = set()
    for path in folder.rglob("*.py"):
        used |= set(re.findall(r"\bxp\.([a-z_]\w*(?:\.\w+)*)", path.read_text()))
    known = {n for m, names in NAMES.items() for n in (f"{m}.{x}" for x in names)}
    only_numpy = {"cuda.Device", "cuda.runtime.getDeviceCount"}
    missing = {
        n for n in used - only_numpy if f"cupy.{n}" not in known and n.split(".")[-1] != "at"
    }
    assert len(used) > 60 and not {n for n in missing if not n.startswith("linalg.LinAlgError")}


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "a truth value among arrays": (lambda: xp.any(True), AttributeError),
    "a truth value for a condition": (lambda: xp.where(True, xp.ones(2), 0), AttributeError),
    "errstate": (lambda: xp.errstate, AttributeError),
    "sparse indices": (lambda: xp.indices((2, 2), sparse=True), TypeError),
    "accumulate of a maximum": (lambda: xp.maximum.accumulate(xp.ones(2)), NotImplementedError),
    "product at": (lambda: xp.multiply.at(xp.ones(2), xp.arange(2), 2), NotImplementedError),
    "sum of bytes at": (
        lambda: xp.add.at(xp.ones(2, "i1"), xp.arange(2), xp.ones(2, "i1")),
        TypeError,
    ),
    "a condition of a ufunc": (lambda: xp.add(xp.ones(2), 1, where=xp.ones(2, bool)), TypeError),
    "a mode of take": (lambda: xp.take(xp.ones(2), xp.arange(2), mode="clip"), TypeError),
    "another kind of sort": (lambda: xp.sort(xp.ones(2), kind="mergesort"), ValueError),
    "sort of bfloat16": (lambda: xp.sort(xp.ones(2, ml_dtypes.bfloat16)), RuntimeError),
    "an array of NumPy in arithmetic": (lambda: xp.ones(2) + np.ones(2), TypeError),
    "an array of NumPy among several": (
        lambda: xp.concatenate([xp.ones(2), np.ones(2)]),
        TypeError,
    ),
    "NumPy's view": (lambda: np.asarray(xp.ones(2)), TypeError),
    "an object": (lambda: xp.asarray([object()]), ValueError),
    "an index by an array": (lambda: [1, 2][xp.asarray(1)], TypeError),
    "flags": (lambda: xp.ones(2).flags.writeable, AttributeError),
    "an item at a place": (lambda: xp.ones(2).item(0), TypeError),
    "float16 in linalg": (lambda: xp.linalg.svd(xp.ones((2, 2), "f2")), TypeError),
    "right sides of another batch": (
        lambda: xp.linalg.solve(xp.ones((3, 2, 2)), xp.ones((2, 1))),
        ValueError,
    ),
    "silenced warnings": (lambda: errstate(divide="ignore").__enter__(), NotImplementedError),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_what_cupy_refuses(what: str) -> None:
    call, error = REFUSED[what]
    with pytest.raises(error):
        call()


def test_what_cupy_means_otherwise() -> None:
    x = xp.arange(4.0)
    assert isinstance(x.sum(), xp.ndarray) and x.sum().shape == ()
    assert x[xp.asarray([5, -5])].tolist() == [1, 3]  # indices wrap around
    x[xp.asarray([1, 1])] = xp.asarray([7.0, 8.0])
    assert x.tolist() == [0, 7, 2, 3]  # any of the values, here the first
    singular = xp.linalg.cholesky(xp.zeros((2, 2)))
    assert singular.shape == (2, 2)  # with no complaint
    with errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
        xp.linalg.cholesky(xp.zeros((2, 2)))
    most = xp.asarray([1.0])
    xp.maximum.at(most, xp.asarray([0]), xp.asarray([np.nan]))
    assert most.tolist() == [1]  # which passes over NaN
    assert np.exp(x).tolist() == xp.exp(x).tolist()  # by NumPy's protocols
    assert isinstance(np.concatenate([x, x]), xp.ndarray)
    assert (xp.ones(2, ml_dtypes.bfloat16) * 2).dtype == ml_dtypes.bfloat16
    assert special.erf(xp.ones(2, "f4")).dtype == np.float32
    with xp.cuda.Device(1):
        other = xp.ones(2)
    with pytest.raises(ValueError, match="device"):
        other + xp.ones(2)
