"""Workload o: the memory that attention takes, and its time on 8,192 places.

8 heads of 64, forward and backward, causal; each run in a process of its own. Memory is the most
that the process held beyond what it held before, inputs and a run on few places included.
"""

from __future__ import annotations

from functools import partial

from processes import Child, main_of_processes

LENGTHS = (2048, 8192)
LONG = 8192
SMALL = 256
"""Places of the first run, after which what compiles kernels has done so: those of staticflow's
eager attention begin at 128."""

MEMORY = """
import importlib
from peak import peak_bytes
importlib.import_module({library!r})
import attention
contestant = attention.{make}({small}, True)
contestant.run(1)
contestant = attention.{make}({length}, True)
before = peak_bytes()
contestant.run(1)
print(peak_bytes() - before)
"""

TIME = """
import importlib, time
importlib.import_module({library!r})
import attention
contestant = attention.{make}({length}, True)
contestant.run(1)
began = time.perf_counter()
contestant.run(1)
print(time.perf_counter() - began)
"""

CONTESTANTS = {
    "PyTorch fused": ("torch", "pytorch_fused"),
    "staticflow static": ("staticflow", "staticflow_static"),
    "staticflow eager": ("staticflow", "staticflow_eager"),
    "JAX jit": ("jax", "jax_jit"),
}


def child(text: str, length: int, library: str, make: str) -> tuple[str, dict[str, str]]:
    """The text of a process."""
    return text.format(length=length, small=SMALL, library=library, make=make), {}


def table(text: str, length: int) -> dict[str, Child]:
    """A process for each contestant."""
    return {name: partial(child, text, length, *how) for name, how in CONTESTANTS.items()}


if __name__ == "__main__":
    memory = {f"memory of attention over {n:,} places, causal": table(MEMORY, n) for n in LENGTHS}
    time = {f"attention over {LONG:,} places, causal": table(TIME, LONG)}
    main_of_processes(__doc__, {**memory, **time}, most=3, units=dict.fromkeys(memory, "B"))
