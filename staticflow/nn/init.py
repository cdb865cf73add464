"""Parameters and the values they start from.

The rest of `nn` and all of `optim` stand on ops alone. Parameters are eager tensors, and their
first values are drawn from the eager generator, so this one file imports the eager mode.
"""

from __future__ import annotations

from typing import Any

from staticflow.eager.creation import rand
from staticflow.eager.tensor import Tensor, as_tensor

__all__ = ["Parameter", "uniform_"]


class Parameter(Tensor):
    """A leaf tensor that a `Module` counts among its parameters.

    It is on the memory of ``data`` (a tensor or an array), as in PyTorch; numbers and lists are
    copied. ``requires_grad=False`` makes a frozen one, which optimisers leave alone. Its ``name``
    is the path by which the outermost module so far knows it, and is what graphs print.

    Raises `AutogradError` for integers and bools that are to require a gradient.

    >>> Parameter([1.0, 2.0])
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        shared = Tensor(data) if isinstance(data, list | tuple) else as_tensor(data)
        self._start(shared._data)
        self._version = shared._version
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def uniform_(tensor: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Fill ``tensor`` with draws from the uniform distribution on [low, high), in place and outside
    the tape. Returns ``tensor``. The draws follow ``sf.manual_seed``."""
    draw = rand(*tensor.shape, dtype=tensor.dtype)
    tensor.detach()[...] = draw * (high - low) + low
    return tensor
