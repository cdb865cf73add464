"""Our functions under PyTorch's names, on the samples of PyTorch's own tests: values, dtypes, shapes and
gradients are PyTorch's, eagerly and as programs of open sizes, and its wrong calls are wrong here."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from slices import daily

torch = pytest.importorskip(
    "torch", reason='operations of PyTorch: pip install "staticflow[torch]"'
)

DTYPES = ("float32", "float64", "int64", "bool")
PARTS = 24
"""Into how many parts a campaign cuts the operations."""


@pytest.fixture(scope="module")
def direct() -> Any:
    """The support of the sweep, which imports PyTorch's descriptions: about ten seconds."""
    return importlib.import_module("torch_direct")


def check(direct: Any, names: list[str], dtype: str, count: int, is_jit: bool = False) -> None:
    faults = [
        fault
        for name in names
        for fault in direct.check_samples(name, getattr(torch, dtype), count, is_jit)
    ]
    assert not faults, "\n".join(dict.fromkeys(faults))


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_the_day_are_pytorchs(direct: Any, dtype: str) -> None:
    check(direct, daily(direct.NAMES, 14, f"torch direct {dtype}"), dtype, 5)


def test_programs_of_the_day_are_pytorchs(direct: Any) -> None:
    check(direct, daily(direct.NAMES, 10, "torch direct programs"), "float32", 2, True)


def test_wrong_calls_of_the_day_are_refused(direct: Any) -> None:
    faults = [
        f
        for name in daily(direct.NAMES, 40, "torch direct wrong")
        for f in direct.check_wrong_calls(name)
    ]
    assert not faults, "\n".join(faults)


def test_wrong_programs_of_the_day_are_refused(direct: Any) -> None:
    faults = [
        f
        for name in daily(direct.NAMES, 20, "torch direct wrong programs")
        for f in direct.check_wrong_calls(name, is_jit=True)
    ]
    assert not faults, "\n".join(faults)


def test_open_sizes_of_the_day_may_be_one(direct: Any) -> None:
    faults = [
        f
        for name in daily(direct.NAMES, 10, "torch direct ones")
        for f in direct.check_open_ones(name, torch.float32, 2)
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", ["squeeze", "cov", "corrcoef"])
def test_what_depends_on_ones_refuses_them(direct: Any, name: str) -> None:
    """Where a size of 1 gives a result of other dims: it was kept without a word."""
    assert not direct.check_open_ones(name, torch.float32, 8)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
def test_every_open_size_may_be_one(direct: Any, part: int) -> None:
    names = direct.NAMES[part::PARTS]
    faults = [f for name in names for f in direct.check_open_ones(name, torch.float32, 5)]
    assert not faults, "\n".join(faults)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_function_is_pytorchs(direct: Any, dtype: str, part: int) -> None:
    check(direct, direct.NAMES[part::PARTS], dtype, 20)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
def test_every_program_is_pytorchs(direct: Any, part: int) -> None:
    check(direct, direct.NAMES[part::PARTS], "float32", 5, True)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
def test_every_wrong_call_is_refused(direct: Any, part: int) -> None:
    faults = [
        f
        for name in direct.NAMES[part::PARTS]
        for is_jit in (False, True)
        for f in direct.check_wrong_calls(name, is_jit)
    ]
    assert not faults, "\n".join(faults)


def test_a_wrong_function_is_found(direct: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import staticflow as sf

    assert not direct.check_samples("sin", torch.float64, 3)
    assert not direct.check_samples("sin", torch.float64, 1, is_jit=True)
    monkeypatch.setattr(sf, "sin", sf.cos)
    assert direct.check_samples("sin", torch.float64, 3)
    monkeypatch.setattr(sf, "sin", lambda x: x.detach().sin() + x * 0)
    assert all("close" in fault for fault in direct.check_samples("sin", torch.float64, 3))
    assert not direct.check_wrong_calls("fliplr")
    monkeypatch.setattr(sf, "fliplr", lambda x: x)
    assert direct.check_wrong_calls("fliplr")


def check_exceptions(direct: Any, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Each of the exceptions is needed for a sample at least."""
    tables = (direct.OTHER, direct.OTHER_GRADIENT)
    cases = [(table, name) for table in tables for name in table]
    for table, name in daily(cases, most, "torch direct exceptions"):
        with monkeypatch.context() as patch:
            patch.delitem(table, name)
            assert any(direct.check_samples(name, getattr(torch, d), 1000) for d in DTYPES), name


def test_what_is_other_than_pytorchs_differs(direct: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check_exceptions(direct, monkeypatch, 3)


@pytest.mark.campaign
def test_whatever_is_other_than_pytorchs_differs(
    direct: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_exceptions(direct, monkeypatch, 1000)
