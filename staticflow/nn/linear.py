"""The fully connected layer."""

from __future__ import annotations

import math
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional import linear
from staticflow.nn.init import uniform_
from staticflow.nn.module import Module
from staticflow.nn.parameter import new_parameter

__all__ = ["Linear"]


class Linear(Module):
    """``y = x @ weight.T + bias`` for ``x`` (..., in_features); ``weight`` (out_features,
    in_features), ``bias`` (out_features,) or None.

    Both start uniform on +-1/sqrt(in_features), as in PyTorch: that is the Kaiming bound
    ``gain * sqrt(3 / fan_in)`` for the gain 1/sqrt(3) of a leaky ReLU of slope sqrt(5) (He et al.
    2015, "Delving deep into rectifiers").

    >>> import staticflow as sf
    >>> Linear(3, 5)(sf.ones(2, 3)).shape
    (2, 5)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in_features < 0 or out_features < 0:
            raise ShapeError(
                f"Linear({in_features}, {out_features}): sizes cannot be negative"
                f", at {format_locs(here())}"
            )
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        self.weight = new_parameter(out_features, in_features, device=device, dtype=dtype)
        uniform_(self.weight, -bound, bound)
        self.bias = new_parameter(out_features, device=device, dtype=dtype) if bias else None
        if self.bias is not None:
            uniform_(self.bias, -bound, bound)

    def forward(self, x: Any) -> Any:
        """``x`` (..., in_features) to (..., out_features)."""
        return linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
