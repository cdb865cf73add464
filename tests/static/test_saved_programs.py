"""Programs that are written to files and read again: the same values, tensors, lines and errors,
and nothing of the code that they were written by."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.modes import gradient_graph, graph_of
from random_programs import arrays_for, draw_program, draw_step

import staticflow as sf
from staticflow.errors import ArgumentError, CheckpointError
from staticflow.graph.graph import Graph, free_symbols
from staticflow.graph.parser import parse_graph
from staticflow.graph.printer import store_graph
from staticflow.graph.verify import verify_graph
from staticflow.ops import OPS
from staticflow.static.placement import may_stand_beside

SEEDS = range(20)


def again(step: Any, **given: Any) -> Any:
    """The program after a way through a file."""
    file = io.BytesIO()
    step.save(file)
    file.seek(0)
    return sf.load_program(file, **given)


def test_states_of_generators_are_told_from_other_tensors_of_their_name() -> None:
    x = sf.placeholder((None,), name="x")
    one, other = sf.Generator().manual_seed(1), sf.Generator().manual_seed(2)
    draws = [sf.rand_like(x, generator=g) for g in (one, other)]
    pair = sf.variable(sf.tensor([1, 2]), name="generator")
    step = sf.compile([x], [*draws, x.sum() + pair])
    loaded = again(step)
    assert [*step.variables] == [*loaded.variables]
    for program in (step, loaded):
        kinds = [may_stand_beside(t) for t in program.variables.values()]
        assert kinds.count(True) == 2 and kinds.count(False) == 1
    for _ in range(2):
        for a, b in zip(step(sf.ones(3)), loaded(sf.ones(3)), strict=True):
            assert a.tolist() == b.tolist()


def test_attention_is_read_again_whatever_its_masks_are_filled_with() -> None:
    """A fill above 0 had been refused, of a program with a gradient."""
    q, keep = sf.placeholder((9, 4), name="q"), sf.placeholder((9, 9), "bool", name="keep")
    out = sf.where(keep, (q @ q.T).tanh() * 3, 0.5).softmax(-1) @ q
    step = sf.compile([q, keep], sf.grad(out.sum(), q))
    assert "attend" in str(step.graph)
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((9, 4), np.float32), rng.random((9, 9)) > 0.5
    assert again(step)(*arrays).tolist() == step(*arrays).tolist()


def same(found: Any, wanted: Any) -> None:
    """The same structure, and the same bits in it."""
    (a, structure), (b, expected) = sf.pytree.flatten(found), sf.pytree.flatten(wanted)
    assert str(structure) == str(expected)
    for x, y in zip(a, b, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert x.detach().numpy().tobytes() == y.detach().numpy().tobytes()


def check_text(graph: Graph) -> None:
    """A graph is what its text says, with what is stored beside it."""
    stored = store_graph(graph)
    found = verify_graph(parse_graph(stored.text, OPS, stored.arrays, stored.locs))
    assert store_graph(found) == stored


# -- sizes as numbers -------------------------------------------------------------------------------

BY_SIZES = {
    "roll": lambda x, n: x.roll((n - 1, 1), (0, 1)),
    "tril": lambda x, n: x.tril(n - 3),
    "triu": lambda x, n: sf.ones(n, n + 2).triu(n - 2) + x.sum(),
    "diagonal": lambda x, n: x.diagonal().sum() + n,
    "embedding": lambda x, n: sf.nn.functional.embedding(
        sf.tensor([0, 1, 2]), x, padding_idx=n - 1
    ),
    "addmm": lambda x, n: sf.addmm(sf.ones(8), x, sf.ones(8, 8), alpha=n, beta=n),
    "baddbmm": lambda x, n: sf.baddbmm(sf.ones(2, 8, 8), sf.ones(2, 8, 8), sf.ones(2, 8, 8), alpha=n)
    + x.sum(),
    "narrow": lambda x, n: x.narrow(0, n - 2, 2),
    "product": lambda x, n: x * n + n // 2,
    "full": lambda x, n: sf.full((n, 2), 1.5) * x.sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_SIZES)
def test_a_size_may_be_an_attribute(name: str) -> None:
    """Its gradient has it, too."""
    x = sf.placeholder((None, 8), name="x")
    y = BY_SIZES[name](x, x.shape[0])
    step = sf.compile([x], [y, *sf.grad((y * y).sum(), [x])])
    check_text(step.graph)
    given = np.random.default_rng(0).standard_normal((6, 8)).astype("f")
    same(again(step)(given), step(given))


# -- graphs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(OPS))
def test_every_op_has_a_text(name: str) -> None:
    info = ROWS[name]
    for dtype in info.dtypes:
        for unknown in (None, 0):
            sample = next(iter(info.samples(dtype, False)), None)
            if sample is None:
                continue
            check_text(graph_of(info, sample, unknown))
            derives = info.op.vjp and name != "prefix"  # whose sizes something else has to bind
            gradient = gradient_graph(info, sample, unknown) if derives else None
            if gradient is not None:
                check_text(gradient)


def test_large_constants_are_stored_with_all_their_bits() -> None:
    table = np.arange(1000, dtype=np.float32)
    table[3] = np.frombuffer(b"\x01\x00\xc0\x7f", np.float32)[0]  # a NaN with a payload
    x = sf.placeholder((1000,), name="x")
    step = sf.compile([x], sf.where(x > 0, x, table))
    assert len(store_graph(step.graph).text) < 500
    same(again(step)(np.zeros(1000, np.float32)), step(np.zeros(1000, np.float32)))


# -- programs --------------------------------------------------------------------------------------


def trained(optimizer: Any) -> tuple[Any, Any]:
    """A training step with all that it may have: running statistics, draws, unknown sizes."""
    sf.manual_seed(7)
    model = sf.nn.Sequential(
        sf.nn.Linear(4, 8),
        sf.nn.BatchNorm1d(8),
        sf.nn.ReLU(),
        sf.nn.Dropout(0.3),
        sf.nn.Linear(8, 3),
    )
    x, t = sf.placeholder((None, 4), name="x"), sf.placeholder((None,), "int64", name="t")
    loss = sf.nn.functional.cross_entropy(model(x), t)
    updates = optimizer(model.parameters()).minimize(loss)
    return model, sf.compile([x, t], {"loss": loss}, updates=updates)


def batch(rows: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(rows)
    return rng.standard_normal((rows, 4)).astype(np.float32), rng.integers(0, 3, rows)


OPTIMIZERS = {
    "sgd": lambda p: sf.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: sf.optim.Adam(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_goes_on_where_it_was(name: str) -> None:
    _, step = trained(OPTIMIZERS[name])
    step(*batch(5))
    other = again(step)
    for rows in (5, 2, 9):
        same(other(*batch(rows)), step(*batch(rows)))
    assert other.variables.keys() == step.variables.keys()
    for key, t in step.variables.items():
        assert other.variables[key] is not t
        assert other.variables[key].requires_grad == t.requires_grad
        same(other.variables[key], t)


def test_it_runs_without_the_code_that_it_was_written_by(tmp_path: Path) -> None:
    _, step = trained(OPTIMIZERS["adam"])
    step.save(tmp_path / "step.safetensors")
    code = """if True:
        import sys
        import numpy as np
        import staticflow as sf

        step = sf.load_program(sys.argv[1])
        rng = np.random.default_rng(6)
        x, t = rng.standard_normal((6, 4)).astype(np.float32), rng.integers(0, 3, 6)
        print([step(x, t)["loss"].item().hex() for _ in range(4)])
    """
    words = [sys.executable, "-c", code, str(tmp_path / "step.safetensors")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([step(*batch(6))["loss"].item().hex() for _ in range(4)])


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int) -> None:
    drawn = draw_program(random.Random(seed))
    step = sf.compile(drawn.inputs, drawn.outputs)
    arrays = arrays_for(drawn, dict.fromkeys(free_symbols(step.graph), 3), seed)
    check_text(step.graph)
    try:
        wanted = step(*arrays)
    except sf.errors.StaticflowError as error:
        with pytest.raises(type(error)):
            again(step)(*arrays)
    else:
        same(again(step)(*arrays), wanted)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_steps(seed: int) -> None:
    drawn = draw_step(random.Random(seed))
    step = sf.compile(drawn.inputs, drawn.outputs, updates=drawn.updates)
    other = again(step)
    arrays = arrays_for(drawn, dict.fromkeys(free_symbols(step.graph), 3), seed)
    for _ in range(2):
        same(other(*arrays), step(*arrays))
        same(list(other.variables.values()), list(step.variables.values()))


Pair = namedtuple("Pair", ["first", "second"])


def test_outputs_keep_their_structure() -> None:
    x = sf.placeholder((3,), name="x")
    tree = {"a": [x, (x + 1,)], 2: Pair(x * 2, None), True: ()}
    found = again(sf.compile([x], {k: tree[k] for k in ("a",)}))(np.ones(3, np.float32))
    assert isinstance(found["a"][1], tuple)
    found = again(sf.compile([x], [Pair(x * 2, None), ()]))(np.ones(3, np.float32))
    assert found[0]._fields == ("first", "second") and found[0].second is None and found[1] == ()


def test_names_of_inputs_donations_and_options_are_kept() -> None:
    x, y = sf.placeholder((3,), name="x"), sf.placeholder((3,), name="y")
    step = sf.compile(
        {"left": x, "right": y}, [x * y, y.sum()], numerics="fast", passes="-fuse", donate="left"
    )
    other = again(step)
    assert other.donations == ("left",) == step.donations
    assert other.options == step.options and other.kernel_count == step.kernel_count
    assert other(left=np.ones(3, np.float32), right=np.ones(3, np.float32))[1].item() == 3
    with pytest.raises(ArgumentError, match="donated to an earlier call"):
        given = np.ones(3, np.float32)
        other(given, np.ones(3, np.float32))
        other(given, np.ones(3, np.float32))
    stable = again(sf.compile([x], (1 + x.exp()).log(), stabilize=False))
    assert stable(np.full(3, 1e4, np.float32)).isinf().all()


def test_a_program_of_a_program_is_the_same_text() -> None:
    _, step = trained(OPTIMIZERS["sgd"])
    other = again(step)
    assert store_graph(again(other).graph) == store_graph(other.graph)


def test_errors_and_profiles_name_the_lines_that_it_was_written_by() -> None:
    x, i = sf.placeholder((4,), name="x"), sf.placeholder((2,), "int64", name="i")
    step = sf.compile([x, i], x[i])  # the line
    with pytest.raises(sf.errors.IndexRangeError) as mine:
        step(np.ones(4, np.float32), np.array([0, 9]))
    with pytest.raises(sf.errors.IndexRangeError) as others:
        again(step)(np.ones(4, np.float32), np.array([0, 9]))
    line = f"{Path(__file__).name}:{mine.traceback[0].frame.code.firstlineno + 3}"
    assert line in str(mine.value) and line in str(others.value)
    assert Path(__file__).name in again(step).explain("kernels")


def test_two_programs_share_tensors_by_name() -> None:
    model, step = trained(OPTIMIZERS["sgd"])
    x = sf.placeholder((None, 4), name="x")
    model.eval()
    look = sf.compile([x], model(x))
    train = again(step)
    shared = {name: t for name, t in train.variables.items() if name in look.variables}
    assert len(shared) == 8, "parameters and running statistics"
    read = again(look, variables=shared)
    before = read(batch(4)[0])
    train(*batch(8))
    assert (read(batch(4)[0]) != before).any()
    for name, t in shared.items():
        assert read.variables[name] is t


# -- what is refused -------------------------------------------------------------------------------


def test_operations_of_ones_own_are_refused() -> None:
    own = replace(OPS["neg"], name="own")
    x = sf.placeholder((3,), name="x")
    step = sf.compile([x], sf.exp(own(x)))
    file = io.BytesIO()
    with pytest.raises(CheckpointError, match=f"uses own, made at .*{Path(__file__).name}"):
        step.save(file)
    assert not file.getvalue()


def printing(template: str) -> str:
    """A graph that prints its input."""
    line = f'%0: i64[] = print(%c, %x) {{template={json.dumps(template)}, names=["x"]}}'
    return f"graph (%c: i64[], %x: f32[2]) {{ {line} return %0 }}"


@pytest.mark.parametrize("template", ["{x.__class__}", "{x[0]}", "{", "{y}", "{}{}"])
def test_what_is_printed_is_values_and_no_code(template: str) -> None:
    entries = {"inputs": ["c", "x"], "variables": [], "updated": [], "donated": [], "outputs": "*"}
    found = changed(graph=printing(template), lines=[], **entries)
    with pytest.raises(CheckpointError):
        read({**found, "variables": {}})


def test_positions_of_which_nothing_is_known_are_refused() -> None:
    line = "%0: f32[1, 1, 4] = place_gather(%x, %i)"
    text = f"graph (%x: f32[1, 1, 8], %i: i64[1, 1, 4]) {{ {line} return %0 }}"
    entries = {"inputs": ["x", "i"], "variables": [], "updated": [], "donated": [], "outputs": "*"}
    with pytest.raises(CheckpointError, match="does not say that pooling found them"):
        read({**changed(graph=text, lines=[], **entries), "variables": {}})


@pytest.mark.parametrize("pool", ["max_pool2d", "adaptive_max_pool2d"])
def test_pooling_is_kept_in_loops_and_branches(pool: str) -> None:
    x, w = sf.placeholder((None, 2, 6, 6), name="x"), sf.variable(sf.ones(2, 2, 3, 3), name="w")

    def loss(rows: Any) -> Any:
        found = sf.nn.functional.conv2d(rows, w)
        return getattr(sf.nn.functional, pool)(found, 2).sum()

    for value in (
        loss(x),
        sf.scan(lambda c, row: (c + loss(row[None]) * c, None), sf.ones(()), x)[0],
        sf.cond(x.sum() > 0, lambda: loss(x), lambda: x.sum()),
    ):
        step = sf.compile([x], [value, sf.grad(value, w)])
        given = np.random.default_rng(0).random((2, 2, 6, 6)).astype(np.float32)
        same(again(step)(given), step(given))


def test_whatever_an_integer_may_be_is_kept() -> None:
    x = sf.placeholder((4,), "int64", name="x")
    least = -(2**63)
    step = sf.compile([x], x.masked_fill(x > 1, least).clamp(least, 2**62))
    same(again(step)(np.arange(4)), step(np.arange(4)))


@pytest.mark.parametrize("options", [{"stabilize": False}, {"passes": []}, {"passes": ["fuse"]}])
def test_passes_are_kept_in_their_order(options: Any) -> None:
    x = sf.placeholder((4,), name="x")
    step = sf.compile([x], (1 + x.exp()).log().softmax(0), **options)
    assert again(step).options == step.options


def test_names_of_a_file_are_kept_whoever_holds_the_tensors() -> None:
    x = sf.placeholder((None, 3), name="x")
    step = sf.compile([x], sf.nn.Linear(3, 2)(x))
    mine = {name: t.detach().clone() for name, t in step.variables.items()}
    other = again(step, variables=mine)
    assert [*other.variables] == ["weight", "bias"]
    third = again(other, variables=other.variables)
    assert third.variables["weight"] is mine["weight"]


def test_one_tensor_for_two_that_are_updated_is_refused() -> None:
    x, a, b = sf.placeholder((2,), name="x"), sf.zeros(2), sf.zeros(2)
    a.name, b.name = "a", "b"
    step = sf.compile([x], None, updates={a: x, b: x * 2})
    one = sf.ones(2)
    with pytest.raises(CheckpointError, match="one tensor is given for a and b"):
        again(step, variables={"a": one, "b": one})


def test_given_tensors_that_overlap_are_refused() -> None:
    x, a, b = sf.placeholder((3,), name="x"), sf.zeros(3), sf.zeros(3)
    a.name, b.name = "a", "b"
    step = sf.compile([x], None, updates={a: sf.symbol(a) + x, b: x})
    whole = sf.zeros(4)
    for given in ({"a": sf.ones(1).expand(3)}, {"a": whole[1:], "b": whole[:3]}):
        with pytest.raises(CheckpointError, match=r"load_program: .*lie in one|in one place of me"):
            again(step, variables=given)
    pairs = sf.zeros(6)
    other = again(step, variables={"a": pairs[::2], "b": pairs[1::2]})
    other(np.arange(3, dtype=np.float32))
    assert pairs.tolist() == [0, 0, 1, 1, 2, 2]


def test_updated_tensors_that_share_memory_are_refused() -> None:
    whole = sf.zeros(4)
    part = sf.symbol(whole[:2])
    x = sf.placeholder((4,), name="x")
    step = sf.compile([x], part * 2, updates={whole: x})
    with pytest.raises(CheckpointError, match="shares memory with"):
        step.save(io.BytesIO())


def a_file() -> dict[str, Any]:
    """What is in the file of a small program."""
    x, w = sf.placeholder((None, 2), name="x"), sf.variable(sf.ones(2), name="w")
    step = sf.compile([x], [(x * w).sum()], updates={w: w + x.sum(dim=0)}, donate="x")
    file = io.BytesIO()
    step.save(file)
    file.seek(0)
    return dict(sf.load(file))


def read(found: Any) -> Any:
    file = io.BytesIO()
    sf.save(found, file)
    file.seek(0)
    return sf.load_program(file)


def changed(**entries: Any) -> Any:
    """The file with other entries in its header."""
    found = a_file()
    return {**found, "program": json.dumps({**json.loads(found["program"]), **entries})}


def test_a_state_is_no_program_and_a_program_is_a_state() -> None:
    assert read(a_file())(np.ones((3, 2), np.float32))[0].item() == 6
    with pytest.raises(CheckpointError, match=r"holds a state and no program; read it with"):
        read({"w": sf.ones(2)})


def test_a_newer_format_says_so() -> None:
    with pytest.raises(
        CheckpointError, match=r"has the format 9 .* '7.5' wrote; .* reads 1: install"
    ):
        read(changed(format=9, staticflow="7.5"))


GRAPH = "graph (%x: f32[N, 2], %w: f32[2]) { %0: f32[N, 2] = mul(%x, %w) return %0, %w }"


def nested(levels: int) -> Any:
    """Lists of one element in each other."""
    return ["list", [0], [nested(levels - 1)]] if levels else "*"


DAMAGES: dict[str, Any] = {
    "no graph": {"graph": "tree"},
    "an unknown operation": {"graph": GRAPH.replace("mul", "mull")},
    "a wrong type": {"graph": GRAPH.replace("f32[N, 2] = ", "f32[N, 3] = ")},
    "too few params": {"graph": "graph (%x: f32[N, 2]) { return %x, %x }"},
    "another variable": {"graph": GRAPH.replace("%w: f32[2]", "%w: f32[2, 2]").replace("N, 2] =", "N, 2] =")},
    "deep brackets": {"graph": "graph () { %0: f32[] = constant " + "[" * 100_000},
    "endless digits": {"graph": GRAPH.replace("2", "9" * 10_000)},
    "no inputs": {"inputs": []},
    "inputs without names": {"inputs": [1]},
    "an update of nothing": {"updated": [1]},
    "a negative update": {"updated": [-1]},
    "an update by True": {"updated": [True]},
    "two updates": {"updated": [0, 0]},
    "too few updates": {"updated": []},
    "other outputs": {"outputs": ["list", [0, 1], ["*", "*"]]},
    "strange outputs": {"outputs": ["set", [0], ["*"]]},
    "a wrong named tuple": {"outputs": ["named tuple", ["P", ["a", "b"]], ["*"]]},
    "code for a name": {"outputs": ["named tuple", ["P", ["a; import os"]], ["*"]]},
    "deep outputs": {"outputs": nested(200)},
    "outputs without values": {"outputs": ["dict", [[1], {}], ["*", "*"]]},
    "a key twice": {"outputs": ["dict", ["a", "a"], ["*", "*"]]},
    "inputs in one text": {"inputs": "x"},
    "too many inputs": {"inputs": ["x", "y"]},
    "a bound of a param": {"graph": "size N below 4\n" + GRAPH},
    "a negative size": {"graph": GRAPH.replace("N, 2", "-3, 2")},
    "strange numerics": {"numerics": "loose"},
    "strange passes": {"passes": ["fuse", "melt"]},
    "an absurd donation": {"donated": [5]},
    "lines of no file": {"lines": [[[3, 1]]]},
    "lines that are none": {"lines": [[[0, "x"]]]},
    "lines below zero": {"lines": [[[0, -5]]]},
    "variables of other names": {"variables": [["v", False]]},
    "variables without names": {"variables": [[1, False]]},
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_said_to_be(name: str) -> None:
    with pytest.raises(CheckpointError, match=r"load_program: "):
        read(changed(**DAMAGES[name]))


@pytest.mark.parametrize("text", ["", "[]", "{}", "nothing", "[" * 100_000, '{"format": true}'])
def test_a_header_that_is_none(text: str) -> None:
    with pytest.raises(CheckpointError):
        read({**a_file(), "program": text})


def test_variables_that_do_not_fit_are_refused() -> None:
    file = io.BytesIO()
    sf.save(a_file(), file)
    for given, error in (
        ({"v": sf.ones(2)}, "has no variable 'v'; it has w"),
        ({"w": sf.ones(3)}, r"'w' is f32\[2\] in the program, and f32\[3\] is given"),
    ):
        file.seek(0)
        with pytest.raises(CheckpointError, match=error):
            sf.load_program(file, variables=given)
    for wrong in ([sf.ones(2)], {"w": 1.0}, {1: sf.ones(2), "q": None}):
        with pytest.raises(ArgumentError, match=r"a mapping \{name: tensor\}"):
            sf.load_program(file, variables=wrong)  # type: ignore[arg-type]


def test_a_path_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^load_program: there is no file"):
        sf.load_program(tmp_path / "nothing")
    with pytest.raises(OSError):
        _, step = trained(OPTIMIZERS["sgd"])
        step.save(tmp_path / "no folder" / "step.safetensors")
