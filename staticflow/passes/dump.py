"""The graph after every pass, written into a folder as text."""

from __future__ import annotations

from pathlib import Path

from staticflow.errors import ArgumentError
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs, here
from staticflow.graph.printer import print_graph

__all__ = ["Dump"]

_MOST = 100_000


class Dump:
    """Writes the stages of one graph into a folder of their own in ``folder``, ``graph_0001`` or
    the next that is free: ``00_written.sf``, and a file for each pass that changed the graph, by
    its position and name. ``python -m staticflow opt`` and `staticflow.draw` read them.

    Raises `ArgumentError` where no folder can be made.
    """

    def __init__(self, folder: str | Path, graph: Graph) -> None:
        self.folder = _make_folder(Path(folder))
        self.position = 0
        self._write("written", graph)

    def note(self, name: str, before: Graph, after: Graph) -> None:
        """Write what the next pass, ``name``, made of a graph, if it changed it."""
        self.position += 1
        if after is not before:
            self._write(name, after)

    def _write(self, name: str, graph: Graph) -> None:
        path = self.folder / f"{self.position:02}_{name}.sf"
        path.write_text(print_graph(graph, locs=True), "utf-8")


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MOST):
            own = folder / f"graph_{number:04}"
            try:
                own.mkdir()
            except FileExistsError:
                continue
            return own
    except OSError as error:
        raise _refusal(
            f"the stages of a graph cannot be written into {str(folder)!r}: {error.strerror}; name "
            "a folder that can be made"
        ) from error
    raise _refusal(f"{str(folder)!r} holds the stages of {_MOST - 1} graphs; clear it")


def _refusal(what: str) -> ArgumentError:
    locs = here()
    return ArgumentError(what + (f", at {format_locs(locs)}" if locs else ""))
