"""The main job and the command line around it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from staticflow.tools import compare
from staticflow.tools.cli import COMMANDS, main
from staticflow.tools.compare import Mode, Report, Settings
from staticflow.tools.digits import MissingExtraError, load_digits, shuffle_batches

INSTALL = 'pip install "staticflow[examples]"'


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    """A run in each dtype. With batches of 400 every fourth is a smaller one."""
    return {
        dtype: compare.compare(Settings(steps=15, dtype=dtype, hidden=16, batch=400, seed=3))
        for dtype in compare.LIMITS
    }


@pytest.mark.parametrize("dtype", compare.LIMITS)
def test_the_modes_agree(reports: dict[str, Report], dtype: str) -> None:
    report = reports[dtype]
    assert report.has_passed and report.checked_steps == 15
    assert report.difference <= {"float32": 1e-5, "float64": 1e-13}[dtype]
    for mode in (report.eager, report.static):
        assert len(mode.losses) == 15 and mode.losses[-1] < mode.losses[0]
        assert mode.accuracy > 0.3 and mode.step_seconds > 0
    assert abs(report.eager.accuracy - report.static.accuracy) < 0.01


def test_one_compilation_serves_both_sizes(reports: dict[str, Report]) -> None:
    report = reports["float32"]
    assert report.batch_sizes == (237, 400) and report.compilations == 1
    assert report.kernels > 0 and 0 < report.graph_seconds < report.compile_seconds
    # at least the hidden layer and its gradient, at most every value of the graph
    assert 2 * 400 * 16 * 4 <= report.peak_bytes <= 100 * 400 * 64 * 4


def test_the_table(reports: dict[str, Report]) -> None:
    text = compare.format_report(reports["float64"])
    assert "64-16-10, float64, 15 steps" in text and "they agree" in text
    assert "for batches of 237 and 400" in text and "FAILED" not in text
    for row in ("loss, last step", "held-out accuracy", "step, median", "break-even", "kernels"):
        assert row in text


def test_disagreement_fails(reports: dict[str, Report]) -> None:
    report = reports["float32"]
    apart = replace(report, difference=2e-4)
    assert not apart.has_passed and "FAILED: they do not agree" in compare.format_report(apart)
    assert not replace(report, difference=float("nan")).has_passed
    twice = replace(report, compilations=2)
    assert not twice.has_passed and "FAILED: one must do" in compare.format_report(twice)


def test_differences_are_relative_and_see_a_nan() -> None:
    assert compare._difference([1.0, 2.0, 0.0], [1.0, 2.5, 0.0]) == 0.2
    assert np.isnan(compare._difference([1.0, float("nan")], [1.0, 1.0]))


def test_break_even(reports: dict[str, Report]) -> None:
    slow, fast = Mode((1.0,), 0.9, 3.0), Mode((1.0,), 0.9, 1.0)
    report = replace(reports["float32"], compile_seconds=5.0, eager=slow, static=fast)
    assert report.break_even == 3 and "step 3" in compare.format_report(report)
    never = replace(report, eager=fast, static=fast)
    assert never.break_even is None and "never" in compare.format_report(never)


# -- the data -----------------------------------------------------------------------------------


def test_the_digits_are_split_by_the_seed() -> None:
    digits = load_digits("float64", seed=1)
    assert digits.train_images.shape == (1437, 64) and digits.test_images.shape == (360, 64)
    assert digits.train_images.min() == 0.0 and digits.train_images.max() == 1.0
    assert digits.train_labels.dtype == np.int64 and set(digits.test_labels) == set(range(10))
    assert np.array_equal(digits.test_images, load_digits("float64", seed=1).test_images)
    assert not np.array_equal(digits.test_images, load_digits("float64", seed=2).test_images)


def test_batches_visit_each_row_once_an_epoch() -> None:
    batches = list(islice(shuffle_batches(10, 4, seed=0), 6))
    assert [len(b) for b in batches] == [4, 4, 2] * 2
    first, second = np.concatenate(batches[:3]), np.concatenate(batches[3:])
    assert sorted(first) == sorted(second) == list(range(10)) and list(first) != list(second)


# -- the command line ---------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    arguments = ["--steps", "3", "--hidden", "8", "--batch", "1000", "--json", str(path)]
    assert main(["compare", *arguments]) == 0
    assert "they agree" in capsys.readouterr().out
    written = json.loads(path.read_text())
    assert written["passed"] and written["settings"]["hidden"] == 8
    assert len(written["static"]["losses"]) == 3 and "break_even" in written


def test_a_failure_is_the_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(compare.LIMITS, "float32", -1.0)
    assert main(["compare", "--steps", "2", "--hidden", "4"]) == 1
    assert "FAILED" in capsys.readouterr().out


@pytest.mark.parametrize("hidden", ["sklearn.datasets", "tqdm"])
def test_a_missing_package_says_what_to_install(
    hidden: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, hidden, None)
    assert main(["compare", "--steps", "1"]) == 1
    assert INSTALL in capsys.readouterr().err


def test_missing_data_is_an_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError) as caught:
        load_digits()
    assert isinstance(caught.value, MissingExtraError) and INSTALL in str(caught.value)


def test_an_unknown_command_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["campare"]) == 2
    text = capsys.readouterr().err
    assert "no command 'campare'" in text
    assert all(name in text and c.help in text for name, c in COMMANDS.items())
    assert main([]) == 2 and "commands:" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--steps", "0"], ["--batch", "-1"], ["--dtype", "int8"]])
def test_options_are_checked(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["compare", *wrong])
    assert caught.value.code == 2 and wrong[0] in capsys.readouterr().err


def test_info_as_a_process() -> None:
    command = [sys.executable, "-m", "staticflow", "info"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in ("staticflow", "Python", "LLVM", "numpy", "CPU", "cores", "GPU"):
        assert name in done.stdout
