"""Workload u: PyTorch's own modules behind `torch.compile`.

Its backends are this compiler and Inductor, beside
PyTorch as it is. A call of a small net without gradients, which is what a call costs;
evaluation of a residual block; a training step of a transformer layer, forward and back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common import Contestant, Maker, main, threads

BATCH = 32
"""How many rows, images or sentences."""


def small_net() -> tuple[Any, Any]:
    import torch
    from torch import nn

    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), torch.randn(8, 16)


def residual_block() -> tuple[Any, Any]:
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (
                nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32))
                for _ in range(2)
            )

        def forward(self, x: Any) -> Any:
            return torch.relu(self.second(torch.relu(self.first(x))) + x)

    return Block().eval(), torch.randn(BATCH, 32, 28, 28)


def encoder_layer() -> tuple[Any, Any]:
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    return layer, torch.randn(BATCH, 64, 128)


def contestant(
    make: Callable[[], tuple[Any, Any]], backend: Any, trains: bool
) -> Callable[[], Contestant]:
    """The module that ``make`` gives, compiled by ``backend``, or as it is if that is None."""

    def enter() -> Contestant:
        import torch

        torch.set_num_threads(threads())
        torch.manual_seed(0)
        module, x = make()
        called = module if backend is None else torch.compile(module, backend=backend)
        last: Any = None

        def train(n: int) -> None:
            nonlocal last
            for _ in range(n):
                module.zero_grad()
                last = called(x)
                last.exp().mean().backward()

        def evaluate(n: int) -> None:
            nonlocal last
            with torch.no_grad():
                for _ in range(n):
                    last = called(x)

        def result() -> list[Any]:
            gradients = [p.grad for p in module.parameters()] if trains else []
            return [v.detach().numpy() for v in (last, *gradients)]

        return Contestant(train if trains else evaluate, result)

    return enter


def makers(make: Callable[[], tuple[Any, Any]], trains: bool) -> dict[str, Maker]:
    """The contestants of a table."""

    def staticflow() -> Contestant:
        import staticflow as sf

        return contestant(make, sf.torch.backend, trains)()

    return {
        "PyTorch eager": contestant(make, None, trains),
        "staticflow": staticflow,
        "torch.compile": contestant(make, "inductor", trains),
    }


def tables() -> dict[str, dict[str, Maker]]:
    """The contestants by title."""
    return {
        "a call of a small net": makers(small_net, False),
        "a residual block, evaluated": makers(residual_block, False),
        "a step of a transformer layer": makers(encoder_layer, True),
    }


if __name__ == "__main__":
    main(__doc__, tables())
