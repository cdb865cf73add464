"""Workload l: how long a library takes to be imported, each time in a new process."""

from __future__ import annotations

import tempfile
from functools import partial

from processes import main_of_processes

LIBRARIES = {
    "staticflow": "staticflow",
    "NumPy": "numpy",
    "PyTorch": "torch",
    "JAX": "jax.numpy",
    "numba": "numba",
}

CHILD = """
import time
began = time.perf_counter()
import {}
print(time.perf_counter() - began)
"""


ROOT = tempfile.TemporaryDirectory()


def program(library: str) -> tuple[str, dict[str, str]]:
    """The program that imports a library, with a folder in which staticflow finds from the second
    time on what it has compiled."""
    return CHILD.format(library), {"STATICFLOW_CACHE_DIR": ROOT.name}


if __name__ == "__main__":
    table = {name: partial(program, library) for name, library in LIBRARIES.items()}
    main_of_processes(__doc__, {"import": table}, most=15)
