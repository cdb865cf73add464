"""The command line: ``python -m staticflow COMMAND``."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from staticflow.data_classes import dataclass
from staticflow.errors import StaticflowError
from staticflow.tools import bench, cache, compare, info, launch, opt, plan_cluster, view
from staticflow.tools.interrupts import INTERRUPTED, raise_at_interrupt
from staticflow.tools.printing import leave_output

__all__ = ["COMMANDS", "Command", "main"]


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: its line of help, its options, and its work, which gives the exit status."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


COMMANDS = {
    "bench": Command("this project's workloads beside peers", bench.add_arguments, bench.run),
    "cache": Command("machine code that is kept on disk", cache.add_arguments, cache.run),
    "compare": Command(
        "run one model in both modes: do they agree, what does each cost, from when on it pays",
        compare.add_arguments,
        compare.run,
    ),
    "info": Command("versions, CPU and GPU", info.add_arguments, info.run),
    "launch": Command("a script on several processes, by mpirun", launch.add_arguments, launch.run),
    "opt": Command("passes over a graph that is text", opt.add_arguments, opt.run),
    "plan-cluster": Command(
        "what a process of a mesh would hold and send, without any other",
        plan_cluster.add_arguments,
        plan_cluster.run,
    ),
    "view": Command("a graph, a program or a tape as a picture", view.add_arguments, view.run),
}


READER_LEFT = 141
"""The exit status of a process whose output nobody reads any more: 128 and the number of SIGPIPE,
as of other programs."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """End the process with status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that ``arguments`` (by default those of the process) name; the exit status
    is 0 if all went well, 1 if not, 2 for a mistake of the user's, 130 after an interrupt."""
    try:
        raise_at_interrupt()
        return _run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    """What `main` does, but for interrupts."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _Parser(
        prog="python -m staticflow", description="Tensors in two modes: eager and compiled."
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        sub = subparsers.add_parser(name, help=command.help, description=command.help)
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    if not given:
        parser.print_help()
        return 2
    if given[0] not in COMMANDS and not given[0].startswith("-"):
        width = max(map(len, COMMANDS)) + 2
        known = "\n".join(f"    {name:<{width}}{c.help}" for name, c in COMMANDS.items())
        print(f"there is no command {given[0]!r}; the commands are\n{known}", file=sys.stderr)
        return 2
    options = parser.parse_args(given)
    if isinstance(sys.stdout, io.TextIOWrapper):  # which may know fewer letters than a table has
        sys.stdout.reconfigure(errors="replace")
    try:
        status = int(options.run(options))
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # as under `| head`
        leave_output()
        return READER_LEFT
    except (StaticflowError, OSError, MemoryError) as error:  # such as a file that is not writable
        print(" ".join(str(error).split()) or "there is not enough memory", file=sys.stderr)
        leave_output()
        return 2
