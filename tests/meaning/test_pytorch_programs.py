"""Programs as users of PyTorch write them give what they give there, numbers, dtypes, shapes and
kinds of errors; see `reference/make_programs.py`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from programs import corners, derivatives, tensors, training
from programs.results import programs_of, results_of

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "programs.json").read_text())
PROGRAMS = programs_of(corners, derivatives, tensors, training)


def test_all_are_there() -> None:
    assert PROGRAMS.keys() == REFERENCE.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_it_gives_in_pytorch(name: str) -> None:
    found = json.loads(json.dumps(results_of(PROGRAMS[name])))
    assert len(found) == len(REFERENCE[name])
    for i, (a, b) in enumerate(zip(found, REFERENCE[name], strict=True)):
        if b[0] == "refused":  # ours are of more classes
            assert a[0] == "refused" and b[1] in a, f"log {i}: {a}, {b}"
        else:
            assert is_alike(a, b), f"log {i}: {a}, {b}"


def is_alike(a: Any, b: Any) -> bool:
    if isinstance(b, list) and isinstance(a, list):
        return len(a) == len(b) and all(map(is_alike, a, b))
    if isinstance(b, dict) and isinstance(a, dict):
        return a.keys() == b.keys() and all(is_alike(a[k], b[k]) for k in b)
    if isinstance(b, float) and isinstance(a, float):
        return (a != a and b != b) or a == b or math.isclose(a, b, rel_tol=1e-4, abs_tol=2e-5)
    return type(a) is type(b) and a == b
