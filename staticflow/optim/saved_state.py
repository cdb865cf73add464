"""The state of an optimiser as PyTorch lays it out: given, and taken over once all of it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from staticflow.errors import CheckpointError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.symbols.captured import part_of
from staticflow.optim.own_step import copies_of_state
from staticflow.optim.recorded_step import HOW

if TYPE_CHECKING:
    from staticflow.optim.optimizer import Optimizer

__all__ = ["groups_and_state", "load_state", "name_state", "state_to_save", "whole_value"]

# In the groups of PyTorch's state files, and not in those here unless a rule reads it.
_FOREIGN = (*HOW, "decoupled_weight_decay")

_NUMBER = (int, str)  # of a parameter; PyTorch has names in some states


def state_to_save(optimizer: Optimizer) -> dict[str, Any]:
    """State and hyperparameters, state by the number of the parameter: what `Optimizer.state_dict`
    gives."""
    groups = optimizer.param_groups
    number = {id(p): i for i, p in enumerate(p for group in groups for p in group.params)}
    return {
        "state": {
            number[id(p)]: {name: whole_value(t) for name, t in state.items()}
            for p, state in optimizer.state.items()
            if state
        },
        "param_groups": [
            {**group, "params": [number[id(p)] for p in group.params]} for group in groups
        ],
    }


def load_state(optimizer: Optimizer, saved: Mapping[str, Any], has_own_step: bool) -> None:
    """Take over hyperparameters and state that `state_to_save` gave, into the memory that is there.

    Raises `CheckpointError`, `ShapeError`, `KeyError` or `ValueError` if groups or state do not
    fit, before anything is changed. Of an optimiser that ``has_own_step`` it is not known what
    would fit, and all of it is taken.
    """
    own_groups = optimizer.param_groups
    groups, given_states = groups_and_state(saved, [len(g.params) for g in own_groups])
    pairs = [*zip(own_groups, groups, strict=True)]
    if has_own_step:
        for group, loaded in pairs:
            for name, value in loaded.items():
                if name != "params":
                    group[name] = value
            optimizer.state |= copies_of_state(group.params, loaded["params"], given_states)
        return
    settings, states = [], []
    for group, loaded in pairs:
        values = {n: v for n, v in loaded.items() if n in group or n not in _FOREIGN}
        values = {n: v for n, v in values.items() if n not in ("params", *optimizer.fixed)}
        for name, value in values.items():
            group.check(name, value)
            settings.append((group, name, value))
        hyper = group.numbers(values)
        for param, number in zip(group.params, loaded["params"], strict=True):
            given = given_states.get(number, {})
            states.append((param, _fitting_state(optimizer, param, given, hyper)))
    for group, name, value in settings:
        group[name] = value
    for param, new in states:
        _put_state(optimizer, param, new)


def _fitting_state(
    optimizer: Optimizer, param: Any, given: Mapping[str, Any], hyper: Mapping[str, Any]
) -> dict[str, Any]:
    """The state of ``param`` that a state file has as ``given``, in tensors of its own; the first
    state if that is nothing. Raises `ShapeError` for what does not fit."""
    given = {n: t for n, t in given.items() if t is not None}  # as PyTorch's SGD may have it
    value = whole_value(param).detach()
    every = optimizer.init_state(value, optimizer.defaults, {})  # whatever the switches say
    new = optimizer.init_state(value, hyper, given)
    for name, tensor in given.items():
        if name not in every:
            raise ShapeError(
                f"load_state_dict: the state of {param.name!r} has {name}, which "
                f"{type(optimizer).__name__} does not keep; it keeps {', '.join(every)}"
                f", at {format_locs(here())}"
            )
        shape = tuple(getattr(tensor, "shape", ()))  # the counters may be plain numbers
        if shape != every[name].shape:
            raise ShapeError(
                f"load_state_dict: {name} of {param.name!r} has shape {list(shape)}, "
                f"and {list(every[name].shape)} is needed, at {format_locs(here())}"
            )
        new[name] = every[name].copy_(tensor)
    for name in new:
        if given and name not in given and name not in optimizer.counters:
            raise ShapeError(
                f"load_state_dict: the state of {param.name!r} has {', '.join(given)}, and "
                f"{name} is needed too, at {format_locs(here())}"
            )
    return new


def _put_state(optimizer: Optimizer, param: Any, new: Mapping[str, Any]) -> None:
    """Write a parameter's state into the memory that it has, or give it what is new."""
    own = optimizer.state.setdefault(param, {})
    for name, tensor in new.items():
        if name not in own:
            own[name] = name_state(param, name, tensor)
            continue
        part = part_of(own[name])
        if part is None:
            own[name][...] = tensor
        else:
            part.put(own[name], tensor)


def name_state(param: Any, name: str, tensor: Any) -> Any:
    """The tensor of a parameter's state, by the name that programs show."""
    tensor.name = f"{param.name or 'param'}.{name}"
    return tensor


def whole_value(tensor: Any) -> Any:
    """The tensor, gathered if each of several processes has a part of it."""
    part = part_of(tensor)
    return tensor if part is None else part.gather(tensor)


def groups_and_state(
    saved: Any, sizes: Sequence[int]
) -> tuple[Sequence[Mapping[str, Any]], Mapping[Any, Mapping[str, Any]]]:
    """The groups of ``saved``, each a dict with ``params``, and the state by parameter's number.

    ``sizes`` has the number of parameters in each group of the optimiser. Raises `CheckpointError`
    for what no optimiser gave, and `ShapeError` for groups of other sizes.
    """
    if not isinstance(saved, Mapping) or not {"param_groups", "state"} <= {*saved}:
        has = [*saved] if isinstance(saved, Mapping) else f"the type {type(saved).__name__}"
        raise CheckpointError(
            "load_state_dict: an optimiser's state has 'param_groups' and 'state', as its "
            f"state_dict() gives them; this has {has}, at {format_locs(here())}"
        )
    groups, states = saved["param_groups"], saved["state"]
    if not isinstance(groups, list | tuple) or not all(map(_is_group, groups)):
        _refuse("'param_groups' must be a list of dicts, each with a list of numbers as 'params'")
    if not isinstance(states, Mapping) or not all(map(_is_mapping, states.values())):
        _refuse("'state' must be a dict of dicts")
    given = [len(g["params"]) for g in groups]
    if given != sizes:
        raise ShapeError(
            f"load_state_dict: groups of {given} parameters, where {sizes} are needed"
            f", at {format_locs(here())}"
        )
    return groups, states


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_group(value: Any) -> bool:
    params = value.get("params") if isinstance(value, Mapping) else None
    return isinstance(params, list | tuple) and all(isinstance(n, _NUMBER) for n in params)


def _refuse(wanted: str) -> None:
    raise CheckpointError(
        f"load_state_dict: {wanted}, as an optimiser's state_dict() gives it, at "
        f"{format_locs(here())}"
    )
