"""The layers of einops as modules: patterns that stand in a ``Sequential``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from einops import EinopsError
from einops.layers import RearrangeMixin, ReduceMixin
from einops.layers._einmix import _EinmixMixin

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.init import uniform_
from staticflow.nn.module import Module
from staticflow.nn.parameter import new_parameter
from staticflow.ops.matrices.einsum import einsum

__all__ = ["EinMix", "Rearrange", "Reduce"]


def _apply(layer: Any, input: Any) -> Any:
    """What the pattern of ``layer`` makes of ``input``. Raises `ShapeError` where it has not as
    many dims as the pattern says, and einops' own error, with the user's line,
    for sizes that do not fit."""
    wanted = layer._multirecipe
    if input.ndim not in wanted:
        counts = f"{min(wanted)} or more" if len(wanted) > 1 else f"{min(wanted)}"
        raise ShapeError(
            f"{type(layer).__name__}: an input of shape {list(input.shape)} has {input.ndim} dims, "
            f"and the pattern {layer.pattern!r} is of {counts}, at {format_locs(here())}"
        )
    try:
        return layer._apply_recipe(input)
    except EinopsError as error:
        raise EinopsError(
            f"{layer!r}: an input of shape {list(input.shape)}: {error}, at {format_locs(here())}"
        ) from None


class Rearrange(RearrangeMixin, Module):
    """``einops.rearrange(input, pattern, **axes_lengths)`` as a module.

    >>> import staticflow as sf
    >>> Rearrange("b c h w -> b (c h w)")(sf.ones(2, 3, 4, 5)).shape
    (2, 60)
    """

    def forward(self, input: Any) -> Any:
        """``input``, of a shape that the pattern takes, rearranged."""
        return _apply(self, input)


class Reduce(ReduceMixin, Module):
    """``einops.reduce(input, pattern, reduction, **axes_lengths)`` as a module.

    >>> import staticflow as sf
    >>> Reduce("b c (h 2) (w 2) -> b c h w", "max")(sf.ones(2, 3, 4, 6)).shape
    (2, 3, 2, 3)
    """

    def forward(self, input: Any) -> Any:
        """``input``, of a shape that the pattern takes, reduced."""
        return _apply(self, input)


class EinMix(_EinmixMixin, Module):
    """A linear layer along any axes: ``einops.einsum`` of the input and a ``weight`` with the axes
    of ``weight_shape``, to which a ``bias`` with those of ``bias_shape`` is added, None for none.

    Both start uniform, the weight on +-sqrt(3 / fan_in) and the bias on +-sqrt(1 / fan_in), where
    fan_in is the product of the sizes of the weight that the output has not.

    >>> import staticflow as sf
    >>> EinMix("b c (h 2) -> b h d", "c d", "d", c=3, d=4)
    Traceback (most recent call last):
    einops.EinopsError: Anonymous axes (numbers) are not allowed in EinMix
    >>> EinMix("b c h -> b h d", "c d", "d", c=3, d=4)(sf.ones(2, 3, 5)).shape
    (2, 5, 4)
    """

    def _create_parameters(
        self,
        weight_shape: Sequence[int],
        weight_bound: float,
        bias_shape: Sequence[int] | None,
        bias_bound: float,
    ) -> None:
        self.weight = new_parameter(*weight_shape)
        uniform_(self.weight, -weight_bound, weight_bound)
        self.bias = None if bias_shape is None else new_parameter(*bias_shape)
        if self.bias is not None:
            uniform_(self.bias, -bias_bound, bias_bound)

    def _create_rearrange_layers(
        self,
        pre_reshape_pattern: str | None,
        pre_reshape_lengths: Mapping[str, int] | None,
        post_reshape_pattern: str | None,
        post_reshape_lengths: Mapping[str, int] | None,
    ) -> None:
        def layer(pattern: str | None, lengths: Mapping[str, int] | None) -> Rearrange | None:
            return None if pattern is None else Rearrange(pattern, **(lengths or {}))

        self.pre_rearrange = layer(pre_reshape_pattern, pre_reshape_lengths)
        self.post_rearrange = layer(post_reshape_pattern, post_reshape_lengths)

    def forward(self, input: Any) -> Any:
        """``input``, of a shape that the pattern takes, mixed by the weight."""
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            result = result + self.bias
        return result if self.post_rearrange is None else self.post_rearrange(result)
