"""State files: nested dicts, lists and tuples of tensors and plain values in one file.

The file is a safetensors file, which other frameworks read, too: the tensors by their paths, and
the structure as JSON beside them. Reading one runs no code of the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from staticflow.eager.tensor import Tensor
from staticflow.errors import (
    ArgumentError,
    CheckpointError,
    DeviceError,
    FolderCheckpointError,
    MissingCheckpointError,
    StaticflowError,
)
from staticflow.graph.articles import with_article
from staticflow.graph.dtypes import BY_NUMPY, DTYPES, bool_
from staticflow.graph.locs import format_locs, here
from staticflow.graph.masked_arrays import is_masked_array
from staticflow.ops.declaring.foreign import refuses_foreign_in

__all__ = ["load", "read_state", "save"]

_METADATA = "__metadata__"  # where the header of a file has texts and no tensor
_KEY = "staticflow"  # of the structure, in the metadata of the file
_PLAIN = (type(None), bool, int, float, str)


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write ``obj`` to the file ``f``, a path or an open file: dicts, lists and tuples of tensors,
    arrays, numbers, strings and None, as the state dicts of models, optimisers and schedules are.

    At a path it is written beside ``f`` and put in its place when it is complete, so that a crash
    leaves the old one. A file that is there keeps its permissions and its owner, and a link is
    followed. Raises `CheckpointError` for anything else in ``obj``, for a path that is a folder and
    for one in a folder that is not there; `ArgumentError` for an ``f`` that is neither a path nor
    an open file, and `ImportError` where safetensors is not installed.

    >>> import staticflow as sf, tempfile
    >>> model = sf.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sf.save({"model": model.state_dict(), "epoch": 3}, f"{folder}/last.safetensors")
    ...     found = sf.load(f"{folder}/last.safetensors")
    >>> found["epoch"], model.load_state_dict(found["model"])
    (3, <All keys matched successfully>)
    """
    library = _library("numpy")
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    try:
        structure = json.dumps(_describe(obj, (), arrays))
        data: bytes = library.save(arrays, metadata={_KEY: structure})
    except (UnicodeError, RecursionError, ValueError, _library().SafetensorError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"save: {type(obj).__name__} cannot be written ({type(error).__name__}: {error}), "
            f"at {format_locs(here())}"
        ) from None
    if isinstance(f, str | os.PathLike):
        check_place(Path(f), "save", MissingCheckpointError, FolderCheckpointError)
        replace_file(Path(f), data)
    else:
        try:
            _method(f, "write", "save")(data)
        except TypeError as error:
            raise ArgumentError(
                f"save: {type(f).__name__} takes no bytes ({error}); open it with mode 'wb', "
                f"at {format_locs(here())}"
            ) from None


def load(
    f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, *, weights_only: bool = True
) -> Any:
    """What `save` wrote to ``f``, a path or an open file, with new tensors on ``map_location``, or
    each where it was saved from. A safetensors file from elsewhere gives a dict of its tensors, on
    the CPU. No file runs code, whatever ``weights_only`` says.

    Raises `CheckpointError` for a file that is damaged or none of the kind, for none, where it is a
    `FileNotFoundError`, too, and for a folder, where it is an `IsADirectoryError`; `DeviceError`
    where there is no such GPU.
    """
    return read_state(f, map_location, "load")


def read_state(f: str | os.PathLike[str] | IO[bytes], map_location: Any, caller: str) -> Any:
    """What `load` gives; an error names the ``caller``, the function that the user called."""
    library = _library()
    if isinstance(f, str | os.PathLike):
        path, data = os.fspath(f), _read(Path(f), caller)
    else:
        path, data = getattr(f, "name", type(f).__name__), _method(f, "read", caller)()
    if not isinstance(data, bytes):
        raise ArgumentError(
            f"{caller}: {path} gives {type(data).__name__}, not bytes; open it with mode 'rb', "
            f"at {format_locs(here())}"
        )
    try:
        found = library.deserialize(data)
    except library.SafetensorError as error:
        raise CheckpointError(_complaint(path, data, str(error), caller)) from None
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = header.get(_METADATA) or {}
    what = f"{caller}: {path}"
    tensors = {name: _tensor(what, name, view, map_location) for name, view in found}
    if _KEY not in metadata:
        return tensors
    try:
        return _rebuilt(json.loads(metadata[_KEY]), tensors, map_location is None, what)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{what} is damaged: its structure does not fit its tensors "
            f"({type(error).__name__}: {error}), at {format_locs(here())}"
        ) from None


