"""The parameters of several modules of one kind, stacked for `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.module import Module
from staticflow.ops.basics.joining import stack

__all__ = ["stack_module_state"]


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of ``models`` by their paths, each a new tensor with a first
    dim for the models: what `vmap` of a `functional_call` takes for an ensemble. A parameter
    requires a gradient, as a leaf of its own, if those that it is stacked of do.

    Raises `ArgumentError` for no models, and for such as differ in their class, in whether they
    train, or in what they hold.

    >>> import staticflow as sf
    >>> models = [sf.nn.Linear(2, 3) for _ in range(4)]
    >>> parameters, buffers = stack_module_state(models)
    >>> def run(parameters, x):
    ...     return sf.func.functional_call(models[0], parameters, x)
    >>> sf.func.vmap(run, in_dims=(0, None))(parameters, sf.ones(5, 2)).shape
    (4, 5, 3)
    """
    models = list(models)
    if not models:
        raise ArgumentError(f"stack_module_state: there are no models, at {format_locs(here())}")
    alike: dict[str, Callable[[Any], Any]] = {
        "classes": type,
        "modes of training": lambda model: model.training,
        "parameters": lambda model: [n for n, _ in model.named_parameters()],
        "buffers": lambda model: [n for n, _ in model.named_buffers()],
    }
    for what, of in alike.items():
        if any(of(model) != of(models[0]) for model in models):
            raise ArgumentError(
                f"stack_module_state: the models are of different {what}; they must be alike, "
                f"at {format_locs(here())}"
            )
    return (
        _stack([dict(model.named_parameters()) for model in models]),
        _stack([dict(model.named_buffers()) for model in models]),
    )


def _stack(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for name in states[0]:
        each = [state[name] for state in states]
        requires = {t.requires_grad for t in each}
        if len(requires) > 1:
            raise ArgumentError(
                f"stack_module_state: some of the models require a gradient of {name} and some do "
                f"not; they must be alike, at {format_locs(here())}"
            )
        stacked = stack([t.detach() for t in each])
        found[name] = stacked.requires_grad_() if requires == {True} else stacked
    return found
