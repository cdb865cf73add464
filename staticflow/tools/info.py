"""``python -m staticflow info``: what a report of a fault should say of the machine."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import llvmlite.binding as llvm

import staticflow
from staticflow.runtime.machine import host_target

__all__ = ["add_arguments", "run"]

_PACKAGES = ("numpy", "llvmlite", "networkx", "ml_dtypes", "scikit-learn", "tqdm", "torch", "jax")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    target = host_target()
    traits = [f"vectors of {target.vector_bits} bits"]
    traits += [n for n in ("fma", "masks") if getattr(target, n)]
    rows = [
        ("staticflow", staticflow.__version__),
        ("Python", f"{platform.python_version()} ({platform.platform()})"),
        ("LLVM", ".".join(map(str, llvm.llvm_version_info))),
        *((name, _version(name)) for name in _PACKAGES),
        ("CPU", f"{llvm.get_host_cpu_name()}, {', '.join(traits)}"),
        ("cores", f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}"),
        ("GPU", _gpu()),
    ]
    for name, value in rows:
        print(f"{name:<14}{value}")
    return 0


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _gpu() -> str:
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return 'no cupy; pip install "staticflow[cuda13x]" (or cuda12x)'
    if not cupy.is_available():
        return f"cupy {cupy.__version__}, but no usable device"
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return f"{properties['name'].decode()}, cupy {cupy.__version__}"
