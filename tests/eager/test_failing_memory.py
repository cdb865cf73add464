"""Native code where one allocation fails: an error, and no half of a change."""

from __future__ import annotations

import failing_memory
import pytest
from failing_memory import Case

import staticflow as sf


def test_a_call_without_memory_fails_or_does_not() -> None:
    assert failing_memory.faults() == []


@pytest.mark.filterwarnings("ignore:.*fork")  # the threads of a runner of tests do not matter here
def test_what_is_wrong_is_found() -> None:
    pytest.importorskip("_testcapi")
    x = sf.zeros(3)

    def unchanged(before: list[float], after: list[float]) -> None:
        assert before == after, "changed"

    found = list(
        failing_memory.run("add_", Case(lambda: x.add_(1.0), look=x.tolist, check=unchanged))
    )
    assert found and all("changed" in line for line in found)
