"""The eager tensor: a NumPy array that runs operations now and records them for backward."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from staticflow.eager import device as devices
from staticflow.eager import gradients, hooks, in_place, indexed, interop, layout, printing, tape
from staticflow.eager.bind import bind
from staticflow.eager.data import array_from
from staticflow.eager.device import as_array
from staticflow.eager.inference import is_inference
from staticflow.eager.memory import Memory, note_exchange
from staticflow.eager.mode import EAGER
from staticflow.eager.vertex import LEAF, Output, user_frame
from staticflow.eager.views import View
from staticflow.errors import AutogradError, DTypeError, ShapeError
from staticflow.graph.device import device
from staticflow.graph.dtypes import BY_NUMPY, DType, dtype_of, dtype_of_number, get_default_dtype
from staticflow.graph.locs import format_locs, here
from staticflow.graph.masked_arrays import refuse_masked
from staticflow.graph.numbers import fitting
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import clone
from staticflow.ops.declaring.foreign import how_to_wrap, kind_of, own_method, refuses_foreign_of
from staticflow.ops.declaring.sizes import as_shape
from staticflow.ops.declaring.thread import thread
from staticflow.ops.declaring.tracing import depends_on
from staticflow.ops.symbols.captured import follow
from staticflow.ops.symbols.dependents import note_retyped
from staticflow.ops.tensors.methods import Methods

__all__ = ["EAGER", "Tensor", "as_tensor"]


def _zeros(shape: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """Zeros of sizes, or no element where there are none."""
    try:
        return np.zeros(shape or (0,), get_default_dtype().numpy)
    except ValueError as error:
        raise ShapeError(
            f"Tensor of the sizes {list(shape)}: an array has at most 64 dims and {sys.maxsize} "
            f"bytes ({error}), at {format_locs(here())}"
        ) from None


_FEW = 64
"""Elements up to which what Python has read of a tensor is known by value, not by version."""

_new = object.__new__
_array = np.ndarray
_getframe = sys._getframe


class Tensor(Methods):
    """An n-dimensional array of one dtype, with PyTorch's autograd. Make one with ``sf.tensor``.

    ``requires_grad`` says whether operations on it are recorded; after ``loss.backward()`` the
    gradient is in ``grad``.
    """

    __slots__ = (
        "__weakref__", "_data", "_grad", "_hooks", "_memory", "_vertex", "_view", "name",
    )  # fmt: skip
    __sf_mode__ = EAGER
    __sf_forms__: Mapping[Op, Any] = {}  # see `Op.__call__`
    serial = 0  # as a vertex: a leaf comes after all others

    _data: np.ndarray[Any, Any]
    _grad: Tensor | None
    _hooks: Any  # of a leaf: what its gradients go through
    _memory: Memory | None  # made when it is first asked for
    _vertex: Any  # None, `LEAF`, or what made it; of a view perhaps out of date (`_current_vertex`)
    _view: View | None
    name: str | None

    def __new__(cls, *data: Any, **named: Any) -> Self:
        """An empty vector, for who does not go on to `__init__`."""
        out = object.__new__(cls)
        out._start(np.empty(0, get_default_dtype().numpy))
        return out

    @own_method
    def __init__(self, *data: Any, device: Any = None) -> None:
        """PyTorch's old constructor, of the default floating dtype: ``Tensor([1, 2])`` has a copy
        of data, ``Tensor(2, 3)`` these sizes and zeros. Of another tensor it is on its memory."""
        only = data[0] if len(data) == 1 else None
        if isinstance(only, Tensor):
            self._start(only._data)
            self._memory = only._own_memory()
        elif isinstance(only, list | tuple | range | np.ndarray):
            self._start(array_from(only, get_default_dtype()))
        else:
            self._start(_zeros(as_shape(data)))
        if device is not None:
            self._data = devices.move(self._data, devices.find_device(device))

    @staticmethod
    def _copy_of(data: Any, dtype: Any = None) -> Tensor:
        """A tensor with a copy of ``data``: numbers, nested lists, an array or a tensor. Python
        floats become float32, ints int64."""
        return Tensor._wrap(array_from(data, dtype))

    def _start(self, data: np.ndarray[Any, Any]) -> None:
        self._data = data
        self._memory = self._view = self._vertex = None
        self._grad = self.name = self._hooks = None

    @staticmethod
    def _of(x: Any, dtype: DType | None = None, op: Op | None = None, position: int = 0) -> Tensor:
        """A tensor as it is; an array or number wrapped (arrays are shared, not copied). It is the
        argument at ``position`` of ``op``, if that is given."""
        if isinstance(x, Tensor):
            return x
        if isinstance(x, np.ndarray | np.generic):
            refuse_masked(x)
            dtype_of(x.dtype)
            return Tensor._wrap(np.asarray(x))
        if isinstance(x, bool | int | float):
            dtype = dtype or dtype_of_number(x)
            number = fitting(x, dtype, "a number")
            return Tensor._wrap(thread.state.run(np.asarray, number, dtype.numpy))
        names = () if op is None else op.names
        what = f"argument {position + 1}" if position >= len(names) else repr(names[position])
        raise DTypeError(
            f"{op.name + ': ' + what if op else 'this'} must be a tensor, not {kind_of(x)}; "
            f"{how_to_wrap(x)}, at {format_locs(here())}",
            x,
            "a tensor",
        )

    @staticmethod
    def _wrap(data: np.ndarray[Any, Any]) -> Tensor:
        """A tensor on this very array; one of no dims for a scalar of NumPy."""
        out = _new(Tensor)
        out._data = data if type(data) is _array else as_array(data)
        out._memory = out._view = out._vertex = out._grad = out.name = out._hooks = None
        return out

    @staticmethod
    def _on_tape(data: np.ndarray[Any, Any], memory: Memory, vertex: Any) -> Tensor:
        """A tensor on this array that ``vertex`` has made."""
        out = Tensor._wrap(data)
        out._memory, out._vertex = memory, vertex
        return out

    def _own_memory(self) -> Memory:
        """What it shares with its views: made when it is first asked for, since most tensors are
        neither changed nor kept for a gradient."""
        memory = self._memory
        if memory is None:
            memory = self._memory = Memory()
        return memory

    def _bump(self) -> None:
        """Note that the elements were changed in place."""
        memory = self._memory or self._own_memory()
        memory.version += 1
        code, frame = user_frame(_getframe(1))
        memory.changed = code, frame.f_lasti

    @property
    def _version(self) -> int:
        """How often the elements were changed in place, also through views."""
        return self._own_memory().version

    @property
    def _values(self) -> Any:
        """What tells that what Python has read of the elements is so no more."""
        data = self._data
        few = data.size <= _FEW and type(data) is _array
        return (data.shape, data.tobytes()) if few else (self._own_memory(), self._version)

    def numel(self) -> int:
        """The number of elements."""
        return self._data.size

    nelement = numel

    def _current_vertex(self) -> Any:
        """The vertex that a gradient for this tensor goes to; None if there is none."""
        view = self._view
        if view is not None and view.seen != self._own_memory().version:
            in_place.regenerate(self, view)
        vertex = self._vertex
        return self if vertex is LEAF else vertex

    __getitem__, __setitem__ = indexed.get, indexed.put
    _update, _assign, copy_ = in_place.update, in_place.assign, in_place.copy_
    fill_, zero_ = in_place.fill_, in_place.zero_
    _take_shape = in_place.take_shape

    # -- about itself -------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dims."""
        shape: tuple[int, ...] = self._data.shape
        return shape

    __sf_shape__ = shape

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self._data.ndim

    @property
    def dtype(self) -> DType:
        """The element type."""
        return BY_NUMPY[self._data.dtype]

    @property
    def device(self) -> device:
        """Where the elements are."""
        return devices.array_device(self._data)

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded."""
        return self._current_vertex() is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    requires_grad_, _require = gradients.requires_grad_, gradients.require
    grad = property(gradients.get_grad, gradients.set_grad, gradients.delete_grad)

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was made by the user and not by a recorded operation."""
        edge = self._current_vertex()
        return edge is None or edge is self

    @property
    def grad_fn(self) -> Any:
        """The tape entry of the operation that made this tensor, None for a leaf."""
        vertex = None if self.is_leaf else self._vertex
        return vertex.entry if type(vertex) is Output else vertex

    @property
    def output_nr(self) -> int:
        """Which of the results of ``grad_fn`` this tensor is."""
        return self._vertex.index if type(self._vertex) is Output else 0

    @property
    def _base(self) -> Tensor | None:
        """The tensor that this one is a view of; None if it is none."""
        return None if self._view is None else self._view.base

    clone = clone

    @property
    def data(self) -> Tensor:
        """A tensor on this memory, without history."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        in_place.refuse_in_trace("an assignment to .data")
        if not isinstance(value, Tensor):
            raise DTypeError(
                f".data is set to {kind_of(value)}; it must be a tensor; {how_to_wrap(value)}, "
                f"at {format_locs(here())}"
            )
        is_other = value._data.dtype != self._data.dtype
        self._data = value._data
        self._memory = value._own_memory()
        self._view = None
        note_exchange()
        if is_other:
            note_retyped(self)

    def detach(self) -> Tensor:
        """A tensor on this memory, without history: a change of one shows in the other."""
        out = Tensor._wrap(self._data)
        out._memory = self._own_memory()
        if thread.state.tracing:  # the graph has this memory, x.data = y gives another
            depends_on(self, "_memory")
            follow(out, self)
        return out

    def detach_(self) -> Tensor:
        """Forget the history of this very tensor; it is a leaf from now on. Raises `AutogradError`
        for a view, whose history is that of its base."""
        if self._view is not None:
            raise AutogradError(f"detach_() of a view; use detach(), at {format_locs(here())}")
        self._vertex = None
        return self

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """A tensor with a copy of ``data``, by default in the dtype and on the device of this."""
        out: Tensor = Tensor._copy_of(data, dtype or self.dtype).to(device or self.device)
        return out.requires_grad_(requires_grad)

    def item(self) -> Any:
        """The one element as a Python number."""
        if self._data.size != 1:
            raise ShapeError(
                f"item() of a tensor of shape {list(self.shape)}; one element is needed, "
                f"at {format_locs(here())}"
            )
        thread.state.note_values(self)
        return self._data.item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        thread.state.note_values(self)
        return self._data.tolist()

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise ShapeError(
                f"the truth of a tensor of shape {list(self.shape)} is ambiguous; use .any() or "
                f".all(), at {format_locs(here())}"
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> Any:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self._data.size != 1:
            raise DTypeError(
                f"only an integer tensor of one element is an index, not one of {self.dtype.name} "
                f"and of shape {list(self.shape)}, at {format_locs(here())}",
                self,
                "an integer",
            )
        thread.state.sizes += 1
        return int(self.item())

    def __reversed__(self) -> Any:
        return self.flip(tuple(range(self.ndim)))

    def __iter__(self) -> Any:
        if self.ndim == 0:
            raise DTypeError(f"iteration over a 0-d tensor, at {format_locs(here())}")
        return (self[i] for i in range(self.shape[0]))

    # -- devices, other libraries, printing -----------------------------------------------------

    to, cpu, cuda = devices.to, devices.cpu, devices.cuda
    pin_memory, is_pinned = devices.pin_memory, devices.is_pinned
    is_cuda, __sf_gpu__ = property(devices.is_cuda), property(devices.gpu_of)
    is_cpu, get_device = property(devices.is_cpu), devices.get_device
    is_sparse = is_quantized = is_meta = is_nested = False
    numpy, __array__ = interop.numpy, interop.array
    _mask = property(interop.no_mask)  # of NumPy's masked arrays, which look into their operands
    __dlpack__, __dlpack_device__ = interop.dlpack, interop.dlpack_device
    __cuda_array_interface__ = property(interop.cuda_array_interface)
    __copy__, __deepcopy__, __reduce_ex__ = interop.shallow_copy, interop.deep_copy, interop.reduce
    __repr__, __format__ = printing.repr_of_tensor, printing.format_tensor
    _repr_html_ = printing.html_of_tensor

    # -- memory -------------------------------------------------------------------------------

    stride, storage_offset = layout.stride, layout.storage_offset
    data_ptr, element_size = layout.data_ptr, layout.element_size
    itemsize, nbytes = property(layout.element_size), property(layout.nbytes)
    is_contiguous, _bits_as = layout.is_contiguous, layout.bits_as
    resize_, resize_as_, set_ = layout.resize_, layout.resize_as_, layout.set_
    apply_, map_ = layout.apply_, layout.map_

    # -- autograd -----------------------------------------------------------------------------

    register_hook, retain_grad = hooks.register_hook, hooks.retain_grad
    register_post_accumulate_grad_hook = hooks.register_post_accumulate_grad_hook
    retains_grad = property(hooks.retains_grad)
    is_inference = is_inference

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor to the ``.grad`` of the leaves that it came from, or of
        ``inputs`` (a tensor or several) alone.

        ``gradient`` is the gradient with respect to this tensor, needed unless it has one element.
        Saved values are freed unless ``retain_graph``; with ``create_graph`` the gradients are
        recorded too, for a second derivative.
        """
        tape.backward([self], [gradient], retain_graph, create_graph, inputs)


as_tensor = Tensor._of

refuses_foreign_of(Tensor, but=("backward", "copy_", "fill_"))
bind(Tensor)
