"""What `import staticflow` brings along, which every script waits for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import staticflow

RARELY_USED = {
    "networkx", "matplotlib", "tqdm", "sklearn", "torch", "jax", "unittest", "onnx", "onnxruntime",
    "einops", "mpi4py",
    "llvmlite", "decimal", "difflib", "fractions", "hashlib", "html", "random", "statistics",
    "tempfile",
}  # fmt: skip

LATER = {
    "autograd",
    "distributed",
    "distributions",
    "nn",
    "optim",
    "func",
    "onnx",
    "testing",
    "utils",
    "comparison",
    "profiling",
}
"""Rooms that a script may never ask for."""


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
    assert "numpy.ma" not in loaded
    assert not {name for name in loaded if name.startswith("staticflow.eager.fast")}
    assert not {name.partition(".")[2].partition(".")[0] for name in loaded if "." in name
                and name.startswith("staticflow.")} & LATER  # fmt: skip


COUNTS = """
import inspect, sys
import dataclasses, numpy
texts, signatures, signature = [], [], inspect.signature
inspect.signature = lambda *args, **named: (signatures.append(args), signature(*args, **named))[1]
sys.addaudithook(lambda event, args: texts.append(args) if event == "compile" else None)
import staticflow
modules = [name for name in sys.modules if name.startswith("staticflow")]
print(len(texts), len(signatures), len(modules))
"""


def test_an_import_makes_little() -> None:
    """It compiles a text for each dataclass, takes few signatures, and has few modules: a class, a
    signature and a module take some tenths of a millisecond each."""
    run = subprocess.run([sys.executable, "-c", COUNTS], capture_output=True, text=True, check=True)
    texts, signatures, modules = map(int, run.stdout.split())
    assert texts <= 190  # 120 dataclasses, 60 annotations of records, named tuples
    assert signatures <= 65  # an op that a rule names has its own taken
    assert modules <= 366


def test_an_import_looks_through_nothing_that_it_made() -> None:
    """A collection of what was imported takes a tenth of the import, and finds nothing."""
    program = (
        "import gc; largest = [0]\n"
        "def look(phase, info):\n"
        "    young = sum(map(len, map(gc.get_objects, range(info['generation'] + 1))))\n"
        "    largest[0] = max(largest[0], young if 'staticflow.static.jit' in sys.modules else 0)\n"
        "import sys, numpy; gc.callbacks.append(look); import staticflow; print(largest[0])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 5000  # of 60,000


def test_an_import_leaves_the_collector_as_it_was() -> None:
    program = (
        "import gc; print(gc.isenabled()); import staticflow; print(gc.isenabled()); "
        "print(gc.get_freeze_count())"
    )
    for setting, expected in (
        ("", ["True", "True", "0"]),
        ("import gc; gc.disable(); ", ["False"] * 2 + ["0"]),
    ):
        run = subprocess.run(
            [sys.executable, "-c", setting + program], capture_output=True, text=True, check=True
        )
        assert run.stdout.split() == expected


def test_names_of_later_are_listed_and_found_and_seen_by_type_checkers() -> None:
    program = (
        "import staticflow as sf; print(*set(sf.__all__) - set(dir(sf))); "
        "print(sf.nn.Linear.__module__, sf.draw.__module__, sf.profile.__module__); "
        "names = {}; exec('from staticflow import *', names); print(*set(sf.__all__) - set(names))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    modules = "staticflow.nn.linear staticflow.drawing.draw staticflow.profiling"
    assert run.stdout == f"\n{modules}\n\n"
    with pytest.raises(AttributeError, match="module 'staticflow' has no attribute 'absent'"):
        _ = staticflow.absent
    tree = ast.parse(Path(staticflow.__file__).read_text())
    (branch,) = (n for n in tree.body if isinstance(n, ast.If) and n.orelse)
    told = {alias.name for n in branch.body for alias in n.names}  # type: ignore[attr-defined]
    (call,) = (n for n in ast.walk(branch) if isinstance(n, ast.Call) and n.keywords)
    assert told == {keyword.arg for keyword in call.keywords}


def test_what_compiles_is_imported_when_something_is_compiled(loaded: set[str]) -> None:
    found = {name.removeprefix("staticflow.") for name in loaded if name.startswith(COMPILING)}
    assert not found - LIGHT
