"""The judge of a comparison: what one mode computed beside the other, kind by kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.comparison.differences import compare_arrays, compare_losses, first_lost
from staticflow.comparison.purpose import accept_finite, accept_nearer, add_zeros, finite_losses
from staticflow.comparison.record import Difference
from staticflow.comparison.rounding import clear_elements, find_noise
from staticflow.data_classes import dataclass

__all__ = ["Double", "Judge", "Look", "Parts"]

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Parts = dict[str, Difference]


@dataclass(frozen=True, slots=True)
class Look:
    """The outputs, the loss among them, and the gradients of the first step, and whether the model
    draws random numbers."""

    values: Arrays
    gradients: Arrays
    draws: bool


@dataclass(frozen=True, slots=True)
class Double:
    """The eager mode in double precision: a look, the state after a step, and losses. All is None
    where there is none, ``why`` says the reason."""

    look: Look | None = None
    state: Arrays | None = None
    losses: tuple[float, ...] | None = None
    why: str = ""


class Judge:
    """Compares what the static mode did with what the eager one did, and with double precision.

    ``after`` is the state after the first static step, ``losses`` are the static ones that count,
    and ``rules`` are the stable forms in the program, in words. What differs by these is put aside
    as it is met and said in ``on_purpose``; what is left must agree.
    """

    def __init__(
        self, dtype: str, static: Look, eager: Look, after: Arrays, losses: Sequence[float],
        rules: str,
    ) -> None:  # fmt: skip
        self.dtype, self.static, self.eager = dtype, static, eager
        self.after, self.losses, self.rules = after, losses, rules
        self.left_out = 0
        """Elements of the state that are not compared, since their gradient is rounding."""
        self.unreached = add_zeros(eager.gradients, static.gradients)
        add_zeros(static.gradients, eager.gradients)
        self._infinite: dict[str, None] = {}
        self._nearer: dict[str, str] = {}

    @property
    def on_purpose(self) -> tuple[str, ...]:
        """A sentence for each kind of difference on purpose."""
        return (*self._infinite, *self._nearer.values())

    def compare(self, state: Arrays, losses: Sequence[float], double: Double) -> Parts:
        """The differences of all kinds, with the ``state`` after the first eager step and the
        ``losses`` of all eager steps."""
        look, count = double.look, len(self.losses)
        after, state_64 = _copies(self.after), double.state and _copies(double.state)
        values_64, gradients_64 = (None, None) if look is None else (look.values, look.gradients)
        if gradients_64 is not None:
            add_zeros(gradients_64, self.static.gradients)
        if self.rules:
            kinds = {
                "values": (self.static.values, self.eager.values, values_64),
                "gradients": (self.static.gradients, self.eager.gradients, gradients_64),
                "numbers of the state": (after, state, state_64),
            }
            count = self._put_aside(kinds, losses)
        if (lost := first_lost(losses, self.losses)) is not None:
            count = min(count, lost - 1)
        gradients = (self.static.gradients, self.eager.gradients)
        parts = {
            "values": compare_arrays(self.static.values, self.eager.values, values_64, self.dtype),
            "gradients": compare_arrays(*gradients, gradients_64, self.dtype),
        }
        masks = find_noise(gradients, parts["gradients"].static_eager or 0.0)
        self.left_out = clear_elements(masks, (after, state, state_64))
        parts["state"] = compare_arrays(after, state, state_64, self.dtype)
        losses_64 = None if double.losses is None else double.losses[:count]
        parts["losses"] = compare_losses(self.losses[:count], losses[:count], losses_64, self.dtype)
        self._nearer = {
            part: f"the {part} are {found.eager_float64:.1e} off eagerly and "
            f"{found.static_float64:.1e} in the graph, which rounds better ({self.rules})"
            for part, found in parts.items()
            if self.rules and accept_nearer(found, self.dtype)
        }
        return parts

    def find_apart(self, parts: Parts) -> list[str]:
        """A few words on each part that is further apart than it may be."""
        return [
            f"the {part} differ by {d.static_eager:.1e}"
            f"{f' at {d.where}' if d.where else ''}, more than {d.limit:.0e}"
            for part, d in parts.items()
            if part not in self._nearer
            if d.static_eager is not None and not d.static_eager <= d.limit
        ]

    def _put_aside(
        self,
        kinds: dict[str, tuple[Arrays, Arrays, Arrays | None]],
        losses: Sequence[float],
    ) -> int:
        """Put aside what is infinite or NaN eagerly alone; how many of the losses are compared."""
        count = min(finite_losses(losses, self.losses), len(self.losses))
        if count < len(self.losses):
            self._infinite[
                f"the loss is {losses[count]} eagerly and {self.losses[count]:.6g} in the graph, "
                f"which rounds better ({self.rules})"
            ] = None
        for what, arrays in kinds.items():
            if lost := accept_finite(*arrays):
                self._infinite[
                    f"{lost:,} {what} are infinite or NaN eagerly and numbers in the graph, which "
                    f"rounds better ({self.rules})"
                ] = None
                count = min(count, 1)  # another step goes on from another state
        return count


def _copies(arrays: Arrays) -> Arrays:
    return {name: array.copy() for name, array in arrays.items()}
