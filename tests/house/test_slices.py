"""The day's share of a generated check is the same all day, and other on another day."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slices import DAY, by_days, by_turns, daily, today


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


def test_a_case_that_is_not_of_the_day_is_the_campaigns(monkeypatch):
    monkeypatch.setenv("STATICFLOW_TEST_DAY", "2026-01-31")
    cases = [(i, "x") for i in range(9)]
    found = by_days(cases, 3, "a")
    assert [c for c in found if type(c) is tuple] == daily(cases, 3, "a")
    rare = [c for c in found if type(c) is not tuple]
    assert len(rare) == 6 and {c.marks[0].name for c in rare} == {"campaign"}
    assert [tuple(c.values) if type(c) is not tuple else c for c in found] == cases


def test_each_case_takes_one_of_its_ways_a_day(monkeypatch):
    monkeypatch.setenv("STATICFLOW_TEST_DAY", "2026-01-31")
    found = by_turns(range(9), ["left", "right"], "a")
    today = [c for c in found if type(c) is tuple]
    assert [case for case, _ in today] == [*range(9)] and len({way for _, way in today}) == 2
    rare = [c for c in found if type(c) is not tuple]
    assert {c.marks[0].name for c in rare} == {"campaign"}
    assert {*today, *(c.values for c in rare)} == {
        (i, w) for i in range(9) for w in ("left", "right")
    }
    monkeypatch.setenv("STATICFLOW_TEST_DAY", "2026-02-01")
    assert today != [c for c in by_turns(range(9), ["left", "right"], "a") if type(c) is tuple]


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


@pytest.fixture
def checkout(tmp_path):
    """A folder with `.ci/run`, whose ``python3`` says the day and fails, so that it ends there."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(Path(__file__).parents[2] / ".ci" / "run", tmp_path / ".ci" / "run")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, body in (
        ("python3", "echo the day is $STATICFLOW_TEST_DAY.; exit 1"),
        ("chromium", ""),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    return tmp_path


def day_of_landing(checkout, **variables):
    own = {key: value for key, value in os.environ.items() if key != DAY and key[:4] != "GIT_"}
    own |= {"PATH": f"{checkout / 'programs'}{os.pathsep}{own['PATH']}", **variables}
    run = subprocess.run([checkout / ".ci" / "run"], env=own, capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    return run.stdout


def commit(checkout):
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    day = {**os.environ, "GIT_COMMITTER_DATE": "2026-01-31T12:00:00Z"}
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "a commit"]):
        subprocess.run(["git", *words], cwd=checkout, env=day, check=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_a_landing_takes_the_day_of_its_commit(checkout):
    commit(checkout)
    assert day_of_landing(checkout) == "the day is 2026-01-31.\n"
    assert day_of_landing(checkout, **{DAY: "2026-02-01"}) == "the day is 2026-02-01.\n"


def test_a_landing_without_git_leaves_the_day_open(checkout):
    assert day_of_landing(checkout, GIT_DIR="/nowhere") == "the day is .\n"
