"""Tools for training programs, under PyTorch's names."""

from staticflow.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
