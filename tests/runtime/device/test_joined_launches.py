"""Small launches that do not depend on each other are one, and give what they gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cuda_case import Case, assert_same, emulated, interpreted, sample
from device_programs import assert_alike, compiled, normal
from emulated_device import EmulatedDevice, emulated_gpus
from emulator import ORDERS, Module

import staticflow as sf
from staticflow.codegen.cuda.render import render_cuda_module
from staticflow.codegen.program import joined_launches
from staticflow.codegen.program.routine import Launch
from staticflow.codegen.verify import verify_kernel

Optimiser = Callable[[Any], Any]

OPTIMISERS: dict[str, Optimiser] = {
    "sgd": lambda p: sf.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: sf.optim.Adam(p, lr=0.01),
    "adamw": lambda p: sf.optim.AdamW(p, lr=0.01, weight_decay=0.1),
}


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    with emulated_gpus() as devices:
        yield devices[0]


def step_of(optimiser: Optimiser, device: str) -> tuple[Any, list[Any]]:
    """An update of 20 parameters of different sizes, whose gradients are elementwise, and what it
    updates."""
    params = [
        sf.nn.Parameter(sf.tensor(normal(3 + i % 5, 2 + i, seed=i)).to(device)) for i in range(20)
    ]
    opt = optimiser(params)
    loss = sum((p * p * (i + 1)).sum() for i, p in enumerate(map(sf.symbol, params)))
    return sf.compile([], loss, updates=opt.minimize(loss)), params


def launches_of(program: Any) -> int:
    return sum(isinstance(s, Launch) for s in program._executable.program.steps)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_updates_of_all_parameters_are_one_launch(
    gpu: EmulatedDevice, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_gpu, params = step_of(OPTIMISERS[name], "cuda")
    on_cpu, others = step_of(OPTIMISERS[name], "cpu")
    for _ in range(3):
        assert_alike(on_gpu(), on_cpu())
    assert_alike([p.detach() for p in params], [p.detach() for p in others])
    monkeypatch.setattr(joined_launches, "_FEW", 0)
    joined = [k for k in on_gpu._executable.program.kernels if "joined" in k.name]
    alone, twins = step_of(OPTIMISERS[name], "cuda")
    for _ in range(3):
        alone()
    others_of = sum(k.name.startswith("reduce") for k in on_gpu._executable.program.kernels)
    assert launches_of(on_gpu) <= others_of + len(joined) + 1 and len(joined) <= 2
    assert launches_of(alone) >= launches_of(on_gpu) + 20 - len(joined)
    for p, twin in zip(params, twins, strict=True):
        assert (p.detach().cpu().numpy() == twin.detach().cpu().numpy()).all()


def test_what_depends_on_each_other_stays_in_order(gpu: EmulatedDevice) -> None:
    w = sf.nn.Parameter(sf.tensor(normal(6)).cuda())
    v = sf.tensor(normal(6, seed=1)).cuda()
    x = sf.placeholder((6,), name="x")
    symbols = sf.symbol(w), sf.symbol(v)
    updates = {w: symbols[1] * x, v: symbols[0] + symbols[0].flip(0)}
    before = [t.detach().cpu().numpy() for t in (w, v)]
    step = sf.compile([x], x + 1, updates=updates)
    step(np.full(6, 2, np.float32))
    assert_alike(w.detach(), sf.tensor(before[1] * 2))
    assert_alike(v, sf.tensor(before[0] + before[0][::-1]))


def test_a_wrong_index_updates_nothing(gpu: EmulatedDevice) -> None:
    tables = [sf.tensor(normal(5, 3, seed=i)).cuda() for i in range(3)]
    before = [t.cpu().numpy() for t in tables]
    rows = sf.placeholder((2,), "int64", name="rows")
    found = sf.symbol(tables[0])[rows].sum()
    step = sf.compile([rows], found, updates={t: sf.symbol(t) * 2 for t in tables})
    assert any("joined" in k.name for k in step._executable.program.kernels)
    for _ in range(3):
        with pytest.raises(sf.IndexRangeError, match="nothing was"):
            step(np.array([1, 5]))
    assert all((t.cpu().numpy() == b).all() for t, b in zip(tables, before, strict=True))
    step(np.array([1, 4]))
    assert all((t.cpu().numpy() == 2 * b).all() for t, b in zip(tables, before, strict=True))


def test_many_are_launches_of_some(gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_launches, "_BUFFERS", 12)
    on_gpu, params = step_of(OPTIMISERS["sgd"], "cuda")
    on_cpu, others = step_of(OPTIMISERS["sgd"], "cpu")
    assert_alike(on_gpu(), on_cpu())
    assert_alike([p.detach() for p in params], [p.detach() for p in others])
    kernels = [k for k in on_gpu._executable.program.kernels if "joined" in k.name]
    assert len(kernels) > 2 and all(len(k.buffers) <= 12 for k in kernels)


def test_sizes_that_are_not_known_are_launches_of_their_own(gpu: EmulatedDevice) -> None:
    def fn(x: Any, y: Any) -> Any:
        return x.T.exp(), y.T.tanh()

    arrays = normal(3, 4), normal(5, 6)
    for unknown, count in ((True, 2), (False, 1)):
        on_gpu, on_cpu = (compiled(fn, arrays, d, unknown) for d in ("cuda", "cpu"))
        assert launches_of(on_gpu) == count
        assert_alike(on_gpu(*arrays), on_cpu(*arrays))


def test_a_joined_kernel_does_what_the_interpreter_does(gpu: EmulatedDevice) -> None:
    def fn(x: Any, y: Any, n: Any) -> Any:
        return x.T.exp(), y.tanh() * 2, n.flip(0) + 1

    arrays = normal(3, 4), normal(70, 80), np.arange(5)  # of the second a thread moves 16 bytes
    program = compiled(fn, arrays, "cuda", unknown=False)
    (kernel,) = program._executable.program.kernels
    assert launches_of(program) == 1 and len(kernel.buffers) == 6
    verify_kernel(kernel)
    data = {b.name: sample(b.dtype, 5600, i) for i, b in enumerate(kernel.buffers)}
    case = Case(kernel.name, kernel, data)
    code, wanted = interpreted(case)
    module = Module(render_cuda_module([kernel]))
    for order in ORDERS:
        status, found = emulated(module, case, order)
        assert status == code == 0
        assert_same(case, found, wanted)
    assert_alike(program(*arrays), compiled(fn, arrays, "cpu", unknown=False)(*arrays))
