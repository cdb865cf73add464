"""Programs of a function: which is looked for first, what is remembered, and how much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import programs, pullback
from staticflow.eager.programs import (
    Programs,
    compile_function,
    fill,
    kind_of,
    position,
    with_sizes,
)
from staticflow.ops import OPS


def kinds(*shapes: tuple[int, ...]) -> Any:
    return tuple([kind_of(np.zeros(shape, np.float32)) for shape in shapes])


def test_unknown_sizes_come_first_and_each_program_is_made_once() -> None:
    made: list[Any] = []

    def make(way: Any) -> str | None:
        made.append(way)
        if 0 in way[0].sizes:
            raise sf.ShapeError("the size is asked for")
        return f"of {way[0].sizes}"

    found: Programs[str] = Programs()
    for shape in ((2, 3), (4, 3), (2, 3), (1, 1)):
        array = np.zeros(shape, np.float32)
        ways = kinds(shape), with_sizes(kinds(shape), [array])
        assert found.find("known", make, *ways) == f"of {shape}"
    assert [way[0].sizes for way in made] == [(0, 0), (2, 3), (4, 3), (1, 1)]
    assert found.find("known", make, kinds((5, 5))) is None
    assert found.find("else", make, kinds((5, 5))) is None
    assert len(made) == 5


def test_so_many_calls_and_kinds_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_CALLS", 2)
    monkeypatch.setattr(programs, "MOST_KINDS", 2)
    found: Programs[int] = Programs()
    for call in range(3):
        assert found.remember(call, -call) == -call
    assert found.by_call == {2: -2}
    for known in range(3):
        found.find(known, lambda way: 1, kinds((2,)))
    assert len(found.by_kind) == 1 and not found.by_call


def test_an_error_that_is_not_of_the_function_is_raised() -> None:
    def make(way: Any) -> None:
        raise MemoryError

    found: Programs[None] = Programs()
    with pytest.raises(MemoryError):
        found.find((), make, kinds((2,)))
    assert not found.by_kind


def test_arguments_are_filled_also_in_tuples() -> None:
    marked = (position(1), 0.5, (position(0), (position(1), None)))
    assert fill(marked, "ab") == ("b", 0.5, ("a", ("b", None)))


def test_several_arrays_are_overwritten_by_one_program() -> None:
    def step(x: Any, y: Any, rate: Any) -> Any:
        return x - y * rate, y + x

    program = compile_function(step, kinds((2, 3), (2, 3), ()), updated=2)
    for shape in ((4, 5), (2, 3)):
        x, y = np.full(shape, 3, np.float32), np.full(shape, 2, np.float32)
        assert program.fast(x, y, np.asarray(0.5, np.float32)) == ()
        assert np.all(x == 2) and np.all(y == 5)
    row, rows = np.zeros((1, 3), np.float32), np.zeros((2, 3), np.float32)
    for wrong in (kinds((1, 3), (2, 3)), with_sizes(kinds((1, 3), (2, 3)), [row, rows])):
        with pytest.raises(sf.ShapeError, match="shape of the old"):
            compile_function(lambda x, y: x + y, wrong, updated=1)([row, rows])


def test_a_vjp_is_traced_once_for_every_batch() -> None:
    op, w = OPS["convolution"], sf.ones(2, 1, 3, requires_grad=True)
    known = set(pullback.programs_of(op).by_kind)
    for rows in (2, 5, 9, 300):
        sf.nn.functional.conv1d(sf.ones(rows, 1, 64), w).sum().backward()
    assert len(set(pullback.programs_of(op).by_kind) - known) == 1
