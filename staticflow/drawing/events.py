"""Drawings as event files, which TensorBoard shows as graphs.

The package ``tensorboard`` has the format: its protocol buffers and the writer of event files.
Groups are name scopes, which TensorBoard opens and closes; each pass is a run of its own.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from staticflow.drawing.flow import single_edges
from staticflow.drawing.model import Drawing, DrawnNode
from staticflow.drawing.stages import Stage
from staticflow.errors import ArgumentError

__all__ = ["prepare_folder", "write_events"]

_DTYPES = {
    "bool": "DT_BOOL", "u8": "DT_UINT8", "i8": "DT_INT8", "i16": "DT_INT16", "i32": "DT_INT32",
    "i64": "DT_INT64", "f16": "DT_HALF", "bf16": "DT_BFLOAT16", "f32": "DT_FLOAT",
    "f64": "DT_DOUBLE",
}  # fmt: skip
_TENSOR = re.compile(r"(\w+)\[([^\[\]]*)\]")
_OPS = {"input": "Placeholder", "variable": "Variable", "leaf": "Variable", "constant": "Const"}
"""What TensorBoard calls the kinds that it knows."""


def write_events(stages: Sequence[Stage], folder: str | os.PathLike[str]) -> list[Path]:
    """Write event files below ``folder``, for ``tensorboard --logdir FOLDER``: one, or of several
    stages one in a folder for each, named ``1 written``, ``2 canonicalize`` and so on. Returns the
    folders.

    Raises `ArgumentError` as `prepare_folder` does.
    """
    prepare_folder(folder)
    writer = import_module("tensorboard.summary.writer.event_file_writer")
    protos = import_module("tensorboard.compat.proto.event_pb2")
    runs = []
    for number, stage in enumerate(stages, 1):
        run = Path(folder, f"{number} {stage.name}") if len(stages) > 1 else Path(folder)
        run.mkdir(parents=True, exist_ok=True)
        graph = graph_def_of(stage.drawing).SerializeToString()
        events = writer.EventFileWriter(str(run))
        events.add_event(protos.Event(wall_time=time.time(), graph_def=graph))
        events.close()
        runs.append(run)
    return runs


def prepare_folder(folder: str | os.PathLike[str]) -> None:
    """Make the folder for event files. Raises `ArgumentError` where it cannot be written, or where
    the package ``tensorboard``, which writes them, is not installed."""
    try:
        import_module("tensorboard.compat.proto.event_pb2")
    except ImportError:
        raise ArgumentError(
            "event files are written by the package tensorboard, which is not installed; "
            'pip install "staticflow[tensorboard]"'
        ) from None
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ArgumentError(
            f"event files cannot be written to {os.fspath(folder)!r}: {reason}"
        ) from None


def graph_def_of(drawing: Drawing) -> Any:
    """The drawing as a ``GraphDef`` of TensorFlow. A group is no node of it, but the beginning of
    the names of those in it."""
    graph_def = import_module("tensorboard.compat.proto.graph_pb2").GraphDef()
    names = _names_of(drawing)
    groups = {n.parent for n in drawing.nodes}
    sources: dict[int, list[int]] = {}
    for source, target in single_edges(drawing):
        sources.setdefault(target, []).append(source)
    for node in drawing.nodes:
        if node.id in groups:
            continue
        made = graph_def.node.add(name=names[node.id], op=_OPS.get(node.kind, node.label))
        made.input.extend(names[s] for s in sources.get(node.id, ()))
        _add_attrs(made, node)
    return graph_def


def _names_of(drawing: Drawing) -> dict[int, str]:
    """A name for each node, which only it has, below that of its group."""
    names: dict[int, str] = {}
    for node in drawing.nodes:
        own = re.sub(r"[^A-Za-z0-9_.]", "_", f"{node.label}_{node.id}").lstrip("_")
        names[node.id] = own if node.parent is None else f"{names[node.parent]}/{own}"
    return names


def _add_attrs(made: Any, node: DrawnNode) -> None:
    types = import_module("tensorboard.compat.proto.types_pb2")
    shapes = made.attr["_output_shapes"].list
    for dtype, sizes in _tensors_of(node.type):
        shape = shapes.shape.add()
        for size in sizes:
            shape.dim.add(size=size)
        made.attr["T"].type = getattr(types, _DTYPES.get(dtype, "DT_INVALID"))
    rows = {
        "type": node.type,
        "lines": ", ".join(node.lines),
        "name": node.name,
        "results": ", ".join(node.outputs),
        "bytes": node.bytes or "",
        "flops": node.flops or "",
        **node.attrs,
    }
    for name, value in rows.items():
        if value:
            made.attr[name].s = value.encode("utf-8", "replace")


def _tensors_of(type: str) -> Iterator[tuple[str, list[int]]]:
    """The dtypes and sizes of a type as text; -1 stands for a size that is not known."""
    for dtype, sizes in _TENSOR.findall(type):
        while (bare := re.sub(r"\([^()]*\)", "", sizes)) != sizes:
            sizes = bare
        parts = [part.strip() for part in sizes.split(",") if part.strip()]
        yield dtype, [int(part) if part.isdigit() else -1 for part in parts]
