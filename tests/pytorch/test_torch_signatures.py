"""Functions and classes of the names that PyTorch has take its arguments by its names."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="which arguments there are is said by PyTorch")

ROOMS = (
    "nn", "nn.functional", "nn.utils", "nn.utils.rnn", "nn.utils.parametrizations", "nn.utils.parametrize",
    "nn.init", "optim", "optim.lr_scheduler", "optim.swa_utils", "func", "autograd", "autograd.functional",
    "utils.data", "utils.checkpoint", "distributions", "amp",
)  # fmt: skip

ANYWHERE = {"size_average", "reduce", "device", "out"}
"""Those that PyTorch has given up, and those that say where it computes."""

ABSENT: dict[str, set[str]] = {
    "nn.UninitializedBuffer": {"persistent"},  # which register_buffer says
    # older names
    "nn.Hardtanh": {"min_value", "max_value"},
    "nn.utils.clip_grad_norm": {"parameters", "error_if_nonfinite", "foreach"},
    "autograd.backward": {"grad_variables"},
    "autograd.enable_grad": {"orig_func"},
    # where it does not check what it is given; and one of the options that stand for all
    "nn.utils.parametrize.ParametrizationList": {"unsafe"},
    "utils.checkpoint.checkpoint_sequential": {"use_reentrant"},
}  # fmt: skip
"""The arguments that are not taken."""


OF_METHODS: dict[str, set[str]] = {
    "HalfCauchy.icdf": {"prob"},  # which is `value` in every other distribution
    "HalfNormal.icdf": {"prob"},
    "MixtureSameFamily.cdf": {"x"},
    "MixtureSameFamily.log_prob": {"x"},
    "LRScheduler.step": {"epoch"},  # given up by PyTorch
    "ReduceLROnPlateau.step": {"epoch"},
}
"""The arguments of methods that are not taken, by the class here that has the method."""

IN_ANOTHER_ORDER = {
    "_stacklevel", "grad_variables",  # inside, and given up
    "orig_func", "fn", "parameters", "grads", "x", "value", "params",  # another name, or more here
}  # fmt: skip
"""Positional arguments that stand in the way of others' places there or here."""


def parameters_of(what: Any) -> list[inspect.Parameter] | None:
    if not (inspect.isclass(what) or inspect.isroutine(what)):
        return None
    try:
        return list(inspect.signature(what).parameters.values())
    except (TypeError, ValueError):  # of C
        return None


SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
ONE_OF_MANY = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def absent_arguments(their: Any, our: Any) -> set[str] | None:
    """The arguments of theirs that ours lacks; None where one of them does not say its own.

    Those that both take by position stand in one order.
    """
    wanted, found = parameters_of(their), parameters_of(our)
    if wanted is None or found is None:
        return None
    names = {p.name for p in found} | ANYWHERE | {"self"}
    places = [
        [
            p.name
            for p in parameters
            if p.kind in ONE_OF_MANY and p.name not in {*ANYWHERE, *IN_ANOTHER_ORDER, "self"}
        ]
        for parameters in (wanted, found)
    ]
    if "input" not in places[0]:  # of a method that is a function here
        places[1] = [name for name in places[1] if name != "input"]
    count = min(map(len, places))
    assert places[0][:count] == places[1][:count]
    return {p.name for p in wanted if p.kind not in SEVERAL and p.name[0] != "_"} - names


@pytest.mark.parametrize("room", ROOMS)
def test_arguments_have_the_names_and_places_of_pytorch(room: str) -> None:
    theirs, ours = (
        importlib.import_module(f"{library}.{room}") for library in ("torch", "staticflow")
    )
    compared = 0
    for name in sorted(set(dir(theirs)) & set(dir(ours))):
        their, our = getattr(theirs, name), getattr(ours, name)
        if name.startswith("_") or not getattr(their, "__module__", "").startswith("torch"):
            continue
        absent = absent_arguments(their, our)
        if absent is not None:
            assert absent == ABSENT.get(f"{room}.{name}", set()), f"{room}.{name}"
            compared += 1
        if inspect.isclass(their) and inspect.isclass(our):
            compared += compare_methods(their, our)
    assert compared


def compare_methods(their: type, our: type) -> int:
    """How many methods of two classes were compared."""
    compared = 0
    for method in sorted(set(dir(their)) & set(dir(our))):
        if method.startswith("_"):
            continue
        absent = absent_arguments(getattr(their, method), getattr(our, method))
        found = parameters_of(getattr(our, method)) or ()
        if absent is not None and not any(p.kind is p.VAR_KEYWORD for p in found):
            where = getattr(getattr(our, method), "__qualname__", method)
            assert absent == OF_METHODS.get(where, set()), f"{our.__name__}.{method}, {where}"
            compared += 1
    return compared
