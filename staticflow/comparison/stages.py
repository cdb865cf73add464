"""Graphs that are text, through passes: what the command ``opt`` does."""

from __future__ import annotations

import difflib
import sys
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from staticflow.config import config
from staticflow.errors import ArgumentError, ParseError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.graph import Graph, free_symbols
from staticflow.graph.parser import parse_graph
from staticflow.graph.verify import verify_graph
from staticflow.ops import OPS
from staticflow.passes.choosing import FUSED
from staticflow.passes.order import PASSES, arrange_passes, passes_for
from staticflow.passes.pipeline import RUNS, optimize
from staticflow.static.bisection import Culprit, bisect_passes, find_difference

__all__ = ["bisect_text", "diff_graphs", "read_graph", "run_passes"]


def read_graph(file: str) -> Graph:
    """The graph whose text a file holds, ``-`` being the standard input, verified.

    Raises `ArgumentError` where there is no such file, no text, or no graph that can run.
    """
    path = Path(file)
    if file != "-" and not path.is_file():
        raise ArgumentError(
            f"there is no file {file!r}; give a graph as text, as print(graph) has it"
        )
    try:
        text = sys.stdin.read() if file == "-" else path.read_text("utf-8")
        return verify_graph(parse_graph(text, {**OPS, **FUSED}))
    except ParseError as error:
        raise ArgumentError(f"{file}: {str(error).splitlines()[0]}") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{file} is no text; a .sf file is what print(graph) shows") from None


def _passes(names: str | None, numerics: str) -> Sequence[str]:
    """The passes of these names, separated by commas, in their order; all without names."""
    if names is None:
        return passes_for(numerics, PASSES)
    return arrange_passes([name.strip() for name in names.split(",") if name.strip()])


def run_passes(graph: Graph, names: str | None, numerics: str, dump: Path | None) -> Graph:
    """The graph after the passes of these names, verified after each. With ``dump``, every stage is
    written into that folder."""
    passes = _passes(names, numerics)
    settings: dict[str, Any] = {"verify": True}
    if dump is not None:
        settings["dump"] = str(dump)
    with config.change(**settings):
        return optimize(graph, "fast" if names is not None else numerics, passes)[0]


def diff_graphs(before: Graph, after: Graph, file: str) -> str:
    """A unified diff of the texts of two graphs; nothing if they are the same."""
    was, now = (str(graph).splitlines(keepends=True) for graph in (before, after))
    return "".join(difflib.unified_diff(was, now, file, f"{file} after the passes"))


def bisect_text(
    graph: Graph, names: str | None, numerics: str, sizes: Mapping[str, int], seed: int
) -> Culprit | None:
    """The first rewrite of the passes that changes a result on random arrays, if there is one.

    Raises `ArgumentError` for a name of no size.
    """
    symbols = {s.name: s for s in free_symbols(graph)}
    for name in sizes.keys() - symbols:
        known = f"it has {', '.join(sorted(symbols))}" if symbols else "it has none"
        raise ArgumentError(f"--size: the graph has no size {name!r}; {known}")
    values = {s: sizes.get(name, 3) for name, s in symbols.items()}
    arrays = []
    for p in graph.params:
        t = p.tensor_type
        rng = np.random.default_rng([seed, zlib.crc32(p.attrs["name"].encode())])
        shape = [evaluate_dim(d, values) for d in t.shape]
        drawn = rng.normal(size=shape) if t.dtype.is_floating else rng.integers(0, 2, shape)
        arrays.append(np.asarray(drawn).astype(t.dtype.numpy))
    differ = partial(find_difference, rtol=None, atol=0.0)
    passes = [(name, RUNS[name]) for name in _passes(names, numerics)]
    return bisect_passes(graph, passes, arrays, differ)
