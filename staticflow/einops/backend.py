"""The backend by which einops computes on tensors and symbols.

einops looks through the subclasses of its ``AbstractBackend`` for one that knows a tensor's type:
the class below need only exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from einops._backends import AbstractBackend

from staticflow.eager.creation import tensor
from staticflow.eager.ranges import arange
from staticflow.graph.dims import Size
from staticflow.ops.basics.joining import cat, stack
from staticflow.ops.matrices.einsum import einsum
from staticflow.static.compile import compile
from staticflow.static.inputs import placeholder

__all__ = ["StaticflowBackend"]

_ONE_BY_ONE = {"prod", "any", "all"}
"""Reductions that are over one dim."""

_METHODS = {"max": "amax", "min": "amin"}
"""Reductions whose methods over many dims have other names than einops gives them."""


class StaticflowBackend(AbstractBackend):
    """What einops asks of a framework, for tensors and for symbols.

    Sizes are those of ``shape``: ints, and where they are unknown the sizes of the graph, so that a
    pattern holds for all of them. That ``h`` of ``(h w)`` divides an unknown size is an assumption
    of the graph, checked at every call.
    """

    framework_name = "staticflow"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether it is a tensor or a symbol."""
        return hasattr(type(tensor), "__sf_mode__")

    def reshape(self, x: Any, shape: Sequence[Size]) -> Any:
        """``x`` with its elements in ``shape``."""
        return x.reshape(tuple(shape))

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        """``x`` with its dims in the order of ``axes``."""
        return x.permute(tuple(axes))

    def reduce(self, x: Any, operation: str, axes: Sequence[int]) -> Any:
        """``x`` reduced over ``axes`` by the ``operation``: sum, mean, max, min, prod, any or
        all."""
        if operation not in _ONE_BY_ONE:
            return getattr(x, _METHODS.get(operation, operation))(dim=tuple(axes))
        for axis in sorted(axes, reverse=True):
            x = getattr(x, operation)(dim=axis)
        return x

    def stack_on_zeroth_dimension(self, tensors: Sequence[Any]) -> Any:
        """The tensors along a new first dim."""
        return stack(tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        """``x`` with a new dim of size 1."""
        return x.unsqueeze(new_position)

    def add_axes(self, x: Any, n_axes: int, pos2len: Mapping[int, Size]) -> Any:
        """``x`` with a new dim at each position of ``pos2len``, repeated that often: a view."""
        sizes: list[Size] = [-1] * n_axes
        for position, size in pos2len.items():
            x = x.unsqueeze(position)
            sizes[position] = size
        return x.expand(tuple(sizes))

    def tile(self, x: Any, repeats: Sequence[Size]) -> Any:
        """``x`` repeated along each of its dims."""
        return x.repeat(tuple(repeats))

    def concat(self, tensors: Sequence[Any], axis: int) -> Any:
        """The tensors one behind the other along ``axis``."""
        return cat(tensors, dim=axis)

    def is_float_type(self, x: Any) -> bool:
        """Whether the elements are floats, of which alone einops takes means."""
        return bool(x.dtype.is_floating)

    def einsum(self, pattern: str, *x: Any) -> Any:
        """The sum of products that ``pattern``, of one letter an axis, says."""
        return einsum(pattern, *x)

    def layers(self) -> ModuleType:
        """The module of the layers."""
        from staticflow.einops import layers

        return layers

    # what the tests of einops ask for beside

    def from_numpy(self, x: np.ndarray[Any, Any]) -> Any:
        """A tensor with the elements of an array; floats require gradients, as they do for the
        backend of PyTorch."""
        return tensor(x, requires_grad=x.dtype.kind == "f")

    def to_numpy(self, x: Any) -> np.ndarray[Any, Any]:
        """The elements of a tensor as an array."""
        return np.asarray(x.detach().cpu().numpy())

    def arange(self, start: int, stop: int) -> Any:
        """The integers from ``start`` up to, not including, ``stop``."""
        return arange(start, stop)

    def create_symbol(self, shape: Sequence[int | None]) -> Any:
        """A placeholder of float64; a size that is None is unknown."""
        return placeholder(tuple(shape), "float64")

    def eval_symbol(
        self, symbol: Any, symbol_value_pairs: Sequence[tuple[Any, np.ndarray[Any, Any]]]
    ) -> np.ndarray[Any, Any]:
        """The elements of ``symbol`` where the placeholders have these values."""
        names, values = zip(*symbol_value_pairs, strict=True)
        program = compile(list(names), symbol)
        return self.to_numpy(program(*(v.astype(np.float64) for v in values)))
