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
        return Model(plan, source.name, _kinds_of(proto.graph))


def _kinds_of(graph: Any) -> dict[str, str]:
    """What the file says that values are: ours notes it beside each initializer, and PyTorch's
    beside what it knows of a value's type. A value that a ``Constant`` node holds is a buffer."""
    kinds = {n.output[0]: "buffer" for n in graph.node if n.op_type == "Constant" and n.output}
    for value in graph.value_info:
        for entry in getattr(value, "metadata_props", ()):
            if entry.key == _KIND_OF_PYTORCH:
                kinds[value.name] = "parameter" if entry.value == "PARAMETER" else "buffer"
    for tensor in graph.initializer:
        for entry in getattr(tensor, "metadata_props", ()):
            if entry.key == KIND:
                kinds[tensor.name] = entry.value
    return kinds


_KIND_OF_PYTORCH = "pkg.torch.export.graph_signature.InputSpec.kind"
