"""A plugin of pytest that has LLVM take this processor for an older one, which is compiled for then, by
a process that finds no code of another one on disk: ``STATICFLOW_TEST_CPU=haswell
STATICFLOW_CACHE_DIR=$(mktemp -d) python -m pytest -p other_cpu tests/ops``."""

from __future__ import annotations

import os

import llvmlite.binding as llvm

__all__ = ["CPUS", "VARIABLE", "hide_features", "runs_here"]

VARIABLE = "STATICFLOW_TEST_CPU"
"""The environment variable that names the processor."""

_WIDE = (
    "avx512",
    "avx10",
    "amx",
    "vaes",
    "vpclmulqdq",
    "gfni",
    "avxvnni",
    "avxifma",
    "avxneconvert",
)

CPUS: dict[str, tuple[str, ...]] = {
    "haswell": _WIDE,
    "ivybridge": (*_WIDE, "avx2", "fma", "fma4", "xop", "bmi", "lzcnt", "movbe"),
}
"""Processors with vectors of 256 bits, and of 128 and no masks, by LLVM's names, and the beginnings of the names of
the features that they have not."""


def hide_features(cpu: str) -> None:
    """Have LLVM say that this processor is ``cpu``, with those of its own features that that has."""
    own = dict(llvm.get_host_cpu_features())
    found = llvm.FeatureMap({n: has and not n.startswith(CPUS[cpu]) for n, has in own.items()})
    llvm.get_host_cpu_features = lambda: found
    llvm.get_host_cpu_name = lambda: cpu


def runs_here() -> bool:
    """Whether the code of these processors runs on this one."""
    return bool(dict(llvm.get_host_cpu_features()).get("avx2"))


if VARIABLE in os.environ:
    hide_features(os.environ[VARIABLE])
