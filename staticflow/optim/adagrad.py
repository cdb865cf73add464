"""Adagrad and Adadelta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from staticflow.ops.elementwise.maths import sqrt
from staticflow.optim.optimizer import Optimizer
from staticflow.optim.rule import counter, decay, zeros

__all__ = ["Adadelta", "Adagrad"]


class Adagrad(Optimizer):
    """Gradients divided by the root of the sum of their squares (Duchi et al. 2011), as
    ``torch.optim.Adagrad``::

        g = grad + weight_decay * param
        s = s + g ** 2, from initial_accumulator_value
        param = param - lr / (1 + (step - 1) * lr_decay) * g / (sqrt(s) + eps)
    """

    by_element = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value, "maximize": maximize,
                "foreach": foreach, "fused": fused, "differentiable": differentiable,
            },
        )  # fmt: skip

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The count of the steps and the sum of the squares."""
        start = self.defaults["initial_accumulator_value"]
        return {"step": counter(param), "sum": zeros(param, "sum")["sum"] + start}

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        grad = decay(param, grad, hyper)
        total = state["sum"] + grad * grad
        size = hyper["lr"] / (1 + state["step"] * hyper["lr_decay"])
        after = {"step": state["step"] + 1, "sum": total}
        return param - size * grad / (sqrt(total) + hyper["eps"]), after


class Adadelta(Optimizer):
    """Steps that have the scale of the parameter (Zeiler 2012), as ``torch.optim.Adadelta``::

        g = grad + weight_decay * param
        v = rho * v + (1 - rho) * g ** 2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d ** 2
        param = param - lr * d

    The averages ``u`` and ``v`` begin with 0.
    """

    by_element = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay,
                "maximize": maximize, "foreach": foreach,
                "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The count of the steps and the averages ``v`` and ``u``."""
        return {"step": counter(param)} | zeros(param, "square_avg", "acc_delta")

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        rho, eps = hyper["rho"], hyper["eps"]
        grad = decay(param, grad, hyper)
        square = rho * state["square_avg"] + (1 - rho) * (grad * grad)
        delta = sqrt(state["acc_delta"] + eps) / sqrt(square + eps) * grad
        moved = rho * state["acc_delta"] + (1 - rho) * (delta * delta)
        after = {"step": state["step"] + 1, "square_avg": square, "acc_delta": moved}
        return param - hyper["lr"] * delta, after
