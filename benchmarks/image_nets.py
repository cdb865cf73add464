"""Workload m: two convolution nets on images of 32 x 32, a whole SGD step.

A residual net of 18 layers (K. He et al., "Deep residual learning for image recognition", 2016) of
32 to 256 channels on 16 images, and one of depthwise and pointwise convolutions (A. Howard et al.,
"MobileNets", 2017) on 32. Batch norm by the batch alone; cross-entropy of 10 classes, lr 0.01.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from common import Contestant, main, size
from steps import Task, jax_training

RESIDUAL_BATCH, DEPTHWISE_BATCH, SIDE, CLASSES = 16, 32, 32, 10
WIDTHS = (32, 64, 128, 256)
"""Channels of the parts of the residual net, each of two blocks of two convolutions."""
PAIRS = ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))
"""Channels in and out, and the stride, of each depthwise convolution with its pointwise one."""
LR = 0.01


def images(count: int) -> tuple[Any, Any]:
    """Images and their classes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((count, 3, SIDE, SIDE)).astype(np.float32)
    return x, rng.integers(0, CLASSES, count)


def objective(library: Any, model: Any, x: Any, classes: Any) -> Any:
    """Cross-entropy."""
    return library.nn.functional.cross_entropy(model(x), classes)


# -- in PyTorch's names ---------------------------------------------------------------------------


def convolution(nn: Any, a: int, b: int, side: int, stride: int, groups: int = 1) -> list[Any]:
    """A convolution and its batch norm."""
    conv = nn.Conv2d(a, b, side, stride, side // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(b, track_running_stats=False)]


def residual(nn: Any) -> Any:
    """The residual net."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, a: int, b: int, stride: int) -> None:
            super().__init__()
            self.main = nn.Sequential(
                *convolution(nn, a, b, 3, stride), nn.ReLU(), *convolution(nn, b, b, 3, 1)
            )
            self.short = None if a == b else nn.Sequential(*convolution(nn, a, b, 1, stride))

        def forward(self, x: Any) -> Any:
            return (self.main(x) + (x if self.short is None else self.short(x))).relu()

    blocks, before = [], WIDTHS[0]
    for width in WIDTHS:
        blocks += [Block(before, width, 1 if width == WIDTHS[0] else 2), Block(width, width, 1)]
        before = width
    first = [*convolution(nn, 3, WIDTHS[0], 3, 1), nn.ReLU()]
    return nn.Sequential(*first, *blocks, *scores(nn))


def depthwise(nn: Any) -> Any:
    """The net of depthwise and pointwise convolutions."""
    layers = [*convolution(nn, 3, PAIRS[0][0], 3, 1), nn.ReLU()]
    for a, b, stride in PAIRS:
        layers += [*convolution(nn, a, a, 3, stride, groups=a), nn.ReLU()]
        layers += [*convolution(nn, a, b, 1, 1), nn.ReLU()]
    return nn.Sequential(*layers, *scores(nn))


def scores(nn: Any) -> list[Any]:
    """The end of either net."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], CLASSES)]


def task(make: Any, count: int) -> Task:
    """The training of a net on so many images; their number is a `size`."""
    batch = size("N", count)
    sizes = [((batch, 3, SIDE, SIDE), "float32"), ((batch,), "int64")]
    return Task(make, objective, partial(images, count), sizes, LR)


# -- in JAX ---------------------------------------------------------------------------------------


def jax_convolution(x: Any, params: Iterator[Any], stride: int, groups: int = 1) -> Any:
    """A convolution and its batch norm, of the next parameters."""
    import jax

    w, scale, shift = (next(params) for _ in range(3))
    pad = [(w.shape[2] // 2,) * 2] * 2
    y = jax.lax.conv_general_dilated(x, w, (stride,) * 2, pad, feature_group_count=groups)
    mean, var = (f((0, 2, 3), keepdims=True) for f in (y.mean, y.var))
    scale, shift = scale[:, None, None], shift[:, None, None]
    return (y - mean) * jax.lax.rsqrt(var + 1e-5) * scale + shift


def jax_residual(params: Any, x: Any) -> Any:
    """The residual net."""
    import jax

    relu, rest = jax.nn.relu, iter(params)
    x, before = relu(jax_convolution(x, rest, 1)), WIDTHS[0]
    for width in WIDTHS:
        for a in (before, width):
            stride = 1 if a == width else 2
            y = relu(jax_convolution(x, rest, stride))
            y = jax_convolution(y, rest, 1)
            x = relu(y + (x if a == width else jax_convolution(x, rest, stride)))
        before = width
    return x.mean((2, 3)) @ next(rest).T + next(rest)


def jax_depthwise(params: Any, x: Any) -> Any:
    """The net of depthwise and pointwise convolutions."""
    import jax

    relu, rest = jax.nn.relu, iter(params)
    x = relu(jax_convolution(x, rest, 1))
    for a, _, stride in PAIRS:
        x = relu(jax_convolution(x, rest, stride, groups=a))
        x = relu(jax_convolution(x, rest, 1))
    return x.mean((2, 3)) @ next(rest).T + next(rest)


def jax_jit(net: Any, task: Task) -> Contestant:
    """``jit`` of the whole step."""
    import jax
    import jax.numpy as jnp

    def objective(params: Any, x: Any, classes: Any) -> Any:
        chosen = jax.nn.log_softmax(net(params, x))[jnp.arange(len(x)), classes]
        return -chosen.mean()

    return jax_training(objective, task.values(), task.batch(), task.lr)


def residual_step(name: str) -> Contestant:
    """The step of the residual net, by ``staticflow_static``, ``staticflow_jit`` or ``jax_jit``."""
    training = task(residual, RESIDUAL_BATCH)
    if name == "jax_jit":
        return jax_jit(jax_residual, training)
    return training.jit() if name == "staticflow_jit" else training.static()


if __name__ == "__main__":
    nets = {
        "residual net of 18 layers, 16 images": (residual, jax_residual, RESIDUAL_BATCH),
        "depthwise net, 32 images": (depthwise, jax_depthwise, DEPTHWISE_BATCH),
    }
    tables = {}
    for title, (make, in_jax, count) in nets.items():
        training = task(make, count)
        tables[title] = {
            **training.contestants(),
            "PyTorch, channels last": partial(training.pytorch, channels_last=True),
            "JAX jit": partial(jax_jit, in_jax, training),
        }
    main(__doc__, tables, checked_runs=2, tolerance=2e-2)
