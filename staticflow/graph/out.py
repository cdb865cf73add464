"""``out=``: what a function gives, put into tensors that are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from staticflow.errors import AutogradError, DTypeError
from staticflow.graph.articles import class_in_words
from staticflow.graph.locs import format_locs, here, warn

__all__ = ["into"]


def into(name: str, fn: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]) -> Any:
    """``fn(*args, **given)``, put into the tensor that is ``given["out"]``, or into several, which
    take its shape and keep their dtype; without that if it is None.

    Raises `AutogradError` where it would be recorded, `DTypeError` for an ``out`` that is no tensor
    or of a lower kind of numbers, `TypeError` if ``fn``, known as ``name``, gives no tensors.
    """
    named = dict(given)
    out = named.pop("out")
    value = fn(*args, **named)
    if out is None:
        return value
    if not isinstance(value, tuple):
        return _put(name, out, value)
    outs = out if isinstance(out, list | tuple) else (out,)
    if len(outs) != len(value):
        raise DTypeError(f"{name}: out= must be {len(value)} tensors, at {format_locs(here())}")
    put = [_put(name, o, v) for o, v in zip(outs, value, strict=True)]
    return value._make(put) if hasattr(value, "_make") else tuple(put)


def _put(name: str, out: Any, value: Any) -> Any:
    if not hasattr(value, "__sf_mode__"):
        raise DTypeError(
            f"{name}() got an unexpected keyword argument 'out', at {format_locs(here())}"
        )
    if not hasattr(out, "__sf_mode__"):
        raise DTypeError(
            f"{name}: out= must be a tensor, not {class_in_words(out)}, at {format_locs(here())}"
        )
    if any(x.__sf_mode__.rank == 0 and x.requires_grad for x in (value, out)):
        raise AutogradError(
            f"{name}: what is put into out= has no gradient, and one of the tensors requires one; "
            f"use what {name} returns, or sf.no_grad(), at {format_locs(here())}"
        )
    if out.shape != value.shape and hasattr(out, "resize_"):  # a symbol has one shape
        if out.numel():
            warn(
                f"{name}: out= had the shape {list(out.shape)} and takes {list(value.shape)}; give "
                "a tensor of that shape, or an empty one"
            )
        out.resize_(value.shape)
    return out._assign(value)