# -- the structure --------------------------------------------------------------------------------


def _describe(obj: Any, path: tuple[str, ...], arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """``obj`` as JSON: ["tensor", its name in ``arrays``], ["value", it], or the name of a
    container and what is in it. A tensor of a GPU is ["on", [the GPU, its name]]."""
    if isinstance(obj, Tensor) and obj.is_cuda:
        _, name = _describe(obj.cpu(), path, arrays)
        return ["on", [str(obj.device), name]]
    if isinstance(obj, Tensor):
        obj = obj.detach().numpy()
    if isinstance(obj, np.ndarray) and _is_tensor(obj):
        name = ".".join(path)
        while name in arrays or name == _METADATA:  # the keys have dots of their own
            name += "_"
        arrays[name] = np.asarray(obj, order="C")
        return ["tensor", name]
    if isinstance(obj, np.generic):
        obj = obj.item()
    if type(obj) in _PLAIN:
        return ["value", obj]
    if isinstance(obj, Mapping):
        in_keys: dict[str, np.ndarray[Any, Any]] = {}
        pairs = [
            [_describe(k, path, in_keys), _describe(v, (*path, str(k)), arrays)]
            for k, v in obj.items()
        ]
        if in_keys:
            raise CheckpointError(
                f"save: a tensor is a key of {'.'.join(path) or 'the object'}; the keys of a "
                f"state file are numbers, strings and tuples of them, at {format_locs(here())}"
            )
        return ["dict", pairs]
    if type(obj) in (list, tuple):
        items = [_describe(v, (*path, str(i)), arrays) for i, v in enumerate(obj)]
        return [type(obj).__name__, items]
    kind = type(obj).__name__
    if isinstance(obj, np.ndarray):
        kind += f" of {obj.dtype}"
    raise CheckpointError(
        f"save: {'.'.join(path) or 'the object'} is {with_article(kind)}; a state file holds "
        "tensors, numbers, strings and None in dicts, lists and tuples: save its state_dict(), "
        f"at {format_locs(here())}"
    )


def _is_tensor(array: np.ndarray[Any, Any]) -> bool:
    """Whether a tensor could have the elements of ``array``; a mask would be lost."""
    return array.dtype.newbyteorder("=") in BY_NUMPY and not is_masked_array(array)


def _rebuilt(described: Any, tensors: Mapping[str, Tensor], moves: bool, what: str) -> Any:
    """What `_describe` made ``described`` of. If it ``moves`` them, tensors of a GPU are brought
    there. An error says ``what`` is read."""

    def of(part: Any) -> Any:
        kind, inside = part
        return makers[kind](inside)

    def on(inside: Any) -> Tensor:
        place, name = inside
        try:
            return tensors[name].to(place) if moves else tensors[name]
        except DeviceError as error:
            raise DeviceError(
                f"{what}: {name!r} was saved from {place}, and is to be there again; staticflow."
                f"load(..., map_location='cpu') reads the tensors of the file without a GPU: "
                f"{error}"
            ) from None

    makers: dict[str, Callable[[Any], Any]] = {
        "tensor": lambda name: tensors[name],
        "on": on,
        "value": lambda value: value,
        "dict": lambda pairs: {of(k): of(v) for k, v in pairs},
        "list": lambda items: [of(v) for v in items],
        "tuple": lambda items: tuple(of(v) for v in items),
    }
    return of(described)


# -- the file -------------------------------------------------------------------------------------

_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
_DTYPES = {d.name: d for d in DTYPES}


def _tensor(what: str, name: str, view: Mapping[str, Any], device: Any) -> Tensor:
    """The tensor of a ``view`` of a file, ``what`` it is for errors, and under which ``name``."""
    dtype = _DTYPES.get(_NAMES.get(view["dtype"], ""))
    if dtype is None:
        raise CheckpointError(
            f"{what} has {name!r} of the dtype {view['dtype']}, which there is no tensor "
            f"of; there are {', '.join(_NAMES)}, at {format_locs(here())}"
        )
    try:
        array = np.frombuffer(view["data"], np.uint8 if dtype is bool_ else dtype.numpy)
        array = array.reshape(view["shape"])
    except ValueError as error:  # more dims than arrays have, or sizes that no memory has
        raise CheckpointError(
            f"{what} is damaged: {name!r} of {view['dtype']} cannot have the shape "
            f"{view['shape']} ({error}), at {format_locs(here())}"
        ) from None
    if dtype is bool_:
        array = array != 0  # a byte of a file may be any
    out = Tensor._copy_of(array)  # a copy, since what a file is read into is read-only
    return out if device is None else out.to(device)


def _complaint(path: str, data: bytes, reason: str, caller: str) -> str:
    if data[:2] == b"PK" or data[:1] == b"\x80":
        why = (
            "looks like a pickle, as torch.save writes them, which can run any code when it is "
            "read; save it there with safetensors.torch.save_file"
        )
    else:
        why = f"is no safetensors file, or it is damaged ({reason})"
    return f"{caller}: {path} {why}, at {format_locs(here())}"


def _library(part: str = "") -> Any:
    """safetensors, or a part of it."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            'state files are safetensors files; pip install "staticflow[checkpoint]"'
        ) from None
    return safetensors.numpy if part else safetensors


def _method(f: Any, name: str, caller: str) -> Callable[..., Any]:
    """How to read or write an open file."""
    method: Callable[..., Any] | None = getattr(f, name, None)
    if method is None:
        raise ArgumentError(
            f"{caller}: 'f' must be a path or an open file, not {type(f).__name__}, "
            f"at {format_locs(here())}"
        )
    return method


def check_place(
    path: Path, caller: str, missing: type[StaticflowError], folder: type[StaticflowError]
) -> None:
    """Raise ``folder`` or ``missing``, errors of the function ``caller``, where no file can be: at
    a folder, or in none."""
    at = f"at {format_locs(here())}"
    if path.is_dir():
        raise folder(f"{caller}: {str(path)!r} is a folder; give the path of a file in it, {at}")
    if not path.resolve().parent.is_dir():
        raise missing(
            f"{caller}: there is no folder {str(path.parent)!r}; make it first, as with "
            f"os.makedirs, {at}"
        )


def _read(path: Path, caller: str) -> bytes:
    at = f"at {format_locs(here())}"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise MissingCheckpointError(
            f"{caller}: there is no file {str(path)!r}; give the path that was saved to, or an "
            f"open file, {at}"
        ) from None
    except IsADirectoryError:
        raise FolderCheckpointError(
            f"{caller}: {str(path)!r} is a folder; give the path of the file in it, {at}"
        ) from None


def replace_file(path: Path, data: bytes) -> None:
    """Let ``path`` be a file with ``data``, or stay as it was.

    What a link names is replaced, with its permissions and its owner. What is no ordinary file, as
    a pipe, is written to.
    """
    path = path.resolve()
    old = path.stat() if path.exists() else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        path.write_bytes(data)
        return
    import secrets

    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(beside, "xb") as file:
            if old is not None:
                _take_over(file.fileno(), old)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name is on the disk, too
    finally:
        os.close(folder)


def _take_over(file: int, old: os.stat_result) -> None:
    """Give a file the permissions of another and, where this is allowed, its owner."""
    new = os.fstat(file)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(file, old.st_uid, old.st_gid)
    os.fchmod(file, stat.S_IMODE(old.st_mode))  # after the owner, whose change takes some away


refuses_foreign_in(globals())
