"""Making eager tensors from data, and by filling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.eager.device import namespace
from staticflow.eager.inference import unrecordable
from staticflow.eager.tensor import EAGER, Tensor
from staticflow.errors import DeviceError, DTypeError
from staticflow.graph.articles import class_in_words
from staticflow.graph.device import device_of
from staticflow.graph.dims import Dim, Size
from staticflow.graph.dtypes import dtype_of, dtype_of_number, get_default_dtype, int64
from staticflow.graph.library_arrays import array_of, refuse_history
from staticflow.graph.locs import format_locs, here
from staticflow.graph.masked_arrays import refuse_masked
from staticflow.graph.numbers import fitting
from staticflow.graph.op import Op
from staticflow.ops.basics.creation import full as full_op
from staticflow.ops.basics.creation import full_of_symbol, size_value
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.foreign import is_of_library
from staticflow.ops.declaring.promote import one_number
from staticflow.ops.declaring.sizes import as_shape, as_sizes, sizes_of
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import STATIC, Symbol, tracing_state

__all__ = [
    "as_tensor", "asarray", "empty", "finish_tensor", "from_dlpack", "from_numpy", "full",
    "generate", "ones", "scalar_tensor", "tensor", "zeros",
]  # fmt: skip


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with a copy of ``data``: numbers, nested lists, an array or another tensor; a symbol
    of a size that only the run can tell. Without a ``device`` it is where a tensor or array is, and
    on the CPU where data are numbers.

    >>> tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    if isinstance(data, Dim):
        number: Tensor = full((), data, dtype=dtype)
        return number
    if _is_on_gpu(data):
        there = as_tensor(data).detach()
        return finish_tensor(there.to(dtype=dtype, copy=True), device, requires_grad)
    return finish_tensor(Tensor._copy_of(data, dtype), device, requires_grad)


def _is_on_gpu(data: Any) -> bool:
    """Whether ``data`` is a tensor on a GPU, ours or another library's."""
    if isinstance(data, Tensor):
        return not data.is_cpu
    return is_of_library(data) and _place_in_dlpack(data)[0] == 2


