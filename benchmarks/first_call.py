"""Workload k: the first call of the steps of a, d, e, i, m and n, with all that it compiles; of m
and n also where `jit` compiles the loss, and the optimiser runs behind it.

Each in a process of its own. *Cold*: with an empty folder for machine code, and all sizes known, as
they are to the others, from after the imports to the end of the first step; *any sizes*: where
those of the batch are unknown to staticflow; *whole process*: as cold, with the imports; *warm*: as
cold, with what an earlier process has left in the folder. One thread is one processor: XLA compiles
on several threads whatever it is told.
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
import time
began = time.perf_counter()
import importlib
import numpy.random  # which draws the data, and which JAX imports and NumPy does not
for library in {libraries!r}:
    importlib.import_module(library)
module = importlib.import_module({module!r})
if {is_imported!r}:
    began = time.perf_counter()
contestant = {call}
contestant.run(1)
[*contestant.result()]
print(time.perf_counter() - began)
"""

LIBRARIES = {
    "staticflow static": ["staticflow", "staticflow.runtime.drafting"],
    "staticflow jit": ["staticflow", "staticflow.runtime.drafting"],
    "JAX jit": ["jax", "jax.numpy"],
    "torch.compile": ["torch", "torch._dynamo", "torch._inductor.compile_fx"],
}
"""What is imported before the clock: each with what its compiler is, which two import late."""

STEPS = {
    "two-layer net": ("two_layer", "module.{}()", "module.pytorch_compiled()"),
    "LeNet": ("lenet", "module.{}()", "module.pytorch_compiled()"),
    "LSTM T 50 B 32": ("lstm", "module.{}(module.SIZES[0])", None),
    "transformer block": ("transformer", "module.{}()", "module.pytorch(compiled=True)"),
    "residual net": ("image_nets", "module.residual_step('{}')", None),
    "GPT": ("gpt", "module.{}()", None),
}
"""Modules of this folder, how their contestants are made, and how that of torch.compile is."""

JITTED = "residual net", "GPT"
"""The steps that are also made by `jit`, whose first call is for the sizes that it is given."""

ROOT = tempfile.TemporaryDirectory()
NUMBERS = itertools.count()


def cold(text: str, sizes: str = "known") -> tuple[str, dict[str, str]]:
    """The program with nothing on disk."""
    folder = Path(ROOT.name, str(next(NUMBERS)))
    folder.mkdir()
    return text, {
        "SIZES": sizes,
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


def texts(title: str, is_imported: bool) -> dict[str, str]:
    """The programs of a step by contestant; all is imported before the clock, or behind it."""
    module, call, torch = STEPS[title]
    calls = {
        "staticflow static": call.format("staticflow_static"),
        **({"staticflow jit": call.format("staticflow_jit")} if title in JITTED else {}),
        "JAX jit": call.format("jax_jit"),
        **({} if torch is None else {"torch.compile": torch}),
    }
    return {
        name: CHILD.format(
            libraries=LIBRARIES[name], module=module, is_imported=is_imported, call=made
        )
        for name, made in calls.items()
    }


def tables() -> dict[str, dict[str, Callable[[], tuple[str, dict[str, str]]]]]:
    """The tables of each step."""
    kinds = {
        "cold": (cold, True),
        "any sizes, cold": (partial(cold, sizes="any"), True),
        "whole process, cold": (cold, False),
        "warm": (warm, True),
    }
    return {
        f"first step of the {title}, {kind}": {
            name: partial(make, text) for name, text in texts(title, is_imported).items()
        }
        for title in STEPS
        for kind, (make, is_imported) in kinds.items()
    }


if __name__ == "__main__":
    main_of_processes(__doc__, tables(), most=5, one_processor=True)
