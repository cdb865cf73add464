"""Loss scaling (Micikevicius et al. 2018, arXiv:1710.03740), in both modes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from staticflow.eager.device import CPU, find_device
from staticflow.errors import ArgumentError, CheckpointError, DTypeError, SymbolicError
from staticflow.graph.device import device_of
from staticflow.graph.dtypes import float16
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.reduce import all as all_of
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.foreign import refuses_foreign_in_classes
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import recording
from staticflow.ops.declaring.tracing import tracing_state
from staticflow.ops.elementwise.maths import isfinite
from staticflow.ops.symbols.symbol import Symbol
from staticflow.optim.group import as_symbol
from staticflow.optim.optimizer import Optimizer

__all__ = ["GradScaler"]

_UNSCALED, _STEPPED = "unscale_", "step"


class GradScaler:
    """Multiplies a loss by a scale, so that the small gradients of float16 do not become 0, and
    divides the gradients by it again before a step. A step whose gradients have an infinity or a
    NaN is left out, and the scale is multiplied by ``backoff_factor``; after ``growth_interval``
    steps without one it is multiplied by ``growth_factor``.

    Eagerly it is used as PyTorch's: ``scaler.scale(loss).backward(); scaler.step(opt);
    scaler.update()``, with ``scaler.unscale_(opt)`` before gradients are clipped. In a compiled
    step `minimize` gives the updates, that of the scale among them, which both modes share.
    bfloat16 has the range of float32 and needs no scale. With ``enabled=False`` nothing is scaled
    and every step is made.

    The scale is on ``device``: ``"cuda"`` for losses on a GPU, where a compiled step need not wait
    for it. Raises `DeviceError` where there is no such device.

    >>> import staticflow as sf
    >>> w = sf.tensor([1.0, 2.0], requires_grad=True)
    >>> opt, scaler = sf.optim.SGD([w], lr=0.25), GradScaler(init_scale=4.0)
    >>> x = sf.placeholder((2,), name="x")
    >>> loss = (w * x).sum()
    >>> step = sf.compile([x], loss, updates=scaler.minimize(opt, loss))
    >>> step(sf.ones(2)).item(), w.tolist(), scaler.get_scale()
    (3.0, [0.75, 1.75], 4.0)
    >>> _ = step(sf.tensor([sf.inf, 1.0]))
    >>> w.tolist(), scaler.get_scale()
    ([0.75, 1.75], 2.0)
    """

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        named = device_of(device)
        self._enabled = as_bool("GradScaler: 'enabled'", enabled)
        self.set_growth_factor(growth_factor)
        self.set_backoff_factor(backoff_factor)
        self.set_growth_interval(growth_interval)
        place = find_device(named) if self._enabled else CPU
        self._scale = eager.wrap(np.array(init_scale, np.float32)).to(place)
        self._growth_tracker = eager.wrap(np.array(0, np.int32)).to(place)
        self._scale.name, self._growth_tracker.name = "scale", "growth_tracker"
        self._seen: dict[Optimizer, tuple[str, bool]] = {}  # until the update: what was done last

    # -- eagerly ------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """``outputs``, a tensor or symbol or a list or tuple of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, list | tuple):
            return type(outputs)(map(self.scale, outputs))
        if not hasattr(outputs, "__sf_mode__"):
            raise DTypeError(
                f"scale: takes a tensor or several, not {type(outputs).__name__}, "
                f"at {format_locs(here())}",
                outputs,
                "a tensor",
            )
        return outputs * self._scale

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the parameters of ``optimizer`` by the scale, in place, before
        they are clipped. `step` does it otherwise.

        Raises `ArgumentError` the second time before an `update`, and `DTypeError` for gradients of
        float16: parameters stay in float32, and `autocast` casts them.
        """
        if not self._enabled:
            return
        _refuse_trace("unscale_")
        done = self._seen.get(optimizer)
        if done is not None:
            already = {
                _UNSCALED: "unscale_() has already been called on this optimizer",
                _STEPPED: "unscale_() is called after step()",
            }[done[0]]
            raise ArgumentError(f"{already}, and update() comes between, at {format_locs(here())}")
        found = False
        by = 1.0 / self.get_scale()
        params = (p for group in optimizer.param_groups for p in group.params)
        with recording(False):
            for grad in {id(p.grad): p.grad for p in params if p.grad is not None}.values():
                _refuse_float16(grad)
                found = found or not bool(all_of(isfinite(grad)))
                grad.mul_(by)
        self._seen[optimizer] = _UNSCALED, found

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(*args, **kwargs)``, of unscaled gradients, and what it gives; nothing
        where they have an infinity or a NaN.

        Raises `ArgumentError` for a closure, and the second time before an `update`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        _refuse_trace("step")
        if args or "closure" in kwargs:
            raise ArgumentError(
                "step: an enabled GradScaler takes no closure, which would compute gradients that "
                f"are not scaled, at {format_locs(here())}"
            )
        if self._seen.get(optimizer, ("",))[0] == _STEPPED:
            raise ArgumentError(
                f"step() has already been called since the last update(), at {format_locs(here())}"
            )
        if optimizer not in self._seen:
            self.unscale_(optimizer)
        _, found = self._seen[optimizer]
        result = None if found else optimizer.step(**kwargs)
        self._seen[optimizer] = _STEPPED, found
        return result

    def update(self, new_scale: Any = None) -> None:
        """Change the scale by what the steps since the last update met, or to ``new_scale``, a
        number or a tensor of one. Raises `ArgumentError` if there was no step."""
        if not self._enabled:
            return
        _refuse_trace("update")
        if new_scale is not None:
            self._store(float(new_scale), 0 if self._seen else self._growth_tracker.item())
        elif not self._seen:
            raise ArgumentError(
                "update: no gradients were looked at since the last one; call step(optimizer) or "
                f"unscale_(optimizer) before, at {format_locs(here())}"
            )
        else:
            found = any(found for _, found in self._seen.values())
            with recording(False):
                scale, tracker = self._after(self._scale, self._growth_tracker, found)
            self._store(scale, tracker)
        self._seen = {}

    def _store(self, scale: Any, tracker: Any) -> None:
        with recording(False):
            self._scale.copy_(scale)
            self._growth_tracker.copy_(tracker)

    def _after(self, scale: Any, tracker: Any, found: Any) -> tuple[Any, Any]:
        """The scale and how many steps went well in a row, after one that ``found`` an infinity or
        a NaN, or not; tensors or symbols."""
        larger, count = scale * self._growth_factor, tracker + 1
        is_due = count == self._growth_interval
        grown = where(is_due & isfinite(larger), larger, scale)
        if isinstance(found, bool):
            return (scale * self._backoff_factor, 0) if found else (grown, where(is_due, 0, count))
        return (
            where(found, scale * self._backoff_factor, grown),
            where(found | is_due, 0, count).to(tracker.dtype),
        )

    # -- in a compiled step -------------------------------------------------------------------

    def minimize(self, optimizer: Optimizer, loss: Any) -> dict[Any, Symbol]:
        """The updates of one step of ``optimizer`` on the symbolic ``loss``, for ``sf.compile``: of
        the gradient of the scaled loss, divided by the scale. Where it has an infinity or a NaN,
        parameters and state keep their values, and the scale falls."""
        grads = optimizer.gradients(self.scale(loss))
        return self.updates(optimizer, self.unscale(grads))

    def unscale(self, grads: Mapping[Any, Any]) -> dict[Any, Any]:
        """The symbolic gradients, by parameter, that a scaled loss has, divided by the scale: to be
        clipped before `updates` has them."""
        if not self._enabled:
            return dict(grads)
        by = 1.0 / as_symbol(self._scale)
        return {p: (g * by).to(g.dtype) for p, g in grads.items()}

    def updates(self, optimizer: Optimizer, grads: Mapping[Any, Any]) -> dict[Any, Symbol]:
        """``optimizer.updates(grads)``, where the gradients, which are unscaled, are all finite;
        else the values as they are. In both cases the scale and its count go with them."""
        updates = optimizer.updates(grads)
        if not self._enabled:
            return updates
        for grad in grads.values():
            _refuse_float16(grad)
        found = ~_all_finite(grads.values())
        kept = {t: where(found, as_symbol(t), new) for t, new in updates.items()}
        before = as_symbol(self._scale), as_symbol(self._growth_tracker)
        scale, tracker = self._after(*before, found)
        return kept | {self._scale: scale, self._growth_tracker: tracker}

    # -- numbers ------------------------------------------------------------------------------

    def get_scale(self) -> float:
        """The scale; 1 if nothing is scaled."""
        return float(self._scale.item()) if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by after enough steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Take another growth factor, above 1; a compiled step has that of its compilation."""
        _check(new_factor > 1.0, "the growth factor must be above 1", new_factor)
        self._growth_factor = float(new_factor)

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after an infinity or a NaN."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Take another backoff factor, below 1; a compiled step has that of its compilation."""
        _check(new_factor < 1.0, "the backoff factor must be below 1", new_factor)
        self._backoff_factor = float(new_factor)

    def get_growth_interval(self) -> int:
        """After how many steps without an infinity or a NaN the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Take another interval, 1 or more; a compiled step has that of its compilation."""
        _check(new_interval >= 1, "the growth interval must be 1 or more", new_interval)
        self._growth_interval = int(new_interval)

    # -- state --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The numbers under PyTorch's names; nothing if it is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": int(self._growth_tracker.item()),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the numbers that `state_dict`, or PyTorch's, gave, into the tensors that compiled
        steps know. Raises `CheckpointError` for a state that lacks one."""
        if not self._enabled:
            return
        missing = self.state_dict().keys() - state_dict.keys()
        if missing:
            empty = "" if state_dict else "; that of a GradScaler that is not enabled is empty"
            raise CheckpointError(
                f"load_state_dict: the state has no {sorted(missing)[0]!r}{empty}, "
                f"at {format_locs(here())}"
            )
        self.set_growth_factor(state_dict["growth_factor"])
        self.set_backoff_factor(state_dict["backoff_factor"])
        self.set_growth_interval(state_dict["growth_interval"])
        self._store(float(state_dict["scale"]), int(state_dict["_growth_tracker"]))

    def __repr__(self) -> str:
        return f"GradScaler(scale={self.get_scale()}, enabled={self._enabled})"


def _check(holds: bool, rule: str, value: Any) -> None:
    if not holds:
        raise ArgumentError(f"GradScaler: {rule}, not {value!r}, at {format_locs(here())}")


def _all_finite(grads: Iterable[Any]) -> Any:
    """Whether all elements of several gradients are finite, a bool of 0 dims."""
    parts = [all_of(isfinite(g)) for g in grads]
    result = parts[0]
    for part in parts[1:]:
        result = result & part
    return result


def _refuse_float16(grad: Any) -> None:
    if grad.dtype is float16:
        raise DTypeError(
            "GradScaler: a gradient is of float16, which unscaling would make small again; keep "
            f"parameters in float32, which autocast casts, at {format_locs(here())}"
        )


def _refuse_trace(name: str) -> None:
    if tracing_state.active:
        raise SymbolicError(
            f"GradScaler.{name}() in a function that is traced: it reads gradients, which only a "
            "run has; give sf.compile(..., updates=scaler.minimize(optimizer, loss)), "
            f"at {format_locs(here())}"
        )


refuses_foreign_in_classes(GradScaler, but=("step",))
