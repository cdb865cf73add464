"""``python -m staticflow cache``: the programs and the machine code that are kept on disk."""

from __future__ import annotations

import argparse

from staticflow.runtime.code_cache import code_cache
from staticflow.runtime.program_cache import MARK

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One option."""
    parser.add_argument("--clear", action="store_true", help="take all of it away")


def run(arguments: argparse.Namespace) -> int:
    """Print where it is and how much there is, after it was cleared if that was asked for."""
    cache = code_cache()
    if cache is None:
        print("nothing is kept")
        return 0
    if arguments.clear:
        cache.clear()
    usage, most, programs = cache.usage(), cache.limit >> 20, cache.count(MARK)
    print(
        f"{cache.folder}: {programs} programs, {usage.entries - programs} pieces of machine code "
        f"and text, {usage.bytes / 2**20:.1f} of {most} MiB"
    )
    return 0
