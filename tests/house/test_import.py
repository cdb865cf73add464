"""What `import staticflow` brings along, which every script waits for."""

from __future__ import annotations

import subprocess
import sys

import pytest

RARELY_USED = {
    "networkx", "matplotlib", "tqdm", "sklearn", "torch", "jax", "unittest", "onnx", "onnxruntime",
    "einops",
}  # fmt: skip


COMPILING = (
    "staticflow.passes.",
    "staticflow.codegen.",
    "staticflow.measure.",
    "staticflow.drawing.",
)
"""Where what compiles is, and what explains."""

LIGHT = {
    "passes.order", "codegen.llvm", "codegen.llvm.arena", "codegen.llvm.subnormals",
    "codegen.llvm.text", "codegen.lower", "codegen.lower.refusals", "codegen.statuses",
    "codegen.target", "codegen.thresholds", "drawing.draw",
}  # fmt: skip
"""What of it says no more than names and numbers, or is a door."""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    program = "import sys, staticflow; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_what_is_rarely_used_is_imported_where_it_is(loaded: set[str]) -> None:
    assert "numpy" in loaded
    assert not {name.split(".")[0] for name in loaded} & RARELY_USED


def test_what_compiles_is_imported_when_something_is_compiled(loaded: set[str]) -> None:
    found = {name.removeprefix("staticflow.") for name in loaded if name.startswith(COMPILING)}
    assert not found - LIGHT
