"""Calls of public functions and methods with arguments in forms that were drawn at random, against what
PyTorch gives for them (`tests/reference/make_random_forms.py` draws and compares more of them)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calling import ESTABLISHED
from reference.random_forms import differs, outcome

import staticflow as sf

FORMS = json.loads((Path(__file__).parents[1] / "reference" / "random_forms.json").read_text())
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


IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "normal_": lambda x: x.normal_(0.0, 2.0), "uniform_": lambda x: x.uniform_(), "bernoulli_": lambda x: x.bernoulli_(0.3),
    "exponential_": lambda x: x.exponential_(), "random_": lambda x: x.random_(5),
    "log_normal_": lambda x: x.log_normal_(), "cauchy_": lambda x: x.cauchy_(), "geometric_": lambda x: x.geometric_(0.3),
}  # fmt: skip
DRAWN_INTO: dict[str, Callable[[], Any]] = {
    "rows": lambda: sf.zeros(3, 4), "transposed": lambda: sf.zeros(4, 3).t(), "steps": lambda: sf.zeros(6, 8)[::2, ::2],
    "empty": lambda: sf.zeros(0, 4), "none": lambda: sf.zeros(()), "large": lambda: sf.zeros(300, 300),
    "float16": lambda: sf.zeros(3, 4, dtype=sf.float16), "int64": lambda: sf.zeros(3, 4, dtype=sf.int64),
    "uint8": lambda: sf.zeros(3, 4, dtype=sf.uint8), "bool": lambda: sf.zeros(3, 4, dtype=sf.bool),
    "leaf": lambda: sf.zeros(3, 4, requires_grad=True), "history": lambda: sf.zeros(3, 4, requires_grad=True) * 1,
    "view": lambda: (sf.zeros(3, 4, requires_grad=True) * 1)[1:], "expanded": lambda: sf.zeros(1, 4).expand(3, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_drawn_in_place_is_drawn_once_and_what_is_refused_not_at_all(name: str) -> None:
    """Beside other threads, which might have drawn, a refused draw of native code stays drawn."""
    alone = threading.active_count() == 1
    counts: dict[str, set[int]] = {}
    for into, make in DRAWN_INTO.items():
        counts[into] = set()
        for _ in range(8 if into == "large" else ESTABLISHED):
            x, before = make(), sf.get_rng_state()[1].item()
            try:
                IN_PLACE[name](x)
                refused = False
            except sf.StaticflowError:
                refused = True
            drawn = sf.get_rng_state()[1].item() - before
            counts[into].add(-1 if refused and drawn and alone else drawn)
    assert all(found in ({0}, {1}) for found in counts.values()), counts
    assert counts["rows"] == counts["transposed"] == counts["history"] == {1}
