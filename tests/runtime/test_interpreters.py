"""One small program in both modes, under every way of running Python: the numbers are the same."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROGRAM = """
import staticflow as sf
from staticflow.runtime.threads import pool_jobs

def train(compiled):
    sf.manual_seed(0)
    model = sf.nn.Linear(3, 2)
    optimiser = sf.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = sf.placeholder((None, 3), name="x"), sf.placeholder((None, 2), name="y")
    loss = ((model(x).relu() - y) ** 2).mean()
    step = sf.compile([x, y], loss, updates=optimiser.minimize(loss)) if compiled else None
    losses = []
    for k in range(1, 4):
        a, b = sf.arange(k * 3.0).view(k, 3), sf.ones(k, 2)
        if compiled:
            losses.append(step(a, b).item())
            continue
        optimiser.zero_grad()
        loss = ((model(a).relu() - b) ** 2).mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    last, total = sf.scan(lambda c, v: (c * 0.5 + v, c), sf.zeros(()), sf.arange(4.0))
    try:
        sf.ones(2) + sf.ones(3)
    except sf.ShapeError as error:
        losses.append("at <string>" in str(error) or "at <program>" in str(error))
    return losses + [last.item(), total.sum().item(), model.weight.sum().item()]

def on_threads():
    sf.set_num_threads(2)
    x = sf.placeholder((None, 500), name="x")
    mean = sf.compile([x], (x.exp().sum(1) / 500).sum())
    return mean(sf.zeros(1000, 500)).item(), pool_jobs() > 0

both = [[round(v, 4) for v in train(compiled)] for compiled in (False, True)]
got = *both, on_threads()
"""

PRINT = "print(got)"

IN_ANOTHER = """
import atexit, os, sys
try:
    import _interpreters as several
    options = ("legacy",) # which shares the lock: NumPy refuses others
except ImportError:
    import _xxsubinterpreters as several
    options = ()
isolated = {"isolated": False} if sys.version_info[:2] == (3, 12) else {}
other = several.create(*options, **isolated)
errors = os.dup(2)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # where NumPy writes why it refuses
try:
    refused = several.run_string(other, "import warnings; warnings.simplefilter('ignore')\\nimport numpy, ml_dtypes")
except Exception as error:
    refused = error
os.dup2(errors, 2)
if sys.version_info >= (3, 14):  # which warns of one that is left
    atexit.register(several.destroy, other)
if refused:
    print("NumPy refuses", end="")
    sys.exit()
failed = several.run_string(other, CODE)
if failed:
    raise SystemExit(getattr(failed, "formatted", failed))
"""
"""NumPy can be loaded by one interpreter of a process: here by another than the first, where the
first need not have it (CPython 3.11 and 3.12). Before 3.14 it is left to be ended with the process."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way of running Python: its options, its environment, and what is run before and after."""

    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    before: str = ""
    after: str = PRINT


EVENTS = "\n".join((
    "import sys; m = sys.monitoring; m.use_tool_id(3, 'test')",
    "events = [v for n, v in vars(m.events).items() if v and n != 'NO_EVENTS']",
    "seen = [m.register_callback(3, v, lambda *_: None) for v in events]",
    "m.set_events(3, sum(v for v in events if v not in (m.events.C_RAISE, m.events.C_RETURN)))",
))  # fmt: skip

IN_THERE = f"{PROGRAM}\n{PRINT}"

WAYS = {
    "-OO": Way(("-OO",)),
    "-X dev": Way(  # with the allocators of PYTHONMALLOC=debug
        ("-X", "dev", "-W", "error"),
        before="import numpy as np, staticflow as sf\n"
        "large, longer = sf.rand(300, 300), (sf.rand(300, 300) * 2).numpy()\n"
        "longer = longer if longer.base is None else longer.base\n"
        "longer.resize(longer.size + 1000, refcheck=False)",
    ),
    "PYTHONMALLOC=malloc": Way(environment={"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "165"}),
    "settrace": Way(
        before="import sys\ndef trace(frame, event, arg):\n    frame.f_trace_opcodes = True\n"
        "    return trace\nimport staticflow\nsys.settrace(trace)"
    ),
    "setprofile": Way(before="import sys; sys.setprofile(lambda *_: None)"),
    "the collector at every allocation": Way(before="import gc, staticflow; gc.set_threshold(1)"),
    "another interpreter": Way(before=f"CODE = {IN_THERE!r}\n{IN_ANOTHER}\nsys.exit()"),
    "said to be free-threaded": Way(  # no build without the lock: what is asked to know one
        before="import sysconfig; ask = sysconfig.get_config_var\n"
        "sysconfig.get_config_var = lambda name: 1 if name == 'Py_GIL_DISABLED' else ask(name)",
        after="from staticflow.runtime.object_layout import has_known_layout\n"
        "print('native' if has_known_layout() else got)",
    ),
}
if sys.version_info >= (3, 12):
    WAYS["sys.monitoring"] = Way(before=EVENTS)


def run(way: Way) -> str:
    """What the program prints when it is run in a way of its own."""
    code = "\n".join((way.before, PROGRAM, way.after))
    paths = os.pathsep.join((str(Path(__file__).parents[2]), *filter(None, sys.path)))
    ended = subprocess.run(
        [sys.executable, *way.options, "-c", code],
        env=os.environ | {"PYTHONPATH": paths} | way.environment,
        capture_output=True,
        text=True,
        timeout=120,  # a process that waits for ever fails
    )
    assert ended.returncode == 0 and not ended.stderr, ended.stderr + ended.stdout
    return ended.stdout


@pytest.fixture(scope="module")
def usual() -> str:
    text = run(Way())
    eager, compiled, on_threads = eval(text)
    assert eager == compiled and on_threads == (1000.0, True)
    return text


@pytest.mark.parametrize("name", WAYS)
def test_the_numbers_are_the_same(name: str, usual: str) -> None:
    if name == "another interpreter":
        module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
        if importlib.util.find_spec(module) is None:
            pytest.skip("this Python has no other interpreters")
    text = run(WAYS[name])
    if text == "NumPy refuses":
        pytest.skip("NumPy and ml_dtypes load in the first interpreter alone")
    assert text == usual
