"""An eager step as one program for each parameter, which writes where it reads.

In ops of their own a step of Adam is some twenty operations, each a pass over the memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from staticflow import pytree
from staticflow.ops.declaring.fused import in_place

__all__ = ["stepper"]


@functools.lru_cache(256)
def stepper(
    optimizer: Any,
    state: tuple[str, ...],
    hyper: pytree.TreeDef,
    known: tuple[tuple[str, Any], ...],
) -> Callable[..., Callable[..., bool]]:
    """What makes steps by the rule of a subclass of `Optimizer`. It is called with the
    hyperparameters as variables, so that other values compile nothing, but for those whose values
    are ``known``, and gives a function of a
    parameter, the tensors of its ``state`` and the gradient. That says False, with nothing done,
    where only operations can."""

    def update(*tensors: Any) -> Sequence[Any]:
        own, grad, variables = (
            tensors[: 1 + len(state)],
            tensors[1 + len(state)],
            tensors[2 + len(state) :],
        )
        before = dict(zip(state, own[1:], strict=True))
        values = pytree.unflatten(hyper, variables) | dict(known)
        value, after = optimizer.on_symbols(own[0], grad, before, values)
        return (value, *(after.get(n, before[n]) for n in state))

    return in_place(update, 1 + len(state), optimizer.by_element)
