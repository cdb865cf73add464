"""The scaler of losses, eagerly and in a compiled step."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.amp import GradScaler

RNG = np.random.default_rng(0)
INPUTS = [
    RNG.normal(size=(4, 3)).astype(np.float32) * (1e38 if i % 4 == 2 else 1) for i in range(8)
]
"""Of which every fourth overflows."""

SCALES = [
    (1024.0, 1), (2048.0, 0), (1024.0, 0), (1024.0, 1), (2048.0, 0), (2048.0, 1), (1024.0, 0),
    (1024.0, 1),
]  # fmt: skip
"""PyTorch's scale and count after each step, where it grows every second step."""

OPTIMISERS = {
    "sgd": lambda params: sf.optim.SGD(params, lr=1e-3, momentum=0.9),
    "adam": lambda params: sf.optim.Adam(params, lr=1e-2),
}


def _begin(name: str) -> tuple[Any, Any, GradScaler]:
    w = sf.full((3, 2), 0.1).requires_grad_()
    return w, OPTIMISERS[name]([w]), GradScaler(init_scale=1024.0, growth_interval=2)


def _after(scaler: GradScaler) -> tuple[float, int]:
    return scaler.get_scale(), scaler.state_dict()["_growth_tracker"]


def _loss(x: Any, w: Any) -> Any:
    with sf.autocast():
        return (x @ w).float().square().sum()


@pytest.mark.parametrize("name", OPTIMISERS)
def test_both_modes_scale_skip_and_grow_as_pytorch(name: str) -> None:
    w, opt, scaler = _begin(name)
    eager = []
    for x in INPUTS:
        opt.zero_grad()
        before = w.tolist()
        scaler.scale(_loss(sf.tensor(x), w)).backward()
        scaler.step(opt)
        assert (w.tolist() == before) == (abs(x).max() > 1e6)
        scaler.update()
        eager.append(_after(scaler))
    assert eager == SCALES
    v, opt, scaler = _begin(name)
    x = sf.placeholder((4, 3))
    loss = _loss(x, v)
    step = sf.compile([x], loss, updates=scaler.minimize(opt, loss))
    compiled = []
    for x in INPUTS:
        step(x)
        compiled.append(_after(scaler))
    assert compiled == SCALES
    np.testing.assert_allclose(v.tolist(), w.tolist(), rtol=1e-6)


def test_clipping_between() -> None:
    w, opt, scaler = _begin("sgd")
    scaler.scale((w * 3).sum()).backward()
    scaler.unscale_(opt)
    np.testing.assert_array_equal(w.grad.numpy(), np.full((3, 2), 3.0))
    sf.nn.utils.clip_grad_value_([w], 1.0)
    scaler.step(opt)
    scaler.update()
    np.testing.assert_allclose(w.tolist(), np.full((3, 2), 0.1 - 1e-3), rtol=1e-6)
    v, opt, scaler = _begin("sgd")
    x = sf.placeholder((3, 2))
    grads = scaler.unscale(opt.gradients(scaler.scale((v * x).sum())))
    clipped = {p: g.clamp(-1, 1) for p, g in grads.items()}
    step = sf.compile([x], grads[v], updates=scaler.updates(opt, clipped))
    np.testing.assert_array_equal(step(np.full((3, 2), 3, np.float32)).numpy(), np.full((3, 2), 3))
    np.testing.assert_allclose(v.tolist(), w.tolist(), rtol=1e-6)


def test_a_closure_and_calls_out_of_order_are_refused() -> None:
    w, opt, scaler = _begin("sgd")
    with pytest.raises(sf.ArgumentError, match="no gradients were looked at"):
        scaler.update()
    with pytest.raises(sf.ArgumentError, match="takes no closure"):
        scaler.step(opt, lambda: None)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(opt)
    with pytest.raises(sf.ArgumentError, match="already been called on this optimizer"):
        scaler.unscale_(opt)
    scaler.step(opt)
    with pytest.raises(sf.ArgumentError, match=r"is called after step\(\)"):
        scaler.unscale_(opt)
    with pytest.raises(sf.ArgumentError, match=r"step\(\) has already been called"):
        scaler.step(opt)
    scaler.update(7.0)
    assert scaler.get_scale() == 7.0


def test_in_a_trace_the_way_is_named() -> None:
    _, opt, scaler = _begin("sgd")

    @sf.jit
    def step(x: Any) -> Any:
        scaler.step(opt)
        return x

    with pytest.raises(sf.SymbolicError, match=r"updates=scaler.minimize\(optimizer, loss\)"):
        step(sf.ones(2))


def test_gradients_of_float16_are_refused() -> None:
    w = sf.ones(2, dtype=sf.float16, requires_grad=True)
    opt, scaler = sf.optim.SGD([w], lr=0.1), GradScaler()
    scaler.scale(w.float().sum()).backward()
    with pytest.raises(sf.DTypeError, match="a gradient is of float16"):
        scaler.step(opt)


def test_not_enabled_it_does_nothing() -> None:
    w, opt, _ = _begin("sgd")
    scaler = GradScaler(enabled=False)
    loss = w.sum()
    assert scaler.scale(loss) is loss
    assert (scaler.get_scale(), scaler.is_enabled(), scaler.state_dict()) == (1.0, False, {})
    loss.backward()
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()
    np.testing.assert_allclose(w.tolist(), np.full((3, 2), 0.1 - 1e-3), rtol=1e-6)
    assert scaler.minimize(opt, (w * sf.placeholder((3, 2))).sum()).keys() >= {w}


def test_its_state() -> None:
    scaler = GradScaler("cpu", 4.0, 3.0, 0.25, 5)
    state = scaler.state_dict()
    assert state == {
        "scale": 4.0, "growth_factor": 3.0, "backoff_factor": 0.25, "growth_interval": 5,
        "_growth_tracker": 0,
    }  # fmt: skip
    other = GradScaler()
    other.load_state_dict(state | {"_growth_tracker": 2})
    assert copy.deepcopy(other).state_dict() == state | {"_growth_tracker": 2}
    with pytest.raises(sf.CheckpointError, match="is not enabled is empty"):
        other.load_state_dict({})
    for name, value in (("growth_factor", 1.0), ("backoff_factor", 1.0), ("growth_interval", 0)):
        with pytest.raises(sf.ArgumentError, match="must be"):
            GradScaler(**{name: value})


def test_several_outputs() -> None:
    scaler = GradScaler(init_scale=8.0)
    one, (two,) = scaler.scale([sf.ones(()), (sf.ones(()),)])
    assert (one.item(), two.item()) == (8.0, 8.0)
    with pytest.raises(sf.DTypeError, match="must be a tensor"):
        scaler.scale(2.0)