def _place_in_dlpack(tensor: Any) -> tuple[int, int]:
    """The type and the number of the device on which another library's tensor is. Raises
    `DTypeError` for one that has no memory to speak of, as on PyTorch's device "meta"."""
    try:
        kind, index = tensor.__dlpack_device__()
    except (BufferError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise DTypeError(
            f"{class_in_words(tensor)} cannot be taken over ({str(error).strip()}); it must have "
            f"its elements in memory of the CPU or of CUDA: convert it first, "
            f"at {format_locs(here())}"
        ) from error
    return int(kind), int(index)


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """A tensor on the memory of ``ndarray``: a change of one is seen in the other. Where the array
    is read-only, so is the tensor."""
    if not isinstance(ndarray, np.ndarray):
        raise DTypeError(
            f"from_numpy: takes a NumPy array, not {type(ndarray).__name__}, "
            f"at {format_locs(here())}"
        )
    refuse_masked(ndarray)
    dtype_of(ndarray.dtype)
    return Tensor._wrap(np.asarray(ndarray))


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, on its own memory where that is possible: a tensor or symbol of that
    dtype and device is given back as it is, history included, and an array and another library's
    tensor are shared."""
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(data, np.ndarray | np.generic):
        refuse_masked(data)
        data = from_numpy(np.asarray(data))
    elif isinstance(data, Symbol):  # of a scalar, which is a number beside tensors, a tensor
        data = Symbol(data.node) if data.weak else data
    elif is_of_library(data):
        data = from_dlpack(data)
    elif not isinstance(data, Tensor) and hasattr(data, "__cuda_array_interface__"):
        data = Tensor._wrap(namespace(device_of("cuda")).asarray(data))
    elif not isinstance(data, Tensor):
        data = Tensor._copy_of(data, wanted)
    out: Tensor = data if wanted is None else data.to(wanted)
    return out if device is None else out.to(device=device)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's, by the DLPack protocol: a change of one is seen
    in the other, unless ``copy`` is True or ``device`` is another one. Memory that the other side
    calls read-only stays so.

    >>> import numpy as np, staticflow as sf
    >>> a = np.arange(3.0)
    >>> t = sf.from_dlpack(a)
    >>> a[0] = 7
    >>> t
    tensor([7., 1., 2.], dtype=staticflow.float64)

    bfloat16 of PyTorch comes over, too, by its bits. Raises `DTypeError` for what has no
    ``__dlpack__`` and for dtypes that NumPy does not know, and `AutogradError` for a tensor that
    requires a gradient.
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        raise DTypeError(
            f"from_dlpack: {type(ext_tensor).__name__} does not speak DLPack; use sf.tensor, "
            f"at {format_locs(here())}"
        )
    refuse_masked(ext_tensor)
    kind, index = _place_in_dlpack(ext_tensor)
    source = {1: "cpu", 2: f"cuda:{index}"}.get(kind)
    if source is None:
        raise DeviceError(
            f"from_dlpack: memory of DLPack's device type {kind}; staticflow takes that of "
            f"the CPU (1) and of CUDA (2), at {format_locs(here())}"
        )
    refuse_history(ext_tensor, "from_dlpack: 'ext_tensor'")
    try:
        array = (
            array_of(ext_tensor, "from_dlpack")
            if source == "cpu"
            else namespace(device_of(source)).from_dlpack(ext_tensor)
        )
    except (BufferError, RuntimeError) as error:
        if isinstance(error, DTypeError):
            raise
        raise DTypeError(
            f"from_dlpack: {type(ext_tensor).__name__} cannot be taken over ({error}); convert it "
            f"first, at {format_locs(here())}"
        ) from error
    dtype_of(array.dtype)
    out = finish_tensor(Tensor._wrap(array), device, requires_grad=False)
    return out.clone() if copy and out._data is array else out


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`as_tensor` that also takes whatever speaks DLPack or ``__array__``, as the array API names
    it. ``copy=True`` copies always; ``copy=False`` raises `DTypeError` where it would be needed.
    """
    given = obj
    if not isinstance(obj, Tensor | Symbol | np.ndarray):
        if hasattr(obj, "__dlpack__"):
            obj = from_dlpack(obj)
        elif hasattr(obj, "__array__"):
            obj = np.asarray(obj)
    out = as_tensor(obj, dtype, device)
    shared = out is obj or (isinstance(obj, np.ndarray) and np.may_share_memory(out._data, obj))
    if copy is False and not shared:
        raise DTypeError(
            f"asarray: {type(given).__name__} as {out.dtype.name} on {out.device} needs a copy, "
            f"which copy=False forbids, at {format_locs(here())}"
        )
    if copy and shared:
        out = out.clone()
    return out.requires_grad_() if requires_grad else out


@by_shape
def scalar_tensor(
    s: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A number as a 0-d tensor of the default dtype, integers too."""
    s = one_number(s, "s")
    return tensor(s, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad)


def finish_tensor(out: Tensor, device: Any, requires_grad: bool) -> Tensor:
    """A new tensor as the options of every function that makes one say."""
    if device is not None:
        out = out.to(device=device)
    if thread.state.inference:
        unrecordable(out)
    if requires_grad:
        return out._require() if isinstance(out, Tensor) else out.requires_grad_()
    return out


def generate(op: Op, attrs: dict[str, Any], device: Any = None, requires_grad: bool = False) -> Any:
    """What ``op`` makes of sizes alone: a tensor, or part of a graph where one is written."""
    shape = as_shape(attrs["shape"])
    if not requires_grad and (tracing_state.active or any(isinstance(n, Dim) for n in shape)):
        return STATIC.apply(op, (), attrs)
    return finish_tensor(EAGER.apply(op, (), attrs), device, requires_grad)


@by_shape
def full(
    size: Sequence[Size],
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """A tensor of shape ``size`` filled with ``fill_value``, in the dtype of that unless given. A
    tensor of no dims counts as the number that it holds.

    Where one of the sizes is symbolic it is a symbol, as in all functions that take sizes.
    """
    if hasattr(fill_value, "__sf_mode__") or isinstance(fill_value, np.generic):
        fill_value = one_number(fill_value, "fill_value")
    if isinstance(fill_value, Dim):
        fill_value = STATIC.apply(size_value, (), {"size": fill_value, "dtype": int64})
    if isinstance(fill_value, Symbol):
        own = dtype_of_number((False, 0, 0.0)[fill_value.dtype.category])
        return full_of_symbol(fill_value, as_shape(size), own if dtype is None else dtype_of(dtype))
    wanted = dtype_of_number(fill_value) if dtype is None else dtype_of(dtype)
    shape = as_sizes(size)
    attrs = {"shape": shape, "value": fitting(fill_value, wanted, "full"), "dtype": wanted}
    return generate(full_op, attrs, device, requires_grad)


@by_shape
def zeros(
    *sizes: Any,
    size: Sequence[Size] | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """A tensor of zeros, of shape ``sizes`` (numbers or one tuple) or ``size``."""
    shape = as_shape(sizes_of(sizes, size))
    dtype = dtype or get_default_dtype()
    return full(shape, 0, dtype=dtype, device=device, requires_grad=requires_grad)


@by_shape
def ones(
    *sizes: Any,
    size: Sequence[Size] | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """A tensor of ones, of shape ``sizes`` (numbers or one tuple) or ``size``."""
    shape = as_shape(sizes_of(sizes, size))
    dtype = dtype or get_default_dtype()
    return full(shape, 1, dtype=dtype, device=device, requires_grad=requires_grad)


@by_shape
def empty(*sizes: Any, **options: Any) -> Any:
    """A tensor whose values nobody needs yet: zeros, so that programs repeat. The options are those
    of `zeros`."""
    return zeros(*sizes, **options)
