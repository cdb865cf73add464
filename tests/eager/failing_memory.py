"""Calls while one allocation fails, each in a process of its own: what ends one leaves the others.

This file, run as a program, prints what goes wrong in its `cases`; `faults` runs it.

Interpreters have faults of their own where memory is short: CPython 3.12 and 3.13 crash when the
function of a generator expression cannot be made. So where a call runs functions of Python, a crash
is not held against it. Where it is native from end to end, nothing but `MemoryError` may come of it.
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from test_eager_recall import calls

import staticflow as sf
from staticflow.runtime.free_objects import MOST

AT_MOST = 12
"""So many allocations of a call fail, one after the other."""

_FINE, _NO_MEMORY, _WRONG = range(3)  # how a process ends


@dataclass(frozen=True, slots=True)
class Case:
    """A call, and how many of its results are alive, so that none of their memory is used again.

    ``look`` gives the state that the call changes, and ``check`` asserts what holds of it before
    and after a call, whether that failed or not. With ``needs_memory`` some allocation that fails
    must fail the call.
    """

    call: Callable[[], Any]
    alive: int = 200
    look: Callable[[], Any] = lambda: None
    check: Callable[[Any, Any], Any] = lambda before, after: None
    needs_memory: bool = False


def cases() -> dict[str, Case]:
    """Calls that are remembered, one that changes its argument, and one that is recorded."""
    x, y, w = sf.zeros(3), sf.ones(3), sf.ones(3, requires_grad=True)

    def once_or_not_at_all(before: list[float], after: list[float]) -> None:
        assert after in (before, [v + 1 for v in before])

    def loss() -> Any:
        return sf.nn.functional.mse_loss(w, y)

    for _ in range(3):  # a fused function is known two calls later than others
        loss().backward()
    rows = sf.ones(2, 3, requires_grad=True)
    return {
        "max": Case(lambda: rows.max(1)),
        "mse_loss": Case(loss, alive=2 * MOST, needs_memory=True),
        "backward of mse_loss": Case(lambda: loss().backward()),
        **{f"call {i}": Case(call) for i, call in enumerate(calls())},
        "add_": Case(lambda: x.add_(y), look=x.tolist, check=once_or_not_at_all),
        "tanh": Case(w.tanh, alive=2 * MOST, needs_memory=True),
    }


def faults() -> list[str]:
    """What went wrong in the cases."""
    pytest.importorskip("_testcapi")
    path = os.pathsep.join(entry for entry in sys.path if entry)
    ended = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert not ended.returncode, ended.stderr
    return ended.stdout.splitlines()


def run(name: str, case: Case) -> Iterator[str]:
    """What went wrong in one case, for each allocation that failed."""
    for _ in range(3):
        case.call()
    alive = [case.call() for _ in range(case.alive)]
    native = not functions_called(case.call)
    failed = False
    for at in range(AT_MOST):
        status, report = end(case, at)
        failed |= status == _NO_MEMORY
        if status == _WRONG or (status < 0 and native):
            yield f"{name}, where allocation {at} fails: {status} {report}"
    if case.needs_memory and not failed:
        yield f"{name}: no allocation failed"
    del alive


def functions_called(call: Callable[[], Any]) -> list[str]:
    """The functions of Python that a call runs beside itself."""
    seen: list[str] = []
    sys.setprofile(
        lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None
    )
    try:
        call()
    finally:
        sys.setprofile(None)
    own = getattr(call, "__code__", None)  # a lambda's own frame is first
    return seen[own is not None :]


def end(case: Case, at: int) -> tuple[int, str]:
    """How a process ends that makes a call while allocation ``at`` fails, and what it wrote."""
    with tempfile.TemporaryFile() as report:
        process = os.fork()
        if not process:
            faulthandler.enable(report, all_threads=False)
            text, status = _child(case, at)
            os.write(report.fileno(), text.encode())
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        report.seek(0)
        return status, report.read().decode()


def _child(case: Case, at: int) -> tuple[str, int]:
    """What is wrong after a call of which one allocation failed, and how the process ends."""
    import _testcapi

    before = case.look()
    result, status, text = None, _FINE, ""
    _testcapi.set_nomemory(at, at + 1)
    try:
        result = case.call()
    except MemoryError:
        status = _NO_MEMORY
    except BaseException as error:
        _testcapi.remove_mem_hooks()
        status, text = _WRONG, repr(error)
    _testcapi.remove_mem_hooks()
    try:
        case.check(before, case.look())
        case.call()
        del result
    except BaseException as error:
        return f"{text} and then {error!r}", _WRONG
    return text, status


if __name__ == "__main__":
    for name, case in cases().items():
        for line in run(name, case):
            print(line)
