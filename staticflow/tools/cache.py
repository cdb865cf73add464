"""``python -m staticflow cache``: the machine code that is kept on disk."""

from __future__ import annotations

import argparse

from staticflow.runtime.code_cache import code_cache

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One option."""
    parser.add_argument("--clear", action="store_true", help="take all of it away")


def run(arguments: argparse.Namespace) -> int:
    """Print where it is and how much there is, after it was cleared if that was asked for."""
    cache = code_cache()
    if cache is None:
        print("no machine code is kept")
        return 0
    if arguments.clear:
        cache.clear()
    usage, most = cache.usage(), cache.limit >> 20
    print(f"{cache.folder}: {usage.entries} entries, {usage.bytes / 2**20:.1f} of {most} MiB")
    return 0
