"""The state of a module, and how it is taken over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from staticflow.errors import CheckpointError
from staticflow.graph.articles import with_article
from staticflow.graph.dtypes import BY_NUMPY
from staticflow.graph.library_arrays import array_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.masked_arrays import has_masked_elements
from staticflow.nn.parameter import Parameter, is_uninitialized
from staticflow.ops.declaring.foreign import is_of_library
from staticflow.ops.symbols.captured import part_of

__all__ = ["LoadResult", "load_state", "state_of"]


class LoadResult(NamedTuple):
    """The names that a state had too few and too many."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"LoadResult(missing_keys={self[0]}, unexpected_keys={self[1]})"


def state_of(module: Any) -> Iterator[tuple[str, Any]]:
    """Parameters and persistent buffers by path, module by module; what is held under several names
    comes for each."""
    return ((path, tensor) for path, _, _, tensor in _positions(module))


def _positions(module: Any) -> Iterator[tuple[str, Any, str, Any]]:
    """Path, holder, name and value of each entry of the state."""
    for path, holder in module.named_modules(remove_duplicate=False):
        kept = ((n, v) for n, v in holder._own_buffers() if holder._persistent[n])
        for name, tensor in (*holder._own_parameters(), *kept):
            yield (f"{path}.{name}" if path else name), holder, name, tensor


def _under_names_of_now(module: Any, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """``state`` with what it has under older names of a module, all of them, under those of now."""
    found = dict(state)
    for path, holder in module.named_modules(remove_duplicate=False):
        names = holder.older_names(path) if hasattr(holder, "older_names") else {}
        if names and names.keys() <= found.keys():
            found |= {name: found.pop(older) for older, name in names.items()}
    return found


def _fault(path: str, value: Any, holder: Any, name: str, own: Any) -> str:
    """Why ``value`` cannot be loaded into the tensor ``own``; empty if it can."""
    if is_uninitialized(value):
        is_open = is_uninitialized(own)
        return "" if is_open else f"{path} has no sizes yet, and {list(own.shape)} is needed"
    if not hasattr(value, "shape"):
        return f"{path} is {with_article(type(value))}, and a tensor is needed"
    if has_masked_elements(value):
        return f"{path} is a masked array with masked elements; give array.filled(value)"
    if isinstance(value, np.ndarray) and value.dtype.newbyteorder("=") not in BY_NUMPY:
        return f"{path} is an array of {value.dtype}, which is no dtype of tensors"
    if is_uninitialized(own):
        needed = holder.shape_needed(name, tuple(value.shape))
        return needed and f"{path} has shape {list(value.shape)}, and {needed} is needed"
    if tuple(value.shape) != own.shape:
        return f"{path} has shape {list(value.shape)}, and {list(own.shape)} is needed"
    return ""


def _value(path: str, given: Any) -> Any:
    """A tensor or array of a state; another library's tensor, also one that requires a gradient, by
    its values."""
    if hasattr(given, "__sf_mode__") or not is_of_library(given):
        return given
    return array_of(given, path)


def load_state(module: Any, state: Mapping[str, Any], strict: bool, assign: bool) -> LoadResult:
    """Load ``state_dict`` into a module; what `Module.load_state_dict` gives and refuses."""
    if not isinstance(state, Mapping):
        raise CheckpointError(
            f"load_state_dict of {type(module).__name__}: the state must be a dict of tensors by "
            f"their paths, as state_dict() gives it, not {type(state).__name__}"
            f", at {format_locs(here())}"
        )
    positions = {path: (holder, name, own) for path, holder, name, own in _positions(module)}
    state = _under_names_of_now(module, state)
    result = LoadResult(
        [n for n in positions if n not in state], [n for n in state if n not in positions]
    )
    common = [n for n in positions if n in state]
    state = {n: _value(n, state[n]) for n in common}
    faults = [text for n in common if (text := _fault(n, state[n], *positions[n]))]
    if strict and any(result):
        faults += [f"{name} is missing" for name in result.missing_keys]
        faults += [f"{name} is not known" for name in result.unexpected_keys]
        faults.append("strict=False loads what both have")
    if faults:
        raise CheckpointError(
            f"load_state_dict of {type(module).__name__}: {'; '.join(faults)}"
            f", at {format_locs(here())}"
        )
    for path in common:
        holder, name, own = positions[path]
        if is_uninitialized(state[path]):
            continue
        value = state[path].detach() if hasattr(state[path], "detach") else state[path]
        part = part_of(own)
        if part is not None:
            part.put(own, value)
        elif not assign:
            if is_uninitialized(own):
                own.materialize(value.shape)
            own.detach()[...] = value
        elif isinstance(own, Parameter):
            setattr(holder, name, Parameter(value, own.requires_grad))
        else:
            setattr(holder, name, Parameter(value, False).detach())
    return result
