"""Tensors and modules with numbers that are the same in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

import staticflow as torch


def drawn(*shape: int, seed: int = 0, dtype: Any = np.float32, grad: bool = False) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.from_numpy(np.asarray(values).astype(dtype)).requires_grad_(grad)


def filled(module: Any, seed: int = 0) -> Any:
    draw = np.random.default_rng(seed)
    with torch.no_grad():
        for p in module.parameters():
            values = draw.standard_normal(tuple(p.shape)) * 0.4
            p.copy_(torch.from_numpy(values.astype(np.float32)))
    return module
