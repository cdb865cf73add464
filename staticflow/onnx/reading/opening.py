"""From a file to a module."""

from __future__ import annotations

from typing import Any

from staticflow.onnx.reading.file import open_source, parse
from staticflow.onnx.reading.module import Model
from staticflow.onnx.reading.reader import Reader
from staticflow.onnx.reading.refuse import naming
from staticflow.onnx.types import KIND

__all__ = ["open_model"]


def open_model(given: Any, library: Any) -> Model:
    """The module that a file is, as `staticflow.onnx.load` says it."""
    source = open_source(given)
    with naming(source.name):
        proto, versions = parse(source.data, library)
        reader = Reader(library, versions, proto.functions, source.folder)
        plan = reader.graph(proto.graph)
        kinds = {
            t.name: e.value
            for t in proto.graph.initializer
            for e in getattr(t, "metadata_props", ())
            if e.key == KIND
        }
        return Model(plan, source.name, kinds)
