"""Adam and its kin: steps of a size that the gradient's own scale is divided out of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from staticflow.ops.basics.arithmetic import maximum
from staticflow.ops.elementwise.maths import abs, sqrt
from staticflow.optim.optimizer import Optimizer
from staticflow.optim.rule import choose, counter, decay, lerp, zeros

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]


class Adam(Optimizer):
    """Adam (Kingma and Ba 2014), as ``torch.optim.Adam``::

        g = grad + weight_decay * param
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        param = param - lr * m / (1 - beta1 ** step) / (sqrt(v / (1 - beta2 ** step)) + eps)

    With ``amsgrad`` the largest ``v`` so far stands in the place of ``v`` (Reddi et al. 2018), with
    ``decoupled_weight_decay`` the decay is as in `AdamW`.

    >>> import staticflow as sf
    >>> w = sf.tensor([1.0, -1.0], requires_grad=True)
    >>> opt = Adam([w], lr=0.25)
    >>> (w * sf.tensor([5.0, 0.1])).sum().backward(); opt.step()
    >>> w.detach()
    tensor([ 0.7500, -1.2500])
    """

    by_element = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                "amsgrad": amsgrad, "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay, "foreach": foreach,
                "fused": fused, "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The count of the steps and the averages ``m`` and ``v``."""
        largest = ("max_exp_avg_sq",) if "amsgrad" in hyper else ()
        return {"step": counter(param)} | zeros(param, "exp_avg", "exp_avg_sq", *largest)

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        if "decoupled_weight_decay" in hyper:
            param, hyper = _shrunk(param, hyper)
        after = _averages(decay(param, grad, hyper), state, hyper)
        scale = after["exp_avg_sq"]
        if "amsgrad" in hyper:
            scale = after["max_exp_avg_sq"] = maximum(state["max_exp_avg_sq"], scale)
        first, second = _corrections(after, hyper)
        # both sides of the quotient times sqrt(1 - beta2 ** step): one division an element
        root = second**0.5
        size = hyper["lr"] * root / first
        return param - size * after["exp_avg"] / (sqrt(scale) + hyper["eps"] * root), after


class AdamW(Adam):
    """Adam with the weight decay beside the gradient and not in it (Loshchilov and Hutter 2017), as
    ``torch.optim.AdamW``: the parameter is first scaled by ``1 - lr * weight_decay``. It is `Adam`
    with ``decoupled_weight_decay``, and stays so where it takes over the state of an `Adam`."""

    fixed = ("decoupled_weight_decay",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad,
            maximize=maximize, foreach=foreach, fused=fused, capturable=capturable,
            differentiable=differentiable, decoupled_weight_decay=True,
        )  # fmt: skip


