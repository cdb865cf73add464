"""Activation functions as layers."""

from __future__ import annotations

from typing import Any, ClassVar

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.nn.init import constant_
from staticflow.nn.module import Module
from staticflow.nn.parameter import new_parameter

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU",
    "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh",
    "Tanhshrink", "Threshold",
]  # fmt: skip


class _Shown(Module):
    """A module that prints some of its attributes."""

    shown: ClassVar[tuple[str, ...]] = ()

    def extra_repr(self) -> str:
        """The attributes."""
        return ", ".join(f"{n}={getattr(self, n)!r}" for n in self.shown)


class _Elementwise(_Shown):
    """A function of each element, which ``inplace`` stores in its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def compute(self, input: Any) -> Any:
        """The function."""
        raise NotImplementedError

    def forward(self, input: Any) -> Any:
        """Element by element."""
        out = self.compute(input)
        return input._assign(out) if self.inplace else out

    def extra_repr(self) -> str:
        """The attributes."""
        parts = [super().extra_repr(), "inplace=True" if self.inplace else ""]
        return ", ".join(p for p in parts if p)


class ReLU(_Elementwise):
    """``max(x, 0)``; NaN stays NaN."""

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return input.relu_() if self.inplace else F.relu(input)


class ReLU6(_Elementwise):
    """``min(max(x, 0), 6)``."""

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.relu6(input)


class LeakyReLU(_Elementwise):
    """``x``, or ``negative_slope * x`` where it is negative."""

    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.leaky_relu(input, self.negative_slope)


class RReLU(_Elementwise):
    """``x``, or where it is negative ``x`` times a slope that training draws (`rrelu`)."""

    shown = ("lower", "upper")

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower, self.upper = lower, upper

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.rrelu(input, self.lower, self.upper, self.training)


class ELU(_Elementwise):
    """``x``, or ``alpha * (exp(x) - 1)`` where it is negative."""

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.elu(input, self.alpha)


class CELU(ELU):
    """``x``, or ``alpha * (exp(x / alpha) - 1)`` where it is negative."""

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.celu(input, self.alpha)


class SELU(_Elementwise):
    """The ELU whose outputs keep mean 0 and variance 1."""

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.selu(input)


class SiLU(_Elementwise):
    """``x * sigmoid(x)``."""

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.silu(input)


class Mish(_Elementwise):
    """``x * tanh(softplus(x))``."""

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.mish(input)


class Hardswish(_Elementwise):
    """``x * relu6(x + 3) / 6``."""

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.hardswish(input)


class Hardsigmoid(_Elementwise):
    """``relu6(x + 3) / 6``."""

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.hardsigmoid(input)


class Hardtanh(_Elementwise):
    """``x`` clamped to ``min_val`` and ``max_val``."""

    shown = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.min_val, self.max_val = min_val, max_val

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.hardtanh(input, self.min_val, self.max_val)


class Threshold(_Elementwise):
    """``x`` above ``threshold``, elsewhere ``value``."""

    shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold, self.value = threshold, value

    def compute(self, input: Any) -> Any:
        """The function."""
        return F.threshold(input, self.threshold, self.value)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return F.tanh(input)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return F.sigmoid(input)


class LogSigmoid(Module):
    """The logarithm of the sigmoid, without its rounding to 0."""

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return F.logsigmoid(input)


class GELU(_Shown):
    """``x`` times the normal distribution function of ``x``; ``approximate``: "none" or "tanh"."""

    shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return F.gelu(input, self.approximate)


class Softplus(_Shown):
    """``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x`` is above ``threshold``."""

    shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return F.softplus(input, self.beta, self.threshold)


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return F.tanhshrink(input)


class Hardshrink(Module):
    """``x`` outside ``[-lambd, lambd]``, 0 inside."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The bound."""
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """``x`` moved by ``lambd`` towards 0, and 0 inside ``[-lambd, lambd]``."""

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return F.softshrink(input, self.lambd)


class PReLU(_Shown):
    """``x``, or ``weight * x`` where it is not positive; the slopes are parameters, one or one for
    each of the channels, dim 1."""

    shown = ("num_parameters",)

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = constant_(new_parameter(num_parameters, dtype=dtype, device=device), init)

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return F.prelu(input, self.weight)


class GLU(_Shown):
    """The first half along ``dim`` times the sigmoid of the second."""

    shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """(..., 2 n, ...) to (..., n, ...)."""
        return F.glu(input, self.dim)


class Softmax(_Shown):
    """``exp(x) / sum(exp(x))`` along ``dim``."""

    shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """In the shape of ``input``."""
        return F.softmax(input, self.dim)


class LogSoftmax(Softmax):
    """The logarithm of the softmax along ``dim``."""

    def forward(self, input: Any) -> Any:
        """In the shape of ``input``."""
        return F.log_softmax(input, self.dim)


class Softmin(Softmax):
    """The softmax of ``-x`` along ``dim``."""

    def forward(self, input: Any) -> Any:
        """In the shape of ``input``."""
        return F.softmin(input, self.dim)


class Softmax2d(Module):
    """The softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        """In the shape of ``input``."""
        if input.ndim not in (3, 4):
            raise ShapeError(
                f"Softmax2d: takes (N, C, H, W) or (C, H, W), not shape {list(input.shape)}, "
                f"at {format_locs(here())}"
            )
        return F.softmax(input, -3)
