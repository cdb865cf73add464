"""Every op on sizes that only the run can tell, in every place that it may stand in: compiled, held
to the interpreter and to NumPy. A share a day, all as a campaign."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from late_programs import FORMS, PLACES, Late
from opinfo import ROWS
from opinfo.modes import STOPS, assert_agree, expected_of
from slices import daily

import staticflow as sf
from staticflow.config import config
from staticflow.graph.dtypes import float64
from staticflow.graph.interpret import interpret_graph

Case = tuple[str, str, str]

CASES: list[Case] = [
    (name, form, place)
    for name, form, place in itertools.product(ROWS, FORMS, PLACES)
    if "back" not in place or (ROWS[name].grad and name not in STOPS)
]


def check(name: str, form: str, place: str) -> None:
    info = ROWS[name]
    late = Late(info, form, float64 if float64 in info.dtypes else info.dtypes[0])
    outs = PLACES[place](late)
    assert outs, "nothing is computed"
    with config.change(verify=True):
        program = sf.compile([*late.inputs, late.teller], outs)
    for n in (3, 1, 0):
        what = f"{name}, {form}, {place}, size {n}"
        arrays = late.arrays(n)
        wanted = [np.asarray(a) for a in interpret_graph(program.graph, arrays)]
        actual = [o.numpy() for o in program(*arrays)]
        for a, w in zip(actual, wanted, strict=True):
            assert (a.dtype, a.shape) == (w.dtype, w.shape), what
            bound = 1e-9 if a.dtype.itemsize > 4 else 1e-4
            np.testing.assert_allclose(a.astype("f8"), w.astype("f8"), bound, bound, err_msg=what)
        if place == "top":
            assert_agree(info, actual, expected_of(info, late.sample(n)), what)


@pytest.mark.parametrize(("name", "form", "place"), daily(CASES, 40, "late sizes"))
def test_an_op_whose_sizes_are_late(name: str, form: str, place: str) -> None:
    check(name, form, place)


@pytest.mark.campaign
@pytest.mark.parametrize("name", ROWS)
def test_every_op_whose_sizes_are_late(name: str) -> None:
    for case in CASES:
        if case[0] == name:
            check(*case)


FOUND = [
    ("slice_scatter", "first", "top"),  # what is required of sizes, which nothing tied to them
    ("size", "first", "scan"),  # the kernel of a loop of numbers, in which a size is measured
]


@pytest.mark.parametrize(("name", "form", "place"), FOUND)
def test_what_was_found(name: str, form: str, place: str) -> None:
    check(name, form, place)


def test_a_size_that_a_constant_tells_is_a_number() -> None:
    """Folding kept the rows, whose size nothing was left to bind."""
    x, k = sf.placeholder((4,), name="x"), sf.constant(np.array(3))
    program = sf.compile([x], sf.zeros(k) + x[:k].sum(), passes=["fold"])
    assert "measure" not in str(program.optimized)
    assert program(np.arange(4, dtype="f4")).numpy().tolist() == [3.0] * 3


def test_a_size_that_a_constant_cannot_tell_is_an_error_of_the_run() -> None:
    x = sf.placeholder((4,), name="x")
    program = sf.compile([x], x.sum() + sf.zeros(sf.constant(np.array(-3))).sum())
    with pytest.raises(sf.ShapeError, match="a size lies outside of 0"):
        program(np.zeros(4, "f4"))


def test_what_a_loop_makes_may_be_a_view_of_what_has_a_late_size() -> None:
    x = sf.placeholder((5,), name="x")

    def step(c: sf.Tensor, t: sf.Tensor) -> tuple[sf.Tensor, sf.Tensor]:
        c = (c + x[t : t + 1]).reshape(1)
        return c, c

    last, rows = sf.scan(step, sf.zeros(1), sf.arange(5))
    program = sf.compile([x], [last, rows])
    a = np.arange(1, 6, dtype="f4")
    last, rows = program(a)
    assert last.numpy().tolist() == [15.0]
    assert rows.numpy()[:, 0].tolist() == np.cumsum(a).tolist()
    flag = sf.placeholder((), "bool", name="flag")
    stops = sf.compile(
        [x, flag],
        sf.while_loop(
            lambda i, c: (i < 5) & flag,
            lambda i, c: (i + 1, (c + x[i : i + 1]).reshape(1)),
            (sf.constant(np.array(0)), sf.zeros(1)),
        )[1],
    )
    assert stops(a, np.array(True)).numpy().tolist() == [15.0]
    assert stops(a, np.array(False)).numpy().tolist() == [0.0]
