"""Muon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from staticflow.errors import ShapeError
from staticflow.graph.dtypes import bfloat16, float32
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import maximum
from staticflow.ops.basics.axes import transpose
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.statistics.moments import vector_norm
from staticflow.optim.optimizer import Optimizer
from staticflow.optim.rule import lerp, zeros

__all__ = ["Muon"]


class Muon(Optimizer):
    """Steps along the orthogonal factor of the averaged gradient, for the matrices of hidden layers
    (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"), as
    ``torch.optim.Muon``::

        b = momentum * b + (1 - momentum) * grad
        u = grad + momentum * (b - grad) with nesterov, else b
        x = u / max(norm(u), eps), in bfloat16
        ns_steps times: x = a * x + (b * s + c * s @ s) @ x, where s = x @ x.T and
                        a, b, c are the ns_coefficients
        param = param * (1 - lr * weight_decay) - lr * ratio * x

    These are Newton's and Schulz's iterations, by a polynomial that brings all singular values near
    to 1. ``ratio`` is sqrt(max(1, rows / columns)), or with ``adjust_lr_fn="match_rms_adamw"`` 0.2
    * sqrt(max(rows, columns)), with which the rates of `AdamW` serve (Liu et al. 2025, "Muon is
    scalable for LLM training").

    Raises `ShapeError` for a parameter that is no matrix: give vectors to another optimiser.
    """

    counters = ()
    kinds: ClassVar = {
        "ns_coefficients": 3, "ns_steps": range(100),
        "adjust_lr_fn": (None, "original", "match_rms_adamw"),
    }  # fmt: skip

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )  # fmt: skip

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Take more matrices, with hyperparameters of their own where ``param_group`` has them."""
        count = len(self.param_groups)
        super().add_param_group(param_group)
        for param in self.param_groups[-1].params:
            if param.ndim != 2:
                del self.param_groups[count:]
                raise ShapeError(
                    f"Muon: a parameter has shape {list(param.shape)}; all must be matrices, of 2 "
                    "dims: give the others to another optimiser, as AdamW, "
                    f"at {format_locs(here())}"
                )

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The average of the gradients."""
        return zeros(param, "momentum_buffer")

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        lr, momentum = hyper["lr"], hyper["momentum"]
        average = lerp(state["momentum_buffer"], grad, 1 - momentum)
        direction = lerp(grad, average, momentum) if "nesterov" in hyper else average
        moved = _orthogonal_factor(direction, hyper).to(param.dtype)
        rows, columns = param.shape
        ratio = math.sqrt(max(1, rows / columns)) if columns else 1.0
        if hyper["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        if "weight_decay" in hyper:
            param = param * (1 - lr * hyper["weight_decay"])
        return param - lr * ratio * moved, {"momentum_buffer": average}


def _orthogonal_factor(matrix: Any, hyper: Mapping[str, Any]) -> Any:
    """A matrix with about the singular vectors of ``matrix`` and singular values near 1, in
    bfloat16."""
    a, b, c = hyper["ns_coefficients"]
    x = matrix.to(bfloat16)
    is_high = matrix.shape[0] > matrix.shape[1]
    x = transpose(x, 0, 1) if is_high else x
    x = x / maximum(vector_norm(x), hyper["eps"])
    for _ in range(hyper["ns_steps"]):
        # the products are added up in float32, and each line is rounded once
        square = matmul(x, transpose(x, 0, 1)).to(float32)
        change = (b * square + c * matmul(square, square)).to(bfloat16)
        x = (a * x.to(float32) + matmul(change.to(float32), x.to(float32))).to(bfloat16)
    return transpose(x, 0, 1) if is_high else x
