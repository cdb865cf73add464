"""einops' own tests, which its wheel carries, of our backend: each of them, in both modes."""

from __future__ import annotations

import inspect
import os
from importlib import import_module

import pytest

pytest.importorskip("einops.tests", reason="the tests of einops come with it")

os.environ.setdefault("EINOPS_TEST_BACKENDS", "numpy")  # asked for as the suites are imported

from staticflow.einops import StaticflowBackend

SUITES = {
    name: import_module(f"einops.tests.test_{name}")
    for name in ("einsum", "examples", "layers", "ops", "other", "packing", "parsing")
}
TESTS = [
    (name, test)
    for name, suite in SUITES.items()
    for test, found in vars(suite).items()
    if test.startswith("test_") and inspect.isfunction(found)
]
NAMED_TORCH = {
    "test_layer": "EinMix is tested of frameworks by name",
    "test_reduction_with_callable_imperatives": "a callable is written for frameworks by name",
}
"""Tests that do for PyTorch what they should do for us."""


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:EinMix")
@pytest.mark.parametrize(("suite", "test"), TESTS)
def test_suite(suite: str, test: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = StaticflowBackend()
    if test in NAMED_TORCH:
        backend.framework_name = "torch"
    for module in SUITES.values():
        for name, held in (
            ("collect_test_backends", lambda symbolic=False, layers=False: [backend]),
            ("is_backend_tested", lambda name: False),
            ("imp_op_backends", [backend]),
            ("sym_op_backends", [backend]),
            ("_IMPERATIVE_BACKENDS", [backend]),
        ):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, held)
    run = getattr(SUITES[suite], test)
    run(**{name: backend for name in inspect.signature(run).parameters if name == "backend"})
