"""The day's share of a generated check is the same all day, and other on another day."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st
from slices import DAY, daily, today


def test_the_day_is_handed_to_every_process_of_a_run():
    """Else a worker that looks after midnight would collect other tests than one before."""
    assert os.environ[DAY] == today()


def test_a_share_is_the_same_all_day_and_other_on_another(monkeypatch):
    monkeypatch.setenv("STATICFLOW_TEST_DAY", "2026-01-31")
    assert today() == "2026-01-31"
    first = daily(range(1000), 10, "a")
    assert first == daily(range(1000), 10, "a") == sorted(first)
    assert len(set(first)) == 10
    assert first != daily(range(1000), 10, "b")
    monkeypatch.setenv("STATICFLOW_TEST_DAY", "2026-02-01")
    assert first != daily(range(1000), 10, "a")


def test_all_cases_are_taken_where_they_are_few():
    assert daily([3, 1, 2], 3) == [3, 1, 2]


def test_hypothesis_draws_the_same_all_day_however_busy_the_machine_is():
    def drawn():
        found = []

        @given(st.integers())
        def note(value):
            found.append(value)

        note()
        return found

    assert drawn() == drawn()
    assert settings.default.deadline is None
