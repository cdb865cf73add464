"""``python -m staticflow view``: a graph, a program or a tape as a picture."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from staticflow.tools.numbers import size_of

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("target", metavar="FILE", help="prog.py:NAME, where NAME is a program, a jitted function "
        "that was called, a graph, a recorded tensor, or a model as compare takes it; or a "
        "graph as text, graph.sf")  # fmt: skip
    add("--html", metavar="FILE", help="a page to explore; made as NAME.html if nothing is asked "
        "for; - is the standard output here and below")  # fmt: skip
    add("--svg", metavar="FILE", help="a picture")
    add("--dot", metavar="FILE", help="text for Graphviz")
    add("--json", metavar="FILE", help="nodes and edges")
    add("--tensorboard", metavar="DIR", type=Path, help="event files for TensorBoard")
    add("--pass", metavar="NAME", dest="after", default="", help="the program as it came out of "
        "that pass, or as it was written; by default as it runs")  # fmt: skip
    add("--size", metavar="NAME=N", action="append", type=size_of, default=[], help="the value of "
        "an unknown size, once for each, so that kernels tell their FLOPs")  # fmt: skip
    add("--eager", action="store_true", help="of a model: the tape of an eager step")
    add("--input", action="append", metavar="TYPE", dest="inputs", default=[], help="of a model, "
        "once for each input, as compare takes it")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from staticflow.comparison.output import Output
    from staticflow.comparison.pictures import load_picture
    from staticflow.drawing.events import prepare_folder, write_events
    from staticflow.drawing.picture import FORMATS

    formats = [ending.removeprefix(".") for ending in FORMATS]
    asked = {name: path for name in formats if (path := getattr(arguments, name)) is not None}
    if not asked and arguments.tensorboard is None:
        asked = {"html": _default_page(arguments.target)}
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(Output(Path(path), f"the picture ({name})"))
            for name, path in asked.items()
            if path != "-"
        }
        if arguments.tensorboard is not None:
            prepare_folder(arguments.tensorboard)
        picture = load_picture(
            arguments.target, arguments.after, arguments.eager, dict(arguments.size),
            arguments.inputs,
        )  # fmt: skip
        for name in asked:
            text = FORMATS[f".{name}"](picture)
            if name in files:
                files[name].write(text)
            else:
                sys.stdout.write(text)
    told = [path for path in asked.values() if path != "-"]
    if arguments.tensorboard is not None:
        write_events(picture.stages, arguments.tensorboard)
        told.append(f"tensorboard --logdir {arguments.tensorboard}")
    print(f"{picture!r}: {', '.join(told)}", file=sys.stderr if "-" in asked.values() else None)
    return 0


def _default_page(target: str) -> str:
    """The file of the page in the current folder, named for what is drawn."""
    place, _, name = target.partition(":")
    return f"{name.partition('(')[0] or Path(place).stem}.html"
