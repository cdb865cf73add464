"""What happens while a stress test calls: other threads, signals, the garbage collector at every
allocation, functions that trace, memory that cannot be had."""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import gc
import importlib
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from hostile import Mischief, sets_context
from stress_pool import Derived, Empty, programs

import staticflow as sf

if TYPE_CHECKING:
    from stress import Trial

__all__ = ["WEATHER"]


_OURS = str(Path(sf.__file__).parent)


def _strike_in(trial: Trial, frame: Any, called: Any = None) -> None:
    """Strike; what that raises goes to the code of staticflow alone."""
    try:
        trial.mischief.strike()
    except ZeroDivisionError:
        inside = frame is not None and frame.f_code.co_filename.startswith(_OURS)
        if inside and not _is_about_to_leave(frame, called):
            raise


def _is_about_to_leave(frame: Any, called: Any) -> bool:
    """Whether an ``__exit__`` comes next, or has not begun, or what ``finally`` is to do. What is
    raised there leaves the block without it, and no code in Python can prevent that (CPython's
    issue 29988)."""
    code = frame.f_code
    if frame.f_lineno in _FINALLY.get(code.co_filename, ()):
        return True
    if code.co_name == "__exit__" and frame.f_lineno == code.co_firstlineno:
        return True
    return getattr(called, "__name__", "") == "__exit__" or frame.f_lasti in _exits_in(code)


def _enters(code: CodeType) -> bool:
    """Whether a block may be about to begin as ``code`` returns, or yields. What is raised then ends
    the code without its ``finally``, and the block is neither entered nor left."""
    return code.co_name == "__enter__" or bool(code.co_flags & inspect.CO_GENERATOR)


def _lines_of_finally(text: str) -> frozenset[int]:
    """The lines of a source that stand behind a ``finally``."""
    blocks = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Try)]
    ends = [statement for block in blocks for statement in block.finalbody]
    return frozenset(at for s in ends for at in range(s.lineno, (s.end_lineno or s.lineno) + 1))


# Of all files, since one parser of a process cannot interrupt another: it may not be a handler's.
_SOURCES = {str(path): path.read_text() for path in Path(sf.__file__).parent.rglob("*.py")}
_FINALLY = {f: _lines_of_finally(text) for f, text in _SOURCES.items() if "finally:" in text}


@functools.cache
def _exits_in(code: CodeType) -> frozenset[int]:
    """The places in ``code`` from which an ``__exit__`` is called, with None three times."""
    steps = list(dis.get_instructions(code))
    found: set[int] = set()
    for i, step in enumerate(steps[3:], 3):
        given = steps[i - 3 : i]
        nones = all(s.opname == "LOAD_CONST" and s.argval is None for s in given)
        if nones and step.opname in ("PRECALL", "CALL"):
            first = i - 4 if steps[i - 4].opname == "SWAP" else i - 3  # below what is returned
            found.update(s.offset for s in steps[first : i + 2])
    return frozenset(found)


@contextmanager
def calm(trial: Trial) -> Iterator[None]:
    """Nothing happens but what hostile values do."""
    yield


@contextmanager
def collector(trial: Trial) -> Iterator[None]:
    """The garbage collector runs at every allocation, and what it calls strikes."""

    def called(phase: str, info: Any) -> None:
        if phase == "stop" and not sets_context(sys._getframe(1)) and trial.chance.random() < 0.02:
            with contextlib.suppress(ZeroDivisionError):
                trial.mischief.strike()

    before = gc.get_threshold()
    gc.callbacks.append(called)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(called)


@contextmanager
def threads(trial: Trial) -> Iterator[None]:
    """Other threads do mischief, and call."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def work(others: Mischief) -> None:
        try:
            for _ in range(trial.calls):
                with contextlib.suppress(ZeroDivisionError):
                    others.strike()
                if stop.is_set():
                    break
                trial.attempt(trial.call)
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    started = [threading.Thread(target=work, args=(Mischief(trial.pool),)) for _ in range(2)]
    for t in started:
        t.start()
    try:
        yield
    finally:
        stop.set()
        for t in started:
            t.join()
        sys.setswitchinterval(before)
    for error in failures:
        raise error


@contextmanager
def signals(trial: Trial) -> Iterator[None]:
    """Signals come, whose handler strikes, or raises what ends the call."""

    over = False

    def handle(number: int, frame: Any) -> None:
        if over:
            return
        signal.setitimer(signal.ITIMER_REAL, trial.chance.uniform(1e-4, 2e-3))
        _strike_in(trial, frame)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 1e-3)
    try:
        yield
    finally:
        over = True  # first, since what a handler raises would go to the lines below
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def tracing(trial: Trial) -> Iterator[None]:
    """Functions that trace and profile strike now and then."""

    def look(frame: Any, event: str, arg: Any) -> Any:
        if trial.chance.random() < 0.001 and not (event == "return" and _enters(frame.f_code)):
            _strike_in(trial, frame, arg if event == "c_call" else None)
        return look

    before = sys.gettrace(), sys.getprofile()
    trial.chance.choice([sys.settrace, sys.setprofile])(look)
    try:
        yield
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])


@contextmanager
def memory(trial: Trial) -> Iterator[None]:
    """Calls whose allocations fail, one after the other. They are such as compute otherwise, since
    CPython 3.11 crashes itself where it looks for a line without memory."""
    testing = importlib.import_module("_testcapi")
    for x in trial.pool.tensors[:6]:
        call = trial.chance.choice(_WITHOUT_MEMORY)
        try:
            if not _is_usual(x):
                continue
            y = sf.ones(x.shape)
            for _ in range(3):
                call(x, y)
        except Exception:
            continue
        for at in range(40):
            testing.set_nomemory(at, at + trial.chance.choice([1, 1, 3]))
            try:
                call(x, y)
            except Exception:  # also `SystemError`, which CPython raises itself where there is none
                pass
            finally:
                testing.remove_mem_hooks()
    yield


_WITHOUT_MEMORY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x * y, lambda x, y: x + 1.5, lambda x, y: x.t(), lambda x, y: x.sum(),
    lambda x, y: x.add_(y), lambda x, y: x.mul_(2.0), lambda x, y: x.unbind(),
    lambda x, y: x[1:], lambda x, y: (x.t() * y).sum(),
    lambda x, y: sf.rand(3), lambda x, y: x.relu().exp(), lambda x, y: programs()[1](x),
    lambda x, y: programs()[0](x),
)  # fmt: skip
"""Calls of small arrays of one dtype in which NumPy copies and casts nothing: there it crashes itself
without memory, and CPython 3.11 where it sets a context variable, as large ones do."""

FEW = 12


def _is_usual(x: Any) -> bool:
    """Whether NumPy copies nothing of it: the sum of a single element is a copy, and so is a part
    of a tensor whose class hides what it is."""
    if type(x) not in (sf.Tensor, Derived, Empty) or x.dtype is not sf.float32:
        return False
    return x.is_contiguous() and x.numel() <= FEW and x.numel() != 1


WEATHER = {
    "calm": calm, "collector": collector, "threads": threads, "signals": signals,
    "tracing": tracing,
}  # fmt: skip


if sys.version_info < (3, 12):  # where NumPy 2.5 crashes itself more often
    WEATHER["memory"] = memory
