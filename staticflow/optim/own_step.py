"""Optimisers with a step of their own and no rule: their groups and state hold what they like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["copies_of_state", "has_own_step"]


def has_own_step(cls: Any, base: Any) -> bool:
    """Whether ``cls``, below the ``base`` of all optimisers, gives a step and no rule."""
    rule = getattr(cls.update, "__func__", None)
    return cls.step is not base.step and rule is base.update.__func__


def copies_of_state(
    params: Sequence[Any], numbers: Sequence[Any], states: Mapping[Any, Mapping[str, Any]]
) -> dict[Any, dict[str, Any]]:
    """What ``states`` have by the ``numbers`` of the parameters: of tensors copies, in the dtype of
    the parameter if they are floating and no "step"."""
    return {
        param: {
            name: _copy(value, None if name == "step" else param.dtype)
            for name, value in states[number].items()
        }
        for param, number in zip(params, numbers, strict=True)
        if number in states
    }


def _copy(value: Any, dtype: Any) -> Any:
    if not hasattr(value, "__sf_mode__"):
        return value
    copy = value.detach().clone()
    return copy.to(dtype) if dtype is not None and copy.dtype.is_floating else copy
