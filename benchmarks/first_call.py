"""Workload k: the first call of the steps of a, d, e, i, m and n, with all that it compiles.

Each in a process of its own, from after the imports to the end of the first step: *cold* with an
empty folder for machine code, *warm* with what an earlier process has left in it.
"""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from processes import main_of_processes, number_of_process

CHILD = """
import importlib, sys, time
import numpy.random  # which draws the data, and which JAX imports and NumPy does not
importlib.import_module({library!r})
module = importlib.import_module({module!r})
began = time.perf_counter()
contestant = {call}
contestant.run(1)
[*contestant.result()]
print(time.perf_counter() - began)
"""

STEPS = {
    "two-layer net": ("two_layer", "module.{}()", "module.pytorch_compiled()"),
    "LeNet": ("lenet", "module.{}()", "module.pytorch_compiled()"),
    "LSTM T 50 B 32": ("lstm", "module.{}(module.SIZES[0])", None),
    "transformer block": ("transformer", "module.{}()", "module.pytorch(compiled=True)"),
    "residual net": ("image_nets", "module.residual_step('{}')", None),
    "GPT": ("gpt", "module.{}()", None),
}
"""Modules of this folder, how their contestants are made, and how that of torch.compile is."""

ROOT = tempfile.TemporaryDirectory()
NUMBERS = itertools.count()


def cold(text: str) -> tuple[str, dict[str, str]]:
    """The program with nothing on disk."""
    folder = Path(ROOT.name, str(next(NUMBERS)))
    folder.mkdir()
    return text, {
        "STATICFLOW_CACHE_DIR": str(folder),
        "TORCHINDUCTOR_CACHE_DIR": str(folder),
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


@functools.cache
def warm(text: str) -> tuple[str, dict[str, str]]:
    """The program with what it has left on disk, once it has run."""
    made = cold(text)
    number_of_process(*made)
    return made


def tables() -> dict[str, dict[str, Callable[[], tuple[str, dict[str, str]]]]]:
    """A table for each step, cold and warm."""
    found = {}
    for title, (module, call, torch) in STEPS.items():
        calls = {
            "staticflow static": ("staticflow", call.format("staticflow_static")),
            "JAX jit": ("jax", call.format("jax_jit")),
        }
        if torch is not None:
            calls["torch.compile"] = ("torch", torch)
        texts = {
            name: CHILD.format(library=library, module=module, call=made)
            for name, (library, made) in calls.items()
        }
        for kind in (cold, warm):
            found[f"first step of the {title}, {kind.__name__}"] = {
                name: partial(kind, text) for name, text in texts.items()
            }
    return found


if __name__ == "__main__":
    main_of_processes(__doc__, tables(), most=5)
