"""Which ways of computing attention may be taken, under PyTorch's names."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.tracing import depends_on

__all__ = ["SDPBackend", "chosen_way", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """A way of computing `scaled_dot_product_attention`, for `sdpa_kernel`.

    ``MATH`` is the weights, written out, and their product with the values. ``FLASH_ATTENTION`` and
    ``EFFICIENT_ATTENTION`` are one way here, which takes keys in blocks and keeps no weights, where
    tensors are large enough for that to pay. The others are of devices that are not here.
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_IN_BLOCKS = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


class _Choice(threading.local):
    """The backends that a thread allows, the preferred first; None for all of them."""

    backends: tuple[SDPBackend, ...] | None = None


_CHOICE = _Choice()


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """A block in which `scaled_dot_product_attention`, of tensors and of symbols, is computed in
    one of the ways that ``backends`` name, of several in blocks if it can be, or with
    ``set_priority`` in the first that can compute a call.

    Raises `ArgumentError` for what is no `SDPBackend`; a call that none of them can compute does.

    >>> import staticflow as sf
    >>> from staticflow.nn.attention import SDPBackend, sdpa_kernel
    >>> x = sf.ones(1, 3, 2)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     sf.nn.functional.scaled_dot_product_attention(x, x, x).shape
    (1, 3, 2)
    """
    several = (backends,) if isinstance(backends, SDPBackend) else backends
    if not isinstance(several, list | tuple) or not all(isinstance(b, SDPBackend) for b in several):
        raise ArgumentError(
            "sdpa_kernel: 'backends' must be an SDPBackend or a list of them, not "
            f"{backends!r}, at {format_locs(here())}"
        )
    order = tuple(dict.fromkeys(several))
    if not set_priority:
        order = tuple(sorted(order, key=lambda b: b not in _IN_BLOCKS))
    before = _CHOICE.backends
    try:
        _CHOICE.backends = order
        yield
    finally:
        _CHOICE.backends = before


def chosen_way(drops: bool) -> str | None:
    """How this thread wants attention computed: "math", "blocks", or None, as is best. Of what
    ``drops`` weights the blocks are no way.

    Raises `ArgumentError` where no backend that is allowed can do it.
    """
    depends_on(_CHOICE, "backends")
    backends = _CHOICE.backends
    if backends is None:
        return None
    for backend in backends:
        if backend is SDPBackend.MATH:
            return "math"
        if backend in _IN_BLOCKS and not drops:
            return "blocks"
    named = ", ".join(b.name for b in backends) or "nothing"
    dropping = " with dropout_p: MATH alone leaves weights out" if drops else ""
    raise ArgumentError(
        f"scaled_dot_product_attention: sdpa_kernel allows {named}, and none of these can compute "
        f"it{dropping}; name MATH, or FLASH_ATTENTION or EFFICIENT_ATTENTION without dropout, too, "
        f"at {format_locs(here())}"
    )
