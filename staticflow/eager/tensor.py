"""The eager tensor: a NumPy array that runs operations now and records them for backward."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.eager import tape
from staticflow.eager.explain import called, explain
from staticflow.eager.grad_mode import state
from staticflow.eager.memory import Family, Version
from staticflow.errors import (
    AutogradError,
    DTypeError,
    ShapeError,
    SymbolicError,
)
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import BY_NUMPY, DType, bfloat16, dtype_of, float32
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.ops.arithmetic import cast
from staticflow.ops.lowering import View
from staticflow.ops.methods import Methods
from staticflow.ops.promote import is_number, operand_dtype
from staticflow.ops.symbol import STATIC, Symbol, tracing_state

__all__ = ["EAGER", "Tensor", "as_tensor"]


def as_tensor(x: Any, dtype: DType | None = None) -> Tensor:
    """A tensor as it is; an array or number wrapped (arrays are shared, not copied)."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, np.ndarray | np.generic):
        dtype_of(x.dtype)
        return Tensor._wrap(np.asarray(x))
    if isinstance(x, bool | int | float):
        return Tensor._wrap(np.asarray(x, dtype=(dtype or dtype_of(type(x))).numpy))
    raise DTypeError(
        f"{type(x).__name__} is no tensor; wrap data with sf.tensor(...), at {format_locs(here())}"
    )


