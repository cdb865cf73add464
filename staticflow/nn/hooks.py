"""Hooks of modules: functions that are called before and after ``forward`` and in the backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.locs import warn
from staticflow.ops.symbols.handle import Handle
from staticflow.ops.symbols.symbol import Symbol
from staticflow.ops.symbols.watching import watch_op

__all__ = ["Hook", "Hooks", "watch_gradients"]


@dataclass(frozen=True, slots=True)
class Hook:
    """A function, whether it takes the keyword arguments of the call, too, and whether it is called
    where a forward raises, too."""

    fn: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


@dataclass(slots=True)
class Hooks:
    """The hooks of one module, each kind in the order in which they are called."""

    before: dict[Handle, Hook] = field(default_factory=dict)
    after: dict[Handle, Hook] = field(default_factory=dict)
    backward_before: dict[Handle, Hook] = field(default_factory=dict)
    backward_after: dict[Handle, Hook] = field(default_factory=dict)

    def all(self) -> tuple[Hook, ...]:
        """The hooks of all kinds."""
        kinds = (self.before, self.after, self.backward_before, self.backward_after)
        return tuple(hook for kind in kinds for hook in kind.values())

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``module.forward`` with all hooks around it."""
        for hook in list(self.before.values()):
            if hook.with_kwargs:
                changed = hook.fn(module, args, kwargs)
                args, kwargs = (args, kwargs) if changed is None else changed
            else:
                args = _as_tuple(hook.fn(module, args), args)
        watched = bool(self.backward_before or self.backward_after)
        seen: list[Any] = []  # the gradients of the outputs
        reached = any(isinstance(a, Symbol) or getattr(a, "requires_grad", False) for a in args)
        if watched and reached:
            args = watch_gradients(args, lambda cts: self._after(module, cts, seen.pop()))
        out, called = None, set[int]()
        try:
            out = module.forward(*args, **kwargs)
            for hook in list(self.after.values()):
                called.add(id(hook))
                changed = _tell(hook, module, args, kwargs, out)
                out = out if changed is None else changed
        except Exception:
            for hook in list(self.after.values()):
                if hook.always_call and id(hook) not in called:
                    _tell_of_failure(hook, module, args, kwargs, out)
            raise
        if watched:
            many = isinstance(out, tuple)
            none = None if reached else (None,) * len(args)
            outs = watch_gradients(
                out if many else (out,), lambda cts: self._before(module, cts, seen, none)
            )
            out = outs if many else outs[0]
        return out

    def _before(self, module: Any, cts: tuple[Any, ...], seen: list[Any], none: Any) -> Any:
        """The gradients of the outputs have come; no others will if ``none`` stands for them."""
        for hook in list(self.backward_before.values()):
            cts = _as_tuple(hook.fn(module, cts), cts)
        if none is None:
            seen.append(cts)
        else:
            self._after(module, none, cts)
        return cts

    def _after(self, module: Any, cts: tuple[Any, ...], grad_output: Any) -> Any:
        """The gradients of the inputs have come."""
        for hook in list(self.backward_after.values()):
            cts = _as_tuple(hook.fn(module, cts, grad_output), cts)
        return cts


def _tell(hook: Hook, module: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What a hook says of the output ``out`` of a module."""
    if hook.with_kwargs:
        return hook.fn(module, args, kwargs, out)
    return hook.fn(module, args, out)


def _tell_of_failure(hook: Hook, module: Any, args: Any, kwargs: Any, out: Any) -> None:
    """Call a hook where an error is on its way, which one of the hook's does not replace."""
    try:
        _tell(hook, module, args, kwargs, out)
    except Exception as error:
        warn(
            f"{type(module).__name__}: a forward hook with always_call=True raised "
            f"{type(error).__name__}: {error}; the error before it goes on"
        )


def _as_tuple(result: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a hook makes of a tuple: itself for None, of one value for a value."""
    if result is None:
        return before
    return result if isinstance(result, tuple) else (result,)


def watch_gradients(values: Sequence[Any], fn: Callable[..., Any]) -> tuple[Any, ...]:
    """``values``, such that their gradients pass through ``fn``, a function from a tuple with an
    entry for each value to another one: None for what is no floating tensor or has no gradient."""
    at = [i for i, v in enumerate(values) if hasattr(v, "__sf_mode__") and v.dtype.is_floating]
    if not at:
        return tuple(values)

    def hook_all(cts: Sequence[Any]) -> list[Any]:
        every = [None] * len(values)
        for i, ct in zip(at, cts, strict=True):
            every[i] = ct
        changed = fn(tuple(every))
        return [changed[i] for i in at]

    out = list(values)
    for i, v in zip(at, watch_op(*(values[i] for i in at), watcher=hook_all), strict=True):
        out[i] = v
    return tuple(out)
