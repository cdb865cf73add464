"""Loops of more iterations than 64 bits count, or whose rows no memory holds, are refused at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import staticflow as sf
from staticflow.errors import ShapeError


def counted(length: int, rows: bool = True) -> Any:
    return sf.scan(lambda c, _: (c + 1, c if rows else None), sf.tensor(0.0), length=length)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (lambda: counted(2**62), "4611686018427387904 rows of 4 bytes are more than any memory"),
        (lambda: counted(2**63), "9223372036854775808 iterations are more than 64 bits count"),
        (lambda: counted(2**70, rows=False), "1180591620717411303424 iterations are more than 64"),
        (lambda: sf.fori_loop(0, 2**63, lambda i, c: c + 1, sf.tensor(0.0)), "more than 64 bits"),
    ],
)
def test_endless_loops_are_refused(run: Callable[[], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        run()


def test_a_loop_that_ends_early_may_be_of_any_length() -> None:
    step: Any = lambda c, _: (c + 1, c)  # noqa: E731
    carry, rows = sf.scan(step, sf.tensor(0.0), length=2**62, until=lambda c, y: c > 2)
    assert carry.item() == 3 and rows.tolist() == [0, 1, 2]
