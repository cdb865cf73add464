"""What is said of other programs beside those that are timed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from staticflow.measure import others
from staticflow.measure.others import OtherPrograms


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """A system of two processors: when it is, what they did in all, and what this process did, in
    seconds."""
    now = {"at": 100.0, "all": 7.0, "own": 3.0}

    class Stat:
        def read_text(self) -> str:
            ticks = round(now["all"] * os.sysconf("SC_CLK_TCK"))
            return f"cpu  0 0 0 0\ncpu0 {ticks} 0 0 999 99\ncpu1 0 0 0 5\ncpu2 999 0 0 0\n"

    monkeypatch.setattr(others, "_STAT", Stat())
    monkeypatch.setattr(others, "_own_processors", lambda: {0, 1})
    monkeypatch.setattr(others.time, "monotonic", lambda: now["at"])
    monkeypatch.setattr(others.os, "times", lambda: (now["own"], 0.0, 0.0, 0.0, now["at"]))
    return now


def pass_time(system: dict[str, float], own: float, others: float) -> None:
    """Ten seconds, in which so many processors were busy."""
    system["at"] += 10
    system["own"] += 10 * own
    system["all"] += 10 * (own + others)


@pytest.mark.parametrize(
    ("own", "taken", "threads", "said"),
    [(1, 0, 2, False), (1, 1, 2, True), (1, 1, 1, False), (0.5, 0.05, 2, False), (1, 1.5, 1, True),
     (2, 0, 16, False)],
)  # fmt: skip
def test_it_is_said_where_threads_had_no_room(
    system: dict[str, float], own: float, taken: float, threads: int, said: bool
) -> None:
    watch = OtherPrograms()
    pass_time(system, own, taken)
    assert watch.processors() == pytest.approx(taken)
    remark = watch.remark(threads)
    assert (remark is not None) == said
    if remark is not None:
        assert remark.startswith(f"other programs kept {taken:.1f} of 2 processors busy")


def test_where_the_system_does_not_tell_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(others, "_STAT", tmp_path / "missing")
    watch = OtherPrograms()
    assert watch.processors() is None
    assert watch.remark(2) is None
