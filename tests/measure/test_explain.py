"""``Program.explain``: one screen that names what the user named, and topics of bounded width."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import staticflow as sf
from examples.lenet import LeNet
from staticflow import nn
from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.parser import parse_graph
from staticflow.measure.tables import cut, table, wrap_items
from staticflow.measure.units import bytes_in_words, flops_in_words
from staticflow.nn import functional as F
from staticflow.ops import OPS
from staticflow.passes.cluster import cluster

TOPICS = ("passes", "kernels", "plan", "graph", "routine")


def two_layers() -> Any:
    w1, w2 = sf.randn(1000, 100, requires_grad=True), sf.randn(100, 10, requires_grad=True)
    x, y = sf.placeholder((None, 1000), name="x"), sf.placeholder((None, 10), name="y")
    loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
    g1, g2 = sf.grad(loss, [w1, w2])
    return sf.compile([x, y], loss, updates={w1: w1 - 1e-6 * g1, w2: w2 - 1e-6 * g2})


def lenet() -> Any:
    model = LeNet()
    optimizer = sf.optim.Adam(model.parameters(), lr=2e-3)
    x = sf.placeholder(("N", 1, 32, 32), name="x")
    target = sf.placeholder(("N",), "int64", name="target")
    loss = F.cross_entropy(model(x), target)
    return sf.compile([x, target], loss, updates=optimizer.minimize(loss))


def block() -> Any:
    model = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    optimizer = sf.optim.SGD(model.parameters(), lr=1e-3)
    x, y = (sf.placeholder((2, 6, 16), name=name) for name in "xy")
    loss = F.mse_loss(model(x), y)
    return sf.compile({"x": x, "y": y}, {"loss": loss}, updates=optimizer.minimize(loss))


def lstm() -> Any:
    cells, head = nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 4)
    optimizer = sf.optim.SGD([*cells.parameters(), *head.parameters()], lr=1e-3, momentum=0.9)
    x = sf.placeholder(("B", "T", 16), name="x")
    y = sf.placeholder(("B",), "int64", name="y")
    loss = F.cross_entropy(head(cells(x)[0][:, -1]), y)
    program = sf.compile([x, y], loss, updates=optimizer.minimize(loss))
    assert "cells.weight_ih_l0" in program.explain() and "head.bias" in program.explain()
    return program


PROGRAMS: dict[str, Callable[[], Any]] = {
    "two layers": two_layers,
    "LeNet with Adam": lenet,
    "transformer block": block,
    "LSTM": lstm,
}
compiled = functools.cache(lambda name: PROGRAMS[name]())


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_screen(name: str) -> None:
    lines = compiled(name).explain().splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    for word in ("inputs", "outputs", "parameters", "memory", "work", "kernel", "passes", "more"):
        assert any(line.startswith(word) for line in lines), word
    assert not any("captured" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "topic"),
    [*(("two layers", topic) for topic in TOPICS),
     *(("LeNet with Adam", topic) for topic in TOPICS if topic != "passes")],
)  # fmt: skip
def test_topics_are_no_wider_than_a_screen(name: str, topic: str) -> None:
    lines = compiled(name).explain(topic).splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= 100


def test_names_are_the_users() -> None:
    text = compiled("LeNet with Adam").explain()
    assert "x: f32[N, 1, 32, 32], target: i64[N]" in text
    assert "parameters  10, of 61,706 elements, all updated" in text
    assert "conv1.weight [6, 1, 5, 5], conv1.bias [6], conv2.weight" in text
    assert "conv1.weight.exp_avg [6, 1, 5, 5]" in text
    assert "loss: f32[]" in compiled("transformer block").explain()
    assert "self_attn.in_proj_weight" in compiled("transformer block").explain()


def test_a_tensor_without_a_module_has_the_name_of_its_variable() -> None:
    weight, others, table = sf.ones(3), [sf.ones(3)], {"bias": sf.ones(3)}
    x = sf.placeholder((3,), name="x")
    program = sf.compile([x], x * weight * others[0] + table["bias"])
    assert "weight [3], others[0] [3], table['bias'] [3]" in program.explain()
    assert "# %captured is weight, %captured_2 is others[0]" in program.explain("graph")


def test_a_tensor_without_any_name_has_its_line() -> None:
    x = sf.placeholder((3,), name="x")
    program = sf.compile([x], x * sf.ones(3))
    assert "a tensor of shape [3] at " in program.explain()
    assert "test_explain.py:" in program.explain()


def test_numbers_are_those_of_the_plan_and_of_the_work() -> None:
    program = compiled("two layers")
    kernels = program.work(x_0=256)
    text = program.explain(x_0=256)
    assert "at          x_0 = 256" in text
    assert (
        f"work        {sum(k.launches for k in kernels)} launches of {len(kernels)} kernels,"
        in text
    )
    peak = bytes_in_words(program.plan.peak_bytes(x_0=256))
    assert f"memory      {peak} at the peak = " in text
    rows = {line.split()[0]: line for line in program.explain("kernels", x_0=256).splitlines()}
    assert all(k.name in rows and k.lines in rows[k.name] for k in kernels)


def test_the_heaviest_kernels_come_first_and_the_rest_in_one_row() -> None:
    program = compiled("LeNet with Adam")
    kernels = program.work(N=64)
    heaviest = max(kernels, key=lambda k: max(k.bytes, k.flops / 8))
    lines = program.explain().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("kernel "))
    assert lines[first + 1].startswith(heaviest.name)
    assert lines[first + 11].startswith(f"{len(kernels) - 10} more ")
    assert "unknown line" not in program.explain("kernels")


def test_the_ledger_says_what_each_rule_did_and_where() -> None:
    program = compiled("LeNet with Adam")
    lines = program.explain("passes", N=64).splitlines()
    assert lines[1].split() == ["pass", "nodes", "kernels", "bytes", "FLOPs", "time"]
    assert max(map(len, lines)) <= 100
    assert "    convolution 2 at examples/lenet.py:32, 33" in lines
    reports = {r.name: r for r in program.passes}
    assert any(line.startswith(f"    fuse {reports['fuse'].counts['fuse']} at ") for line in lines)
    (row,) = (line for line in lines if line.startswith("fuse"))
    kernels = program.work(N=64)
    flops = flops_in_words(sum(k.flops for k in kernels)).removesuffix("FLOP").strip()
    assert f"-> {program.kernel_count} " in row and f"{flops} " in row
    told = " ".join(lines)
    assert all(r.name in told for r in program.passes)
    rules = {(r.name, rule) for r in program.passes for rule in r.counts}
    assert all(rule.removeprefix(f"{name} ") in told for name, rule in rules)


def test_what_a_loop_does_once_is_marked() -> None:
    x = sf.placeholder((None,), name="x")
    halved = sf.while_loop(lambda y: y.max() > 1, lambda y: (y / 2).sin(), x)
    program = sf.compile([x], sf.grad(halved.sum(), x))
    text = program.explain()
    assert "x_0 = 64, iterations = 1" in text and "1 x iterations" in text
    assert "1 x iterations" not in program.explain(iterations=7)


def test_the_graph_and_the_routine_are_there_in_full() -> None:
    program = compiled("two layers")
    graph = parse_graph(program.explain("graph"), {**OPS, "cluster": cluster})
    assert str(graph) == str(program.optimized)
    assert program.explain("routine").split() == str(program.plan.routine).split()


def test_wrong_words() -> None:
    program = compiled("two layers")
    with pytest.raises(ArgumentError, match=r"no topic 'kernal'; did you mean 'kernels'\? there "):
        program.explain("kernal")
    with pytest.raises(ArgumentError, match="no topic 3; there are 'passes', 'kernels', 'plan', "):
        program.explain(3)
    with pytest.raises(ShapeError, match="n is no size of it; "):
        program.explain(n=3)


OF_NOTHING_MUCH: dict[str, Callable[[Any], Any]] = {
    "the input": lambda x: x,
    "a constant": lambda x: sf.ones(3),
    "no elements": lambda x: x[:0] * 2,
    "products without elements": lambda x: x[:0].reshape(0, 4) @ sf.ones(4, 3),
    "rows without elements": lambda x: sf.scan(lambda c, _: (c * 2, c), x[:0], length=5)[1],
    "an empty body": lambda x: sf.scan(lambda c, _: (c, None), x, length=4)[0],
    "no iteration": lambda x: sf.scan(lambda c, _: (c * 2, None), x, length=0)[0],
    "empty branches": lambda x: sf.cond(x[0] > 0, lambda: x[:0] * 2, lambda: x[:0]),
}


@pytest.mark.parametrize("name", OF_NOTHING_MUCH)
def test_a_program_of_nothing_much(name: str) -> None:
    x = sf.placeholder((3,), name="x")
    program = sf.compile([x], OF_NOTHING_MUCH[name](x))
    assert "inputs      x: f32[3]" in program.explain()
    for topic in TOPICS:
        assert program.explain(topic) or topic == "routine"  # of no steps
    program.work()


def test_words_that_do_not_fit() -> None:
    assert cut("abc", 3) == "abc" and cut("abcd", 3) == "ab…" and cut("abcd", 0) == ""[:0] + "…"
    assert table([["a", "1"], ["bbb", "22"]], "<>") == ["a     1", "bbb  22"]
    items = [f"weight{i} [100]" for i in range(40)]
    lines = wrap_items("parameters", items, 2)
    assert len(lines) == 2 and max(map(len, lines)) <= 100
    shown = " ".join(lines).count("weight")
    assert lines[1].endswith(f", {40 - shown} more")
