"""``python -m staticflow info``: what a report of a fault should say of the machine."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import staticflow
from staticflow.config import config
from staticflow.eager.device import why_unavailable
from staticflow.measure.rates import processor_name
from staticflow.runtime.code_cache import code_cache
from staticflow.runtime.linker import links_for
from staticflow.runtime.machine import describe_host, host_target
from staticflow.runtime.object_layout import has_known_layout
from staticflow.runtime.threads import get_num_threads, usable_processors

__all__ = ["add_arguments", "run"]

_PACKAGES = (
    "numpy", "llvmlite", "networkx", "ml_dtypes", "safetensors", "onnx", "scikit-learn",
    "matplotlib", "tqdm", "torch", "jax",
)  # fmt: skip

_VARIABLES = ("STATICFLOW_", "OMP_", "OPENBLAS_", "MKL_")
"""How the names begin of what decides in the environment how code runs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    target = host_target()
    traits = [f"vectors of {target.vector_bits} bits"]
    traits += [n for n in ("fma", "masks", "avx512") if getattr(target, n)]
    rows = [
        ("staticflow", f"{staticflow.__version__}, in {Path(staticflow.__file__).parent}"),
        ("Python", f"{platform.python_version()} ({platform.platform()})"),
        ("LLVM", describe_host().version),
        *((name, _version(name)) for name in _PACKAGES),
        ("extras", "; ".join(_extras()) or "unknown: staticflow is not installed as a package"),
        ("CPU", f"{processor_name()}, {', '.join(traits)}"),
        ("cores", f"{usable_processors()} of {os.cpu_count()}"),
        ("threads", str(get_num_threads())),
        ("GPU", _gpu()),
        ("cache", _cache()),
        ("fast paths", "; ".join(f"{what}: {which}" for what, which in _fast_paths())),
        ("environment", ", ".join(_environment()) or "nothing is set"),
    ]
    for name, value in rows:
        print(f"{name:<14}{value}")
    return 0


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _extras() -> Iterator[str]:
    """Each extra, and which of its packages are not there."""
    try:
        wanted = requires("staticflow") or []
    except PackageNotFoundError:
        return
    packages: dict[str, list[str]] = {}
    for line in wanted:
        extra = re.search(r"""extra\s*==\s*['"]([^'"]+)""", line)
        name = re.match(r"[\w.-]+", line)
        if extra and name:
            packages.setdefault(extra[1], []).append(name[0])
    for extra_name, names in packages.items():
        missing = [n for n in names if _version(n) == "not installed"]
        yield f"{extra_name} without {', '.join(missing)}" if missing else extra_name


def _fast_paths() -> Iterator[tuple[str, str]]:
    """What runs natively here, and what takes its place where it does not."""
    yield "eager operations and calls", "native" if has_known_layout() else "in Python"
    is_off = "" if config.fast_call else ", off by STATICFLOW_FAST_CALL"
    yield "calls of programs", f"{'native' if has_known_layout() else 'in Python'}{is_off}"
    machine = os.uname().machine if hasattr(os, "uname") else platform.machine()
    is_own = links_for(sys.platform, machine, sys.maxsize)
    yield "code on disk is loaded", "without LLVM" if is_own else "by LLVM"


def _cache() -> str:
    cache = code_cache()
    if cache is None:
        return "nothing is kept"
    usage = cache.usage()
    return f"{cache.folder}, {usage.entries} entries, {usage.bytes / 2**20:.1f} MiB"


def _environment() -> Iterator[str]:
    for name in sorted(os.environ):
        if name.startswith(_VARIABLES):
            yield f"{name}={os.environ[name]}"


def _gpu() -> str:
    why = why_unavailable()
    if why:
        return why
    cupy = importlib.import_module("cupy")
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return f"{properties['name'].decode()}, cupy {cupy.__version__}"
