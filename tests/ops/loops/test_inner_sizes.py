"""A size that follows from elements inside a loop or branch does not leave it, in either mode, also
where on tensors it happens to be the one that is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ShapeError
from staticflow.ops.loops import inner_sizes

ROW = np.array([1, -1, 2, -2])
WEIGHT = sf.nn.Parameter(sf.ones(4))

SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "x[mask]": lambda x: x[x > 0],
    "x[mask] recorded": lambda x: (x * WEIGHT)[x > 0].long(),
    "x[..., mask]": lambda x: x[None][..., x > 0][0],
    "x[:, mask]": lambda x: x.reshape(1, 4)[:, x > 0].reshape(-1),
    "masked_select": lambda x: sf.masked_select(x, x > 0),
    "nonzero": lambda x: sf.nonzero(x > 0)[:, 0],
    "where": lambda x: sf.where(x > 0)[0],
    "unique": lambda x: sf.unique(x.abs()),
    "unique_consecutive": lambda x: sf.unique_consecutive(x.abs()),
    "repeat_interleave": lambda x: sf.repeat_interleave(x, (x > 0).long()),
    "narrow": lambda x: x.narrow(0, 0, (x > 0).sum()),
    "slice": lambda x: x[: (x > 0).sum()],
    "arange": lambda x: sf.arange((x > 0).sum()),
    "zeros": lambda x: sf.zeros((x > 0).sum(), dtype="int64"),
    "until": lambda x: sf.scan(lambda c, r: (c, r), (), x, until=lambda c, y: y < 0)[1],
}
"""Two of the four elements of ROW, or two numbers."""


PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "true_fn": lambda f, x: sf.cond(x.sum() == 0, lambda: f(x), lambda: x[:2]),
    "false_fn": lambda f, x: sf.cond(x.sum() != 0, lambda x: x[:2], f, x),
    "y": lambda f, x: sf.scan(lambda c, r: (c, f(r)), (), x[None].expand(3, 4))[1],
    "map": lambda f, x: sf.map(f, x[None]),
    "carry": lambda f, x: sf.fori_loop(0, 2, lambda i, c: f(x), x[:2]),
    "while": lambda f, x: sf.while_loop(lambda c, n: n < 2, lambda c, n: (f(x), n + 1), (x[:2], 0)),
}


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("place", PLACES)
def test_it_is_refused_in_both_modes(name: str, place: str) -> None:
    select, put = SELECTIONS[name], PLACES[place]
    assert select(sf.tensor(ROW)).shape == (2,)

    def run(x: Any) -> Any:
        return put(select, x)

    for program in (run, run, sf.jit(run)):
        with pytest.raises(ShapeError, match=r"a size that only the inside can tell.*reduce it"):
            program(sf.tensor(ROW))


@pytest.mark.parametrize("place", PLACES)
def test_what_is_reduced_or_written_leaves_and_is_traced_once(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, traced = PLACES[place], []
    before = inner_sizes.types_of_result
    monkeypatch.setattr(inner_sizes, "types_of_result", lambda *a: traced.append(a) or before(*a))

    def run(x: Any) -> Any:
        return put(lambda x: x[:2] * x[x > 0].sum(), x)

    for program in (run, run, sf.jit(run)):
        out = program(sf.tensor(ROW))
        assert (out[0] if isinstance(out, tuple) else out).reshape(-1)[-2:].tolist() == [3, -3]
    assert len(traced) == 1


def test_a_function_that_asks_for_values_is_not_held_to_it() -> None:
    x = sf.tensor(ROW)
    out = sf.cond(x.sum() == 0, lambda: x[: len((x > 0).nonzero().tolist())], lambda: x[:2])
    assert out.tolist() == [1, -1]
