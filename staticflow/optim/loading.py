"""What a saved state of an optimiser must look like before anything of it is taken over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from staticflow.errors import CheckpointError, ShapeError
from staticflow.graph.locs import format_locs, here

__all__ = ["groups_and_state"]

_NUMBER = (int, str)  # of a parameter; PyTorch has names in some states


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
