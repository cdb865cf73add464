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


_USUAL = {"cpu": bfloat16, "cuda": float16}
"""The kinds of devices, and the dtype of a block for each that does not say: PyTorch's."""


def check_device(what: str, device_type: Any) -> None:
    """Raise `ArgumentError`, which calls the caller ``what``, unless there is such a kind of
    device."""
    if not isinstance(device_type, str) or device_type not in _USUAL:
        raise ArgumentError(
            f"{what}: device_type must be 'cpu' or 'cuda', not {device_type!r}, "
            f"at {format_locs(here())}"
        )


class autocast:
    """A ``with`` block or decorator in which each operation casts its floating operands to the
    dtype that it computes in, as PyTorch's does on a CPU: products, convolutions and attention to
    ``dtype``, losses, factors of matrices and a few more to float32, ``cat`` and ``stack`` to the
    widest of theirs; all others take what they are given. float64 and integers stay.
    ``autocast(enabled=False)`` ends it for a block.

    Without ``dtype`` that of a block around holds, or else bfloat16 for the ``device_type``
    ``"cpu"`` and float16 for ``"cuda"``. This is all that ``device_type`` says: a block holds for
    tensors of every device, since a graph does not know its own.

    It holds for symbols, too, and so for what ``compile`` and ``jit`` are given, and in the bodies
    of loops. It is for the forward pass: a derivative is computed in the dtypes of the operations
    that it is of, and arrives in that of the parameters. What writes in place stays in the dtype of
    what is written, and is not cast for.

    A parameter is cast once, and kept until the outermost block ends, unless ``cache_enabled`` is
    False; in a graph equal casts are one in any case.

    Raises `ArgumentError` for another ``device_type`` and `DTypeError` for another ``dtype``.

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
        wanted = get_autocast_dtype(device_type) if dtype is None else dtype_of(dtype)
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
    """The dtype that `autocast` casts to, or would: that of the innermost block of this thread, or
    else bfloat16 for ``"cpu"`` and float16 for ``"cuda"``."""
    check_device("get_autocast_dtype", device_type)
    return thread.state.autocast_dtype or _USUAL[device_type]


def is_autocast_cache_enabled() -> bool:
    """Whether the innermost block of `autocast`, if there is one, keeps parameters that it has
    cast."""
    by = thread.state.autocast
    return by is None or by.keeps


def clear_autocast_cache() -> None:
    """Forget the parameters that `autocast` has cast in this thread."""
    thread.state.casts = {}


def is_autocast_available(device_type: str = "cpu") -> bool:
    """Whether `autocast` takes ``device_type``: ``"cpu"`` and ``"cuda"`` it does."""
    return isinstance(device_type, str) and device_type in _USUAL
