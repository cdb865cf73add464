"""Lazy layers: what the first call makes of them, and what they are before."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.nn.lazy import LazyModuleMixin

NAMES = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip
RNG = np.random.default_rng(0)


def arguments_of(name: str) -> tuple[list[Any], tuple[int, ...]]:
    """The arguments of a lazy layer, and the shape of what it takes; the open size is 4."""
    if name == "LazyLinear":
        return [3], (2, 5, 4)
    spatial = (5,) * int(name[-2])
    return ([6, 2] if "Conv" in name else []), (2, 4, *spatial)


def make_both(name: str) -> tuple[Any, Any, np.ndarray[Any, Any]]:
    """A lazy layer, the plain one that it becomes, which starts as it will, and an input."""
    args, shape = arguments_of(name)
    lazy = getattr(nn, name)(*args, dtype=sf.float64)
    options = {"affine": True, "track_running_stats": True} if "Norm" in name else {}
    sf.manual_seed(3)
    plain = getattr(nn, name.removeprefix("Lazy"))(4, *args, dtype=sf.float64, **options)
    sf.manual_seed(3)
    return lazy, plain, RNG.standard_normal(shape)


def compiled(layer: Any, x: np.ndarray[Any, Any]) -> Any:
    symbol = sf.placeholder((None, *x.shape[1:]), "float64")
    return sf.compile([symbol], layer(symbol))(x)


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "eager": lambda layer, x: layer(sf.from_numpy(x)),
    "by name": lambda layer, x: layer(input=sf.from_numpy(x)),
    "compile": compiled,
    "jit": lambda layer, x: sf.jit(layer)(x),
    "jit of known sizes": lambda layer, x: sf.jit(layer, dynamic=False)(x),
    "checkpoint": lambda layer, x: sf.utils.checkpoint.checkpoint(layer, sf.from_numpy(x)),
    "no_grad": sf.no_grad()(lambda layer, x: layer(sf.from_numpy(x))),
    "inference": sf.inference_mode()(lambda layer, x: layer(sf.from_numpy(x))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_the_first_call_makes_it_the_plain_layer(name: str, way: str) -> None:
    lazy, plain, x = make_both(name)
    held = dict(lazy.named_parameters())
    found = WAYS[way](lazy, x)
    np.testing.assert_allclose(found.detach().numpy(), WAYS[way](plain, x).detach().numpy(), 1e-12)
    assert type(lazy) is type(plain) and repr(lazy) == repr(plain)
    assert all(held[n] is p for n, p in lazy.named_parameters())
    assert {n: t.shape for n, t in lazy.state_dict().items()} == {
        n: t.shape for n, t in plain.state_dict().items()
    }
    for ours, theirs in zip(lazy.state_dict().values(), plain.state_dict().values(), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-12)
    for layer in (lazy, plain):
        layer(sf.from_numpy(x)).square().sum().backward()
    for ours, theirs in zip(lazy.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), 1e-10)


@pytest.mark.parametrize("name", [n for n in NAMES if "Conv" in n or "Instance" in n])
def test_one_image_without_a_batch_tells_the_channels(name: str) -> None:
    lazy, plain, x = make_both(name)
    found = lazy(sf.from_numpy(x[0]))
    np.testing.assert_allclose(found.detach().numpy(), plain(sf.from_numpy(x[0])).detach().numpy())


def make_net() -> Any:
    return nn.Sequential(
        nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2)
    )


@pytest.mark.parametrize("is_jitted", [False, True])
def test_a_net_trains_by_an_optimiser_made_before_its_first_call(is_jitted: bool) -> None:
    def train(net: Any, opt: Any) -> list[float]:
        call = sf.jit(net) if is_jitted else net
        losses = []
        for size in (2, 3, 2):
            opt.zero_grad()
            loss = call(sf.from_numpy(images[:size])).square().mean()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        return losses

    images = RNG.standard_normal((3, 1, 6, 6)).astype(np.float32)
    sf.manual_seed(1)
    net = make_net()
    assert len(list(net.parameters())) == 6
    losses = train(net, sf.optim.Adam(net.parameters(), 0.1))
    sf.manual_seed(1)
    plain = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    )
    wanted = train(plain, sf.optim.Adam(plain.parameters(), 0.1))
    np.testing.assert_allclose(losses, wanted, 1e-5)


def test_a_trace_of_jit_stays_open_in_all_but_the_channels() -> None:
    call = sf.jit(make_net())
    assert [call(sf.ones(n, 1, 6, 6)).shape for n in (2, 3)] == [(2, 2), (3, 2)]
    assert call.trace_count == 1
    with pytest.raises(ValueError, match="arg0_1 and 1 must be equal"):
        call(sf.ones(2, 3, 6, 6))


def test_an_unknown_size_is_refused_and_leaves_the_layer_as_it_was() -> None:
    layer = nn.LazyLinear(3)
    with pytest.raises(ValueError, match=r"shape \[x_0, x_1\].*in_features.*call the layer once"):
        layer(sf.placeholder((None, None), name="x"))
    assert type(layer) is nn.LazyLinear and layer.has_uninitialized_params()
    assert layer(sf.placeholder((None, 2), name="x")).shape[1] == 3


def test_loops_and_vmap_may_be_what_calls_it_first() -> None:
    layer = nn.LazyLinear(4)
    looped = sf.jit(lambda x: sf.fori_loop(0, 2, lambda i, c: layer(c), x))(sf.ones(3, 4))
    sf.testing.assert_close(looped, layer(layer(sf.ones(3, 4))))
    rows = nn.LazyLinear(2)
    sf.testing.assert_close(sf.vmap(rows)(sf.ones(3, 4)), rows(sf.ones(3, 4)))


@pytest.mark.parametrize(
    ("make", "shape", "message"),
    [
        (lambda: nn.LazyLinear(2), (), "1 dim at least"),
        (lambda: nn.LazyConv2d(2, 3), (4,), "3 or 4 dims"),
        (lambda: nn.LazyConv2d(6, 3, groups=3), (1, 4, 5, 5), "4 channels.*multiple of groups 3"),
        (lambda: nn.LazyConvTranspose1d(2, 3), (1, 2, 3, 4), "2 or 3 dims"),
        (lambda: nn.LazyBatchNorm1d(), (3,), "2 or 3 dims"),
        (lambda: nn.LazyInstanceNorm3d(), (3, 3), "4 or 5 dims"),
    ],
)
def test_a_first_call_that_fails_leaves_it_lazy(make: Any, shape: Any, message: str) -> None:
    layer = make()
    kind, before, seeds = type(layer), repr(layer), sf.get_rng_state().tolist()
    with pytest.raises(ValueError, match=message):
        layer(sf.ones(*shape) if shape else sf.tensor(1.0))
    assert type(layer) is kind and repr(layer) == before
    assert sf.get_rng_state().tolist() == seeds
    assert all(repr(p) == "<UninitializedParameter>" for p in layer.parameters())


def test_first_values_that_cannot_be_made_leave_it_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    # native draws are not given back where other threads may draw, and other tests leave some
    monkeypatch.setattr("staticflow.eager.random.active_count", lambda: 1)

    class Faulty(nn.LazyLinear):
        fails = True

        def reset_parameters(self) -> None:
            super().reset_parameters()
            if self.fails and self.in_features:
                raise RuntimeError("no values today")

    layer = Faulty(3)
    weight, seeds = layer.weight, sf.get_rng_state().tolist()
    with pytest.raises(RuntimeError, match="no values today"):
        layer(sf.ones(1, 2))
    assert layer.weight is weight and repr(weight) == "<UninitializedParameter>"
    assert layer.in_features == 0 and sf.get_rng_state().tolist() == seeds
    Faulty.fails = False
    assert layer(sf.ones(1, 4)).shape == (1, 3) and weight.shape == (3, 4)


def test_a_first_call_that_fails_leaves_the_layer_lazy() -> None:
    layer = nn.LazyConv1d(3, 2)
    weight, seeds = layer.weight, sf.get_rng_state().tolist()
    for wrong in (
        lambda: layer(sf.ones(1, 2, 4), no_such_argument=1),
        lambda: layer(sf.ones(1, 2, 4, dtype=sf.int64)),
        lambda: layer(sf.ones(1, 2, 1)),
    ):
        with pytest.raises((sf.StaticflowError, TypeError)):
            wrong()
        assert type(layer) is nn.LazyConv1d and layer.in_channels == 0
        assert layer.weight is weight and repr(weight) == "<UninitializedParameter>"
    assert threading.active_count() > 1 or sf.get_rng_state().tolist() == seeds
    assert layer(sf.ones(1, 5, 4)).shape == (1, 3, 3) and weight.shape == (3, 5, 2)


def test_states_go_both_ways() -> None:
    plain = nn.Linear(2, 3)
    lazy = nn.LazyLinear(3)
    weight = lazy.weight
    assert lazy.load_state_dict(lazy.state_dict()) == ([], [])
    assert list(lazy.state_dict()) == ["weight", "bias"]
    lazy.load_state_dict(plain.state_dict())
    assert type(lazy) is nn.LazyLinear and lazy.weight is weight and weight.shape == (3, 2)
    sf.testing.assert_close(lazy(sf.ones(1, 2)), plain(sf.ones(1, 2)))
    assert type(lazy) is nn.Linear and repr(lazy) == repr(plain)
    with pytest.raises(sf.errors.CheckpointError, match=r"weight has no sizes yet, and \[3, 2\]"):
        plain.load_state_dict(nn.LazyLinear(3).state_dict())
    taken = nn.LazyLinear(3)
    taken.load_state_dict(plain.state_dict(), assign=True)
    sf.testing.assert_close(taken(sf.ones(1, 2)), plain(sf.ones(1, 2)))


@pytest.mark.parametrize(
    ("layer", "given", "message"),
    [
        (nn.LazyLinear(3), nn.Linear(2, 5), r"weight has shape \[5, 2\], and \[3, in_features\]"),
        (nn.LazyConv1d(4, 2, groups=2), nn.Conv1d(4, 6, 2), r"\[4, in_channels//2, 2\] is need"),
        (nn.LazyBatchNorm1d(), nn.Linear(2, 3), r"weight has shape \[3, 2\], and \[num_features\]"),
    ],
)
def test_a_state_of_another_layer_is_refused(layer: Any, given: Any, message: str) -> None:
    with pytest.raises(sf.errors.CheckpointError, match=message):
        layer.load_state_dict(given.state_dict())
    assert all(repr(p) == "<UninitializedParameter>" for p in layer.parameters())


def test_what_was_loaded_stays_and_must_fit_the_input() -> None:
    layer = nn.LazyLinear(3)
    weight = sf.arange(6.0).reshape(3, 2)
    layer.load_state_dict({"weight": weight}, strict=False)
    with pytest.raises(ValueError, match=r"weight, which was loaded, has shape \[3, 2\]"):
        layer(sf.ones(1, 4))
    layer(sf.ones(1, 2))
    sf.testing.assert_close(layer.weight.detach(), weight)
    assert layer.bias.detach().abs().max() <= 2**-0.5 and layer.bias.any()


def test_it_can_be_copied_cast_and_frozen_before() -> None:
    for copied in (copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))):
        first = nn.LazyLinear(3).double()
        first.weight.requires_grad_(False)
        second = copied(first)
        assert second.weight is not first.weight and second.weight.dtype is sf.float64
        second(sf.ones(1, 2, dtype=sf.float64))
        assert first.has_uninitialized_params() and type(second) is nn.Linear
        assert not second.weight.requires_grad and second.bias.requires_grad


def test_a_function_applied_to_all_modules_meets_it_as_it_is() -> None:
    def init(module: Any) -> None:
        if type(module) is nn.Linear:
            nn.init.constant_(module.weight, 2.0)

    net = make_net()
    net.apply(init)
    net(sf.ones(1, 1, 6, 6))
    assert not (net[4].weight == 2).any()
    net.apply(init)
    assert (net[4].weight == 2).all()


USES: dict[str, Callable[[Any], Any]] = {
    "shape": lambda w: w.shape, "numel": lambda w: w.numel(), "product": lambda w: w * 2,
    "product from the left": lambda w: sf.ones(2) @ w, "function": sf.exp, "array": np.asarray,
    "ufunc": np.exp, "graph": lambda w: sf.placeholder((2,)) + w, "row": lambda w: w[0],
    "trace": lambda w: sf.jit(lambda x: x + w)(sf.ones(2)), "length": len, "copy": sf.tensor,
    "data": lambda w: setattr(w, "data", sf.ones(2)), "init": nn.init.xavier_uniform_,
    "fill": lambda w: w.fill_(1), "grad": lambda w: setattr(w, "grad", sf.ones(0)),
    "zeros": sf.zeros_like, "item": lambda w: w.item(), "clone": lambda w: w.clone(),
    "number": float, "truth": bool, "elements": list, "item access": lambda w: w.tolist(),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", [nn.UninitializedParameter, nn.UninitializedBuffer])
def test_whatever_asks_for_sizes_or_values_is_refused(kind: Any, use: str) -> None:
    with pytest.raises(sf.errors.ShapeError, match="before the first call"):
        USES[use](kind())


def test_a_state_without_values_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(sf.errors.CheckpointError, match="before the first call"):
        sf.save(nn.LazyLinear(2).state_dict(), tmp_path / "state")


def test_a_layer_of_the_users_may_be_lazy() -> None:
    class Scale(LazyModuleMixin):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.UninitializedParameter()
            self.register_buffer("calls", nn.UninitializedBuffer(dtype=sf.int64))

        def initialize_parameters(self, x: Any, knows_all: bool = True) -> None:
            if self.has_uninitialized_params():
                self.factor.materialize(x.shape[-1:])
                nn.init.ones_(self.factor)
                if knows_all:
                    self.calls.materialize(())

        def forward(self, x: Any, knows_all: bool = True) -> Any:
            return x * self.factor

    with pytest.raises(sf.errors.ShapeError, match="has left calls without sizes"):
        Scale()(sf.ones(3), knows_all=False)
    scale = Scale()
    assert scale(sf.ones(2, 3)).shape == (2, 3)
    assert scale(sf.ones(3)).tolist() == [1.0] * 3 and type(scale) is Scale
    assert type(scale.calls) is sf.Tensor and scale.calls.dtype is sf.int64
    with pytest.raises(NotImplementedError, match="initialize_parameters"):
        LazyModuleMixin()(sf.ones(1))


def test_an_averaged_model_may_be_of_lazy_layers() -> None:
    assert len(list(sf.optim.swa_utils.AveragedModel(nn.LazyLinear(3)).parameters())) == 2
