"""Bytes as a message of ONNX, and the versions that it asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import IO, Any, Protocol

from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError, FolderModelError, MissingModelError
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.refuse import WrongModel, short

__all__ = ["Serialized", "Source", "open_source", "parse"]


class Serialized(Protocol):
    """A ``ModelProto``, as ``onnx.load`` gives it."""

    def SerializeToString(self) -> bytes:
        """Its bytes."""
        ...


Given = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes] | Serialized


@dataclass(frozen=True, slots=True)
class Source:
    """A file: its ``name`` in messages, its bytes, and the ``folder`` in which data outside of it
    may lie; None for bytes and open files."""

    name: str
    data: bytes
    folder: str | None


def open_source(given: Given) -> Source:
    """The bytes of a path, of an open file, of a ``ModelProto``, or given as such.

    Raises `ArgumentError` for what is none of these, `MissingModelError` for a path without a
    file, `FolderModelError` for a folder, and `OSError` for a file that cannot be read.
    """
    if isinstance(given, bytes | bytearray | memoryview):
        return Source("the bytes", bytes(given), None)
    if hasattr(given, "SerializeToString"):  # as onnx.load gives it, with the data beside its file
        return Source("the model", given.SerializeToString(), None)
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        try:
            with open(path, "rb") as file:
                return Source(path, file.read(), os.path.dirname(os.path.abspath(path)))
        except FileNotFoundError:
            raise MissingModelError(
                f"onnx.load: there is no file {path!r}; give the path of a model of ONNX, its "
                f"bytes, or an open file, at {format_locs(here())}"
            ) from None
        except IsADirectoryError:
            raise FolderModelError(
                f"onnx.load: {path!r} is a folder; give the path of the model in it, "
                f"at {format_locs(here())}"
            ) from None
    if hasattr(given, "read"):
        data = given.read()
        if isinstance(data, bytes | bytearray | memoryview):
            return Source(str(getattr(given, "name", type(given).__name__)), bytes(data), None)
    raise ArgumentError(
        "onnx.load: takes a path, bytes, a file that is open for reading bytes, or a ModelProto, "
        f"not {type(given).__name__}, at {format_locs(here())}"
    )


def parse(data: bytes, library: Any) -> tuple[Any, Mapping[str, int]]:
    """The model that ``data`` is, a ``ModelProto``, and the version of each domain of operators.

    Raises `WrongModel` for what is none, and for versions that nobody knew as onnx was written.
    """
    decode_error = import_module("google.protobuf.message").DecodeError
    try:
        model = library.ModelProto.FromString(data)
    except decode_error as error:
        raise WrongModel(f"is no model of ONNX ({error})") from None
    if not model.HasField("graph"):
        raise WrongModel("has no graph, so it is no model of ONNX")
    if not 1 <= model.ir_version <= library.IR_VERSION:
        raise WrongModel(
            f"is of IR version {model.ir_version}; onnx {library.__version__} knows those from 1 "
            f"to {library.IR_VERSION}: install a newer onnx, or write the model for an older one"
        )
    _check_names(model)
    return model, opsets(model.opset_import, library)


def _check_names(message: Any) -> None:
    """Raise `WrongModel` where a text in a message, or in one inside of it, is no UTF-8: it is
    bytes then, and equal to no name. What is written for people may be in any code."""
    for field, value in message.ListFields():
        several = not isinstance(value, str | bytes | int | float) and hasattr(value, "__len__")
        for part in value if several else (value,):
            if field.type == field.TYPE_MESSAGE:
                _check_names(part)
            elif field.type != field.TYPE_STRING:
                break
            elif isinstance(part, bytes) and field.name != "doc_string":
                raise WrongModel(f"has text that is no UTF-8, {short(str(part))}, as {field.name}")


def opsets(imports: Any, library: Any) -> dict[str, int]:
    """The version of each domain that a model or function says; "" is the domain of ONNX."""
    found: dict[str, int] = {}
    for each in imports:
        domain = domain_of(each.domain)
        if domain in found:
            raise WrongModel(f"says the version of the operators of {short(domain)} twice")
        found[domain] = each.version
    newest = library.defs.onnx_opset_version()
    if "" in found and not 1 <= found[""] <= newest:
        raise WrongModel(
            f"is of opset {found['']}; onnx {library.__version__} knows those from 1 to {newest}: "
            "install a newer onnx, or write the model for an older opset"
        )
    return found


def domain_of(name: str) -> str:
    """A domain of operators; that of ONNX has two names."""
    return "" if name == "ai.onnx" else name
