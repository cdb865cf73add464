"""Mixed precision: blocks in which products are computed in few bits, and losses in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from staticflow.eager.grad_mode import decorate
from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.dtypes import DType, bfloat16, dtype_of, float16
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import Autocast, thread

__all__ = [
    "autocast", "check_device", "clear_autocast_cache", "get_autocast_dtype",
    "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_enabled",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

_DTYPES = (bfloat16, float16)


def check_device(what: str, device_type: Any) -> None:
    """Raise `ArgumentError`, which calls the caller ``what``, unless the device is the CPU."""
    if device_type != "cpu":
        raise ArgumentError(
            f"{what}: device_type must be 'cpu', which stands for tensors of every device, not "
            f"{device_type!r}, at {format_locs(here())}"
        )


class autocast:
    """A ``with`` block or decorator in which each operation casts its floating operands to the
    dtype that it computes in, as PyTorch's does on a CPU: products, convolutions and attention to
    ``dtype`` (bfloat16, unless a block around says float16), losses, factors of matrices and a few
    more to float32, ``cat`` and ``stack`` to the widest of theirs; all others take what they are
    given. float64 and integers stay. ``autocast(enabled=False)`` ends it for a block.

    It holds for tensors and for symbols, and so for what ``compile`` and ``jit`` are given, and in
    the bodies of loops. It is for the forward pass: a derivative is computed in the dtypes of the
    operations that it is of, and arrives in that of the parameters. What writes in place stays in
    the dtype of what is written, and is not cast for.

    A parameter is cast once, and kept until the outermost block ends, unless ``cache_enabled`` is
    False; in a graph equal casts are one in any case.

    Raises `ArgumentError` for another ``device_type`` than ``"cpu"`` and `DTypeError` for another
    ``dtype``.

    >>> import staticflow as sf
    >>> model = sf.nn.Linear(3, 2)
    >>> with sf.autocast("cpu", dtype=sf.bfloat16):
    ...     y = model(sf.ones(4, 3))
    ...     loss = sf.nn.functional.mse_loss(y, sf.zeros(4, 2))
    >>> loss.backward()
    >>> y.dtype, loss.dtype, model.weight.grad.dtype
    (staticflow.bfloat16, staticflow.float32, staticflow.float32)
    """

    def __init__(
        self,
        device_type: str = "cpu",
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        check_device("autocast", device_type)
        self.device = device_type
        wanted = thread.state.autocast_dtype if dtype is None else dtype_of(dtype)
        if wanted not in _DTYPES:
            raise DTypeError(
                f"autocast: dtype must be bfloat16 or float16, not {wanted.name}, "
                f"at {format_locs(here())}",
                dtype,
                "bfloat16 or float16",
            )
        keeps = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        keeps = as_bool("autocast: 'cache_enabled'", keeps)
        is_on = as_bool("autocast: 'enabled'", enabled)
        self._dtype, self._keeps = wanted, keeps
        self._wanted = Autocast(wanted, keeps) if is_on else None
        self._before: tuple[Any, ...] = ()

    def __enter__(self) -> autocast:
        state = thread.state
        self._before = state.autocast, state.autocast_dtype, state.usual, self._before
        state.autocast, state.autocast_dtype = self._wanted, self._dtype
        state.settle()
        return self

    def __exit__(self, *_: object) -> None:
        state = thread.state  # no call, between which and the next an error could come
        state.autocast, state.autocast_dtype, state.usual, self._before = self._before
        if state.autocast is None:
            state.casts = {}

    def __call__(self, fn: F) -> F:
        """The function inside of such a block."""
        enabled = self._wanted is not None
        return decorate(fn, lambda: autocast(self.device, self._dtype, enabled, self._keeps))


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether this thread is inside of `autocast`."""
    check_device("is_autocast_enabled", device_type)
    return thread.state.autocast is not None


def get_autocast_dtype(device_type: str = "cpu") -> DType:
    """The dtype that `autocast` casts to, or would: bfloat16, unless a block of this thread says
    float16."""
    check_device("get_autocast_dtype", device_type)
    return thread.state.autocast_dtype


def is_autocast_cache_enabled() -> bool:
    """Whether the innermost block of `autocast`, if there is one, keeps parameters that it has
    cast."""
    by = thread.state.autocast
    return by is None or by.keeps


def clear_autocast_cache() -> None:
    """Forget the parameters that `autocast` has cast in this thread."""
    thread.state.casts = {}


def is_autocast_available(device_type: str = "cpu") -> bool:
    """Whether `autocast` takes ``device_type``: ``"cpu"`` it does."""
    return device_type == "cpu"
