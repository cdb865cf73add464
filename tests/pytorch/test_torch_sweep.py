"""Operations and modules on the samples of PyTorch's own tests, by our rows: values, dtypes, shapes and
gradients are PyTorch's, and what has no row is refused for a reason that is given."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from slices import daily

from staticflow.torch.table import ROWS, why_refused

torch = pytest.importorskip(
    "torch", reason='operations of PyTorch: pip install "staticflow[torch]"'
)

DTYPES = ("float32", "float64", "int64", "bool")
PARTS = 24
"""Into how many parts a campaign cuts the operations of a dtype."""

UNUSED = "nobody has written its row yet"


@pytest.fixture(scope="module")
def sweeping() -> Any:
    """The support of the sweep, which imports PyTorch's descriptions: about ten seconds."""
    return importlib.import_module("torch_sweep")


def check(
    sweeping: Any, names: list[str], dtype: str, count: int, is_program: bool = False
) -> None:
    """``count`` samples of each operation are as PyTorch's, or refused for a reason."""
    faults = []
    for name in names:
        for outcome in sweeping.sweep(name, getattr(torch, dtype), count, is_program):
            if outcome.fault:
                faults.append(f"{name} {dtype}: {outcome.fault}")
            faults += [
                f"{name} {dtype}: {row} has neither a row nor a reason"
                for row in outcome.refused
                if why_refused(row) == UNUSED
            ]
    assert not faults, "\n".join(dict.fromkeys(faults))


@pytest.mark.parametrize("dtype", DTYPES)
def test_operations_of_the_day_are_pytorchs(sweeping: Any, dtype: str) -> None:
    check(sweeping, daily(list(sweeping.OPS), 8, f"torch sweep {dtype}"), dtype, 2)


def test_programs_of_the_day_are_pytorchs(sweeping: Any) -> None:
    check(sweeping, daily(list(sweeping.OPS), 5, "torch programs"), "float32", 1, True)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
def test_every_program_is_pytorchs(sweeping: Any, part: int) -> None:
    check(sweeping, list(sweeping.OPS)[part::PARTS], "float32", 2, True)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_operation_is_pytorchs(sweeping: Any, dtype: str, part: int) -> None:
    check(sweeping, list(sweeping.OPS)[part::PARTS], dtype, 8)


def test_rows_are_told_from_each_other(sweeping: Any) -> None:
    """What is swept reaches rows, and a wrong row is a fault."""
    (outcome, *_) = sweeping.sweep("sin", torch.float32, 1)
    assert "aten.sin.default" in outcome.used and not outcome.fault
    right = ROWS["aten.sin.default"]
    ROWS["aten.sin.default"] = ROWS["aten.cos.default"]
    try:
        (outcome, *_) = sweeping.sweep("sin", torch.float32, 1)
    finally:
        ROWS["aten.sin.default"] = right
    assert "AssertionError" in outcome.fault


def test_gradients_that_are_not_compared_differ(sweeping: Any) -> None:
    for name in sweeping.DIFFERENT_GRADIENT:
        samples = sweeping.samples_of(name, torch.float64, 1000)
        left_out = [sample for *sample, compared in samples if not compared]
        assert any(sweeping.check_sample(*s, gradient=True).fault for s in left_out), name
        assert not any(sweeping.check_sample(*s, gradient=False).fault for s in left_out), name


def test_modules_of_the_day_are_pytorchs(sweeping: Any) -> None:
    modules = importlib.import_module("torch_modules")
    faults = [
        f
        for name in daily(sorted(modules.MODULES), 4, "torch.nn")
        for f in modules.sweep_module(name, 1)
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
def test_every_module_is_pytorchs(sweeping: Any, part: int) -> None:
    modules = importlib.import_module("torch_modules")
    faults = [
        f for name in sorted(modules.MODULES)[part::PARTS] for f in modules.sweep_module(name, 8)
    ]
    assert not faults, "\n".join(faults)
