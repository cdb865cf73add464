"""Calls of public functions and methods with arguments in forms that were drawn at random, against what
PyTorch gives for them (`tests/reference/make_random_forms.py` draws and compares more of them)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reference.random_forms import differs, outcome

import staticflow as sf

FORMS = json.loads((Path(__file__).parent / "reference" / "random_forms.json").read_text())
PART = 100
TIMES = 3
"""Further calls of one kind: the first is noted, those from the second on are remembered."""


@pytest.mark.parametrize("start", range(0, len(FORMS), PART))
def test_forms_mean_what_pytorch_makes_of_them(start: int) -> None:
    found = {}
    for kept in FORMS[start : start + PART]:
        here = outcome(sf, kept["form"])
        if how := differs(here, kept["outcome"]):
            found[json.dumps(kept["form"])] = f"{how}: {here.get('refused', '')}"
        elif "refused" in here and not is_ours(here["refused"]):
            found[json.dumps(kept["form"])] = here["refused"]
        if any(str(outcome(sf, kept["form"])) != str(here) for _ in range(TIMES)):
            found[json.dumps(kept["form"])] = "another result when it is repeated"
    assert not found


def is_ours(message: str) -> bool:
    """Whether an error names a line, as ours do, or is Python's own of a call's arity."""
    return ", at " in message or message.startswith("TypeError: ")


def test_a_difference_is_found() -> None:
    kept = next(k for k in FORMS if "data" in k["outcome"].get("results", [{}])[0])
    here = outcome(sf, kept["form"])
    assert not differs(here, kept["outcome"])
    other = json.loads(json.dumps(here))
    other["results"][0]["shape"].append(1)
    assert "shape" in differs(other, kept["outcome"])
    assert differs({"refused": "no"}, kept["outcome"]) == "refused here"
