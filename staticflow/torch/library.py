"""PyTorch itself, where it is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["torch_library"]


def torch_library(what: str) -> Any:
    """The package ``torch``, for the function that is known as ``torch.what``. Raises `ImportError`
    where it is not installed."""
    try:
        return import_module("torch")
    except ImportError:
        raise ImportError(
            f'torch.{what}: PyTorch is not installed; pip install "staticflow[torch]"'
        ) from None
