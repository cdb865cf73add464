"""Layers, losses, optimisers and the models of the examples on a GPU: what they give on the CPU."""

from __future__ import annotations

import copy
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpus import assert_agree, there
from slices import daily

import staticflow as sf
from staticflow import nn
from staticflow.comparison.job import Request
from staticflow.comparison.requests import job_of
from staticflow.nn import functional as F
from staticflow.pytree import flatten
from tests.arguments.public_layers import layers
from tests.comparison.test_examples_compared import FOLDER, MODELS
from tests.nn.loss_cases import inputs

pytestmark = pytest.mark.usefixtures("gpu")

DEVICES = ("cuda", "cpu")
LOSSES = json.loads((Path(__file__).parents[1] / "reference" / "losses.json").read_text())
LAYERS = {p.name: p.make for p in layers() if p.name.endswith("()") and "Loss" not in p.name}


def backward(outs: Any) -> None:
    """Gradients of everything that has a history."""
    real = [t for t in flatten(outs)[0] if isinstance(t, sf.Tensor) and t.requires_grad]
    sf.autograd.backward([t.sum() for t in real])


@pytest.mark.parametrize("name", list(LAYERS))
def test_a_layer(name: str) -> None:
    sf.manual_seed(0)
    module, args, _ = LAYERS[name]()
    found = []
    for device in DEVICES:
        sf.manual_seed(1)  # of what is dropped
        twin = copy.deepcopy(module).to(device)
        given = [a.detach().to(device).requires_grad_() for a in args]
        outs = twin(*given)
        backward(outs)
        found.append([outs, [t.grad for t in given], {n: p.grad for n, p in twin.named_parameters()},
                      dict(twin.named_buffers())])  # fmt: skip
    assert_agree(*found, name)


@pytest.mark.parametrize("case", LOSSES, ids=lambda case: f"{case[0]} of {case[1]}")
def test_a_loss(case: Any) -> None:
    name, kind, options, _, _ = case
    arrays = [a.astype("f4") if a.dtype.kind == "f" else a for a in inputs(kind)]
    found = []
    for device in DEVICES:
        given = there(arrays, device)
        given[0].requires_grad_()
        named = {
            n: sf.tensor(v, dtype="float32", device=device) if isinstance(v, list) else v
            for n, v in options.items()
        }
        loss = getattr(F, name)(*given, **named)
        loss.backward()
        found.append([loss, given[0].grad])
    assert_agree(*found, name)


def test_rows_of_a_table_are_looked_up() -> None:
    index = np.array([[1, 2, 1], [4, 1, 0]])
    found = []
    for device in DEVICES:
        sf.manual_seed(0)
        table = nn.Embedding(5, 3, padding_idx=2).to(device)
        outs = [table(there(index, device))]
        bags = [nn.EmbeddingBag(5, 3, mode=mode).to(device) for mode in ("sum", "mean", "max")]
        outs += [bag(there(index, device)) for bag in bags]
        backward(outs)
        found.append([outs, table.weight.grad, *(bag.weight.grad for bag in bags)])
    assert_agree(*found)


OPTIMISERS = [
    n for n in sf.optim.__all__
    if inspect.isclass(getattr(sf.optim, n)) and issubclass(getattr(sf.optim, n), sf.optim.Optimizer)
    and n != "Optimizer"
]  # fmt: skip


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser(name: str) -> None:
    rng = np.random.default_rng(0)
    shapes = ((2, 4), (3, 3)) if name == "Muon" else ((3,), (), (2, 4), (0,))
    arrays = [rng.standard_normal(s).astype("f4") for s in shapes]
    found = []
    for device in DEVICES:
        ws = there(arrays, device, requires_grad=True)
        optimiser: Any = getattr(sf.optim, name)(ws, lr=0.05)

        def closure(ws: Any = ws, optimiser: Any = optimiser) -> Any:
            optimiser.zero_grad()
            loss = sum(((w - 0.5) ** 2 * (i + 1)).sum() for i, w in enumerate(ws))
            loss.backward()
            return loss

        for _ in range(3):
            optimiser.step(closure)
        copy.deepcopy(optimiser).load_state_dict(optimiser.state_dict())
        found.append(ws)
    assert_agree(*found, name)


def check_step(model: str) -> None:
    """By another device and nothing else. In float64: a step of Adam goes by the signs of gradients
    that are 0 but for rounding."""
    job = job_of(Request(f"{FOLDER}/{model}", steps=1)).in_dtype("float64")
    batch = job.batches(1)[0]
    found = []
    for device in DEVICES:
        net = job.make_model().to(device)
        sf.manual_seed(1)
        arguments = there(list(batch), device)
        output = job.output_of(net, arguments)
        loss = output.sum() if job.loss is None else job.loss_of(output, arguments)
        optimiser = job.make_optimizer(net)
        loss.backward()
        gradients = {n: p.grad for n, p in net.named_parameters()}
        if optimiser is not None:
            optimiser.step()
        found.append([loss, gradients, dict(net.named_parameters())])
    assert_agree(*found, model)


@pytest.mark.parametrize("model", daily(MODELS, 4, "devices"))
def test_a_training_step_of_an_example(model: str) -> None:
    check_step(model)


@pytest.mark.campaign
@pytest.mark.parametrize("model", MODELS)
def test_a_training_step_of_each_example(model: str) -> None:
    check_step(model)


