"""A handler of a signal may raise wherever Python runs, also where machine code is made."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import staticflow
from staticflow.runtime import compiler
from staticflow.runtime.compiler import Compilation

TEXT = "define i64 @f(i64 %x) { ret i64 %x }"

LEFT_TO_GARBAGE = """
import gc
import llvmlite.binding as llvm
from staticflow.runtime import compiler

parse = llvm.parse_assembly

def interrupted(text, context):
    raise KeyboardInterrupt({"module": parse(text, context), "context": context})

compiler.llvm.parse_assembly = interrupted
for _ in range(20):
    try:
        compiler.emit_objects([(TEXT, False)])
    except KeyboardInterrupt as interrupt:
        interrupt.args[0]["itself"] = interrupt.args
gc.collect()
compiler.llvm.parse_assembly = parse
assert compiler.emit_objects([(TEXT, False)])
print("collected")
""".replace("TEXT", repr(TEXT))


def test_a_module_is_never_disposed_of_after_its_context() -> None:
    """A collection that found both, of a call that was interrupted, ended the process."""
    path = os.pathsep.join([str(Path(staticflow.__file__).parents[1]), *sys.path])
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", LEFT_TO_GARBAGE],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.strip()) == (0, "collected"), ran.stderr


def test_threads_end_though_nobody_tells_them_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a thread kept the process from ending."""
    monkeypatch.setattr(compiler, "_PATIENCE", 0.01)
    before = set(threading.enumerate())
    monkeypatch.setattr(compiler, "get_num_threads", lambda: 2)
    begun = Compilation()  # nobody leaves it
    begun.add(TEXT)
    for helper in set(threading.enumerate()) - before:
        helper.join(60)
        assert not helper.is_alive()
    assert len(begun.finish()) == 1
    for _ in range(3):  # those that ended are replaced
        begun.add(TEXT)
        time.sleep(0.05)
    assert len(begun.finish()) == 4
