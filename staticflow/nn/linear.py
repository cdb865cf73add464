"""Fully connected layers."""

from __future__ import annotations

import math
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional import bilinear, linear
from staticflow.nn.init import uniform_
from staticflow.nn.module import Module
from staticflow.nn.parameter import new_parameter

__all__ = ["Bilinear", "Linear"]


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
        self.in_features, self.out_features = in_features, out_features
        self.weight = new_parameter(out_features, in_features, device=device, dtype=dtype)
        self.bias = new_parameter(out_features, device=device, dtype=dtype) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight and the bias anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        """``input`` (..., in_features) to (..., out_features)."""
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """``y[o] = x1 @ weight[o] @ x2 + bias[o]`` for ``x1`` (..., in1_features) and ``x2`` (...,
    in2_features); ``weight`` (out_features, in1_features, in2_features). All start uniform on
    +-1/sqrt(in1_features).

    >>> import staticflow as sf
    >>> Bilinear(3, 4, 5)(sf.ones(2, 3), sf.ones(2, 4)).shape
    (2, 5)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features < 1:
            raise ShapeError(
                f"Bilinear: in1_features is 1 at least, not {in1_features}, "
                f"at {format_locs(here())}"
            )
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        bound = 1 / math.sqrt(in1_features)
        shape = out_features, in1_features, in2_features
        self.weight = new_parameter(*shape, device=device, dtype=dtype)
        uniform_(self.weight, -bound, bound)
        self.bias = new_parameter(out_features, device=device, dtype=dtype) if bias else None
        if self.bias is not None:
            uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """Both inputs to (..., out_features)."""
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
