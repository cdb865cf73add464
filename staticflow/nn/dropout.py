"""Layers that leave elements out at random while training, and do nothing in evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from staticflow.nn import functional as F
from staticflow.nn.module import Module
from staticflow.ops.random.sampling import check_probability

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
]  # fmt: skip


class _Dropout(Module):
    _drop: ClassVar[Callable[..., Any]]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability(type(self).__name__, p)
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Any:
        """``input`` with elements left out, in training."""
        return type(self)._drop(input, self.p, self.training, self.inplace)

    def _asks_training(self) -> bool:
        return bool(self.p)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """`F.dropout`: elements become 0 with probability ``p``, the others are scaled up. The draws
    are those of the default generator, the same in both modes.

    >>> import staticflow as sf
    >>> Dropout(0.3).eval()(sf.ones(2))
    tensor([1., 1.])
    """

    _drop = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """`F.dropout1d`: whole channels of (N, C, L) or (C, L) are left out."""

    _drop = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """`F.dropout2d`: whole channels of (N, C, H, W) are left out."""

    _drop = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """`F.dropout3d`: whole channels of (N, C, D, H, W) or (C, D, H, W) are left out."""

    _drop = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """`F.alpha_dropout`, for networks of SELU: mean and variance stay."""

    _drop = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """`F.feature_alpha_dropout`: `AlphaDropout` of whole channels."""

    _drop = staticmethod(F.feature_alpha_dropout)
