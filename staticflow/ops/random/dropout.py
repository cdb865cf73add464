"""Dropout, by the draws of the default generator."""

from __future__ import annotations

from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import cast, lt
from staticflow.ops.declaring.fused import fused
from staticflow.ops.random.draws import real_dtype, uniform_op
from staticflow.ops.random.sampling import check_probability, draw_state

__all__ = ["dropout"]


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """While ``training``, ``input`` with each element set to 0 with probability ``p`` and the
    others divided by ``1 - p``; else, and where ``p`` is 0, ``input`` itself (Hinton et al. 2012,
    arXiv:1207.0580).

    The draws are those of the default generator, anew in each call of a compiled program. Raises
    `ArgumentError` for a probability outside [0, 1].

    >>> import staticflow as sf
    >>> dropout(sf.ones(3), 1.0)
    tensor([0., 0., 0.])
    """
    check_probability("dropout", p)
    inplace = bool(inplace)  # an error of it comes before the draw
    dtype = input.dtype
    if not training or p == 0:
        return input
    if not dtype.is_floating:
        raise DTypeError(
            f"dropout: of {input.dtype.name}; cast it to a floating dtype, at {format_locs(here())}"
        )
    state = draw_state(None, input).to(getattr(input, "__sf_gpu__", None))
    out = _drop(input, state, float(p))
    return input._assign(out) if inplace else out


@fused("DropoutBackward0")
def _drop(x: Any, state: Any, p: float) -> Any:
    """``x`` with each element left out with the probability ``p``, by the draw of ``state``."""
    kept = cast(lt(uniform_op(state, x, dtype=real_dtype(x.dtype)), 1 - p), dtype=x.dtype)
    return x * (kept if p == 1 else kept * (1 / (1 - p)))
