"""Programs as captured graphs: what is launched, captured, copied and held, and what goes wrong."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from device_programs import assert_alike, compiled, normal, rnn
from emulated_device import EmulatedDevice, emulated_gpus, values_now

import staticflow as sf
from staticflow.config import config
from staticflow.errors import DeviceError, IndexRangeError
from staticflow.nn import functional as F


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    with emulated_gpus() as devices:
        yield devices[0]


def counts_of(gpu: EmulatedDevice, call: Any, *args: Any) -> tuple[Any, dict[str, int]]:
    """What a call gives, and how often it asked the device for what."""
    gpu.counts.clear()
    found = call(*args)
    return found, {k: n for k, n in gpu.counts.items() if k != "empty"}


def classifier(device: str, optimiser: Any) -> tuple[Any, Any]:
    """A training step with a check of the classes, and the parameters."""
    sf.manual_seed(3)
    net = sf.nn.Sequential(sf.nn.Linear(6, 5), sf.nn.ReLU(), sf.nn.Linear(5, 3)).to(device)
    opt = optimiser(net.parameters())
    x, target = sf.placeholder((None, 6), name="x"), sf.placeholder((None,), "int64", name="t")
    cost = F.cross_entropy(net(x), target)
    return sf.compile([x, target], cost, updates=opt.minimize(cost)), list(net.parameters())


def batch(n: int, seed: int = 0) -> tuple[Any, Any]:
    return normal(n, 6, seed=seed), np.arange(n) % 3


def sgd(params: Any) -> Any:
    return sf.optim.SGD(params, lr=0.1, momentum=0.9)


# -- one launch a step -----------------------------------------------------------------------------


@pytest.mark.parametrize("optimiser", [sgd, lambda p: sf.optim.Adam(p, lr=0.01)])
def test_a_training_step_is_one_launch(gpu: EmulatedDevice, optimiser: Any) -> None:
    step, params = classifier("cuda", optimiser)
    twin, others = classifier("cpu", optimiser)
    assert_alike(step(*batch(4)), twin(*batch(4)))
    assert not gpu.counts["capture"] and gpu.counts["launch"] > 5
    loss, found = counts_of(gpu, step, *batch(4, 1))
    assert_alike(loss, twin(*batch(4, 1)))
    assert found["capture"] == found["graph"] == 1 and "launch" not in found
    for seed in range(2, 5):
        loss, found = counts_of(gpu, step, *batch(4, seed))
        waits = found.pop("wait", 0) + found.pop("record")
        assert found.pop("fetch", 0) + 1 == found.pop("download") + bool(waits > 2)
        # one copy there, and the loss; the parameters are updated where they are
        assert found == {"send": 1, "graph": 1, "copy": 1, "synchronize": 1}
        assert_alike(loss, twin(*batch(4, seed)), rtol=2e-4)
    assert_alike(params, others, rtol=2e-4)
    assert step.compile_count == 1
    assert "1 launch a call, from the second of the same sizes on" in step.explain()


def test_what_cannot_fail_is_not_waited_for(gpu: EmulatedDevice) -> None:
    x = normal(4)
    program = compiled(lambda x: (x * 2, x.sum()), [x], "cuda")
    for _ in range(3):
        out, found = counts_of(gpu, program, x)
    assert found == {"send": 1, "record": 1, "graph": 1, "copy": 2}
    assert np.isnan(values_now(out[0]._data)).all()
    gpu.synchronize()
    assert (values_now(out[0]._data) == x * 2).all()


def test_the_host_is_two_calls_ahead_at_most(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: x + 1, [normal(4)], "cuda")
    x = normal(4)
    results = []
    for seed in range(7):
        x[...] = normal(4, seed=seed)
        found, counts = counts_of(gpu, program, x)
        results.append(found)
        x[...] = 7  # which has been copied
        assert counts.get("synchronize", 0) == (seed > 2)  # for the copy of two calls before
    assert np.isnan(values_now(results[-1]._data)).all()
    for seed, found in enumerate(results):
        assert_alike(found, sf.tensor(normal(4, seed=seed) + 1))


def test_a_missing_wait_shows(gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmulatedDevice, "wait", lambda self, event: None)
    program = compiled(lambda x: x + 1, [normal(4)], "cuda")
    results = [program(normal(4, seed=seed)) for seed in range(6)]
    gpu.synchronize()
    wrong = [(r.cpu().numpy() != normal(4, seed=s) + 1).any() for s, r in enumerate(results)]
    assert wrong == [False, True, True, True, False, False]


def test_a_program_is_dropped_while_copies_are_on_their_way(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: x + 1, [normal(4)], "cuda")
    results = [program(normal(4, seed=seed)) for seed in range(3)]
    gpu.counts.clear()
    del program
    gc.collect()
    assert gpu.counts["synchronize"] == gpu.counts["wait"] == 1
    for seed, found in enumerate(results):
        assert_alike(found, sf.tensor(normal(4, seed=seed) + 1))


def test_results_are_not_written_over(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: x + 1, [normal(4)], "cuda")
    results = [program(normal(4, seed=s)) for s in range(4)]
    for s, found in enumerate(results):
        assert_alike(found, sf.tensor(normal(4, seed=s) + 1))


def test_kernel_by_kernel_where_that_is_asked_for(gpu: EmulatedDevice) -> None:
    step, _ = classifier("cuda", sgd)
    with config.change(capture=False):
        for seed in range(3):
            step(*batch(4, seed))
    assert not gpu.counts["capture"] and not gpu.counts["graph"] and step.held_bytes == 0


# -- sizes and places ------------------------------------------------------------------------------


def test_new_sizes_are_captured_anew(gpu: EmulatedDevice) -> None:
    step, _ = classifier("cuda", sgd)
    for n in (4, 4, 5, 5, 4, 5):
        step(*batch(n))
    assert (gpu.counts["compile"], gpu.counts["capture"], gpu.counts["graph"]) == (1, 2, 4)
    step(*batch(6))  # once: not worth a graph
    assert gpu.counts["capture"] == 2


def test_few_sizes_are_held(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: F.softmax(x, 1).T @ x, [normal(3, 4)], "cuda")
    held = []
    for n in range(2, 14):
        for _ in range(2):
            program(normal(n, 4))
        held.append(program.held_bytes)
    assert gpu.counts["capture"] == 12
    assert held == sorted(held) and held[7] > 7 * held[0] and held[-1] < 12 * held[0] * 13 / 2
    program(normal(13, 4))
    assert gpu.counts["capture"] == 12
    program(normal(2, 4))  # of which the graph was dropped, but not where the params lay
    assert gpu.counts["capture"] == 13


def test_memory_is_freed_with_the_program(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: F.softmax(x, 1), [normal(3, 4)], "cuda")
    for _ in range(3):
        program(normal(3, 4))
    gpu.synchronize()
    before, executable = gpu.held_bytes(), weakref.ref(program._executable)
    assert before >= program.held_bytes > 0
    program._executable.free()
    assert program.held_bytes == 0
    program(normal(3, 4))
    program(normal(3, 4))
    del program
    gc.collect()
    gpu.synchronize()
    assert executable() is None and gpu.held_bytes() == 0


def test_inputs_that_stay_are_read_where_they_are(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x, y: (x * y).sum(), [normal(4), normal(4)], "cuda")
    x, y = (sf.tensor(normal(4, seed=s)).cuda() for s in range(2))
    for _ in range(3):
        total, found = counts_of(gpu, program, x, y)
        assert_alike(total, (x.cpu() * y.cpu()).sum())
    assert found == {"graph": 1, "copy": 1}
    more = [sf.tensor(normal(4, seed=s)).cuda() for s in range(2, 6)]
    captures = []
    for other in more:
        total, found = counts_of(gpu, program, x, other)
        assert_alike(total, (x.cpu() * other.cpu()).sum())
        captures.append(found.get("capture", 0))
        assert found["copy"] == 2  # of the input that lies elsewhere, and of the result
    assert captures == [1, 0, 0, 0]
    x.mul_(2)
    assert_alike(program(x, y), (x.cpu() * y.cpu()).sum())
    assert_alike(program(x.cpu().numpy(), y), (x.cpu() * y.cpu()).sum())


def test_parameters_that_get_other_memory(gpu: EmulatedDevice) -> None:
    step, params = classifier("cuda", sgd)
    twin, others = classifier("cpu", sgd)
    for seed in range(6):
        if seed == 3:
            for p in (params[0], others[0]):
                with sf.no_grad():
                    p.data = p.detach() * 0.5
        assert_alike(step(*batch(4, seed)), twin(*batch(4, seed)), rtol=2e-4)
    assert_alike(params, others, rtol=2e-4)
    assert gpu.counts["capture"] == 2


def test_inputs_beside_each_other(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: x.exp().sum(0), [normal(6, 4)], "cuda")
    x = sf.tensor(normal(6, 4))
    for of in (lambda t: t, lambda t: t, lambda t: t.flip(0), lambda t: t, lambda t: t.flip(0)):
        assert_alike(program(of(x.cuda())), of(x).exp().sum(0))
    w = sf.tensor(normal(4)).cuda()
    y = sf.placeholder((4,), name="y")
    step = sf.compile([y], y.sum(), updates={w: y.flip(0) + w})
    for _ in range(4):
        before = w.cpu()
        assert_alike(step(w), before.sum(), rtol=1e-4)  # which is updated, and read
        sf.testing.assert_close(w.cpu(), before.flip(0) + before)


def test_numbers_of_the_host(gpu: EmulatedDevice) -> None:
    rate, count = sf.tensor(0.5), sf.tensor(0)
    w = sf.ones(3).cuda()
    step = sf.compile(
        [], w.sum(), updates={w: sf.symbol(w) - rate * sf.symbol(w), count: sf.symbol(count) + 1}
    )
    for _ in range(3):
        step()
    assert w.cpu().tolist() == [0.125] * 3 and count.item() == 3
    rate.fill_(1.0)
    step()
    assert w.cpu().tolist() == [0.0] * 3 and count.item() == 4 and gpu.counts["capture"] == 1


# -- streams ---------------------------------------------------------------------------------------


def test_each_stream_has_its_own(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: x * 3, [normal(4)], "cuda")
    results = []
    for seed in range(4):
        for stream in (1, 2):
            with gpu.on_stream(stream):
                results.append((stream, seed, program(normal(4, seed=seed))))
    assert gpu.counts["capture"] == 2
    for stream, seed, found in reversed(results):
        with gpu.on_stream(stream):
            assert_alike(found, sf.tensor(normal(4, seed=seed) * 3))


def test_a_call_while_another_is_at_it(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: x * 3, [normal(4)], "cuda")
    for _ in range(3):
        program(normal(4))
    replays = program._executable._replays
    with replays._running:
        found, counts = counts_of(gpu, program, normal(4))
    assert counts["launch"] and "graph" not in counts
    assert_alike(found, sf.tensor(normal(4) * 3))


# -- what cannot be captured -----------------------------------------------------------------------


def test_what_the_host_does_splits_the_step(gpu: EmulatedDevice) -> None:
    def fn(x: Any) -> Any:
        y = sf.while_loop(lambda y: (y * y).sum() > 1, lambda y: y / 2, x * 3)
        z = sf.cond(y.sum() > 0, lambda: y.sin(), lambda: y.flip(0).cos())
        return (z + 1).sum(), sf.nonzero(x > 0)

    program = compiled(fn, [normal(5)], "cuda")
    on_cpu = compiled(fn, [normal(5)], "cpu")
    for seed in range(4):
        x = normal(5, seed=seed)
        found, counts = counts_of(gpu, program, x)
        assert_alike(found, on_cpu(x))
    text = program.explain()
    assert counts["graph"] > 2 and counts.get("capture", 0) == 0
    assert "2 launches a call" in text
    assert "the host: a loop that ends by a value, of 16 iterations or more a launch" in text
    assert "the host: reads a size" in text and "test_replay.py" in text


def test_a_loop_of_known_length_is_in_the_graph(gpu: EmulatedDevice) -> None:
    example = normal(4, 3), normal(3, 3)
    program, on_cpu = (compiled(rnn, example, device) for device in ("cuda", "cpu"))
    for n in (4, 7):
        for seed in range(3):
            args = normal(n, 3, seed=seed), normal(3, 3, seed=seed + 9)
            found, counts = counts_of(gpu, program, *args)
            assert_alike(found, on_cpu(*args))
        assert counts["graph"] == 1 and "launch" not in counts
    assert "1 launch a call" in program.explain()
    assert "launches; 4096 at most are captured" in program.explain(x0_0=10**6)


def test_a_program_with_a_budget_holds_nothing(gpu: EmulatedDevice) -> None:
    def fn(x: Any) -> Any:
        return sf.grad(
            sf.scan(lambda c, r: ((c + r).sin(), None), x[0], x, memory_budget=10**6)[0].sum(), x
        )

    program = compiled(fn, [normal(5, 3)], "cuda")
    for _ in range(3):
        program(normal(5, 3))
    assert not gpu.counts["capture"] and program.held_bytes == 0
    assert "each kernel by itself, as a budget of memory" in program.explain()


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_wrong_class_updates_nothing(gpu: EmulatedDevice) -> None:
    step, params = classifier("cuda", sgd)
    for seed in range(3):
        step(*batch(4, seed))
    before = [p.detach().cpu().numpy() for p in params]
    x, target = batch(4)
    for _ in range(2):
        with pytest.raises(IndexRangeError, match=r"cross_entropy.*nothing was updated"):
            step(x, target + 1)
    assert all((p.detach().cpu().numpy() == b).all() for p, b in zip(params, before, strict=True))
    _, counts = counts_of(gpu, step, x, target)
    assert counts["graph"] == 1 and "capture" not in counts
    assert all((p.detach().cpu().numpy() != b).any() for p, b in zip(params, before, strict=True))


def test_the_iteration_that_fails_is_told(gpu: EmulatedDevice) -> None:
    table = sf.placeholder((5,), name="table")
    rows = sf.placeholder((None, 2), "int64", name="rows")
    total, _ = sf.scan(lambda c, i: (c + table[i].sum(), None), sf.zeros(()), rows)
    program = sf.compile([table, rows], total, device="cuda")
    good = np.array([[0, 1], [4, 4], [3, 2]])
    for _ in range(3):
        found, counts = counts_of(gpu, program, normal(5), good)
    assert counts["graph"] == 1 and "launch" not in counts
    with pytest.raises(IndexRangeError, match="in iteration 2 of the scan"):
        program(normal(5), np.array([[0, 1], [4, 4], [3, 9]]))
    assert_alike(program(normal(5), good), found.cpu())


def test_a_launch_that_fails_is_not_made_again(gpu: EmulatedDevice) -> None:
    table = sf.tensor(normal(5)).cuda()
    rows = sf.placeholder((None, 2), "int64", name="rows")
    values = sf.symbol(table)
    total, _ = sf.scan(lambda c, i: (c + values[i].sum(), None), sf.zeros(()).cuda(), rows)
    step = sf.compile([rows], total, updates={table: values * 2})
    good = np.array([[0, 1], [4, 4], [3, 2]])
    for _ in range(3):
        step(good)
    before = table.cpu().numpy()
    gpu.faults["graph"] = 0
    with pytest.raises(DeviceError, match="a launch that fails"):
        step(good)
    gpu.faults.clear()
    assert (table.cpu().numpy() == before).all()
    with pytest.raises(IndexRangeError, match="in iteration 1 of the scan"):
        step(np.array([[0, 1], [4, 9], [3, 2]]))
    assert (table.cpu().numpy() == before).all()


def test_what_overwrites_by_a_copy_waits_for_the_check(gpu: EmulatedDevice) -> None:
    table, w = sf.tensor(normal(5, 3)).cuda(), sf.zeros(2).cuda()
    rows = sf.placeholder((2,), "int64", name="rows")
    v = sf.placeholder((2,), name="v")
    step = sf.compile([rows, v], sf.symbol(table)[rows].sum(), updates={w: v})
    for k in range(3):
        step(np.array([1, 4]), np.full(2, k, np.float32))
    assert w.cpu().tolist() == [2, 2]
    with pytest.raises(IndexRangeError, match="nothing was updated"):
        step(np.array([1, 5]), np.full(2, 7, np.float32))
    assert w.cpu().tolist() == [2, 2]


@pytest.mark.parametrize("what", ["capture", "graph"])
def test_a_capture_that_fails_is_told(gpu: EmulatedDevice, what: str) -> None:
    step, params = classifier("cuda", sgd)
    step(*batch(4))
    before = params[0].detach().cpu().numpy()
    gpu.faults[what] = 0
    told = f"cuda:0: a {'capture' if what == 'capture' else 'launch'} that fails"
    with pytest.raises(DeviceError, match=rf"as a graph: {told}; .*STATICFLOW_CAPTURE=0"):
        step(*batch(4))
    assert (params[0].detach().cpu().numpy() == before).all()
    gpu.faults.clear()
    step(*batch(4))
    assert (params[0].detach().cpu().numpy() != before).any() and gpu.counts["graph"]


@pytest.mark.parametrize("what", ["empty", "pinned"])
def test_memory_for_a_capture(gpu: EmulatedDevice, what: str) -> None:
    program = compiled(lambda x: x.sin(), [normal(4)], "cuda")
    for n in (4, 4, 5):
        program(normal(n))
    gpu.faults[what] = 0
    with pytest.raises(MemoryError, match=r"no more .*memory.*STATICFLOW_CAPTURE=0"):
        program(normal(5))
    gpu.faults.clear()
    assert program.held_bytes == 0  # what other sizes held was given for it
    program(normal(5))
    assert program.held_bytes > 0


def test_what_an_emulated_capture_refuses(gpu: EmulatedDevice) -> None:
    array: Any = gpu.empty([4], np.dtype(np.float32))
    at = gpu.address(array)
    host = np.zeros(4, np.float32)
    tensor = sf.ones(3).cuda()
    for work, what in (
        (lambda: gpu.empty([1], host.dtype), "new memory"),
        (lambda: gpu.upload(array, host), "a copy from the host"),
        (lambda: gpu.download(host, array), "a copy to the host"),
        (gpu.synchronize, "waiting"),
        (lambda: tensor.mul_(2), "waiting"),
        (lambda: gpu.capture(lambda: None), "a capture"),
        (lambda: gpu.pinned_memory(4), "new memory"),
        (lambda: gpu.send(at, host), "a copy from the host"),
        (lambda: gpu.fetch(host, at), "a copy to the host"),
    ):
        with pytest.raises(DeviceError, match=f"{what} in a capture"):
            gpu.capture(work)
    graph = gpu.capture(lambda: gpu.clear(at, 16))
    assert np.isnan(values_now(array)).all()
    gpu.launch_graph(graph)
    gpu.synchronize()
    assert (values_now(array) == 0).all()
    array = None
    gpu.synchronize()
    with pytest.raises(DeviceError, match="memory that nobody holds"):
        gpu.launch_graph(graph)
