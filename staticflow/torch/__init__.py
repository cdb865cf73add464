"""PyTorch's modules as modules of ours, and this compiler behind ``torch.compile``."""

from __future__ import annotations

from staticflow.torch.door import backend, from_module

__all__ = ["backend", "from_module"]
