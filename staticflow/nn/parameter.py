"""The leaf tensors that modules hold and optimisers train.

The rest of `nn` and all of `optim` stand on ops alone; parameters are eager tensors, so this one
file imports the eager mode.
"""

from __future__ import annotations

from typing import Any

from staticflow.eager.creation import empty, tensor
from staticflow.eager.grad_mode import is_grad_enabled
from staticflow.eager.tensor import Tensor, as_tensor
from staticflow.errors import SymbolicError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.foreign import kind_of
from staticflow.ops.symbols.symbol import Symbol

__all__ = [
    "Parameter", "empty", "is_eager", "is_grad_enabled", "new_parameter", "refuse_symbol", "tensor",
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
