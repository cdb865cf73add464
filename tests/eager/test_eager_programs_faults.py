"""A fault of the package in the making of a program of the eager side is raised; what a user's
operands are not made for leaves the call to the operations."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from staticflow.eager.programs import Programs
from staticflow.errors import ShapeError, StaticflowError, VerifyError


def refuse(way: type[StaticflowError]) -> NoReturn:
    raise way("a rule made f32[2] of f32[3]")


def test_a_fault_of_the_package_is_raised() -> None:
    programs: Programs[Any] = Programs()
    assert programs.find((), refuse, ShapeError) is None
    for _ in range(2):
        with pytest.raises(VerifyError, match="a rule made"):
            programs.find((), refuse, VerifyError)
    assert list(programs.by_kind.values()) == [None]
