"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.creation import zeros_like
from staticflow.optim.optimizer import Optimizer
from staticflow.optim.rule import choose, counter, decay

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, as PyTorch's ``torch.optim.SGD``::

        g = grad + weight_decay * param
        buffer = g at the first step, then momentum * buffer + (1 - dampening) * g
        param = param - lr * (g + momentum * buffer if nesterov else buffer)

    and ``param - lr * g`` without momentum (Sutskever et al. 2013, "On the importance of
    initialization and momentum in deep learning").

    >>> import staticflow as sf
    >>> w = sf.tensor([1.0], requires_grad=True)
    >>> opt = SGD([w], lr=0.5, momentum=0.5)
    >>> for _ in range(2):
    ...     opt.zero_grad(); (w * 1).sum().backward(); opt.step()
    >>> w.item()
    -0.25
    """

    by_element = True
    switches = ("momentum", "dampening", "weight_decay")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "dampening": dampening,
                "weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize,
                "foreach": foreach, "fused": fused, "differentiable": differentiable,
            },
        )  # fmt: skip

    def check(self, values: Mapping[str, Any]) -> None:
        """Nesterov's momentum needs a momentum and no dampening."""
        if values["nesterov"] and (values["momentum"] == 0 or values["dampening"] != 0):
            raise ArgumentError(
                "Nesterov momentum needs a momentum above 0 and no dampening"
                f", at {format_locs(here())}"
            )

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A buffer of zeros, from which the first step makes ``g`` where there is no dampening;
        where there is, the steps are counted to know the first."""
        if "momentum" not in hyper:
            return {}
        state = {"momentum_buffer": zeros_like(param)}
        if "dampening" in hyper:
            state["step"] = counter(param, 1.0 if "momentum_buffer" in known else 0.0)
        return state

    @classmethod
    def rests_at_zero(cls, used: Collection[str]) -> bool:
        """A step down without momentum and decay does, unless a derived class has another rule. (A
        step up makes 0.0 of -0.0.)"""
        is_other = _rule_of(cls) != _rule_of(SGD)
        return not is_other and not {"momentum", "weight_decay", "maximize"} & {*used}

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        grad = decay(param, grad, hyper)
        if "momentum" not in hyper:
            return param - hyper["lr"] * grad, {}
        buffer = hyper["momentum"] * state["momentum_buffer"]
        if "dampening" in hyper:
            later = buffer + (1 - hyper["dampening"]) * grad
            buffer = choose(state["step"] == 0, grad, later)
            after = {"momentum_buffer": buffer, "step": state["step"] + 1}
        else:
            buffer = buffer + grad
            after = {"momentum_buffer": buffer}
        direction = grad + hyper["momentum"] * buffer if "nesterov" in hyper else buffer
        return param - hyper["lr"] * direction, after


def _rule_of(kind: type[SGD]) -> list[Any]:
    """The functions that say what a step of a class is."""
    methods = kind.update, kind.apply_rule, kind.on_symbols
    return [getattr(m, "__func__", m) for m in methods]
