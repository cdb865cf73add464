"""Activation functions as layers."""

from __future__ import annotations

from typing import Any

from staticflow.nn import functional as F
from staticflow.nn.module import Module

__all__ = ["ReLU", "Sigmoid", "Tanh"]


class ReLU(Module):
    """``max(x, 0)``; NaN stays NaN."""

    def forward(self, x: Any) -> Any:
        """Element by element."""
        return F.relu(x)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Any) -> Any:
        """Element by element."""
        return F.tanh(x)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, x: Any) -> Any:
        """Element by element."""
        return F.sigmoid(x)
