"""The leaf tensors that modules hold and optimisers train.

The rest of `nn` and all of `optim` stand on ops alone; parameters are eager tensors, so this one
file imports the eager mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.eager.creation import empty, tensor
from staticflow.eager.grad_mode import is_grad_enabled
from staticflow.eager.no_values import NoValues
from staticflow.eager.tensor import Tensor, as_tensor
from staticflow.errors import ShapeError, SymbolicError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here, warn
from staticflow.ops.declaring.foreign import kind_of
from staticflow.ops.symbols.symbol import Symbol

__all__ = [
    "Parameter", "UninitializedBuffer", "UninitializedParameter", "empty", "is_eager",
    "is_grad_enabled", "is_uninitialized", "new_parameter", "refuse_symbol", "tensor",
]  # fmt: skip


def refuse_symbol(what: str, value: Any) -> None:
    """Raise `SymbolicError` if ``value`` is a symbol, which holds no values of its own."""
    if isinstance(value, Symbol):
        raise SymbolicError(
            f"{with_article(what)} holds values of its own, and {kind_of(value)} is a symbol, as "
            "all is that is made inside a trace (under jit, in a forward on symbols, in the body "
            f"of a loop); make the layer or the {what} outside, and use it inside, "
            f"at {format_locs(here())}"
        )


def is_eager(value: Any) -> bool:
    """Whether ``value`` is a tensor that holds values."""
    return isinstance(value, Tensor)


class Parameter(Tensor):
    """A leaf tensor that a `Module` counts among its parameters.

    It is on the memory of ``data`` (a tensor or an array), as in PyTorch; numbers and lists are
    copied. ``requires_grad=False`` makes a frozen one, which optimisers leave alone. Its ``name``
    is the path by which the outermost module so far knows it, and is what graphs print. It may have
    further attributes, which other tensors may not.

    Raises `AutogradError` for integers and bools that are to require a gradient, and
    `SymbolicError` for a symbol, as all that is made inside a trace is.

    >>> Parameter([1.0, 2.0])
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    def __init__(self, data: Any = (), requires_grad: bool = True) -> None:
        refuse_symbol("parameter", data)
        shared = tensor(data) if isinstance(data, list | tuple) else as_tensor(data)
        self._start(shared._data)
        self._memory = shared._own_memory()
        self._require(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A parameter with memory of its own and no gradient yet, as in PyTorch."""
        memo[id(self)] = out = Parameter(self.detach().clone(), self.requires_grad)
        out.name = self.name
        return out

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def new_parameter(*shape: int, device: Any = None, dtype: Any = None) -> Parameter:
    """A parameter of that shape, in the default floating dtype unless another is given, whose
    values are still to be set."""
    return Parameter(empty(*shape, device=device, dtype=dtype))


_OF_NO_VALUES = frozenset((
    "dtype", "device", "requires_grad", "requires_grad_", "is_leaf", "grad", "grad_fn", "name",
    "is_cuda", "is_cpu", "is_sparse", "is_quantized", "is_meta", "is_nested", "get_device",
    "is_floating_point", "is_complex", "retains_grad", "serial", "materialize", "move",
))  # fmt: skip
"""What a tensor without sizes and values can tell, beside names that begin with an underscore."""


def _no_values(device: Any, dtype: Any) -> NoValues:
    """What stands for the memory of a tensor on ``device`` and of ``dtype``, None for the usual
    ones, whose sizes are not known."""
    made = empty(0, device=device, dtype=dtype)
    memory = np.empty(0, made.dtype.numpy).view(NoValues)
    memory.device_to_be = made.device
    return memory


if TYPE_CHECKING:
    _Base = Tensor
else:
    _Base = object  # the class of the object changes, which takes one that adds nothing


class _Uninitialized(_Base):
    """A tensor that has a dtype and a device, and sizes and values only from `materialize` on."""

    __slots__ = ()
    __sf_forms__: Mapping[Any, Any] = {}  # no native code for it

    def __getattribute__(self, name: str) -> Any:
        if name in _OF_NO_VALUES or name[0] == "_":
            return super().__getattribute__(name)
        kind = type(self)
        if name == "data":  # that initialises a layer which has no sizes is in PyTorch's tutorials
            warn(
                f"{kind.__name__}: the data is empty before the first call of its lazy layer, and "
                "what is done to it is lost; initialise the layer after a call"
            )
            return empty(0, device=self.device, dtype=self.dtype)
        if name not in kind.__dict__ and not hasattr(kind, name):
            return super().__getattribute__(name)  # an attribute that somebody gave it
        raise ShapeError(
            f"{kind.__name__}: {name!r} is of its sizes or values, and it has none before the "
            "first call of its lazy layer; call the layer before, on an input of the usual sizes, "
            f"at {format_locs(here())}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("data", "grad") and value is not None:
            self.__getattribute__("shape")  # which says why not
        super().__setattr__(name, value)

    device = property(lambda self: self._data.device_to_be)
    is_cuda = property(lambda self: self.device.type == "cuda")
    is_cpu = property(lambda self: self.device.type == "cpu")
    __sf_gpu__ = property(lambda self: self.device if self.is_cuda else None)

    def move(self: Any, device: Any = None, dtype: Any = None) -> None:
        """Let it be on ``device`` and of ``dtype`` from now on, where they are given."""
        to = self.dtype if dtype is None else dtype
        self._data = _no_values(self.device if device is None else device, to)

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become, in place, a plain parameter or buffer of that shape, on the own device and of the
        own dtype unless others are given; its values are still to be set."""
        to = self.dtype if dtype is None else dtype
        made = empty(*shape, device=self.device if device is None else device, dtype=to)
        self.__class__ = Parameter if isinstance(self, Parameter) else Tensor
        self._data, self._memory = made._data, made._own_memory()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        memo[id(self)] = out = type(self)(self.requires_grad, self.device, self.dtype)
        out.name = self.name
        return out

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return type(self), (self.requires_grad, str(self.device), self.dtype)


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter of a lazy layer before the first call, which tells its sizes: it has a dtype and
    a device, and may be moved, frozen and given to an optimiser. Raises `ShapeError` wherever its
    sizes or values are asked for, but that ``data`` is an empty tensor, with a warning.
    `materialize` makes it a `Parameter`, the same object.

    >>> w = UninitializedParameter()
    >>> w
    <UninitializedParameter>
    >>> w.materialize((2, 3))
    >>> type(w).__name__, w.shape
    ('Parameter', (2, 3))
    """

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        self._start(_no_values(device, dtype))
        self._require(requires_grad)


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer of a lazy layer before the first call, which tells its sizes: it has a dtype and a
    device, and may be moved. Raises `ShapeError` wherever its sizes or values are asked for.
    `materialize` makes it a plain tensor, the same object."""

    __slots__ = ()

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None) -> None:
        self._start(_no_values(device, dtype))
        self._require(requires_grad)


def is_uninitialized(value: Any) -> bool:
    """Whether ``value`` is a parameter or buffer without sizes and values."""
    return isinstance(value, _Uninitialized)
