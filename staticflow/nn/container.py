"""Modules made of modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from staticflow.nn.module import Module

__all__ = ["Sequential"]


class Sequential(Module):
    """Modules called one after the other, each on what the one before it returned. They are named
    ``"0"``, ``"1"`` and so on.

    >>> from staticflow import nn
    >>> nn.Sequential(nn.Linear(4, 2, bias=False), nn.ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=2, bias=False)
      (1): ReLU()
    )
    """

    def __init__(self, *modules: Module) -> None:
        for position, module in enumerate(modules):
            if not isinstance(module, Module):
                raise TypeError(
                    f"Sequential takes modules, not {type(module).__name__} (argument {position}); "
                    "wrap a function in a Module, or call it in a forward of your own"
                )
            self.add_module(str(position), module)

    def forward(self, x: Any) -> Any:
        """``x`` through every module in order."""
        for module in self:
            x = module(x)
        return x

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __getitem__(self, position: int) -> Module:
        return list(self.children())[position]
