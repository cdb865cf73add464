"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from staticflow.ops.elementwise.maths import sqrt
from staticflow.optim.optimizer import Optimizer
from staticflow.optim.rule import counter, decay, lerp, zeros

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Gradients divided by the root of their mean square (Hinton 2012), as
    ``torch.optim.RMSprop``::

        g = grad + weight_decay * param
        v = alpha * v + (1 - alpha) * g ** 2
        d = g / (sqrt(v) + eps)
        param = param - lr * d, or with momentum: b = momentum * b + d; param = param - lr * b

    With ``centered`` the square of the mean gradient is taken off ``v`` under the root.
    """

    by_element = True
    switches = ("momentum", "weight_decay")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach,
                "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The count of the steps and the averages in use."""
        names = {"momentum": "momentum_buffer", "centered": "grad_avg"}
        used = (state for name, state in names.items() if name in hyper)
        return {"step": counter(param)} | zeros(param, "square_avg", *used)

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        alpha = hyper["alpha"]
        grad = decay(param, grad, hyper)
        square = alpha * state["square_avg"] + (1 - alpha) * (grad * grad)
        after = {"step": state["step"] + 1, "square_avg": square}
        if "centered" in hyper:
            average = after["grad_avg"] = lerp(state["grad_avg"], grad, 1 - alpha)
            square = square - average * average
        direction = grad / (sqrt(square) + hyper["eps"])
        if "momentum" in hyper:
            direction = hyper["momentum"] * state["momentum_buffer"] + direction
            after["momentum_buffer"] = direction
        return param - hyper["lr"] * direction, after
