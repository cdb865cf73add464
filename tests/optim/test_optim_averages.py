"""Averages of weights, hooks around steps, and modules called with other tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.optim import swa_utils

F = nn.functional


def _model() -> Any:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


def _averaged(values: list[float], **options: Any) -> Any:
    model = nn.Linear(1, 1, bias=False)
    average = swa_utils.AveragedModel(model, **options)
    for value in values:
        model.weight.data.fill_(value)
        average.update_parameters(model)
    return average


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 3.0),
        ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, 3.0),
        ({"avg_fn": swa_utils.get_ema_avg_fn(0.5)}, 3.75),
        ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)}, 3.75),
        ({"avg_fn": lambda average, current, count: average * 10 + current + count}, 138.0),
    ],
    ids=["mean", "means", "exponential", "all exponential", "own"],
)
def test_weights_are_averaged(options: Any, expected: float) -> None:
    average = _averaged([1.0, 2.0, 6.0], **options)
    assert average.module.weight.item() == pytest.approx(expected)
    assert average.n_averaged.item() == 3
    assert average(sf.ones(1, 1)).item() == pytest.approx(expected)
    assert list(average.state_dict()) == ["n_averaged", "module.weight"]


def test_buffers_are_taken_over_or_averaged() -> None:
    model = nn.BatchNorm1d(1)
    taken, mixed = swa_utils.AveragedModel(model), swa_utils.AveragedModel(model, use_buffers=True)
    for value in (1.0, 3.0):
        model.running_mean.fill_(value)
        taken.update_parameters(model)
        mixed.update_parameters(model)
    assert taken.module.running_mean.item() == 3.0
    assert mixed.module.running_mean.item() == 2.0


def test_update_bn_makes_plain_means_of_all_batches() -> None:
    model, batches = _model(), [sf.randn(5, 2), sf.randn(5, 2)]
    inner = [model[0](b).detach().numpy() for b in batches]
    model.eval()
    swa_utils.update_bn([(b, "label") for b in batches], model)
    norm = model[1]
    np.testing.assert_allclose(
        norm.running_mean.numpy(), np.mean([x.mean(0) for x in inner], 0), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        norm.running_var.numpy(), np.mean([x.var(0, ddof=1) for x in inner], 0), rtol=1e-4
    )
    assert norm.momentum == 0.1 and not model.training and norm.num_batches_tracked == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [  # PyTorch 2.13
        ((0.05, 4), [0.4, 0.34874368670764583, 0.225, 0.1012563132923542, 0.05, 0.05]),
        ((0.05, 4, "linear"), [0.4, 0.3125, 0.225, 0.1375, 0.05, 0.05]),
        ((0.05, 0), [0.05, 0.05]),
    ],
    ids=["cos", "linear", "at once"],
)
def test_rates_go_to_that_of_the_average(arguments: Any, expected: list[float]) -> None:
    opt = sf.optim.SGD([sf.zeros(1, requires_grad=True)], lr=0.4)
    schedule = swa_utils.SWALR(opt, *arguments)
    for rate in expected:
        assert schedule.get_last_lr()[0] == pytest.approx(rate, abs=1e-12)
        schedule.step()


def test_averages_that_are_refused() -> None:
    with pytest.raises(sf.ArgumentError, match="not both"):
        _averaged([], avg_fn=abs, multi_avg_fn=abs)
    with pytest.raises(sf.ArgumentError, match="decay must be from 0 to 1"):
        swa_utils.get_ema_avg_fn(2.0)
    with pytest.raises(sf.ArgumentError, match="anneal_strategy"):
        swa_utils.SWALR(sf.optim.SGD([sf.zeros(1, requires_grad=True)]), 0.1, 3, "exp")


def test_hooks_stand_around_eager_steps() -> None:
    w = sf.ones(2, requires_grad=True)
    opt, seen = sf.optim.SGD([w], lr=0.5), []
    before = opt.register_step_pre_hook(lambda o, a, k: seen.append((o is opt, a, w.tolist())))
    with opt.register_step_post_hook(lambda o, a, k: seen.append((o is opt, k, w.tolist()))):
        w.grad = sf.ones(2)
        opt.step()
    before.remove()
    opt.step()
    assert seen == [(True, (), [1.0, 1.0]), (True, {}, [0.5, 0.5])]


def test_a_closure_is_recorded_also_where_nothing_else_is() -> None:
    w = sf.ones(1, requires_grad=True)
    opt = sf.optim.SGD([w], lr=0.25)

    def closure() -> Any:
        opt.zero_grad()
        loss = (w**2).sum()
        loss.backward()
        return loss

    with sf.no_grad():
        assert opt.step(closure).item() == 1.0
    assert w.item() == 0.5


# -- modules as functions -------------------------------------------------------------------------


def test_a_module_is_a_function_of_its_parameters() -> None:
    model, x = _model(), sf.randn(4, 2)
    names = [*dict(model.named_parameters()), *dict(model.named_buffers())]
    other = _model()
    given = {n: t.detach().clone() for n, t in other.state_dict().items()}
    before = {n: t.clone() for n, t in model.state_dict().items()}
    w = given["0.weight"].requires_grad_()
    out = sf.func.functional_call(model, given, x, strict=True)
    sf.testing.assert_close(out, other(x))
    out.sum().backward()
    assert w.grad is not None and all(p.grad is None for p in model.parameters())
    assert given["1.num_batches_tracked"] == 1  # what the forward changed is the given one
    for name in names:
        assert model.state_dict()[name].equal(before[name])
    assert isinstance(model[0].weight, nn.Parameter)


def test_a_gradient_through_a_step_of_training() -> None:
    model = nn.Linear(1, 1, bias=False)
    weights = dict(model.named_parameters())
    x, y = sf.tensor([[1.0], [2.0]]), sf.tensor([[3.0], [5.0]])
    loss = F.mse_loss(sf.func.functional_call(model, weights, x), y)
    (g,) = sf.autograd.grad(loss, [model.weight], create_graph=True)
    after = F.mse_loss(sf.func.functional_call(model, {"weight": model.weight - 0.1 * g}, (x,)), y)
    after.backward()
    w = model.weight.item()
    fast = w - 0.1 * (5 * w - 13)  # of ((w - 3)**2 + (2 w - 5)**2) / 2
    assert model.weight.grad is not None
    assert model.weight.grad.item() == pytest.approx((5 * fast - 13) * 0.5, rel=1e-4)


def test_tied_weights_are_replaced_together() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    double, x = {"0.weight": 2 * sf.tensor(np.eye(2, dtype="f4"))}, sf.ones(2)
    with sf.no_grad():
        model[0].weight.copy_(sf.tensor(np.eye(2, dtype="f4")))
    assert sf.func.functional_call(model, double, x).tolist() == [4.0, 4.0]
    assert sf.func.functional_call(model, double, x, tie_weights=False).tolist() == [2.0, 2.0]


def test_keywords_several_dicts_and_what_is_refused() -> None:
    layer = nn.Linear(2, 1)
    parts: Any = ({"weight": sf.ones(1, 2)}, {"bias": sf.ones(1)})
    assert sf.func.functional_call(layer, parts, kwargs={"input": sf.ones(2)}).item() == 3.0
    for given, says in (
        ({"w": sf.ones(1, 2)}, "w is not there"),
        ((parts[0], parts[0]), "given twice"),
    ):
        with pytest.raises(sf.ArgumentError, match=rf"functional_call of Linear: .*{says}"):
            sf.func.functional_call(layer, given, sf.ones(2))
    with pytest.raises(sf.ArgumentError, match="bias is missing"):
        sf.func.functional_call(layer, parts[0], sf.ones(2), strict=True)


def test_a_graph_takes_the_given_tensors() -> None:
    layer, w, x = nn.Linear(2, 1, bias=False), sf.ones(1, 2), sf.placeholder((None, 2), name="x")
    program = sf.compile([x], sf.func.functional_call(layer, {"weight": w}, x))
    assert program(np.ones((3, 2), np.float32)).tolist() == [[2.0]] * 3


def test_a_state_that_does_not_fit_is_a_runtime_error_as_well() -> None:
    with pytest.raises(RuntimeError, match=r"weight has shape \[1, 3\], and \[1, 2\] is needed"):
        nn.Linear(2, 1).load_state_dict(nn.Linear(3, 1).state_dict())
