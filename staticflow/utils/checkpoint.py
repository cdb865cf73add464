"""Checkpointing: memory saved by computing a part of the model again in backward.

Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from staticflow.eager.grad_mode import enable_grad
from staticflow.eager.random import fork_rng, get_rng_state, set_rng_state
from staticflow.eager.saved_hooks import saved_tensors_hooks
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, AutogradError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.declaring.thread import autocasting, thread
from staticflow.ops.loops.meets_symbol import run_or_write
from staticflow.pytree import flatten

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool = False,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, of which nothing but the arguments is kept for backward: that
    computes it again, with the same draws of the default generator if ``preserve_rng_state``.

    Gradients reach the arguments and whatever else the function uses. Arguments must not be changed
    in place before backward; an `AutogradError` says so. There is one way to do this, whichever
    ``use_reentrant`` says. On symbols it is the call alone: compiled loops take ``checkpoint=``.

    ``context_fn()`` gives two context managers, in which the function is called and computed again.
    ``determinism_check``, ``debug`` and ``early_stop`` are taken, and change nothing: the number of
    saved tensors is always compared, and what backward needs is computed again and no more.

    >>> import staticflow as sf
    >>> x = sf.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda t: (t.exp() * t).sin(), x).sum().backward()
    """
    return run_or_write(
        lambda: _recompute_later(function, args, kwargs, preserve_rng_state, context_fn),
        (args, kwargs),
        function,
    )


def _recompute_later(
    function: Callable[..., Any],
    args: Any,
    kwargs: dict[str, Any],
    preserve_rng_state: bool,
    context_fn: Callable[[], tuple[Any, Any]] | None,
) -> Any:
    state = thread.state
    first, again = (nullcontext(), nullcontext()) if context_fn is None else context_fn()
    if not state.recording or state.tracing:
        with first:
            return function(*args, **kwargs)

    def compute_again() -> None:
        with again:
            function(*args, **kwargs)

    forward = _Forward(compute_again, (args, kwargs), preserve_rng_state)
    with saved_tensors_hooks(forward.pack, forward.unpack), first:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Sequence[Callable[..., Any]], segments: int, input: Any, **options: Any
) -> Any:
    """The functions one after the other, in ``segments`` groups, each of them a `checkpoint` but
    for the last. The options, such as ``use_reentrant``, are those of `checkpoint`."""
    chain = list(functions)
    if not 0 < segments <= len(chain):
        raise ArgumentError(
            f"checkpoint_sequential: {segments} segments of {len(chain)} functions, "
            f"at {format_locs(here())}"
        )
    length = len(chain) // segments

    def run(part: Sequence[Callable[..., Any]], x: Any) -> Any:
        for function in part:
            x = function(x)
        return x

    last = length * (segments - 1)
    for start in range(0, last, length):
        input = checkpoint(run, chain[start : start + length], input, **options)
    return run(chain[last:], input)


class _Enough(BaseException):
    """Everything that backward asks for has been computed again."""


class _Forward:
    """One call of a checkpointed function. Each tensor that it saves is kept as its number."""

    def __init__(self, call: Callable[[], Any], arguments: Any, preserve_rng_state: bool) -> None:
        self.call = call
        self.rng_state = get_rng_state() if preserve_rng_state else None
        self.autocast = thread.state.autocast
        self.seen = [(t, t._version) for t in flatten(arguments)[0] if isinstance(t, Tensor)]
        self.count = 0
        self.again: dict[int, Any] = {}

    def pack(self, tensor: Any) -> int:
        """The number of a tensor."""
        self.count += 1
        return self.count - 1

    def unpack(self, number: int) -> Any:
        """The tensor of that number, computed again."""
        if number not in self.again:
            self._compute_again()
        return self.again.pop(number)

    def _compute_again(self) -> None:
        for t, version in self.seen:
            if t._version != version:
                raise AutogradError(
                    f"checkpoint: an argument, {t.dtype.name}{list(t.shape)}, was changed in place "
                    f"at {format_locs(t._own_memory().locs)} before backward, which computes the "
                    "function again; give it a clone"
                )
        found: list[Any] = []

        def store(tensor: Any) -> None:
            found.append(tensor)
            if len(found) == self.count:
                raise _Enough

        kept = fork_rng(enabled=self.rng_state is not None)
        with kept, enable_grad(), autocasting(self.autocast):
            if self.rng_state is not None:
                set_rng_state(self.rng_state)
            try:
                with saved_tensors_hooks(store, _never):
                    self.call()
            except _Enough:
                pass
        if len(found) != self.count:
            raise AutogradError(
                f"checkpoint: the function saved {self.count} tensors for backward when it was "
                f"called, and {len(found)} when backward called it again; it must do the same"
            )
        self.again = dict(enumerate(found))


def _never(_: Any) -> Any:
    raise AssertionError("backward does not go through what is computed again")


refuses_foreign_in(globals())
