"""``python -m staticflow launch``: a script on several processes, by mpirun."""

from __future__ import annotations

import argparse
import os
import sys

from staticflow.errors import RankError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many processes, and of what."""
    parser.add_argument("-n", type=int, required=True, help="how many processes")
    parser.add_argument("script", help="the script that each runs")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it is given")


def run(arguments: argparse.Namespace) -> int:
    """Become ``mpirun -n N python SCRIPT ...``, with more processes than processors if need be.
    Its options are set by its environment variables, as for any other call of it."""
    from staticflow.distributed.launching import launch_command

    if arguments.n < 1:
        raise RankError(f"launch: -n is {arguments.n}; there must be at least one process")
    words = [arguments.script, *arguments.arguments]
    command, environment = launch_command(arguments.n, words)
    sys.stdout.flush()
    os.execve(command[0], command, environment)
