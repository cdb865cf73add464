"""Adafactor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from staticflow.ops.basics.arithmetic import maximum
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.reduce import mean
from staticflow.ops.elementwise.maths import rsqrt, sqrt
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.tensors.queries import finfo
from staticflow.optim.optimizer import Optimizer
from staticflow.optim.rule import choose, counter, lerp

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Gradients divided by the root of their mean square, of which for a matrix only the means of
    rows and columns are kept (Shazeer and Stern 2018, "Adafactor: adaptive learning rates with
    sublinear memory cost"), as ``torch.optim.Adafactor``::

        t = the number of the step, r = t ** beta2_decay
        size = max(eps[1], rms(param)) * min(lr, 1 / sqrt(t))
        param = param * (1 - lr * weight_decay)
        rows = rows + r * (mean(grad ** 2 over the last dim) - rows), columns alike
        v = rows @ columns / max(mean(rows), eps[0])
        u = grad / max(sqrt(v), eps[0])
        param = param - size * u / max(1, rms(u) / d)

    where ``rms`` is the root of the mean square, and ``v`` of a parameter of fewer dims than 2 is
    the running mean of ``grad ** 2`` itself. Dims before the last two are those of separate
    matrices. An ``eps[0]`` of None is the distance of 1 to the next larger number of the dtype.
    """

    kinds: ClassVar = {"eps": 2}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
                "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach,
            },
        )  # fmt: skip

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The count of the steps, and the means of rows and columns, or of the elements."""
        shape = param.shape
        shapes = {"variance": shape}
        if len(shape) > 1:
            shapes = {
                "row_var": (*shape[:-1], 1), "col_var": (*shape[:-2], 1, shape[-1]),
            }  # fmt: skip
        means = {
            name: full.beside(param, shape=size, value=0.0, dtype=param.dtype)
            for name, size in shapes.items()
        }
        return {"step": counter(param)} | means

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        step, lr = state["step"] + 1, hyper["lr"]
        small, least = hyper["eps"]
        small = finfo(param.dtype).eps if small is None else small
        rate, bound = step ** hyper["beta2_decay"], 1 / step**0.5
        size = maximum(_rms(param), least) * choose(lr < bound, lr, bound)
        if "weight_decay" in hyper:
            param = param * (1 - lr * hyper["weight_decay"])
        square = grad * grad
        after = {"step": step}
        if "row_var" in state:
            rows = after["row_var"] = lerp(state["row_var"], mean(square, -1, True), rate)
            columns = after["col_var"] = lerp(state["col_var"], mean(square, -2, True), rate)
            total = matmul(rows, columns) / maximum(mean(rows, -2, True), small)
        else:
            total = after["variance"] = lerp(state["variance"], square, rate)
        moved = grad * rsqrt(maximum(total, small * small))
        return param - size / maximum(_rms(moved) / hyper["d"], 1.0) * moved, after


def _rms(x: Any) -> Any:
    """The root of the mean square of the elements."""
    return sqrt(mean(x * x))
