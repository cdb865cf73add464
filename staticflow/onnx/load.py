"""Files of ONNX as modules: the door, behind which the rest is imported."""

from __future__ import annotations

import os
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticflow.onnx.reading.file import Serialized
    from staticflow.onnx.reading.module import Model

__all__ = ["load"]


def load(model: str | os.PathLike[str] | bytes | IO[bytes] | Serialized) -> Model:
    """The model of ONNX in a file, or given as bytes or a ``ModelProto``, as a module of ordinary
    operations.

    The module is called with tensors or symbols, in the order of the file's inputs or by their
    names; it computes now, or writes a graph, and can be differentiated, trained, compiled and
    exported again. Floating initializers of one dim and more are its parameters, others buffers,
    under the names that they have in the file, so that ``state_dict()`` says these.
    ``placeholders()`` are its inputs as the file declares them, sizes with names being unknown
    ones. Operators have one meaning in both modes; what the attribute ``training_mode`` asks for is
    done, whatever mode the module is in.

    A file is data: nothing of it is run as code, its tensors are no larger than it says and holds,
    and data outside of it must lie in its folder. Raises `ModelError` for a file that is damaged,
    too new, or has an operator or dtype without a meaning here, and says the node; `ArgumentError`
    for what is no path, bytes, open file or ``ModelProto``; a `ModelError` that is a
    `FileNotFoundError`, too, where there is no such file; and `ImportError` where onnx is not
    installed.

    >>> import io
    >>> import staticflow as sf
    >>> file = io.BytesIO()
    >>> sf.onnx.export(sf.nn.Linear(3, 2), file, sf.placeholder(("batch", 3), name="x"))
    >>> model = sf.onnx.load(file.getvalue())
    >>> model.placeholders()[0].shape, list(model.state_dict())
    ((batch, 3), ['weight', 'bias'])
    """
    library = _library()
    from staticflow.onnx.reading.opening import open_model

    return open_model(model, library)


def _library() -> Any:
    try:
        onnx = import_module("onnx")
        import_module("onnx.defs")
    except ImportError:
        raise ImportError('ONNX files are read by onnx; pip install "staticflow[onnx]"') from None
    return onnx
