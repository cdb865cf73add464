"""What goes down the columns of rows of a few elements takes some rows side by side."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.runtime.machine import host_target

FORMS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(0), "mean": lambda x: x.mean(0), "amax": lambda x: x.amax(0),
    "prod": lambda x: x.prod(0), "squares": lambda x: (x * x).sum(0), "any": lambda x: (x > 1).any(0),
    "two": lambda x: x.amin(0) + x.sum(0),
}  # fmt: skip
LENGTHS = (0, 1, 31, 32, 64, 65, 127, 1000, 20_000)
KNOWN = (65, 1000, 20_000)
"""Those of which programs are compiled."""

DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8")


def numbers(length: int, columns: int, dtype: str) -> Any:
    found = np.random.default_rng(length).integers(0, 3, (length, columns))
    return (found - 1 if dtype != "uint8" else found).astype(dtype)


def takes_rows_beside(program: Any) -> bool:
    return "beside" in program.source("kernels")


def check(form: Callable[[Any], Any], columns: int, dtype: str, lengths: Any = LENGTHS) -> None:
    x = sf.placeholder((None, columns), dtype=dtype, name="x")
    of_any = sf.compile([x], form(x))
    for length in lengths:
        program = of_any
        if length in KNOWN:
            x = sf.placeholder((length, columns), dtype=dtype, name="x")
            program = sf.compile([x], form(x))
        array = numbers(length, columns, dtype)
        if not length and form in (FORMS["amax"], FORMS["two"]):
            continue
        # (all sums are of integers and exact, in float64 too, but for what float16 cannot hold)
        wanted = form(sf.from_numpy(np.asfortranarray(array))).numpy()
        exact = np.float64(1) * array
        if form is FORMS["sum"]:
            np.testing.assert_array_equal(wanted, exact.sum(0).astype(wanted.dtype))
        for found in (program(array), of_any(array), form(sf.from_numpy(array))):
            assert found.dtype == program(array).dtype
            np.testing.assert_allclose(found.numpy(), wanted, 1e-6)


@pytest.mark.parametrize("columns", [2, 3, 5, 7, 12, 16, 17])
@pytest.mark.parametrize("name", FORMS)
def test_values(name: str, columns: int) -> None:
    check(FORMS[name], columns, "float32")


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    for name in ("sum", "amax", "any"):
        check(FORMS[name], 3, dtype)


@pytest.mark.parametrize(
    ("length", "columns", "beside"),
    [(1000, 1, False), (1000, 2, True), (1000, 16, True), (1000, 17, False), (20, 3, False),
     (None, 3, False)],
)  # fmt: skip
def test_short_rows_alone_are_taken_so(length: int | None, columns: int, beside: bool) -> None:
    """Of an unknown number it would be several times the code, which most have no use for."""
    x = sf.placeholder((length, columns), name="x")
    assert takes_rows_beside(sf.compile([x], x.sum(0))) is beside


def test_whole_vectors_are_loaded() -> None:
    x = sf.placeholder((32_000, 3), name="x")
    source = sf.compile([x], x.sum(0)).source("kernels")
    whole, part = source.split("scratch0[96*block", 1)
    assert "load p0" in whole and " if lane <" not in whole
    assert "load p0" not in part  # no row is left


@pytest.mark.parametrize("length", [40, 1000])
def test_rows_that_do_not_adjoin(length: int) -> None:
    """Parts of wider rows, every other row, rows from the last on, one row again and again."""
    wide = numbers(2 * length, 8, "float32")
    views = {
        "cropped": wide[:length, 2:5], "every other": wide[::2, :3], "backwards": wide[:length, :3][::-1],
        "columns backwards": np.ascontiguousarray(wide[:length, :3])[:, ::-1],
        "expanded": np.broadcast_to(wide[0, :3], (length, 3)), "transposed": wide[:, :length].T[:3].T,
    }  # fmt: skip
    for name, view in views.items():
        y = sf.placeholder(view.shape, name="y")
        program = sf.compile([y], y.sum(0))
        for found in (sf.from_numpy(view).sum(0), program(view)):
            np.testing.assert_array_equal(found.numpy(), view.sum(0), err_msg=name)
    x = sf.placeholder((2 * length, 8), name="x")
    views_of_x = [x[:, 2:5].sum(0), x.flip(0)[:, :3].sum(0), x[::2, :3].sum(0), (x - x[0]).sum(0)]
    cropped, back, other, shifted = sf.compile([x], views_of_x)(wide)
    np.testing.assert_array_equal(cropped.numpy(), wide[:, 2:5].sum(0))
    np.testing.assert_array_equal(back.numpy(), wide[:, :3].sum(0))
    np.testing.assert_array_equal(other.numpy(), wide[::2, :3].sum(0))
    np.testing.assert_array_equal(shifted.numpy(), (wide - wide[0]).sum(0))


def test_nan_is_kept() -> None:
    array = numbers(1000, 3, "float32")
    array[517, 1] = np.nan
    x = sf.placeholder((1000, 3), name="x")
    for form in (FORMS["sum"], FORMS["amax"], FORMS["mean"]):
        found = sf.compile([x], form(x))(array).numpy()
        np.testing.assert_array_equal(np.isnan(found), [0, 1, 0])


def test_the_number_of_threads_changes_no_bit() -> None:
    array = np.random.default_rng(0).standard_normal((200_000, 3)).astype(np.float32)
    before = sf.get_num_threads()
    x = sf.placeholder((200_000, 3), name="x")
    found = []
    for threads in (1, 2):
        sf.set_num_threads(threads)
        found.append(sf.compile([x], x.sum(0))(array).numpy())
    sf.set_num_threads(before)
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], array.sum(0, np.float64), 1e-4)


def test_gradients() -> None:
    x = sf.from_numpy(np.random.default_rng(0).standard_normal((70, 3))).requires_grad_()
    assert sf.autograd.gradcheck(lambda x: x.square().mean(0), (x,))


def test_what_takes_much_work_goes_row_by_row() -> None:
    x = sf.placeholder((1000, 5), name="x")
    y = x
    for _ in range(20):
        y = (y + 1).exp()
    assert not takes_rows_beside(sf.compile([x], y.sum(0)))


@pytest.mark.parametrize("columns", [7, 10, 17, 100])
def test_a_total_of_few_elements_has_as_many_lanes_as_they_need(columns: int) -> None:
    """And a sum is what it is with more, to the last bit: of these, half are added to the others
    again and again."""
    most = 4 * host_target().vector_bits // 32
    needed = min(most, 1 << (columns - 1).bit_length())
    x = sf.placeholder((None, columns), name="x")
    rows = np.random.default_rng(columns).standard_normal((50, columns)).astype(np.float32)
    for name in ("amax", "amin", "sum"):
        step = sf.compile([x], getattr(x, name)(1))
        text = step.source("kernels")
        assert {int(n) for n in re.findall(r"f32x(\d+) = load", text)} == {needed}
        y = sf.placeholder((None, None), name="y")
        wide = sf.compile([y], getattr(y, name)(1))
        np.testing.assert_array_equal(step(rows).numpy(), wide(rows).numpy())
