"""Compiled programs on an emulated GPU: their values are those of the CPU, in every case."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_programs import CHECKS, assert_alike, check_sizes, compiled, normal
from emulated_device import EmulatedDevice, emulated_gpus, values_now
from slices import by_days

import staticflow as sf
from staticflow.errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    IndexRangeError,
    ShapeError,
)
from staticflow.nn import functional as F

Gpus = list[EmulatedDevice]


@pytest.fixture
def gpus() -> Iterator[Gpus]:
    with emulated_gpus() as devices:
        yield devices


@pytest.fixture
def gpu(gpus: Gpus) -> EmulatedDevice:
    return gpus[0]


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_programs(gpu: EmulatedDevice, check: Callable[[], None]) -> None:
    check()
    assert gpu.counts["launch"]


def test_the_program_of_the_page(gpu: EmulatedDevice) -> None:
    page = (Path(__file__).parents[3] / "docs" / "gpu.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"x_array": normal(4, 100)}
    exec(block, names)
    assert str(names["step"].device) == str(names["power"].device) == "cuda:0"
    assert "__global__" in names["step"].source("cuda") and gpu.counts["launch"]
    assert names["power"](np.full((2, 100), 2, np.float32)).tolist() == [[8.0] * 100] * 2


@pytest.mark.parametrize("order", ["seeded"])
def test_the_order_of_threads_is_free(order: str) -> None:
    with emulated_gpus(order):
        check_sizes()


@pytest.mark.parametrize("check", by_days(CHECKS, 1, "races"))
def test_no_threads_race(check: Callable[[], None]) -> None:
    with emulated_gpus(races=True):
        check()


def test_constants_are_uploaded_once(gpu: EmulatedDevice) -> None:
    table = normal(3, 4)
    program = compiled(lambda x: x @ table.T, [normal(2, 4)], "cuda")
    uploads = gpu.counts["upload"]
    for seed in range(3):
        x = normal(2, 4, seed=seed)
        assert_alike(program(sf.tensor(x).cuda()), sf.tensor(x @ table.T))
    assert uploads == 1 and gpu.counts["upload"] == 1


def test_products_of_a_library(gpu: EmulatedDevice) -> None:
    def by_library(x: Any, w: Any, many: Any, n: Any) -> Any:
        return (
            x @ w, F.relu(x @ (w + 1) - 1), w.T @ x[::2].T, (many @ w) * many.sum(2, keepdim=True),
            many[:, :3].mT @ w[:, :1].expand(3, 2), x[:, :0] @ w[:0],
        )  # fmt: skip

    arrays = normal(5, 3), normal(3, 4), normal(2, 5, 3), np.ones((3, 3), np.int32)
    assert_alike(
        compiled(by_library, arrays, "cuda", unknown=False)(*arrays),
        compiled(by_library, arrays, "cpu", unknown=False)(*arrays),
    )
    assert gpu.counts["multiply"] == 4  # not with elements that are one in memory, nor of nothing
    compiled(lambda n: n @ n, arrays[3:], "cuda")(arrays[3])
    assert gpu.counts["multiply"] == 4  # integers are for a kernel of ours
    x, w, *_ = arrays
    program = compiled(lambda x, w: F.relu(x @ w), (x, w), "cuda")
    row = {kernel.name: kernel for kernel in program.work(x0_0=5, x0_1=3, x1_1=4)}["product"]
    assert (row.launches, row.flops, row.bytes) == (1, 2 * 5 * 3 * 4, 4 * (15 + 12 + 20))


BEHIND: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a bias": lambda x, w, b: x @ w + b,
    "a bias before": lambda x, w, b: b + x @ w,
    "relu": lambda x, w, b: F.relu(x @ w),
    "a bias and relu": lambda x, w, b: F.relu(x @ w + b),
    "a bias and gelu": lambda x, w, b: F.gelu(x @ w + b, approximate="tanh"),
    "a layer": lambda x, w, b: F.linear(x, w.T, b),
}
"""What a library can do behind a product."""


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("has", [True, False], ids=["done", "left"])
def test_what_a_library_does_behind_a_product(
    gpu: EmulatedDevice, behind: str, dtype: str, has: bool
) -> None:
    """It does so in one launch; where it has no algorithm a kernel does it. With strict numerics it
    adds biases, and no more."""
    gpu.has_epilogues = has
    arrays = [normal(*shape).astype(dtype) for shape in ((5, 3), (3, 4), (4,))]
    rtol = 2e-2 if dtype == "float16" else 2e-5
    for numerics in ("strict", "fast"):
        inputs = [sf.placeholder((None, *a.shape[1:]), dtype) for a in arrays[:1]]
        inputs += [sf.placeholder(a.shape, dtype) for a in arrays[1:]]
        on_cpu, on_gpu = (
            sf.compile(inputs, BEHIND[behind](*inputs), device=device, numerics=numerics)
            for device in ("cpu", "cuda")
        )
        wanted = on_cpu(*arrays)
        assert_alike(on_gpu(*arrays), wanted, rtol=rtol)
        gpu.counts.clear()
        assert_alike(on_gpu(*arrays), wanted, rtol=rtol)  # by a graph
        by_library = numerics == "fast" or ("relu" not in behind and "gelu" not in behind)
        assert gpu.counts["captured multiply"] == 1
        assert gpu.counts["captured"] == int(not (by_library and has))
        assert_alike(on_gpu(arrays[0][:0], *arrays[1:]), on_cpu(arrays[0][:0], *arrays[1:]))


def test_what_a_library_leaves_to_kernels(gpu: EmulatedDevice) -> None:
    """A bias that is no row of memory, or is not all that is behind; a product that is wanted too;
    and what overwrites a variable. A product of nothing has its bias, too."""

    def behind(x: Any, w: Any, b: Any) -> Any:
        h = x @ w
        return x @ w + b[::2], (x @ w + b[:4]) * 2, (h, h - b[:4])

    arrays = normal(5, 3), normal(3, 4), normal(8)
    on_cpu, on_gpu = (compiled(behind, arrays, d, unknown=False) for d in ("cpu", "cuda"))
    assert_alike(on_gpu(*arrays), on_cpu(*arrays))
    assert "plus" not in on_gpu.explain("routine")

    total = sf.zeros(5, 4, device="cuda")
    x, w, b = (sf.placeholder(a.shape) for a in arrays)
    update = sf.compile([x, w, b], b.sum(), updates={total: x @ w + b[:4]})
    assert "plus" not in update.explain("routine")
    for _ in range(2):
        update(*arrays)
    np.testing.assert_allclose(
        total.cpu().numpy(), arrays[0] @ arrays[1] + arrays[2][:4], rtol=1e-5, atol=1e-6
    )

    nothing = np.zeros((5, 0), np.float32), np.zeros((0, 4), np.float32), normal(4)
    program = compiled(lambda x, w, b: x @ w + b, nothing, "cuda")
    for _ in range(2):
        assert (program(*nothing).cpu().numpy() == nothing[2]).all()


def test_epilogues_in_loops_and_branches(gpu: EmulatedDevice) -> None:
    """Those that a graph goes through by itself, too, where a library writes to memory beside."""

    def fn(x: Any, w: Any, b: Any) -> Any:
        def body(h: Any, n: Any) -> Any:
            return F.linear(h, w, b), n + 1

        h, count = sf.while_loop(lambda h, n: (h.abs().sum() < 1e3) & (n < 40), body, (x, 0))
        side = sf.cond(x.sum() > 0, lambda: x @ w + b, lambda: x @ w - b)
        return h, count, side

    arrays = normal(5, 4), normal(4, 4), normal(4)
    for has in (True, False):
        gpu.has_epilogues = has
        on_cpu, on_gpu = (compiled(fn, arrays, d, unknown=False) for d in ("cpu", "cuda"))
        assert "plus" in on_gpu.explain("routine")
        for _ in range(3):
            assert_alike(on_gpu(*arrays), on_cpu(*arrays), rtol=1e-3)


WINDOWS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "images": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=1), (2, 4, 9, 8), (6, 4, 3, 3),
    ),
    "groups": (lambda x, w: F.conv2d(x, w, groups=2), (2, 4, 9, 8), (6, 2, 2, 3)),
    "rows": (lambda x, w: F.conv1d(x, w, w[:, 0, 0], dilation=2), (2, 4, 90), (6, 4, 3)),
    "to more": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (2, 4, 5, 4), (4, 3, 3, 3)),
}  # fmt: skip
"""Sums over windows, and the shapes of what is given."""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", WINDOWS)
def test_sums_over_windows_of_16_bits_are_for_tensor_cores(name: str, dtype: str) -> None:
    """Their gradients, too; with exact numerics all is float32, as it is written."""
    fn, *shapes = WINDOWS[name]

    def step(x: Any, w: Any) -> Any:
        y = fn(x.to(getattr(sf, dtype)), w.to(getattr(sf, dtype)))
        loss = y.float().pow(2).mean()
        return y.float(), loss, *sf.grad(loss, [x, w])

    arrays = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    with emulated_gpus(races=True):
        for unknown in (False, True):
            on_cpu, on_gpu = (compiled(step, arrays, d, unknown) for d in ("cpu", "cuda"))
            for _ in range(2):
                for found, wanted in zip(on_gpu(*arrays), on_cpu(*arrays), strict=True):
                    scale = max(1.0, float(wanted.abs().max()))
                    limit = scale * {"float16": 5e-3, "bfloat16": 4e-2}[dtype]
                    np.testing.assert_allclose(found.cpu().numpy(), wanted.numpy(), atol=limit)
            texts = on_gpu.source("cuda").split("__global__")
            assert sum("sf_multiply_" in text for text in texts[1:]) >= 3
        x, w = map(sf.placeholder, shapes)
        exact = sf.compile([x, w], step(x, w), device="cuda", numerics="exact")
        assert "sf_multiply_" not in exact.source("cuda")


def attended(q: Any, k: Any, v: Any) -> Any:
    loss = F.scaled_dot_product_attention(q, k, v, is_causal=True).pow(2).sum()
    return loss, *sf.grad(loss, [q, k, v])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_of_16_bits_are_of_the_library(gpu: EmulatedDevice, dtype: str) -> None:
    """Which has tensor cores for them: two products forward, and of each two backward."""

    def step(x: Any, w: Any) -> Any:
        with sf.autocast("cuda" if w.is_cuda else "cpu", getattr(sf, dtype)):
            h = F.relu(x @ w.T + 1)
            loss = (h @ w).float().pow(2).mean()
        return loss, *sf.grad(loss, [x, w])

    for x, w in ((normal(5, 3), normal(4, 3)), (normal(2, 5, 3), normal(4, 3))):
        gpu.counts.clear()
        on_cpu, on_gpu = (compiled(step, [x, w], d) for d in ("cpu", "cuda"))
        assert_alike(on_gpu(x, w), on_cpu(x, w), rtol=0.02)
        assert gpu.counts["multiply"] == 6
    nothing = np.zeros((3, 0), np.float16)
    program = compiled(lambda a, b: a @ b, [nothing, nothing.T], "cuda")
    assert_alike(program(nothing, nothing.T), sf.zeros(3, 3, dtype=sf.float16))


def test_weights_of_attention_are_not_in_memory(gpu: EmulatedDevice) -> None:
    def peak(length: int) -> int:
        symbols = [sf.placeholder((length, 8), name=name) for name in "qkv"]
        return sf.compile(symbols, attended(*symbols), device="cuda").plan.peak_bytes()

    assert peak(2000) < 2.1 * peak(1000) < 1 << 20  # of weights there would be 4 MB
    arrays = normal(3, 150, 8)
    on_gpu, on_cpu = (compiled(attended, arrays, device) for device in ("cuda", "cpu"))
    assert_alike(on_gpu(*arrays), on_cpu(*arrays))


def test_operands_that_lie_otherwise(gpu: EmulatedDevice) -> None:
    x = sf.tensor(normal(6, 4))
    program = compiled(lambda x: x.exp().sum(0), [x.numpy()], "cuda")
    for of in (lambda t: t, lambda t: t[::2], lambda t: t.T, lambda t: t.flip(0)):
        assert_alike(program(of(x.cuda())), of(x).exp().sum(0))


def test_what_is_given_is_not_written_over(gpu: EmulatedDevice) -> None:
    w = sf.tensor(normal(4)).cuda()
    x = sf.placeholder((4,), name="x")
    step = sf.compile([x], x.sum(), updates={w: x.flip(0) + w})
    before = w.cpu()
    total = step(w)  # which is updated, and read: its memory is both
    assert_alike(total, before.sum())
    sf.testing.assert_close(w.cpu(), before.flip(0) + before)


def test_numbers_of_the_cpu_beside_a_gpu(gpu: EmulatedDevice) -> None:
    rate, count = sf.tensor(0.5), sf.tensor(0)
    w = sf.ones(3).cuda()
    step = sf.compile(
        [], w.sum(), updates={w: sf.symbol(w) - rate * sf.symbol(w), count: sf.symbol(count) + 1}
    )
    step()
    rate.fill_(1.0)
    step()
    assert w.cpu().tolist() == [0.0] * 3 and count.item() == 2 and not count.is_cuda


def test_a_scale_of_losses_is_on_the_gpu(gpu: EmulatedDevice) -> None:
    w = sf.nn.Parameter(sf.tensor([1.0, 2.0]).cuda())
    opt, scaler = sf.optim.SGD([w], lr=0.25), sf.amp.GradScaler("cuda", init_scale=4.0)
    x = sf.placeholder((2,), name="x")
    loss = (w * x).sum()
    step = sf.compile([x], loss, updates=scaler.minimize(opt, loss))
    step(np.ones(2, np.float32))
    assert w.tolist() == [0.75, 1.75] and scaler.get_scale() == 4.0
    step(np.array([np.inf, 1.0], np.float32))
    assert w.tolist() == [0.75, 1.75] and scaler.get_scale() == 2.0


# -- what is refused --------------------------------------------------------------------------------


def test_a_wrong_index_updates_nothing(gpu: EmulatedDevice) -> None:
    table = sf.tensor(normal(5, 3)).cuda()
    rows = sf.placeholder((None,), "int64", name="rows")
    step = sf.compile([rows], sf.symbol(table)[rows].sum(), updates={table: sf.symbol(table) * 2})
    before = table.cpu().numpy()
    with pytest.raises(
        IndexRangeError, match=r"lies outside.*test_device_programs.py.*nothing was"
    ):
        step(np.array([1, 5]))
    assert (table.cpu().numpy() == before).all()
    assert_alike(step(np.array([1, 4])), sf.tensor(before[[1, 4]].sum()))
    assert (table.cpu().numpy() == before * 2).all()


def test_a_wrong_index_in_a_loop(gpu: EmulatedDevice) -> None:
    table = sf.placeholder((5,), name="table")
    rows = sf.placeholder((None, 2), "int64", name="rows")
    total, _ = sf.scan(lambda c, i: (c + table[i].sum(), None), sf.zeros(()), rows)
    program = sf.compile([table, rows], total, device="cuda")
    with pytest.raises(IndexRangeError, match="in iteration 2 of the scan"):
        program(normal(5), np.array([[0, 1], [4, 4], [3, 9]]))


def test_what_only_the_host_computes(gpu: EmulatedDevice) -> None:
    x = sf.placeholder((3, 3), name="x")
    with pytest.raises(CompileError, match=r"svd\(f32\[3, 3\]\) is computed by the host.*test_dev"):
        sf.compile([x], sf.linalg.svd(x), device="cuda")
    y = sf.placeholder((3,), "bfloat16", name="y")
    with pytest.raises(CompileError, match="no arrays of bfloat16"):
        sf.compile([y], y + 1, device="cuda")
    with pytest.raises(ArgumentError, match="flush_subnormals is for programs on the CPU"):
        sf.compile([x], x * 2, device="cuda", flush_subnormals=True)
    with pytest.raises(ArgumentError, match="donate is for programs on the CPU"):
        sf.compile([x], x * 2, device="cuda", donate="x")


def test_two_devices(gpus: Gpus) -> None:
    x = sf.placeholder((3,), name="x")
    here, one, other = sf.ones(3), sf.ones(3).cuda(), sf.ones(3).cuda(1)
    one.name = "one"
    with pytest.raises(
        DeviceError, match=r"one of shape \[3\] is on cuda:0 and a tensor .* the CPU"
    ):
        sf.compile([x], x * here * one)
    with pytest.raises(DeviceError, match=r"on cuda:0 and a tensor .* on cuda:1"):
        sf.compile([x], x * one * other)
    with pytest.raises(DeviceError, match=r"device is cpu and one .* on cuda:0"):
        sf.compile([x], x * one, device="cpu")
    program = sf.compile([x], x * one)
    with pytest.raises(DeviceError, match=r"the input x is on cpu, .* compiled for cuda:0"):
        program(here)
    with pytest.raises(DeviceError, match=r"the input x is on cuda:1, .* compiled for cuda:0"):
        program(other)
    with pytest.raises(DeviceError, match=r"the input x is on cuda:0, .* compiled for the CPU"):
        sf.compile([x], x * here)(one)
    assert_alike(program(one), sf.ones(3))
    on_second = sf.compile([x], x + other)
    assert on_second(other).device == sf.device("cuda:1")
    assert gpus[1].counts["launch"] == 1


def test_memory_that_overlaps(gpu: EmulatedDevice) -> None:
    x = sf.placeholder((3,), name="x")
    memory = sf.zeros(4).cuda()
    one, other = memory[:3], memory[1:]
    step = sf.compile([x], updates={one: x, other: x})
    with pytest.raises(ShapeError, match="both written over, and share memory"):
        step(np.ones(3, np.float32))


def test_profiles_are_for_the_cpu(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: x * 2, [normal(3)], "cuda")
    with pytest.raises(DeviceError, match="neither profiled nor bisected"):
        program.profile(normal(3))
    program.check_nan(normal(3))


# -- what it says of itself ------------------------------------------------------------------------


def test_what_a_program_says(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: F.softmax(x, 1), [normal(3, 4)], "cuda")
    assert program.device == sf.device("cuda:0") and "on cuda:0" in repr(program)
    assert "__global__ void" in program.source("cuda") == program.source()
    assert "kernel" in program.source("kernels") and "on cuda:0" in program.explain()
    with pytest.raises(ArgumentError, match="'llvm' is none of cuda, kernels"):
        program.source("llvm")
    on_cpu = compiled(lambda x: x * 2, [normal(3)], "cpu")
    with pytest.raises(ArgumentError, match="'cuda' is none of llvm, asm, kernels"):
        on_cpu.source("cuda")
    assert on_cpu.device == sf.device("cpu") and "cuda" not in repr(on_cpu)


def test_jit_follows_its_arguments(gpu: EmulatedDevice) -> None:
    @sf.jit
    def f(x: Any, w: Any) -> Any:
        return (x @ w).tanh().sum()

    values = normal(3, 4), normal(4, 2)
    found = {}
    for device in ("cpu", "cuda", "cpu", "cuda"):
        x, w = (sf.tensor(v).to(device).requires_grad_() for v in values)
        out = f(x, w)
        out.backward()
        assert out.device.type == x.grad.device.type == device
        found[device] = [out.detach(), x.grad, w.grad]
    assert_alike(found["cuda"], found["cpu"])
    assert f.trace_count == 2


# -- faults ----------------------------------------------------------------------------------------


def training_step(gpu: EmulatedDevice) -> Any:
    w = sf.tensor(normal(4, 2)).cuda()
    x = sf.placeholder((None, 4), name="x")
    loss = (x @ w).pow(2).mean()
    return sf.compile([x], loss, updates={w: w - 0.1 * sf.grad(loss, w)}), w


@pytest.mark.parametrize("what", ["empty", "launch"])
def test_what_fails_leaves_all_as_it_was(gpu: EmulatedDevice, what: str) -> None:
    step, w = training_step(gpu)
    twin, v = training_step(gpu)
    x = normal(3, 4)
    before = w.cpu().numpy()
    gpu.counts.clear()
    wanted = twin(x).cpu().item()
    times = gpu.counts[what]
    assert times > 1
    for good in range(times - 1 if what == "launch" else times):  # the last launch is the update
        gpu.faults[what] = good
        with pytest.raises((MemoryError, DeviceError), match=r"no more memory|a launch that fails"):
            step(x)
        gpu.faults.clear()
        assert (w.cpu().numpy() == before).all()
    assert step(x).cpu().item() == wanted
    assert (w.cpu().numpy() == v.cpu().numpy()).all()


def test_too_little_memory_says_what_was_planned(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: (x @ x.T).exp().sum(), [normal(4, 4)], "cuda")
    x = normal(30, 30)
    planned = program.plan.peak_bytes(x0_0=30, x0_1=30)
    gpu.faults["empty"] = 1
    says = rf"^cuda:0: no more memory .*; the plan of the program has {planned:,} bytes beside what"
    with pytest.raises(MemoryError, match=says + r".*test_device_programs\.py:\d+"):
        program(x)


def test_a_text_that_does_not_compile(gpu: EmulatedDevice) -> None:
    gpu.faults["compile"] = 0
    with pytest.raises(CompileError, match="a compiler that fails"):
        training_step(gpu)
    gpu.faults.clear()
    step, _ = training_step(gpu)
    step(normal(3, 4))


def test_a_missing_synchronisation_shows(
    gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = normal(4)
    program = compiled(lambda x: x + 1, [x], "cuda")
    out = program(x)
    assert gpu.counts["synchronize"] == 0  # nothing can fail, and nobody has asked for a value
    assert np.isnan(values_now(out._data)).all()
    gpu.synchronize()
    assert (values_now(out._data) == x + 1).all()

    rows = compiled(lambda x, i: x[i].sum(), [x, np.array([0, 1])], "cuda")
    with monkeypatch.context() as patch:
        patch.setattr(EmulatedDevice, "synchronize", lambda self: None)
        with pytest.raises((MemoryError, IndexError)):  # what a word means that is poison
            rows(x, np.array([0, 3]))
    gpu.synchronize()
    assert_alike(rows(x, np.array([0, 3])), sf.tensor(x[[0, 3]].sum()))
