"""Tensors of a file as arrays, none larger than what the file holds of it."""

from __future__ import annotations

import math
import os
import stat
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from staticflow.graph.dtypes import DType, bool_, float32, float64, int64
from staticflow.onnx.reading.refuse import WrongModel, short
from staticflow.onnx.types import dtype_of_code

__all__ = ["MOST_DIMS", "Array", "read_array", "wanted_dtype"]

Array = np.ndarray[Any, Any]

MOST_DIMS = 64
"""So many dims an array of NumPy has at most."""

_EXTERNAL = 1

_FIELDS: Mapping[DType, str] = {float32: "float_data", float64: "double_data", int64: "int64_data"}
"""By dtype the field of a ``TensorProto`` that holds elements which are not given as bytes; of
others it is ``int32_data``, which has the bits of floats."""


def wanted_dtype(code: int, library: Any) -> DType:
    """The dtype that ONNX has a number for.

    Raises `WrongModel` for one that staticflow does not have.
    """
    found = dtype_of_code(code)
    if found is None:
        names = {v: k for k, v in library.TensorProto.DataType.items()}
        raise WrongModel(
            f"has the dtype {names.get(code, code)}, which is none of staticflow's: those are "
            "bool, uint8, int8 to int64, and the floats of 16 (both), 32 and 64 bits"
        )
    return found


def read_array(tensor: Any, folder: str | None, library: Any) -> Array:
    """The elements of a ``TensorProto``, in memory of their own.

    Raises `WrongModel` unless it holds as many elements as its dims say.
    """
    dtype = wanted_dtype(tensor.data_type, library)
    dims = list(tensor.dims)
    if any(d < 0 for d in dims) or len(dims) > MOST_DIMS:
        raise WrongModel(
            f"has the shape {dims[:8]}; sizes are 0 or more, and there are {MOST_DIMS} at most"
        )
    if math.prod(d for d in dims if d) * dtype.numpy.itemsize > sys.maxsize and 0 in dims:
        raise WrongModel(
            f"has the shape {dims[:8]}; the product of the sizes that are not 0 must be "
            f"{sys.maxsize} bytes at most"
        )
    if tensor.HasField("segment"):
        raise WrongModel("is in segments, which are not read")
    count = math.prod(dims)
    size = count * dtype.numpy.itemsize
    if tensor.data_location == _EXTERNAL:
        raw = _outside(tensor, folder, size)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        return _from_field(tensor, dtype, dims, count)
    if len(raw) != size:
        raise WrongModel(f"has {len(raw)} bytes of data; {dtype}{dims} takes {size}")
    if dtype is bool_:
        bits: Array = np.frombuffer(raw, np.uint8) != 0
        return bits.reshape(dims)
    return np.frombuffer(raw, dtype.numpy).reshape(dims).copy()


def _from_field(tensor: Any, dtype: DType, dims: list[int], count: int) -> Array:
    values = getattr(tensor, _FIELDS.get(dtype, "int32_data"))
    if len(values) != count:
        raise WrongModel(f"has {len(values)} elements; {dtype}{dims} has {count}")
    if dtype.is_floating and dtype.bits == 16:
        bits = np.fromiter((v & 0xFFFF for v in values), np.uint16, count)
        found: Array = bits.view(dtype.numpy).reshape(dims)
        return found
    wide = np.fromiter(values, np.float64 if dtype.is_floating else np.int64, count)
    with np.errstate(all="ignore"):
        return wide.astype(dtype.numpy).reshape(dims)


def _outside(tensor: Any, folder: str | None, size: int) -> bytes:
    """The bytes of a tensor that lie in another file of the model's folder."""
    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise WrongModel(
            f"has its data in {short(location)}; bytes and open files have no folder in which that "
            "could be: give the path of the model"
        )
    numbers = {}
    for key in ("offset", "length"):
        text = entries.get(key, "0" if key == "offset" else str(size))
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise WrongModel(f"has data outside whose {key} is {short(text)}, no number of bytes")
        numbers[key] = int(text)
    if numbers["length"] != size:
        raise WrongModel(f"has {numbers['length']} bytes of data outside, and takes {size}")
    with os.fdopen(_open_inside(folder, location), "rb") as file:
        held = os.fstat(file.fileno()).st_size
        if numbers["offset"] + size > held:
            raise WrongModel(
                f"has its data in {short(location)} up to byte {numbers['offset'] + size}, and "
                f"that file has {held}"
            )
        file.seek(numbers["offset"])
        return file.read(size)


def _open_inside(folder: str, location: str) -> int:
    """A descriptor of a plain file in ``folder`` or below, which no link leads to."""
    parts = location.replace("\\", "/").split("/")
    bad = not location or "\0" in location or location.startswith(("/", "\\"))
    if bad or ":" in location or any(p in ("", ".", "..") for p in parts):
        raise WrongModel(
            f"has its data in {short(location)}; it must lie in the model's folder, by a path from "
            "there without '..'"
        )
    path = os.path.realpath(folder)
    wanted = os.path.join(path, *parts)
    try:
        if os.path.realpath(wanted) != wanted:
            raise WrongModel(f"has its data in {short(location)}, which a link leads to")
        handle = os.open(wanted, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise WrongModel(
            f"has its data in {short(location)}, which cannot be read ({error})"
        ) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise WrongModel(f"has its data in {short(location)}, which is no plain file")
    return handle
