"""Functions of ONNX whose nodes depend on the types of their inputs, bound as they are met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from staticflow.graph.dtypes import DType
from staticflow.onnx.reading.plan import GraphPlan
from staticflow.onnx.reading.reader import Reader
from staticflow.onnx.reading.refuse import WrongModel, naming
from staticflow.onnx.reading.values import Known, Value
from staticflow.onnx.types import element_type

__all__ = ["bind"]

Kind = tuple[DType, tuple[int | None, ...]] | None


def bind(node: bytes, values: Sequence[Value], attrs: Mapping[str, Any]) -> GraphPlan:
    """The body of a function for inputs of the types of ``values``."""
    kinds = tuple(_kind(v) for v in values)
    return _body(node, kinds, attrs["op"], attrs["domain"], attrs["versions"])


def _kind(value: Value) -> Kind:
    if value is None or isinstance(value, list):
        return None
    shape = value.array.shape if isinstance(value, Known) else value.shape
    return value.dtype, tuple(d if type(d) is int else None for d in shape)


@lru_cache(maxsize=512)
def _body(
    node: bytes, kinds: tuple[Kind, ...], op: str, domain: str, pairs: tuple[tuple[str, int], ...]
) -> GraphPlan:
    library = import_module("onnx")
    version = dict(pairs)[domain]
    schema = library.defs.get_schema(op, version, domain)
    versions = schema.context_dependent_function_opset_versions
    found = max((v for v in versions if v <= version), default=versions[0])
    types = [_type(library, kind).SerializeToString() for kind in kinds]
    with naming(f"the function of {op}"):
        try:
            data = schema.get_context_dependent_function_with_opset_version(found, node, types)
        except Exception as error:
            raise WrongModel(f"onnx gives none for these inputs ({error})") from None
        if not data:
            raise WrongModel("onnx gives none for these inputs")
        function = library.FunctionProto.FromString(data)
        return Reader(library, dict(pairs)).function(function, _attributes(library, node, schema))


def _attributes(library: Any, node: bytes, schema: Any) -> dict[str, Any]:
    given = {a.name: a for a in library.NodeProto.FromString(node).attribute}
    for name, declared in schema.attributes.items():
        default = declared.default_value
        given.setdefault(name, default if default.type else None)
    return given


def _type(library: Any, kind: Kind) -> Any:
    found = library.TypeProto()
    if kind is not None:
        dtype, shape = kind
        found.tensor_type.elem_type = element_type(dtype)
        found.tensor_type.shape.SetInParent()
        for size in shape:
            dim = found.tensor_type.shape.dim.add()
            if size is not None:
                dim.dim_value = size
    return found
