"""The benchmarks compute what they say, and their statistics are right. Nothing is timed here."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import staticflow as sf


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture
def common() -> ModuleType:
    return importlib.import_module("common")


def plain(values: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(v.detach() if isinstance(v, sf.Tensor) else v) for v in values]


WORKLOADS = {
    "two_layer": [
        ("numpy_by_hand", "staticflow_static"),
        ("numpy_by_hand", "staticflow_eager"),
        ("many_numpy", "staticflow_loop"),
    ],
    "fused_chain": [
        ("numpy_value", "staticflow_static_value"),
        ("numpy_value", "staticflow_eager_value"),
        ("numpy_gradient", "staticflow_static_gradient"),
        ("numpy_gradient", "staticflow_eager_gradient"),
    ],
    "lenet": [("staticflow_eager", "staticflow_static")],
    "rows": [
        (f"numpy_{name}", f"staticflow_{mode}_{name}")
        for name in ("cross_entropy", "layer_norm")
        for mode in ("static", "eager")
    ],
    "call_overhead": [("staticflow_eager", "staticflow_static")],
    "dynamic_loops": [
        ("numpy_newton", "staticflow_newton"),
        ("numpy_collatz", "staticflow_collatz"),
        ("numpy_gradient", "staticflow_gradient"),
        ("numpy_gradient", "staticflow_eager_gradient"),
        ("numpy_rows", "staticflow_rows"),
    ],
    "weight_sharing": [
        ("numpy_by_hand", "staticflow_static"),
        ("numpy_by_hand", "staticflow_eager"),
    ],
    "rnn_shapes": [("numpy_by_hand", "staticflow_static")],
    "clusters": [
        (f"numpy_{name}", f"staticflow_{name}") for name in ("kmeans", "viterbi", "partition")
    ],
    "simulations": [
        ("numpy_bodies", "staticflow_bodies"),
        ("numpy_solve", "staticflow_solve"),
        ("numpy_solve", "staticflow_through"),
        ("numpy_solve", "staticflow_eager_through"),
    ],
    "embedding": [("numpy_rows", "staticflow_static"), ("numpy_rows", "staticflow_eager")],
    "small_programs": [("staticflow_eager_adam", "staticflow_static_adam")],
    "gpt": [
        ("staticflow_eager", "staticflow_static"),
        ("staticflow_eager_decode", "staticflow_decode"),
    ],
    "tagger": [("staticflow_eager", "staticflow_static")],
    "logistic": [
        ("numpy_by_hand", "staticflow_static"),
        ("numpy_by_hand", "staticflow_eager"),
    ],
}
SMALLER = {
    "two_layer": {"STEPS": 2},
    "fused_chain": {"SIZE": 1000},
    "rows": {"ROWS": 12},
    "rnn_shapes": {"SHAPES": 3},
    "clusters": {"POINTS": 500, "STEPS": 5},
    "simulations": {"STEPS": 5, "SIZE": 50},
    "embedding": {"ROWS": 600},
    "small_programs": {"TENSORS": 4},
    "gpt": {"LAYERS": 1, "WIDTH": 8, "WORDS": 12, "BATCH": 2, "LENGTH": 5, "DECODED": 4},
    "tagger": {"LONGEST": 6, "BATCH": 3, "INPUTS": 4, "HIDDEN": 5},
    "logistic": {"ROWS": 60, "SIZE": 5, "ITERATIONS": 2},
}
"""Sizes at which a workload is checked sooner."""


def test_the_eager_chains_run(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = importlib.import_module("eager_chain")
    monkeypatch.setattr(chain, "OPERATIONS", 20)
    for title, makers in chain.tables().items():
        contestant = makers["staticflow eager"]()
        contestant.run(2)
        (found,) = contestant.result()
        assert found.shape == (chain.SIZE,) and np.all(np.isfinite(found)), title


def test_single_eager_operations_run() -> None:
    ops = importlib.import_module("eager_ops")
    for title, makers in ops.rows().items():
        contestant = makers["staticflow eager"]()
        contestant.run(2)
        assert all(np.all(np.isfinite(found)) for found in contestant.result()), title


def test_operations_on_large_arrays_run(monkeypatch: pytest.MonkeyPatch) -> None:
    large = importlib.import_module("large_arrays")
    monkeypatch.setattr(large, "SIDES", {"1 M": 16})
    monkeypatch.setattr(large, "PRODUCT_SIDES", (8,))
    for title, makers in large.tables().items():
        contestant = makers["staticflow eager"]()
        contestant.run(2)
        assert all(np.all(np.isfinite(r)) for r in contestant.result()), title


LARGE = (("tagger", "staticflow_static"), ("gpt", "staticflow_static"))
"""Steps that take long to compile: they are compared in the nightly run."""


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        pytest.param(name, *pair, marks=[pytest.mark.campaign] if (name, pair[1]) in LARGE else [])
        for name, pairs in WORKLOADS.items()
        for pair in pairs
    ],
)
def test_contestants_agree(
    name: str, one: str, other: str, common: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = importlib.import_module(name)
    for size, value in SMALLER.get(name, {}).items():
        monkeypatch.setattr(workload, size, value)
    results = []
    for maker in (one, other):
        contestant = getattr(workload, maker)()
        contestant.run(3)
        results.append(plain(contestant.result()))
    common._check(other, results[1], results[0], 1e-5)


def agree(common: ModuleType, *makers: Any) -> None:
    results = []
    for make in makers:
        contestant = make()
        contestant.run(2)
        results.append(plain(contestant.result()))
        common._check(str(make), results[-1], results[0], 1e-5)


def test_eager_recurrent_nets_agree(common: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    nets = importlib.import_module("rnn_shapes")
    monkeypatch.setattr(nets, "SHAPES", 3)
    agree(common, nets.numpy_by_hand, partial(nets.loop, sf), partial(nets.layer, sf))


@pytest.mark.campaign
@pytest.mark.parametrize("net", ["residual", "depthwise"])
def test_nets_agree(net: str, common: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    nets = importlib.import_module("image_nets")
    for name, value in {"SIDE": 6, "WIDTHS": (4, 6), "PAIRS": ((4, 6, 2),)}.items():
        monkeypatch.setattr(nets, name, value)
    task = nets.task(getattr(nets, net), 2)
    agree(common, task.eager, task.static)


def test_modules_behind_torch_compile_agree(
    common: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="its modules are PyTorch's")
    workload = importlib.import_module("torch_backend")
    monkeypatch.setattr(workload, "BATCH", 1)
    makers = workload.tables()["a call of a small net"]
    agree(common, makers["PyTorch eager"], makers["staticflow"])


def test_attention_and_calls_agree(common: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    attention, calls = map(importlib.import_module, ("attention", "small_programs"))
    monkeypatch.setattr(attention, "SIZE", 4)
    both = attention.staticflow_eager, attention.staticflow_static
    agree(common, *(partial(make, 5, True) for make in both))
    every = (
        calls.numpy_call,
        calls.staticflow_jit,
        calls.staticflow_static,
        calls.staticflow_eager,
    )
    agree(common, *(partial(make, calls.ten) for make in every))


@pytest.mark.parametrize("size", [(5, 4, 6, 3, 2), (6, 3, 3, 3, 1, 3)])
def test_convolutions_are_measured_in_each_direction(
    size: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    convolutions = importlib.import_module("convolutions")
    monkeypatch.setattr(convolutions, "BATCH", 2)
    shape = convolutions.Shape(*size)
    x, w, y = map(sf.from_numpy, shape.arrays())
    x, w = x.requires_grad_(), w.requires_grad_()
    out = sf.nn.functional.conv2d(x, w, **shape.options)
    out.backward(y)
    wanted = (out.detach(), x.grad, w.grad)
    for direction, array in zip(convolutions.DIRECTIONS, wanted, strict=True):
        run, found = convolutions.staticflow_static(shape, direction)
        run(2)
        np.testing.assert_allclose(found, array, 1e-4, 1e-5)
    (note,) = convolutions.notes_about([shape], [{"PyTorch": [1.0], "staticflow static": [0.5]}])
    assert str(shape) in note and "beside" in note


def test_products_are_swept_and_those_behind_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    products = importlib.import_module("products")
    assert 180 <= sum(len(kind.shapes) for kind in products.kinds().values()) <= 220
    shapes = ((3, 4, 5), (1, 6, 2))
    for kind in [*products.kinds().values()][2::4]:  # one of float32 and one of batches
        small = replace(kind, shapes=tuple((2,) * (len(kind.shapes[0]) - 3) + s for s in shapes))
        makers = {n: m(small) for n, m in products.CONTESTANTS.items() if n != "PyTorch"}
        found = [seconds for _, seconds in products.measure(small, makers, 2, 0.0)]
        assert len(found) == 2 and set(found[0]) == {"NumPy", "staticflow static"}
    samples = [
        {"staticflow static": [1.0, 1.0], "NumPy": [4.0, 4.0]},
        {"staticflow static": [4.0, 4.0], "NumPy": [1.0, 1.0]},
    ]
    assert products.means(samples)["NumPy"] == pytest.approx([2.0, 2.0])
    notes = products.notes_about(shapes, samples)
    assert notes[0].endswith(": 1 of 2 shapes") and "1 x 6 x 2 at 0.25" in notes[2]


def test_the_memory_of_a_process_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = importlib.import_module("processes")
    imports = importlib.import_module("imports")
    (text, environment) = imports.table("import {}" + imports.RESIDENT, {"one": "math"})["one"]()
    here = np.ones(1 << 24)  # 128 MiB of this process, which are none of the other
    found = processes.number_of_process(text, environment)
    assert isinstance(found, float) and 2**22 < found < 2**26 < here.nbytes
    assert processes.number_of_process("raise SystemExit('no')", {}) == "no"
    assert processes.number_of_process("import time; time.sleep(9)", {}, 0.2) == (
        "it takes more than 0 s"
    )


def test_a_wrong_result_ends_the_benchmark(common: ModuleType) -> None:
    common._check("fine", [np.array([1.0, 2.0])], [np.array([1.0, 2.0])], 1e-6)
    for wrong in ([1.0, 2.1], [1.0, np.nan]):
        with pytest.raises(SystemExit, match="odd disagrees in result 0"):
            common._check("odd", [np.array(wrong)], [np.array([1.0, 2.0])], 1e-6)


def test_what_is_not_installed_is_left_out(
    common: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[int] = []

    def missing() -> Any:
        raise ImportError("No module named 'rare'")

    def present() -> Any:
        return common.Contestant(runs.append, lambda: [np.ones(1)])

    makers = {"there": present, "absent": missing}
    entered, set_up, left_out = common._enter(makers, 4, 1e-6, 60.0)
    assert list(entered) == list(set_up) == ["there"] and runs == [1, 3]
    assert left_out == ["absent (No module named 'rare')"]
    assert "left out: absent (No module named 'rare')" in capsys.readouterr().out


def test_a_peer_that_fails_or_hangs_is_left_out_and_a_fault_of_ours_is_none_of_those(
    common: ModuleType,
) -> None:
    def broken() -> Any:
        raise RuntimeError("no C++ compiler\nand more")

    def endless() -> Any:
        while True:
            try:
                time.sleep(0.001)
            except Exception:
                continue

    peers = {"broken": broken, "endless": endless}
    fine = {"staticflow static": lambda: common.Contestant(lambda n: None, lambda: [np.ones(1)])}
    entered, set_up, left_out = common._enter({**fine, **peers}, 1, 1e-6, 0.5)
    assert list(entered) == list(set_up) == ["staticflow static"]
    assert left_out == [
        "broken (RuntimeError: no C++ compiler)", "endless (not ready after 0 s)"
    ]  # fmt: skip
    with pytest.raises(common._OwnFault, match="staticflow eager: RuntimeError: no C"):
        common._enter({"staticflow eager": broken}, 1, 1e-6, 1.0)


def test_long_runs_have_fewer_rounds_and_far_too_long_ones_none(
    common: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    clock = [0.0]
    monkeypatch.setattr(common.time, "perf_counter", lambda: sum(clock))

    def contestant(name: str, seconds: float) -> Any:
        return common.Contestant(lambda n: (runs.append(name), clock.append(seconds)), lambda: ())

    options = argparse.Namespace(rounds=15, seconds=0.001, most=0.09)
    entered = {"a": contestant("a", 0.01), "b": contestant("b", 0.0), "c": contestant("c", 0.1)}
    rounds, left_out = common._rounds_of(entered, options)
    assert rounds == 8 and list(entered) == ["a", "b"] and runs == ["a", "b", "c"]
    assert len(left_out) == 1 and left_out[0].startswith("c (one run takes ")
    assert common.most_rounds(1.0, options) == 3 and common.most_rounds(0.001, options) == 15


def test_a_table_that_fails_does_not_lose_the_others(tmp_path: Path) -> None:
    report = importlib.import_module("report")
    made = report.Report(1, tmp_path / "r.json")
    made.fail("wrong", "x disagrees")
    made.add("right", report.summarize({"NumPy": [1.0]}, {"NumPy": 0.5}), notes=["a note"])
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["faults"] == {"wrong": "x disagrees"} and list(written["tables"]) == ["right"]
    assert written["tables"]["right"]["notes"] == ["a note"]
    with pytest.raises(SystemExit, match="wrong: x disagrees"):
        made.end()


def test_the_libraries_that_a_script_names_are_imported(tmp_path: Path, common: ModuleType) -> None:
    (tmp_path / "rarely_named.py").write_text("value = 1")
    script = tmp_path / "script.py"
    script.write_text("def f():\n    import rarely_named, not_there\n    from common import x\n")
    sys.path.insert(0, str(tmp_path))
    try:
        common.import_libraries(script)
    finally:
        sys.path.remove(str(tmp_path))
    assert sys.modules.pop("rarely_named").value == 1


def test_every_contestant_has_its_turn_in_every_round(common: ModuleType) -> None:
    turns: list[str] = []

    def contestant(name: str) -> Any:
        return common.Contestant(lambda n: turns.append(name), lambda: ())

    measured = common._measure({"a": contestant("a"), "b": contestant("b")}, 6, 0.0)
    assert len(measured["a"]) == len(measured["b"]) == 6
    rounds = [set(turns[-12:][i : i + 2]) for i in range(0, 12, 2)]
    assert rounds == [{"a", "b"}] * 6


def test_ratios_are_to_the_best_peer() -> None:
    report = importlib.import_module("report")
    measured = {"staticflow static": [1.0, 1.0, 4.0], "slow": [9.0] * 3, "fast": [2.0, 2.0, 2.0]}
    rows = report.summarize(measured, dict.fromkeys(measured, 0.5))
    own = rows["staticflow static"]
    assert own["best_peer"] == "fast" and own["ratio"] == 2.0
    # among redrawn rounds the slow one is the median sometimes, so the interval reaches down to it
    assert own["ratio_low"] == 0.5 and rows["fast"]["ratio_low"] == 1.0
    table = report.format_table(rows)
    assert "against fast" in table and "2.00 x, 95 % above 0.50" in table
    alone = report.summarize({"staticflow static": [1.0]}, {"staticflow static": 0.5})
    assert alone["staticflow static"]["ratio"] == 1.0
