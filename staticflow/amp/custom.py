"""What `autocast` is to a `Function` of the user's: ``custom_fwd`` and ``custom_bwd``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from staticflow.eager.autocast import check_device
from staticflow.graph.dtypes import dtype_of, float64
from staticflow.ops.declaring.thread import autocasting, thread
from staticflow.pytree import map_tree

__all__ = ["custom_bwd", "custom_fwd"]

F = TypeVar("F", bound=Callable[..., Any])


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str = "cpu",
    cast_inputs: Any = None,
) -> Any:
    """Decorate the ``forward`` of an `autograd.Function`. With ``cast_inputs``, a dtype, its
    floating arguments are cast to that, but for those of float64, and it runs outside of
    `autocast`, where it is called inside of it; otherwise it runs as it is called. The ``backward``
    that `custom_bwd` decorates goes by the same.

    >>> import staticflow as sf
    >>> class Half(sf.autograd.Function):
    ...     @staticmethod
    ...     @custom_fwd(cast_inputs=sf.float32)
    ...     def forward(ctx, x):
    ...         return x / 2
    ...     @staticmethod
    ...     @custom_bwd
    ...     def backward(ctx, ct):
    ...         return ct / 2
    >>> with sf.autocast():
    ...     Half.apply(sf.ones(2, dtype=sf.bfloat16)).dtype
    staticflow.float32
    """
    check_device("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    wanted = None if cast_inputs is None else dtype_of(cast_inputs)

    def change(x: Any) -> Any:
        is_float = hasattr(x, "__sf_mode__") and x.dtype.is_floating and x.dtype is not float64
        return x.to(wanted) if is_float else x

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        by = thread.state.autocast
        if wanted is None or by is None:
            ctx.autocast = by
            return fwd(ctx, *args, **kwargs)
        ctx.autocast = None
        args, kwargs = map_tree(change, (args, kwargs))
        with autocasting(None):
            return fwd(ctx, *args, **kwargs)

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cpu") -> Any:
    """Decorate the ``backward`` of an `autograd.Function` whose ``forward`` has `custom_fwd`: it
    runs inside of `autocast` where that did."""
    check_device("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocasting(getattr(ctx, "autocast", None)):
            return bwd(ctx, *args, **kwargs)

    return backward
