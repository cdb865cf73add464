"""Every example runs, and what it trains learns."""

from __future__ import annotations

import runpy
from pathlib import Path
from statistics import mean

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


FALLS = {"lstm_classifier": 0.85}  # it has only begun to learn after as many steps


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_loss_falls(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = runpy.run_path(str(path))["main"](120)
    assert len(losses) == 120
    assert mean(losses[-10:]) < FALLS.get(path.stem, 0.1) * mean(losses[:10])
    assert "step 100" in capsys.readouterr().out


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.startswith('"""') and text.count("\n") < 80
