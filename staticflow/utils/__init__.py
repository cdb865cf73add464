"""Tools for training programs, under PyTorch's names."""

from staticflow.utils import checkpoint

__all__ = ["checkpoint"]
