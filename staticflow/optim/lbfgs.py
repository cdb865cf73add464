"""L-BFGS: steps by an inverse Hessian that is estimated from the last changes of the gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from staticflow.errors import ArgumentError, CheckpointError, DTypeError, SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import reshape
from staticflow.optim.line_search import Point, strong_wolfe
from staticflow.optim.optimizer import Optimizer
from staticflow.optim.saved_state import groups_and_state

__all__ = ["LBFGS"]

Closure = Callable[[], Any]

_KINDS = {"func_evals": int, "n_iter": int, "old_dirs": list, "old_stps": list, "ro": list}
"""What a saved state has by its names."""


class LBFGS(Optimizer):
    """Limited-memory BFGS, as PyTorch's ``torch.optim.LBFGS`` (Nocedal and Wright 2006, "Numerical
    Optimization", algorithms 7.4 and 7.5).

    A `step` takes up to ``max_iter`` iterations, and evaluates the loss, by the ``closure`` that it
    needs, up to ``max_eval`` times (1.25 times ``max_iter`` unless given). Each goes by ``lr``
    along the direction, or by what ``line_search_fn="strong_wolfe"`` finds. It ends early where no
    element of the gradient is above ``tolerance_grad``, or loss and parameters change by less than
    ``tolerance_change``. There is one group of parameters; the last ``history_size`` changes are
    kept, of the size of all of them each. It has no `minimize`: a step asks how the loss goes.

    >>> import staticflow as sf
    >>> x = sf.tensor([3.0, -4.0], requires_grad=True)
    >>> opt = LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = (x**2 * sf.tensor([1.0, 10.0])).sum()
    ...     loss.backward()
    ...     return loss
    >>> opt.step(closure).item(), bool(x.abs().max() < 1e-5)
    (169.0, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(
                f'LBFGS: line_search_fn is None or "strong_wolfe", not {line_search_fn!r}'
                f", at {format_locs(here())}"
            )
        self.line_search_fn = line_search_fn
        super().__init__(
            params,
            {
                "lr": lr, "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
                "history_size": history_size,
            },
        )  # fmt: skip

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """The one group. Raises `ArgumentError` for another."""
        if self.param_groups:
            raise ArgumentError(f"LBFGS takes one group of parameters, at {format_locs(here())}")
        super().add_param_group(param_group)

    def updates(self, grads: Mapping[Any, Any]) -> Any:
        """Refused: a step evaluates the loss as often as it turns out to need."""
        raise SymbolicError(
            "LBFGS evaluates the loss several times in a step, so it has no updates for a program; "
            f"call step(closure), where the closure may call one, at {format_locs(here())}"
        )

    # -- state --------------------------------------------------------------------------------

    @property
    def _memory(self) -> dict[str, Any]:
        """What is known of the loss, held with the first parameter, by PyTorch's names."""
        return self.state.setdefault(
            self.param_groups[0].params[0],
            {"func_evals": 0, "n_iter": 0, "old_dirs": [], "old_stps": [], "ro": []},
        )

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on as the optimiser that gave ``state_dict``."""
        group = self.param_groups[0]
        groups, states = groups_and_state(state_dict, [len(group.params)])
        values = {n: v for n, v in groups[0].items() if n in group and n != "params"}
        for name, value in values.items():
            group.check(name, value)
        for kept in states.values():
            for name, kind in _KINDS.items():
                if not isinstance(kept.get(name, kind()), kind):
                    raise CheckpointError(
                        f"load_state_dict: {name!r} must be {kind.__name__}, not "
                        f"{type(kept[name]).__name__}, at {format_locs(here())}"
                    )
        for name, value in values.items():
            group[name] = value
        for kept in states.values():
            self._memory.update({n: list(v) if isinstance(v, list) else v for n, v in kept.items()})

    # -- the step -----------------------------------------------------------------------------

    def _gradient(self) -> Any:
        """The gradients of all parameters, in one vector."""
        grads = ((p, p.grad) for p in self.param_groups[0].params)
        return cat([reshape(zeros_like(p) if g is None else g, (-1,)) for p, g in grads])

    def _evaluate(self, closure: Closure) -> Point:
        return self._point(self._loss_of(closure))

    def _point(self, loss: Any) -> Point:
        """Where the parameters are, with the ``loss`` that a closure gave."""
        if not hasattr(loss, "__float__"):
            raise DTypeError(
                "step: the closure gives the loss, a number or a tensor of one element, not "
                f"{type(loss).__name__}; end it with return loss, at {format_locs(here())}"
            )
        return Point(float(loss), self._gradient())

    def _move(self, direction: Any, length: float, start: list[Any] | None = None) -> None:
        """Go along ``direction``, from ``start`` or from here."""
        at = 0
        for i, p in enumerate(self.param_groups[0].params):
            part = reshape(direction[at : at + p.numel()], p.shape)
            p._assign((p if start is None else start[i]) + part * length)
            at += p.numel()

    def _step(self, closure: Closure | None) -> Any:
        if closure is None:
            raise ArgumentError(
                "LBFGS evaluates the loss several times in a step: call step(closure), with a "
                "function that clears the gradients, computes the loss, calls backward and returns "
                f"the loss, at {format_locs(here())}"
            )
        loss = self._loss_of(closure)
        here_now = self._point(loss)
        group, memory = self.param_groups[0], self._memory
        memory["func_evals"] += 1
        evaluations, small = 1, group["tolerance_change"]
        for iteration in range(1, int(group["max_iter"]) + 1):
            if _largest(here_now.gradient) <= group["tolerance_grad"]:
                break
            memory["n_iter"] += 1
            direction = self._direction(here_now.gradient)
            slope = float((here_now.gradient * direction).sum())
            length = group["lr"]
            if memory["n_iter"] == 1:
                length *= min(1.0, 1.0 / float(here_now.gradient.abs().sum()))
            memory |= {"prev_flat_grad": here_now.gradient, "d": direction, "t": length}
            if slope > -small:
                break
            before = here_now
            if self.line_search_fn is not None:
                here_now, length, count = self._search(closure, here_now, direction, length, slope)
            else:
                self._move(direction, length)
                count = 0
                if iteration < group["max_iter"]:  # nobody reads the last one
                    here_now, count = self._evaluate(closure), 1
            memory["t"], memory["prev_loss"] = length, before.loss
            evaluations += count
            memory["func_evals"] += count
            if (
                evaluations >= group["max_eval"]
                or _largest(direction) * length <= small
                or abs(here_now.loss - before.loss) < small
            ):
                break
        return loss

    def _search(
        self, closure: Closure, begin: Point, direction: Any, length: float, slope: float
    ) -> tuple[Point, float, int]:
        """Go to where the line search leads; what is there, how far it is, how often it asked."""
        start = [p.detach().clone() for p in self.param_groups[0].params]

        def at(length: float) -> Point:
            self._move(direction, length, start)
            return self._evaluate(closure)

        size = _largest(direction)
        found, length, count = strong_wolfe(at, begin, direction, length, slope, size)
        self._move(direction, length, start)
        return found, length, count

    def _direction(self, gradient: Any) -> Any:
        """The step that the inverse Hessian, as the history has it, makes of the gradient."""
        memory = self._memory
        if memory["n_iter"] == 1:
            memory["H_diag"] = 1.0
            return -gradient
        changes, steps, inverses = memory["old_dirs"], memory["old_stps"], memory["ro"]
        change, step = gradient - memory["prev_flat_grad"], memory["d"] * memory["t"]
        curvature = float((change * step).sum())
        if curvature > 1e-10:
            if len(changes) >= self.param_groups[0]["history_size"]:
                for history in (changes, steps, inverses):
                    del history[0]
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            memory["H_diag"] = curvature / float((change * change).sum())
        out = -gradient
        weights = []
        for y, s, rho in reversed([*zip(changes, steps, inverses, strict=True)]):
            weights.append(float((s * out).sum()) * rho)
            out = out - y * weights[-1]
        out = out * memory["H_diag"]
        for y, s, rho in zip(changes, steps, inverses, strict=True):
            out = out + s * (weights.pop() - float((y * out).sum()) * rho)
        return out


def _largest(x: Any) -> float:
    return float(x.abs().max())
