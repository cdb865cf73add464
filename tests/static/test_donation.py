"""Inputs that are given away: a result lies in their memory, bit for bit what it is else, and using
them again is refused where it can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ArgumentError, AutogradError, IndexRangeError


def array(*shape: int) -> np.ndarray[Any, Any]:
    return np.linspace(0.1, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_results_lie_in_donated_inputs() -> None:
    x, y = sf.placeholder((None, 4), name="x"), sf.placeholder((None, 4), name="y")
    outputs = [x.sum(), (x * 2 + y).sin(), (y - 1).exp()]
    plain, step = sf.compile([x, y], outputs), sf.compile([x, y], outputs, donate=[x, "y"])
    assert plain.donations == () and step.donations == ("x", "y")
    a, b = array(3, 4), array(3, 4) + 1
    wanted = [t.numpy() for t in plain(a, b)]
    found = [t.numpy() for t in step(a, b)]
    assert all(np.array_equal(f, w) for f, w in zip(found, wanted, strict=True))
    assert np.shares_memory(found[1], a) and np.shares_memory(found[2], b)
    again = [t.numpy() for t in step(x=array(5, 4), y=array(5, 4) + 1)]
    assert all(
        np.array_equal(f, w.numpy())
        for f, w in zip(again, plain(array(5, 4), array(5, 4) + 1), strict=True)
    )


def test_a_state_goes_on_in_its_own_memory() -> None:
    state = sf.placeholder((64,), name="state")
    step = sf.compile([state], state * 0.5 + 1, donate="state")
    a = array(64)
    wanted = a.copy()
    now: Any = a
    for _ in range(4):
        now, wanted = step(now), wanted * np.float32(0.5) + 1
    assert np.array_equal(now.numpy(), wanted) and np.shares_memory(now.numpy(), a)
    assert step(sf.from_numpy(array(64))).shape == (64,)


def test_what_is_read_elsewhere_is_not_written_over() -> None:
    x = sf.placeholder((8, 8), name="x")
    for outputs in (x.T + 1, x @ x, x.flip(0), x, (x.cumsum(0) * x)[:4]):
        step = sf.compile([x], outputs, donate=[x])
        a = array(8, 8)
        wanted = sf.compile([x], outputs)(a.copy()).numpy()
        assert step.donations == ()
        assert np.array_equal(step(a).numpy(), wanted) and np.array_equal(a, array(8, 8))
    y = sf.placeholder((8, 8), name="y")
    step = sf.compile([x, y], [x + 1, (x * 2) @ y], donate=[x])  # the product reads x before
    first, second = step(array(8, 8), array(8, 8))
    assert step.donations == ("x",) and np.array_equal(first.numpy(), array(8, 8) + 1)
    assert np.array_equal(
        second.numpy(), sf.compile([x, y], (x * 2) @ y)(array(8, 8), array(8, 8)).numpy()
    )


def test_a_donated_array_is_not_taken_again() -> None:
    x, y = sf.placeholder((4,), name="x"), sf.placeholder((4,), name="y")
    step = sf.compile([x, y], x * y, donate="x")
    a, t = array(4), sf.from_numpy(array(4))
    step(a, array(4))
    step(t, array(4))
    for again in (a, t):
        with pytest.raises(ArgumentError, match="x was donated to an earlier call, whose result"):
            step(again, array(4))
        with pytest.raises(ArgumentError, match="the input y was donated to an earlier call"):
            step(array(4), again)
    fixed = array(4)
    fixed.flags.writeable = False
    with pytest.raises(ArgumentError, match="x is donated, but its memory is read-only; give a"):
        step(fixed, array(4))
    with pytest.raises(ArgumentError, match=r"requires a gradient.*give x.detach\(\).clone\(\)"):
        step(sf.ones(4, requires_grad=True), array(4))


def test_a_backward_that_has_saved_it_finds_it_changed() -> None:
    x = sf.placeholder((4,), name="x")
    w, t = sf.ones(4, requires_grad=True), sf.ones(4)
    loss = (w * t).sum()
    sf.compile([x], x + 1, donate=x)(t)
    with pytest.raises(AutogradError):
        loss.backward()


def test_a_call_that_fails_changes_nothing() -> None:
    x, i = sf.placeholder((4,), name="x"), sf.placeholder((2,), "int64", name="i")
    step = sf.compile([x, i], [x + 1, x.index_select(0, i)], donate="x")
    a = array(4)
    with pytest.raises(IndexRangeError):
        step(a, np.array([0, 4]))
    assert np.array_equal(a, array(4)) and step.donations == ("x",)
    assert np.array_equal(step(a, np.array([0, 3]))[0].numpy(), array(4) + 1)


def test_inputs_that_overlap_are_copied() -> None:
    x, y = sf.placeholder((4,), name="x"), sf.placeholder((4,), name="y")
    a = array(6)
    found = sf.compile([x, y], x + y, donate="x")(a[:4], a[2:])
    assert np.array_equal(found.numpy(), array(6)[:4] + array(6)[2:])


def test_two_donated_inputs_that_overlap_are_named() -> None:
    x, y = sf.placeholder((4,), name="x"), sf.placeholder((4,), name="y")
    program = sf.compile([x, y], [x + y.flip(0), y * 2], donate=["x", "y"])
    a = array(6)
    with pytest.raises(sf.ShapeError, match="x and y are both written over, and share memory"):
        program(a[:4], a[2:])
    assert np.array_equal(a, array(6))


def test_profiles_and_measurements_keep_what_they_are_given() -> None:
    x = sf.placeholder((256,), name="x")
    step = sf.compile([x], x * 2, donate="x")
    a = array(256)
    assert step.profile(a, repeat=2).rows
    assert np.array_equal(a, array(256)) and np.array_equal(step(a).numpy(), array(256) * 2)


def test_updates_come_first() -> None:
    w, x = sf.ones(4), sf.placeholder((4,), name="x")
    step = sf.compile([x], [x * 2, x + w], updates={w: w + x}, donate=x)
    found = [t.numpy() for t in step(array(4))]
    assert np.array_equal(found[0], array(4) * 2) and np.array_equal(found[1], array(4) + 1)
    assert np.array_equal(w.numpy(), array(4) + 1)


@pytest.mark.parametrize("donate", ["z", 3, [sf.placeholder((2,), name="other")], [0]])
def test_what_is_donated_is_an_input(donate: Any) -> None:
    x = sf.placeholder((4,), name="x")
    with pytest.raises(ArgumentError, match="compile: donate: "):
        sf.compile([x], x + 1, donate=donate)
