"""Ctrl-C while the package is imported: one line at the command line, Python's own in a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from staticflow.tools.interrupts import _is_command_line

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX has them")

AT_MODULE = """if True:
    import os, signal, sys

    class Interrupting:
        def find_spec(self, name, path=None, target=None):
            if name == os.environ["INTERRUPT_AT"]:
                os.kill(os.getpid(), signal.SIGINT)

    sys.meta_path.insert(0, Interrupting())
"""
"""Sends the signal as a module is looked for: a ``sitecustomize``."""


def interrupted(words: list[str], at: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(AT_MODULE)
    path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "INTERRUPT_AT": at},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.parametrize(
    "at",
    [
        "staticflow.config",
        "numpy._core._dtype",
        "staticflow.ops.matrices.contract",
        "staticflow.tools.cli",
    ],
)
@pytest.mark.parametrize("words", [["-m", "staticflow", "info"], ["-mstaticflow", "info"]])
def test_the_command_line_says_one_line(words: list[str], at: str, tmp_path: Path) -> None:
    done = interrupted(words, at, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_program_sees_what_python_makes_of_it(tmp_path: Path) -> None:
    code = """if True:
        try:
            import staticflow
        except KeyboardInterrupt:
            print("seen")
    """
    done = interrupted(["-c", code], "staticflow.ops.matrices.contract", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "seen\n", "")
    done = interrupted(["-c", "import staticflow"], "staticflow.ops.matrices.contract", tmp_path)
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr


def test_the_package_leaves_the_signal_alone_in_a_program() -> None:
    code = """if True:
        import signal
        before = signal.getsignal(signal.SIGINT)
        import staticflow

        print(signal.getsignal(signal.SIGINT) is before)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "True\n"


@pytest.mark.parametrize(
    ("arguments", "words", "wanted"),
    [
        (["-m", "info"], ["python", "-m", "staticflow", "info"], True),
        (["-m"], ["python", "-Im", "staticflow"], True),
        (["-m"], ["python", "-X", "dev", "-mstaticflow"], True),
        (["-m"], ["python", "-m", "pytest", "staticflow"], False),
        (["/x/pytest/__main__.py"], ["python", "-m", "staticflow"], False),
        (["-c"], ["python", "-c", "import staticflow"], False),
        ([], ["python"], False),
    ],
)
def test_what_begins_the_command_line(arguments: list[str], words: list[str], wanted: bool) -> None:
    assert _is_command_line(arguments, words) is wanted
