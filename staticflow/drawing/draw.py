"""``draw``: a graph, a program or a tape as a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticflow.drawing.picture import Picture

__all__ = ["draw"]


def draw(
    thing: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    after: str = "",
    sizes: Mapping[str, int] | None = None,
) -> Picture:
    """A picture of a program, a jitted function that was called, a graph, a symbol or several, or
    of what a tensor or several were recorded to be made of; written to ``path`` if that is given.

    What comes after the last dot of ``path`` says the format: ``.html`` is a page to explore, which
    for a program has a slider over the passes; ``.svg`` a picture; ``.dot`` text for Graphviz;
    ``.json`` the nodes and edges. ``after`` is the name of a pass:
    the program is drawn as it came out of it, or as it was ``"written"``; by default as it runs.
    With ``sizes``, values of unknown sizes by name, as ``{"x_0": 32}``, kernels tell their FLOPs.
    In a notebook the result shows itself.

    Raises `ArgumentError` for another format or for a name of no pass or size, `DTypeError` for
    what is none of these things, `AutogradError` for a tensor without a tape.

    >>> import staticflow as sf
    >>> x = sf.placeholder((None,), name="x")
    >>> step = sf.compile([x], (x.exp() * 2).sum())
    >>> sf.draw(step)
    <picture of a graph: 7 nodes, 5 edges, after fuse>
    >>> sf.draw(step, after="written").svg().count("<rect")
    5
    """
    from staticflow.drawing.picture import format_of, make_picture

    if path is not None:
        format_of(path)
    picture = make_picture(thing, after, sizes)
    if path is not None:
        picture.save(path)
    return picture
