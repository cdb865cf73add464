"""Models of ONNX run by others: by onnxruntime, and where that has no kernel for a dtype, by the
reference of onnx."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import staticflow as sf

Array = np.ndarray[Any, Any]

RUNTIMES: list[str] = []
"""Which ran each model so far."""


def model_bytes(model: Any, inputs: Any = None) -> bytes:
    file = io.BytesIO()
    sf.onnx.export(model, file, inputs)
    return file.getvalue()


def checked(data: bytes) -> Any:
    """A model, which onnx finds nothing wrong with, the types of all values included."""
    import onnx

    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    return model


def run_model(data: bytes, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of a model for its inputs, in their order."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    model = checked(data)
    feed = dict(zip([i.name for i in model.graph.input], arrays, strict=False))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return _by_reference(model, feed)
    return _by_runtime(session, model, feed)


def _by_reference(model: Any, feed: dict[str, Array]) -> list[Array]:
    from onnx.reference import ReferenceEvaluator

    RUNTIMES.append("onnx")
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, feed)]


def _by_runtime(session: Any, model: Any, feed: dict[str, Array]) -> list[Array]:
    import onnxruntime

    RUNTIMES.append("onnxruntime")
    binding = session.io_binding()
    kept = []
    for info in model.graph.input:
        array = np.ascontiguousarray(feed[info.name]) if info.name in feed else None
        if array is None:
            continue
        kind = info.type.tensor_type.elem_type
        array = array.reshape(feed[info.name].shape)
        if array.dtype == ml_dtypes.bfloat16:
            array = array.view(np.uint16)
        value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind)
        kept.append(value)
        binding.bind_ortvalue_input(info.name, value)
    for info in model.graph.output:
        binding.bind_output(info.name)
    session.run_with_iobinding(binding)
    found = []
    for value, info in zip(binding.get_outputs(), model.graph.output, strict=True):
        if info.type.tensor_type.elem_type == 16:
            import onnx  # noqa: F401

            found.append(_bfloat16(value))
        else:
            found.append(value.numpy())
    return found


def _bfloat16(value: Any) -> Array:
    """What NumPy has no dtype for, by its memory."""
    import ctypes

    shape = tuple(value.shape())
    count = int(np.prod(shape, dtype=np.int64))
    raw = ctypes.string_at(value.data_ptr(), 2 * count) if count else b""
    return np.frombuffer(raw, ml_dtypes.bfloat16).reshape(shape)