class EagerMode:
    """Runs an op by its reference, now, and records it if an argument requires a gradient."""

    rank = 0

    def apply(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The result of ``op`` as a tensor; inside a trace as a symbol."""
        if tracing_state.active or Dim in map(type, args):
            return STATIC.apply(op, args, attrs)
        operands, dtype = self._operands(op, args)
        arrays = [a._data if isinstance(a, Tensor) else a for a in operands]
        if dtype is bfloat16:  # beside which NumPy does not take numbers as weak
            arrays = [np.asarray(a, dtype.numpy) if type(a) in (int, float) else a for a in arrays]
        try:
            with np.errstate(all="ignore"):
                data = op.reference(np, *arrays, **attrs)
        except Exception as error:
            explain(op, operands, attrs, error)
            raise
        if type(data) is not np.ndarray:
            data = np.asarray(data)
        out = Tensor._wrap(data)
        if type(op.lowering) is View and np.may_share_memory(data, arrays[0]):
            out._become_view(operands[0])
        if state.enabled and op.vjp is not None:
            self._record(op, operands, attrs, out)
        return out

    def _operands(self, op: Op, args: Sequence[Any]) -> tuple[list[Any], DType | None]:
        """The arguments in one dtype, and that dtype; numbers stay numbers where NumPy treats them
        as we do."""
        common = _common_dtype(args) if op.promote in ("common", "float") else None
        if (
            common is not None
            and common.kind in op.kinds
            and (op.promote == "common" or common.is_floating)
        ):
            return list(args), common
        operands = [a if is_number(a) else as_tensor(a) for a in args]
        if op.promote == "none":
            return [as_tensor(a) for a in operands], None
        dtype = operand_dtype(op, operands)
        if dtype is not None and dtype.kind not in op.kinds:
            raise DTypeError(
                f"{called(op, operands)}: not defined for {dtype.name}, at {format_locs(here())}"
            )
        first = 1 if op.promote == "tail" else 0
        for i in range(first, len(operands)):
            a = operands[i]
            if not isinstance(a, Tensor):
                if len(operands) == first + 1 or not _any_of(operands[first:], dtype):
                    operands[i] = as_tensor(a, dtype)
            elif a.dtype is not dtype:
                operands[i] = cast(a, dtype=dtype)
        return operands, dtype

    def _record(self, op: Op, args: list[Any], attrs: Mapping[str, Any], out: Tensor) -> None:
        edges = tuple(
            a._edge() if isinstance(a, Tensor) and a._data.dtype.kind not in "iub" else None
            for a in args
        )
        if any(e is not None for e in edges) and out.dtype.is_floating:
            entry = tape.TapeEntry(op, args, attrs, edges)
            entry.save_output(out)
            out._entry = (entry, 0)


_CATEGORY: dict[type, int] = {bool: 0, int: 1, float: 2}


def _common_dtype(args: Sequence[Any]) -> DType | None:
    """The dtype of tensors that all have one, beside numbers that do not raise its category: the
    usual case; None if it is another."""
    own = None
    needed = 0
    for a in args:
        if isinstance(a, Tensor):
            if own is not None and a._data.dtype is not own:
                return None
            own = a._data.dtype
        elif (category := _CATEGORY.get(type(a))) is not None:
            needed = max(needed, category)
        else:
            return None
    if own is None:
        return None
    dtype = BY_NUMPY[own]
    return dtype if dtype.category >= needed else None


def _any_of(operands: Sequence[Any], dtype: DType | None) -> bool:
    return any(isinstance(a, Tensor) and a.dtype is dtype for a in operands)


EAGER = EagerMode()
_new = object.__new__


class Tensor(Methods):
    """An n-dimensional array of one dtype, with PyTorch's autograd. Make one with ``sf.tensor``.

    ``requires_grad`` says whether operations on it are recorded; after ``loss.backward()`` the
    gradient is in ``grad``.
    """

    __slots__ = (
        "__weakref__", "_data", "_entry", "_family", "_known_version", "_leaf_grad", "_seen",
        "grad", "name",
    )  # fmt: skip
    __sf_mode__ = EAGER

    _data: np.ndarray[Any, Any]
    _entry: tuple[Any, int] | None
    _family: Family | None
    _known_version: Version | None
    _leaf_grad: bool
    _seen: int | None  # of a view: the recorded changes of its family when it was taken
    grad: Tensor | None
    name: str | None

    def __init__(self, data: Any, dtype: Any = None, requires_grad: bool = False) -> None:
        """A tensor with a copy of ``data``: numbers, nested lists, an array or a tensor. Python
        floats become float32, ints int64."""
        self._start(_array_from(data, dtype))
        if requires_grad:
            self.requires_grad_()

    def _start(self, data: np.ndarray[Any, Any]) -> None:
        self._data = data
        self._entry = None
        self._family = None
        self._known_version = None
        self._leaf_grad = False
        self._seen = None
        self.grad = None
        self.name = None

    @staticmethod
    def _wrap(data: np.ndarray[Any, Any]) -> Tensor:
        """A tensor on this very array."""
        out = _new(Tensor)
        out._start(data)
        return out

    @property
    def _version(self) -> Version:
        """Shared by all tensors on this memory. Made when it is first asked for: most tensors are
        neither changed nor kept for a gradient."""
        version = self._known_version
        if version is None:
            version = self._known_version = Version()
        return version

    @_version.setter
    def _version(self, version: Version) -> None:
        self._known_version = version

    @classmethod
    def _on_tape(
        cls, data: np.ndarray[Any, Any], version: Version, edge: tuple[Any, int] | None
    ) -> Tensor:
        """A tensor on this array that came from ``edge``; a leaf is itself, unless it was given
        other data."""
        if edge is not None and isinstance(edge[0], Tensor) and edge[0]._data is data:
            return edge[0]
        out = Tensor._wrap(data)
        out._version = version
        out._entry = edge
        return out

    def _become_view(self, base: Tensor) -> None:
        """Share the memory of ``base``."""
        if base._family is None:
            base._family = Family()
        self._version = base._version
        self._family = base._family
        self._seen = base._family.changes if base._seen is None else base._seen

    def _edge(self) -> tuple[Any, int] | None:
        """Where a gradient for this tensor goes; None if nowhere."""
        if self._family is not None and self._seen not in (None, self._family.changes):
            raise AutogradError(
                f"a view of shape {list(self.shape)} of a tensor that a recorded in-place "
                f"operation has changed at {format_locs(self._family.locs)} has no part in that "
                f"history; take the view again after it, at {format_locs(here())}"
            )
        if self._entry is not None:
            return self._entry
        return (self, 0) if self._leaf_grad else None

    # -- about itself -------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dims."""
        shape: tuple[int, ...] = self._data.shape
        return shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return BY_NUMPY[self._data.dtype]

    @property
    def device(self) -> str:
        """``"cpu"``."""
        return "cpu"

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded."""
        return self._leaf_grad or self._entry is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Record operations on this leaf from now on, or no more."""
        if self._entry is not None:
            if requires_grad:
                return self
            raise AutogradError(
                "requires_grad can be switched off on leaves only; use .detach() for a tensor "
                f"without history, at {format_locs(here())}"
            )
        if requires_grad and not self.dtype.is_floating:
            raise AutogradError(
                f"only floating tensors have gradients, not {self.dtype.name}, "
                f"at {format_locs(here())}"
            )
        self._leaf_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was made by the user and not by a recorded operation."""
        return self._entry is None

    @property
    def grad_fn(self) -> Any:
        """The tape entry of the operation that made this tensor, None for a leaf."""
        return None if self._entry is None else self._entry[0]

    @property
    def data(self) -> Tensor:
        """The same memory without history."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        self._data = value._data
        self._version = value._version
        self._family = self._seen = None

    def detach(self) -> Tensor:
        """The same memory without history."""
        out = Tensor._wrap(self._data)
        out._version = self._version
        return out

    def clone(self) -> Tensor:
        """A copy, on the tape."""
        return self * 1 if self.requires_grad else Tensor._wrap(self._data.copy())

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self._entry is not None:
            raise AutogradError(
                "only leaves can be copied deeply, since the copy of a tensor with a history would "
                "have a history of its own; copy its .detach()"
            )
        out = memo[id(self)] = _new(type(self))
        out._start(self._data.copy())
        out._leaf_grad, out.name = self._leaf_grad, self.name
        out.grad = copy.deepcopy(self.grad, memo)
        return out

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a NumPy array on the same memory."""
        if self.requires_grad:
            raise AutogradError(
                "numpy() of a tensor that requires a gradient: a change of the array would not be "
                f"recorded; call .detach().numpy(), at {format_locs(here())}"
            )
        return self._data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        data = self.numpy()
        wanted = data.dtype if dtype is None else np.dtype(dtype)
        return np.array(data, dtype=wanted, copy=copy)

    def item(self) -> Any:
        """The one element as a Python number."""
        if self._data.size != 1:
            raise ShapeError(
                f"item() of a tensor of shape {list(self.shape)}; one element is needed, "
                f"at {format_locs(here())}"
            )
        return self._data.item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return self._data.tolist()

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise ShapeError(
                f"the truth of a tensor of shape {list(self.shape)} is ambiguous; use .any() or "
                f".all(), at {format_locs(here())}"
            )
        return bool(self._data.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> Any:
        return float(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise DTypeError(
                f"only an integer tensor is an index, not one of {self.dtype.name}, "
                f"at {format_locs(here())}"
            )
        return int(self.item())

    def __iter__(self) -> Any:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self.shape[0]))

    def __setitem__(self, key: Any, value: Any) -> None:
        self[key].copy_(value)

    def __repr__(self) -> str:
        body = np.array2string(self._data, separator=", ", precision=4, prefix="tensor(")
        extra = ""
        if not self._data.size and self.ndim != 1:
            extra += f", size={self.shape}"
        if self.dtype not in (float32, dtype_of(int), dtype_of(bool)):
            extra += f", dtype={self.dtype!r}"
        if self._entry is not None:
            extra += f", grad_fn={self._entry[0]!r}"
        elif self._leaf_grad:
            extra += ", requires_grad=True"
        return f"tensor({body}{extra})"

    # -- autograd -----------------------------------------------------------------------------

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
    ) -> None:
        """Add the gradient of this tensor to the ``.grad`` of the leaves that it came from.

        ``gradient`` is the gradient with respect to this tensor, needed unless it has one element.
        Saved values are freed unless ``retain_graph``; with ``create_graph`` the gradients are
        recorded too, for a second derivative.
        """
        tape.backward(self, gradient, retain_graph, create_graph)

    def _assign(self, value: Any) -> Tensor:
        """Take the values of ``value`` in place: what every in-place form comes to."""
        if isinstance(value, Symbol):
            raise SymbolicError(
                "an in-place change of a tensor cannot be part of a graph; compute the new value "
                f"and pass it in updates= of sf.compile, at {format_locs(here())}"
            )
        if value.dtype.category > self.dtype.category:
            raise DTypeError(
                f"an in-place operation cannot put {value.dtype.name} into a tensor of "
                f"{self.dtype.name}; compute out of place (y = y + x), at {format_locs(here())}"
            )
        if value.dtype is not self.dtype:
            value = cast(value, dtype=self.dtype)
        recorded = state.enabled and (self.requires_grad or value.requires_grad)
        if recorded and self._leaf_grad:
            raise AutogradError(
                "an in-place operation on a leaf that requires a gradient would be lost to it; "
                "wrap the update in sf.no_grad(), or compute out of place, at "
                f"{format_locs(here())}"
            )
        if value.shape != self.shape:
            raise ShapeError(
                f"an in-place operation cannot change the shape {list(self.shape)} to "
                f"{list(value.shape)}, at {format_locs(here())}"
            )
        if recorded and self._seen is not None:
            raise AutogradError(
                "an in-place operation on a view is not recorded; compute out of place "
                f"(y = y + x), at {format_locs(here())}"
            )
        if not self._data.flags.writeable:
            raise AutogradError(
                f"the memory of this tensor is read-only; change a clone, at {format_locs(here())}"
            )
        if recorded:
            self._stand_for(value)
        np.copyto(self._data, value._data)
        self._version.bump()
        return self

    def _stand_for(self, value: Tensor) -> None:
        """Stand where ``value`` stands on the tape, before taking its elements."""
        if value._leaf_grad:
            value = value.clone()
        self._entry = value._entry
        if self._entry is not None:
            self._entry[0].keep_before_change(self._version)
        if self._family is not None:
            self._family.note_recorded()


def _is_numpy_inside(data: Any) -> bool:
    """Whether nested lists hold NumPy's numbers, which have a dtype; Python's have none."""
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return isinstance(data, np.ndarray | np.generic)


def _array_from(data: Any, dtype: Any) -> np.ndarray[Any, Any]:
    wanted = None if dtype is None else dtype_of(dtype).numpy
    if isinstance(data, Tensor):
        data = data._data
    if isinstance(data, np.ndarray | np.generic):
        return np.array(data, dtype=wanted or dtype_of(data.dtype).numpy)
    if isinstance(data, list | tuple):
        data = [d._data if isinstance(d, Tensor) else d for d in data]
    array = np.array(data, dtype=wanted)
    if wanted is None and array.dtype == np.float64 and not _is_numpy_inside(data):
        array = array.astype(np.float32)
    dtype_of(array.dtype)
    return array
