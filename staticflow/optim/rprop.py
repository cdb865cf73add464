"""Rprop and ASGD."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import maximum, minimum, where
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.elementwise.maths import sign
from staticflow.optim.optimizer import Optimizer
from staticflow.optim.rule import choose, counter, decay, lerp, zeros

__all__ = ["ASGD", "Rprop"]


class Rprop(Optimizer):
    """Steps by the signs of the gradients alone (Riedmiller and Braun 1993, "A direct adaptive
    method for faster backpropagation learning: the RPROP algorithm"), as ``torch.optim.Rprop``::

        size = size * (etas[1] where grad and the one before have one sign, etas[0] where not)
        size = size between step_sizes[0] and step_sizes[1], at first lr
        grad = 0 where the signs differ
        param = param - sign(grad) * size

    The gradients are those of all data: with batches by chance their signs say little.

    >>> import staticflow as sf
    >>> w = sf.tensor([1.0, -100.0], requires_grad=True)
    >>> opt = Rprop([w], lr=0.25)
    >>> for _ in range(2):
    ...     opt.zero_grad(); (w * w).sum().backward(); opt.step()
    >>> w.detach()
    tensor([  0.4500, -99.4500])
    """

    by_element = True
    kinds: ClassVar = {"etas": 2, "step_sizes": 2}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize,
                "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def check(self, values: Mapping[str, Any]) -> None:
        """The first of the ``etas`` makes steps smaller, the second larger."""
        smaller, larger = values["etas"]
        if not 0 < smaller < 1 < larger:
            raise ArgumentError(
                f"Rprop: etas are a number between 0 and 1 and one above 1, not {values['etas']}, "
                f"at {format_locs(here())}"
            )

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The count of the steps, the gradient before and the size of each element's step."""
        size = zeros_like(param) + float(hyper["lr"])
        return {"step": counter(param), "prev": zeros_like(param), "step_size": size}

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        (smaller, larger), (least, most) = hyper["etas"], hyper["step_sizes"]
        size = state["step_size"]
        agreement = sign(grad * state["prev"])
        size = where(agreement > 0, size * larger, where(agreement < 0, size * smaller, size))
        size = maximum(minimum(size, most), least)
        grad = where(agreement < 0, zeros_like(grad), grad)
        after = {"step": state["step"] + 1, "prev": grad, "step_size": size}
        return param - sign(grad) * size, after


class ASGD(Optimizer):
    """Stochastic gradient descent whose parameters are averaged beside (Polyak and Juditsky 1992,
    "Acceleration of stochastic approximation by averaging"), as ``torch.optim.ASGD``::

        g = grad + weight_decay * param
        param = param * (1 - lambd * eta) - eta * g
        ax = ax + mu * (param - ax)
        eta = lr / (1 + lambd * lr * step) ** alpha, at first lr
        mu = 1 / max(1, step - t0)

    The averages are ``state[param]["ax"]``: the parameters themselves up to step ``t0``, from there
    on their mean.

    >>> import staticflow as sf
    >>> w = sf.tensor([1.0], requires_grad=True)
    >>> opt = ASGD([w], lr=0.25, t0=0)
    >>> for _ in range(2):
    ...     opt.zero_grad(); (w * 1).sum().backward(); opt.step()
    >>> round(w.item(), 3), round(opt.state[w]["ax"].item(), 3)
    (0.5, 0.5)
    """

    by_element = True
    counters = ("step", "eta", "mu")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
                "maximize": maximize, "foreach": foreach, "capturable": capturable,
                "differentiable": differentiable,
            },
        )  # fmt: skip

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The count of the steps, the averages and the two rates."""
        rates = {"eta": counter(param, float(hyper["lr"])), "mu": counter(param, 1.0)}
        return {"step": counter(param)} | rates | zeros(param, "ax")

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        step, eta, mu = state["step"] + 1, state["eta"], state["mu"]
        lr, lambd = hyper["lr"], hyper["lambd"]
        grad = decay(param, grad, hyper)
        param = param * (1 - lambd * eta) - eta * grad
        average = choose(mu == 1, param, lerp(state["ax"], param, mu))
        later = step - hyper["t0"]
        after = {
            "step": step,
            "eta": lr / (1 + lambd * lr * step) ** hyper["alpha"],
            "mu": 1 / choose(later > 1, later, 1.0),
            "ax": average,
        }
        return param, after
