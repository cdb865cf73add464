"""The day's share of a generated check, whose whole runs under the marker ``campaign``.

A check that is generated from a table has more cases than a run of the suite has seconds. The suite
takes a few of them, others every day; ``python -m pytest -m campaign`` takes the rest.
"""

import datetime
import os
import random
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

DAY = "STATICFLOW_TEST_DAY"
"""The environment variable that says the day, such as ``2026-01-31``."""


def today() -> str:
    """The day that seeds a share: that of the variable `DAY`, or the date.

    Set the variable to run again what failed on an earlier day.
    """
    return os.environ.get(DAY) or datetime.datetime.now(datetime.UTC).date().isoformat()


def daily(cases: Sequence[Case], count: int, subject: str = "") -> list[Case]:
    """At most ``count`` of ``cases``, in their order, chosen by today's date and the ``subject``."""
    if len(cases) <= count:
        return list(cases)
    chosen = random.Random(f"{today()} {subject}").sample(range(len(cases)), count)
    return [cases[index] for index in sorted(chosen)]


def by_days(cases: Sequence[Any], count: int, subject: str = "") -> list[Any]:
    """All ``cases`` as parameters of a test, of which ``count`` run today and the others in the
    campaign. A case is one argument, or a tuple of several."""
    today = set(daily(range(len(cases)), count, subject))
    return [c if i in today else _rare(c) for i, c in enumerate(cases)]


def by_turns(cases: Sequence[Any], ways: Sequence[Any], subject: str = "") -> list[Any]:
    """Each of the ``cases`` in each of the ``ways`` as parameters of a test, case and way. Every case
    runs today, in one way, other cases and on other days in others; all else is the campaign's."""
    draw = random.Random(f"{today()} {subject}")
    turns = [(case, draw.randrange(len(ways))) for case in cases]
    return [
        (case, way) if i == turn else _rare((case, way))
        for case, turn in turns
        for i, way in enumerate(ways)
    ]


def _rare(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.campaign)
