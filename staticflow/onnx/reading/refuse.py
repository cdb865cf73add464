"""How a file is refused: one error that says the file, the node and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from staticflow.errors import ModelError
from staticflow.graph.locs import format_locs, here

__all__ = ["WrongModel", "naming", "short"]


class WrongModel(Exception):
    """A fault of a model that names the node or tensor; `naming` adds the name of the file."""


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Turn a `WrongModel` of the block into a `ModelError` that names ``file`` and the user's line;
    graphs nested deeper than Python recurses become one, too."""
    try:
        yield
    except WrongModel as wrong:
        raise ModelError(f"onnx.load: {file}: {wrong}, at {format_locs(here())}") from None
    except RecursionError:
        raise ModelError(
            f"onnx.load: {file}: its graphs or functions lie too deep in each other, at "
            f"{format_locs(here())}"
        ) from None


def short(text: str) -> str:
    """A name of a file as a message shows it: quoted, and cut where it is long."""
    return repr(text) if len(text) <= 60 else repr(text[:57] + "...")
