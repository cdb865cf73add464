"""Programs and modules as files of ONNX: the door, behind which the rest is imported."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from staticflow.errors import ArgumentError, FolderModelError, MissingModelError
from staticflow.graph.locs import format_locs, here
from staticflow.serialization import check_place, replace_file

__all__ = ["export"]

_MOST_BYTES = (1 << 31) - 1
"""A file of ONNX, which is one message, is no larger."""


def export(model: Any, path: str | os.PathLike[str] | IO[bytes], inputs: Any = None) -> None:
    """Write a program, a module or a function of tensors to ``path``, a path or an open file, as a
    model of ONNX, which other runtimes run and Netron draws.

    A program of `compile` is written as its graph was before any pass. A module or a function is
    called with ``inputs``, a placeholder, tensor or array, or a list, tuple or dict of them: dims
    of placeholders that are unknown stay so. A module is written as it is in evaluation. Inputs
    and tensors have their names; nodes say the lines that made them. The variables that a program
    updates, as the parameters of a training step and the state of a generator, are inputs with
    their value now as default, and their new values further outputs: the model changes nothing.

    Raises `ArgumentError` for what is none of these, or too large for a file (2 GiB),
    `FileNotFoundError` for a folder that is not there, `SymbolicError` for an operation without a
    form in ONNX, and `ImportError` where onnx is not installed. Then ``path`` is as it was.

    >>> import io
    >>> import staticflow as sf
    >>> x = sf.placeholder(("batch", 3), name="x")
    >>> file = io.BytesIO()
    >>> sf.onnx.export(sf.nn.Linear(3, 2), file, x)
    >>> file.tell() > 100
    True
    """
    library = _library()
    if isinstance(path, str | os.PathLike):
        check_place(Path(path), "onnx.export", MissingModelError, FolderModelError)
    from staticflow.onnx.model import model_of

    found = model_of(model, inputs, library)
    if found.ByteSize() > _MOST_BYTES:
        raise ArgumentError(
            f"onnx.export: the model takes {found.ByteSize()} bytes, and a file holds "
            f"{_MOST_BYTES}; export parts of it, at {format_locs(here())}"
        )
    data: bytes = found.SerializeToString()
    if isinstance(path, str | os.PathLike):
        replace_file(Path(path), data)
    elif hasattr(path, "write"):
        path.write(data)
    else:
        raise ArgumentError(
            "onnx.export: 'path' must be a path or an open file, not "
            f"{type(path).__name__}, at {format_locs(here())}"
        )


def _library() -> Any:
    try:
        onnx = import_module("onnx")
        import_module("onnx.helper")
    except ImportError:
        raise ImportError(
            'ONNX files are written by onnx; pip install "staticflow[onnx]"'
        ) from None
    return onnx
