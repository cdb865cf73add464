"""L-BFGS takes PyTorch's steps, and asks the closure as often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf


def _rosenbrock(x: Any) -> Any:
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


class _Run:
    """Steps on a function, and how often it was asked."""

    def __init__(self, **options: Any) -> None:
        self.x = sf.tensor([-1.5, 2.0], dtype=sf.float64, requires_grad=True)
        self.opt = sf.optim.LBFGS([self.x], **options)
        self.asked = 0

    def closure(self) -> Any:
        self.opt.zero_grad()
        loss = _rosenbrock(self.x)
        loss.backward()
        self.asked += 1
        return loss


# PyTorch 2.13: after each of three steps, how often the closure was asked, and the parameters
STEPS: dict[str, tuple[dict[str, Any], list[tuple[int, list[float]]]]] = {
    "line search": ({"line_search_fn": "strong_wolfe"}, [
        (25, [-0.0851185559, -0.02875705841]), (50, [0.9995835473, 0.999155032]),
        (53, [0.9999979943, 0.9999973439]),
    ]),
    "short memory": ({"line_search_fn": "strong_wolfe", "lr": 0.5, "max_iter": 3, "history_size": 2}, [
        (3, [-1.420034975, 2.025795169]), (6, [-1.42001377, 2.022386683]),
        (9, [-1.414696386, 1.998700174]),
    ]),
    "fixed lengths": ({"lr": 0.1}, [
        (20, [-1.404375871, 1.99098419]), (40, [-0.5929776892, 0.05270172337]),
        (60, [-0.7554142666, 0.5111216031]),
    ]),
    "few evaluations": ({"max_iter": 5, "max_eval": 4}, [
        (4, [-1.57149695, 1.991025058]), (8, [-1.412497087, 2.003062799]),
        (12, [-1.396661284, 1.939205521]),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("case", STEPS)
def test_it_takes_the_steps_of_pytorch(case: str) -> None:
    options, expected = STEPS[case]
    run = _Run(**options)
    for asked, at in expected:
        run.opt.step(run.closure)
        assert run.asked == asked
        np.testing.assert_allclose(run.x.tolist(), at, rtol=1e-5)  # chaotic where it overshoots


def test_it_goes_on_from_a_saved_state() -> None:
    straight, broken = _Run(line_search_fn="strong_wolfe"), _Run(line_search_fn="strong_wolfe")
    for run in (straight, broken):
        run.opt.step(run.closure)
    saved = broken.opt.state_dict()
    broken.opt = sf.optim.LBFGS([broken.x], lr=0.25, line_search_fn="strong_wolfe")
    broken.opt.load_state_dict(saved)
    for run in (straight, broken):
        run.opt.step(run.closure)
    assert broken.x.tolist() == straight.x.tolist()
    assert broken.opt.param_groups[0]["lr"] == 1.0
    kept = broken.opt.state_dict()["state"][0]
    assert kept["func_evals"] == 50 and kept["n_iter"] == straight.opt.state[straight.x]["n_iter"]


def test_several_parameters_are_one_vector_and_those_without_a_gradient_stay() -> None:
    w = sf.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
    b, unused = sf.tensor(4.0, requires_grad=True), sf.tensor([7.0], requires_grad=True)
    opt = sf.optim.LBFGS([w, b, unused], line_search_fn="strong_wolfe")

    def closure() -> Any:
        opt.zero_grad()
        loss = ((w - 1) ** 2).sum() + (b - w.sum()) ** 2
        loss.backward()
        return loss

    with sf.no_grad():  # the closure is recorded all the same
        opt.step(closure)
    sf.testing.assert_close(w.detach(), sf.ones(2, 2), atol=1e-4, rtol=0)
    assert abs(b.item() - 4) < 1e-3 and unused.item() == 7


def test_what_it_does_not_take() -> None:
    w = sf.tensor([1.0], requires_grad=True)
    with pytest.raises(sf.ArgumentError, match=r"line_search_fn is None or .*, not 'armijo'"):
        sf.optim.LBFGS([w], line_search_fn="armijo")
    with pytest.raises(sf.ArgumentError, match="one group"):
        sf.optim.LBFGS([{"params": [w]}, {"params": [sf.ones(1, requires_grad=True)]}])
    opt = sf.optim.LBFGS([w])
    with pytest.raises(sf.ArgumentError, match=r"call step\(closure\)"):
        opt.step()
    with pytest.raises(sf.SymbolicError, match="evaluates the loss several times"):
        opt.minimize((sf.placeholder((1,), name="x") * w).sum())
