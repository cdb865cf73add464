"""Every public callable with an argument replaced by an unusual value gives a value, or one of our
errors that names the user's line, and one that fails changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from public_calls import PUBLIC
from slices import daily, today
from unusual_arguments import MODES, cases, fault_of, run_case, run_isolated

import staticflow as sf

SHARE = {
    "eager": 200,
    "known": 120,
    "open": 80,
    "loop": 120,
    "jit": 20,
    "public": 150,
    "objects": 100,
}
"""How many cases of a mode the suite runs each day; few take more than some milliseconds."""


def test_a_share_of_all_cases() -> None:
    chosen = [c for mode in MODES for c in daily(cases(mode), SHARE[mode], mode)]
    faults = run_isolated(chosen)
    assert not faults, f"on {today()}:\n" + "\n".join(map(str, faults))


PARTS = 16
"""Of all cases of a mode, some hundred thousand, which take about ten minutes."""


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", MODES)
def test_all_cases(mode: str, part: int) -> None:
    every = 40 if mode == "jit" else 1  # what succeeds is compiled
    faults = run_isolated(cases(mode)[part :: PARTS * every])
    assert not faults, "\n".join(map(str, faults))


def test_the_valid_calls_are_valid() -> None:
    """A call that failed anyway would hide what its arguments do."""
    for public in PUBLIC.values():
        if public.name.startswith("tools.compare"):
            continue  # which trains
        fn, args, kwargs = public.make()
        try:
            fn(*args, **kwargs)
        except (sf.StaticflowError, AttributeError, TypeError) as error:
            assert fault_of(f"public:{public.name}", error) is None, f"{public.name}: {error}"


def test_a_fault_is_found() -> None:
    """Of each kind, in a function that is made for it."""

    def bare(x: object) -> None:
        raise ValueError("not in our words")

    def changes(x: sf.Tensor) -> None:
        x.add_(1.0)
        raise sf.ShapeError(f"changes: of shape {x.shape}, at here.py:1")

    own = replace(PUBLIC["sf.save"], name="own", make=lambda: (bare, [sf.ones(2)], {}))
    other = replace(own, make=lambda: (changes, [sf.ones(2), 1], {}))
    PUBLIC["own"] = own
    try:
        fault = run_case("public:own:0:None")
        assert fault is not None and fault.kind == "ValueError"
        PUBLIC["own"] = other
        PUBLIC["own"] = replace(own, make=lambda: (lambda x, y: changes(x), [sf.ones(2), 1], {}))
        fault = run_case("public:own:1:None")
        assert fault is not None and fault.kind == "changed"
    finally:
        del PUBLIC["own"]