# -- random numbers, hooks, files -----------------------------------------------------------------

DRAWS: dict[str, Any] = {
    "rand": lambda d: sf.rand(100, device=d),
    "randn": lambda d: sf.randn(3, 7, device=d),
    "randint": lambda d: sf.randint(0, 10, (50,), device=d),
    "randperm": lambda d: sf.randperm(20, device=d),
    "normal": lambda d: sf.normal(1.0, 2.0, (9,), device=d),
    "like": lambda d: sf.randn_like(sf.ones(5, device=d, dtype=sf.float64)),
    "dropout": lambda d: sf.dropout(sf.ones(64, device=d), 0.5),
    "bernoulli": lambda d: sf.bernoulli(sf.full((40,), 0.3, device=d)),
    "multinomial": lambda d: sf.multinomial(sf.tensor([0.1, 0.5, 0.4], device=d), 20, True),
    "uniform_": lambda d: sf.empty(10, device=d).uniform_(-1, 1),
    "normal_": lambda d: sf.empty(10, device=d).normal_(),
    "exponential_": lambda d: sf.empty(10, device=d).exponential_(),
    "log_normal_": lambda d: sf.empty(10, device=d).log_normal_(),
    "cauchy_": lambda d: sf.empty(10, device=d).cauchy_(),
    "geometric_": lambda d: sf.empty(10, device=d).geometric_(0.5),
}


@pytest.mark.parametrize("name", list(DRAWS))
def test_draws_are_those_of_the_cpu(name: str) -> None:
    """Bit by bit: by the same counters."""
    found = []
    for device in DEVICES:
        sf.manual_seed(3)
        drawn = DRAWS[name](device)
        assert drawn.device.type == device
        found.append(drawn.cpu().numpy().tobytes())
    assert found[0] == found[1]


def test_derivatives_are_checked_there() -> None:
    x = sf.tensor([[0.5, -1.0]], dtype=sf.float64, device="cuda", requires_grad=True)
    assert sf.autograd.gradcheck(lambda t: (t * t).sin(), (x,))
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        sf.autograd.gradcheck(lambda t: t * t.detach(), (x,))


def test_lengths_of_sequences_may_stay_on_the_cpu() -> None:
    scores = sf.randn(5, 2, 4).log_softmax(-1)
    targets, steps = sf.tensor([[1, 2], [1, 3]]), sf.tensor([5, 4])
    theirs = F.ctc_loss(scores.cuda(), targets.cuda(), steps, sf.tensor([2, 2]))
    assert_agree(theirs, F.ctc_loss(scores, targets, steps, sf.tensor([2, 2])))


def test_hooks_see_what_is_there() -> None:
    seen: list[Any] = []
    layer = nn.Linear(3, 2).to("cuda")
    layer.register_forward_hook(lambda module, args, out: seen.append(out))
    layer.register_full_backward_hook(lambda module, ins, outs: seen.append(outs[0]))
    layer.weight.register_hook(lambda grad: seen.append(grad) or grad * 2)
    layer.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
    layer(sf.ones(4, 3, device="cuda", requires_grad=True)).sum().backward()
    assert len(seen) == 4 and all(t.is_cuda for t in seen)
    assert (layer.weight.grad == 8).all()


def test_state_is_saved_and_loaded(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to("cuda")
    optimiser = sf.optim.Adam(model.parameters())
    model(sf.ones(4, 3, device="cuda")).sum().backward()
    optimiser.step()
    sf.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, tmp_path / "state")
    for location in ("cpu", "cuda", None):
        state = sf.load(tmp_path / "state", map_location=location)
        assert {t.device.type for t in state["model"].values()} == {location or "cuda"}
        twin = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to("cuda")
        twin.load_state_dict(state["model"])
        other = sf.optim.Adam(twin.parameters())
        other.load_state_dict(state["optimiser"])
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            assert q.is_cuda and p.tolist() == q.tolist()
            assert other.state[q]["exp_avg"].is_cuda


def losses_in_few_bits(device: str) -> list[float]:
    """The losses of a script of mixed precision that names its device once."""
    sf.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
    optimiser = sf.optim.SGD(model.parameters(), lr=0.1)
    scaler = sf.amp.GradScaler(device, init_scale=2.0**40, growth_interval=2)
    x = sf.linspace(-1, 1, 12, device=device).reshape(3, 4)
    found = []
    for _ in range(30):
        optimiser.zero_grad()
        with sf.autocast(device, dtype=sf.float16):
            loss = (model(x).float() - 1).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimiser)
        scaler.update()
        found.append(loss.item())
    state = scaler.state_dict()
    scaler.load_state_dict(state)
    return [*found, scaler.get_scale()]


def test_mixed_precision() -> None:
    on_gpu, on_cpu = map(losses_in_few_bits, DEVICES)
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=5e-3)
    assert on_gpu[-1] < 2.0**40 and on_gpu[-2] < on_gpu[0] / 2  # the first steps were left out


def test_the_scale_is_where_the_losses_are() -> None:
    loss = sf.ones(2, device="cuda").sum()
    assert sf.amp.GradScaler("cuda").scale(loss).is_cuda
    assert sf.amp.GradScaler("cpu").scale(loss).is_cuda  # of no dims, it may stand beside it
    with pytest.raises(sf.DeviceError, match=r"cuda:0 and cpu|cpu and cuda:0"):
        sf.amp.GradScaler("cuda").scale(sf.ones(2))
