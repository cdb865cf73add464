"""Workload l: how long a library takes to be imported, and the memory that a process then holds.

Each time in a new process. Memory is the most that was resident: behind the import, and behind ten
steps of the two-layer net of workload a, one call a step.
"""

from __future__ import annotations

import tempfile
from functools import partial

from processes import Child, main_of_processes

LIBRARIES = {
    "staticflow": "staticflow",
    "NumPy": "numpy",
    "PyTorch": "torch",
    "JAX": "jax.numpy",
    "numba": "numba",
}

TIME = """
import time
began = time.perf_counter()
import {}
print(time.perf_counter() - began)
"""

RESIDENT = """
from peak import peak_bytes
print(peak_bytes())
"""
STEPS = "import two_layer\ntwo_layer.{}().run(10)"
TRAINING = {
    "staticflow static": "staticflow_static",
    "staticflow eager": "staticflow_eager",
    "NumPy": "numpy_by_hand",
    "PyTorch eager": "pytorch_eager",
    "JAX jit": "jax_jit",
}

ROOT = tempfile.TemporaryDirectory()


def program(text: str, name: str) -> tuple[str, dict[str, str]]:
    """A program about a library or a contestant, with a folder in which staticflow finds from the
    second time on what it has compiled."""
    return text.format(name), {"STATICFLOW_CACHE_DIR": ROOT.name}


def table(text: str, named: dict[str, str]) -> dict[str, Child]:
    """A process for each of what is ``named``."""
    return {name: partial(program, text, what) for name, what in named.items()}


if __name__ == "__main__":
    memory = {
        "memory behind the import": table("import {}" + RESIDENT, LIBRARIES),
        "memory behind ten steps of training": table(STEPS + RESIDENT, TRAINING),
    }
    tables = {"import": table(TIME, LIBRARIES), **memory}
    main_of_processes(__doc__, tables, most=15, units=dict.fromkeys(memory, "B"))