class Adamax(Optimizer):
    """Adam by the largest gradient (Kingma and Ba 2014, section 7.1), as ``torch.optim.Adamax``::

        u = max(beta2 * u, abs(g) + eps)
        param = param - lr / (1 - beta1 ** step) * m / u

    with ``g`` and ``m`` as in `Adam`.
    """

    by_element = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
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
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                "maximize": maximize, "foreach": foreach,
                "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The count of the steps, the average ``m`` and the norm ``u``."""
        return {"step": counter(param)} | zeros(param, "exp_avg", "exp_inf")

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        beta1, beta2 = hyper["betas"]
        grad = decay(param, grad, hyper)
        step = state["step"] + 1
        average = lerp(state["exp_avg"], grad, 1 - beta1)
        norm = maximum(beta2 * state["exp_inf"], abs(grad) + hyper["eps"])
        size = hyper["lr"] / (1 - beta1**step)
        after = {"step": step, "exp_avg": average, "exp_inf": norm}
        return param - size * average / norm, after


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016), as ``torch.optim.NAdam``::

        mu = beta1 * (1 - 0.96 ** (step * momentum_decay) / 2), and mu_next that of step + 1
        product = product * mu
        direction = mu_next * m / (1 - product * mu_next) + (1 - mu) * g / (1 - product)
        param = param - lr * direction / (sqrt(v / (1 - beta2 ** step)) + eps)

    The weight decay is in the gradient, or with ``decoupled_weight_decay`` as in `AdamW`.
    """

    counters = ("step", "mu_product")

    by_element = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize,
                "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The count of the steps, the product of the ``mu`` so far, and ``m`` and ``v``."""
        numbers = {"step": counter(param), "mu_product": counter(param, 1.0)}
        return numbers | zeros(param, "exp_avg", "exp_avg_sq")

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        if "decoupled_weight_decay" in hyper:
            param, hyper = _shrunk(param, hyper)
        grad = decay(param, grad, hyper)
        after = _averages(grad, state, hyper)
        step, beta1 = after["step"], hyper["betas"][0]
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * hyper["momentum_decay"]))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * hyper["momentum_decay"]))
        product = after["mu_product"] = state["mu_product"] * mu
        _, second = _corrections(after, hyper)
        of_average = hyper["lr"] * mu_next / (1 - product * mu_next)
        of_grad = hyper["lr"] * (1 - mu) / (1 - product)
        direction = of_average * after["exp_avg"] + of_grad * grad
        return param - direction / (sqrt(after["exp_avg_sq"] / second) + hyper["eps"]), after


class RAdam(Optimizer):
    """Adam that waits until the variance of its step size is known (Liu et al. 2019, "On the
    variance of the adaptive learning rate and beyond"), as ``torch.optim.RAdam``::

        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * step * beta2 ** step / (1 - beta2 ** step)
        r = sqrt((rho - 4) (rho - 2) rho_inf / ((rho_inf - 4) (rho_inf - 2) rho))
        adapt = r * sqrt(1 - beta2 ** step) / (sqrt(v) + eps) if rho > 5 else 1
        param = param - lr * adapt * m / (1 - beta1 ** step)

    The weight decay is in the gradient, or with ``decoupled_weight_decay`` as in `AdamW`.
    """

    by_element = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize,
                "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The count of the steps and the averages ``m`` and ``v``."""
        return {"step": counter(param)} | zeros(param, "exp_avg", "exp_avg_sq")

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One step, by the formulas above."""
        if "decoupled_weight_decay" in hyper:
            param, hyper = _shrunk(param, hyper)
        after = _averages(decay(param, grad, hyper), state, hyper)
        first, second = _corrections(after, hyper)
        beta2 = hyper["betas"][1]
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * after["step"] * beta2 ** after["step"] / second
        known = length > 5
        length = choose(known, length, 5.0)  # so that the root is of a positive number
        variance = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        adapt = (variance * second) ** 0.5 / (sqrt(after["exp_avg_sq"]) + hyper["eps"])
        return param - hyper["lr"] / first * after["exp_avg"] * choose(known, adapt, 1.0), after


def _averages(grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]) -> dict[str, Any]:
    beta1, beta2 = hyper["betas"]
    return {
        "step": state["step"] + 1,
        "exp_avg": lerp(state["exp_avg"], grad, 1 - beta1),
        "exp_avg_sq": beta2 * state["exp_avg_sq"] + (1 - beta2) * (grad * grad),
    }


def _corrections(after: Mapping[str, Any], hyper: Mapping[str, Any]) -> tuple[Any, Any]:
    """What averages that began with zeros are too small by: ``1 - beta ** step``."""
    beta1, beta2 = hyper["betas"]
    return 1 - beta1 ** after["step"], 1 - beta2 ** after["step"]


def _shrunk(param: Any, hyper: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The parameter after the weight decay, and what is left of the hyperparameters."""
    rest = dict(hyper)
    if "weight_decay" not in hyper:
        return param, rest
    return param * (1 - hyper["lr"] * rest.pop("weight_decay")), rest
