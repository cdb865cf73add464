"""Every op of the table, with each of its operands split along each dim: what the ranks compute
together is what one process computes, forward and back, and all that is sent for it is said.

The graphs of the ranks are interpreted, of sizes that are known and that are not: no kernel has a
part in this. Fewer cases are compiled, which goes through all that a program of a mesh does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.core import Array, OpInfo, Sample, values
from opinfo.modes import arrays_of, call, params_for
from slices import by_days, daily

import staticflow as sf
from staticflow import distributed
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import dtype_of, float64, int64
from staticflow.graph.graph import Graph, close, new_param, regions_of
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.node import Node
from staticflow.ops import OPS
from staticflow.ops.along.ordered_collectives import COLLECTIVES
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.gradient import pullback
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.layouts import Place
from staticflow.passes.partition.moves import moves_left
from staticflow.passes.partition.partition import partition
from staticflow.passes.partition.schedule import order_collectives
from staticflow.passes.partition.shares import send_less

Spec = tuple[str, ...]
MESHES = {"data=2": (("data",), (2,)), "data=3": (("data",), (3,)),
          "data=2, model=2": (("data", "model"), (2, 2))}  # fmt: skip
SHARE = 4
"""How many of an op's cases run in a day."""


def specs_of(shapes: Sequence[tuple[int, ...]], names: Sequence[str]) -> list[tuple[Spec, ...]]:
    """Every way in which one operand is split along one dim, or along two over two axes, and every
    one in which two operands are split along one dim each; all others are whole."""
    each = [_splits_of(len(shape), names) for shape in shapes]
    none = [("",) * len(shape) for shape in shapes]
    found = []
    for i, ways in enumerate(each):
        found += [(*none[:i], way, *none[i + 1 :]) for way in ways]
        for j in range(i):
            pairs = itertools.product(_single(each[j]), _single(ways))
            found += [(*none[:j], a, *none[j + 1 : i], b, *none[i + 1 :]) for a, b in pairs]
    return found


def _splits_of(ndim: int, names: Sequence[str]) -> list[Spec]:
    return [
        spec
        for spec in itertools.product(("", *names), repeat=ndim)
        if any(spec) and all(spec.count(name) <= 1 for name in names)
    ]


def _single(ways: Sequence[Spec]) -> list[Spec]:
    return [spec for spec in ways if sum(map(bool, spec)) == 1]


def split_graph(
    info: OpInfo, sample: Sample, specs: Sequence[Spec], unknown: int | None
) -> tuple[Graph, list[Array]]:
    """The op's results and the gradients by all that is differentiable, of operands that are said
    to be split; and all that it is given. Dims of ``unknown`` elements are of a size that the graph
    does not know."""
    arrays = arrays_of(sample)
    params = params_for(arrays, unknown)
    split = [
        OPS["shard"](Symbol(p), spec=spec) if any(spec) else Symbol(p)
        for p, spec in zip(params, specs, strict=True)
    ]
    outs = call(info, sample, split)
    given, params_of_back = list(arrays), list[Node]()
    cotangents = []
    for i, o in enumerate(o for o in outs if o.dtype is float64):
        if unknown is None:
            params_of_back.append(new_param(o.node.tensor_type, f"ct{i}"))
            given.append(values(tuple(o.shape), float64, 0.5, 2, seed=5 + i))
            cotangents.append(Symbol(params_of_back[-1]))
        else:
            cotangents.append(weights_of(o))
    gradients = gradients_of(info, outs, cotangents, split)
    if not gradients:
        given, params_of_back = given[: len(arrays)], []
    return close([*params, *params_of_back], [o.node for o in (*outs, *gradients)]), given


def weights_of(y: Any) -> Any:
    """A cotangent of results whose shape is not known."""
    return 1 / (1 + y.detach().abs())


def gradients_of(
    info: OpInfo, outs: Sequence[Any], cotangents: Sequence[Any], operands: Sequence[Any]
) -> list[Any]:
    """The gradients, by all operands that have one, of the results that are float64."""
    real, by = ([x for x in xs if x.dtype is float64] for xs in (outs, operands))
    if not (info.grad and real and by):
        return []
    return [g for g in pullback(real, cotangents, by) if g is not None]


def bytes_sent(graph: Graph, shape: Sequence[int]) -> int:
    """Of what is gathered, dealt out and told: of all but sums. What is in a loop counts once."""
    total = 0
    for n in graph.nodes:
        total += sum(bytes_sent(region, shape) for region in regions_of(n))
        if n.op.name not in ("all_gather", "all_to_all", "broadcast", "exchange"):
            continue
        kind = n.args[0].tensor_type
        of = counted(kind.size * kind.dtype.itemsize)
        ranks = int(np.prod([shape[a] for a in n.attrs["axes"]]))
        part = {"all_to_all": of * (ranks - 1) // ranks, "exchange": of}
        total += part.get(n.op.name, of * (ranks - 1))
    return total


def counted(size: Size) -> int:
    """A number of bytes; many where that is known when the program runs."""
    return size if isinstance(size, int) else 1 << 20


def check(
    info: OpInfo, sample: Sample, specs: Sequence[Spec], mesh: str, unknown: int | None = None
) -> None:
    names, shape = MESHES[mesh]
    what = f"{info.op.name}({sample}), split {specs} on {mesh}, {unknown} unknown"
    graph, given = split_graph(info, sample, specs, unknown)
    wanted = interpret_graph(graph, given)

    def run() -> tuple[list[Array], int, int]:
        rank = distributed.mesh(**dict(zip(names, shape, strict=True))).rank
        local, moved = partition(graph, names, shape, rank, len(graph.outputs))
        said = sum(counted(m.bytes) for m in moves_left(moved, local))
        sent = bytes_sent(local, shape)
        local = send_less(local, Place(shape, rank))
        local = order_collectives(local, Symbol(constant_node(0, int64)))
        return interpret_graph(local, given), sent, said

    for found, sent, said in distributed.simulate(run, int(np.prod(shape))):
        assert_alike(found, wanted, what)
        assert (sent == 0) == (said == 0), f"{what}: {sent} B are sent, and {said} said"


def assert_alike(found: Sequence[Array], wanted: Sequence[Array], what: str) -> None:
    for a, w in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (w.dtype, w.shape), what
        if w.dtype.kind == "f":
            np.testing.assert_allclose(a, w, 1e-10, 1e-10, err_msg=what)
        else:
            np.testing.assert_array_equal(a, w, what)


def check_compiled(
    info: OpInfo, sample: Sample, specs: Sequence[Spec], mesh: str, unknown: int | None
) -> None:
    """Of whole inputs that are placeholders, with the gradients, as users compile it."""
    names, shape = MESHES[mesh]
    arrays = arrays_of(sample)

    def run(mesh: Any = None) -> list[Array]:
        shapes = [tuple("n" if d == unknown else d for d in a.shape) for a in arrays]
        inputs = [
            sf.placeholder(s, dtype_of(a.dtype), name=f"x{i}")
            for i, (s, a) in enumerate(zip(shapes, arrays, strict=True))
        ]
        split = [
            distributed.shard(x, *(name or None for name in spec))
            for x, spec in zip(inputs, specs, strict=True)
        ]
        outs = call(info, sample, split)
        cotangents = [weights_of(o) for o in outs if o.dtype is float64]
        outs += gradients_of(info, outs, cotangents, split)
        return [y.numpy() for y in sf.compile(inputs, outs, mesh=mesh)(*arrays)]

    wanted, axes = run(), dict(zip(names, shape, strict=True))
    for found in distributed.simulate(lambda: run(distributed.mesh(**axes)), int(np.prod(shape))):
        what = f"{info.op.name}({sample}), split {specs} on {mesh}, {unknown} unknown, compiled"
        assert_alike(found, wanted, what)


def cases_of(name: str) -> Iterator[tuple[Sample, tuple[Spec, ...], str]]:
    info = ROWS[name]
    dtype = float64 if float64 in info.dtypes else info.dtypes[0]
    for sample in info.samples(dtype, info.grad):
        shapes = [a.shape for a in arrays_of(sample)]
        for mesh, (names, _) in MESHES.items():
            for specs in specs_of(shapes, names):
                yield sample, specs, mesh


def open_cases_of(name: str) -> Iterator[tuple[Sample, tuple[Spec, ...], str, int | None]]:
    """Each case with all dims known, and with those of each size that one of its dims has not."""
    for sample, specs, mesh in cases_of(name):
        sizes = {d for a in arrays_of(sample) for d in a.shape if d > 1}
        for unknown in (*sorted(sizes), None):
            yield sample, specs, mesh, unknown


SPLIT = [n for n in ROWS if OPS[n] not in COLLECTIVES and n != "shard"]
"""Ops that a program of whole tensors may have; how ``shard`` splits anew is in test_conflicts.py."""


@pytest.mark.parametrize("name", SPLIT)
def test_split_operands_of_every_op(name: str) -> None:
    for sample, specs, mesh in daily(list(cases_of(name)), SHARE, f"split {name}"):
        check(ROWS[name], sample, specs, mesh)


@pytest.mark.campaign
@pytest.mark.parametrize("name", SPLIT)
def test_split_operands_of_every_op_in_hundreds_of_ways(name: str) -> None:
    for sample, specs, mesh in daily(list(cases_of(name)), 300, f"many splits {name}"):
        check(ROWS[name], sample, specs, mesh)


@pytest.mark.parametrize("name", SPLIT)
def test_split_operands_of_unknown_sizes(name: str) -> None:
    for sample, specs, mesh, unknown in daily(list(open_cases_of(name)), 2, f"open {name}"):
        check(ROWS[name], sample, specs, mesh, unknown)


@pytest.mark.parametrize("name", by_days(SPLIT, 50, "compiled splits"))
def test_split_operands_in_compiled_programs(name: str) -> None:
    for sample, specs, mesh, unknown in daily(list(open_cases_of(name)), 1, f"compiled {name}"):
        check_compiled(ROWS[name], sample, specs, mesh, unknown)


@pytest.mark.campaign
@pytest.mark.parametrize("name", SPLIT)
def test_split_operands_of_unknown_sizes_and_compiled_in_many_ways(name: str) -> None:
    cases = list(open_cases_of(name))
    for sample, specs, mesh, unknown in daily(cases, 200, f"many open {name}"):
        check(ROWS[name], sample, specs, mesh, unknown)
    for sample, specs, mesh, unknown in daily(cases, 10, f"many compiled {name}"):
        check_compiled(ROWS[name], sample, specs, mesh, unknown)


def test_a_batch_of_one_is_split_where_another_operand_is_computed_anew() -> None:
    """The weight's gradient takes the cotangent in parts, which is computed in parts of what is whole:
    one rank has the one row, and others none."""
    x, w = np.arange(6.0).reshape(1, 1, 6), np.arange(4.0).reshape(2, 1, 2)
    for mesh in ("data=2", "data=3"):
        check(ROWS["convolution"], Sample((x, w)), (("data", "", ""), ("",) * 3), mesh, 6)
    sample = Sample((np.arange(30.0).reshape(1, 1, 6, 5),), {"kernel_size": 2})
    check(ROWS["max_pool"], sample, (("", "data", "", ""),), "data=2", 6)


def test_a_dim_of_one_element_is_not_split_along_what_it_is_repeated() -> None:
    """One rank has that element, and others nothing, though all have some of the result."""
    row, column = np.arange(3.0).reshape(1, 3), np.arange(2.0).reshape(2, 1)
    for specs in (
        (("", "data"), ("model", "")),
        (("data", ""), ("", "")),
        (("", ""), ("", "model")),
    ):
        check(ROWS["add"], Sample((row, column)), specs, "data=2, model=2")
        check(ROWS["add"], Sample((row, row)), specs, "data=2, model=2")


def test_rows_that_are_joined_are_rolled_wherever_they_are() -> None:
    """Of two rows of three, on three ranks, the last has none of six elements."""
    check(ROWS["roll"], Sample((np.arange(6.0).reshape(2, 3), 1, None)), (("data", ""),), "data=3")


def test_a_single_value_that_is_split_is_added_once() -> None:
    sample = Sample((np.zeros((3, 2)), 0, np.array([1]), np.ones((1, 2))))
    for values_spec in (("data", ""), ("model", "")):
        check(ROWS["index_add"], sample, (("", ""), ("",), values_spec), "data=2, model=2")


def test_a_slice_like_the_part_of_one_rank_is_the_same_program_on_all() -> None:
    """The first half of a sum is what the first of two ranks would be sent of it, were it split."""

    def run(mesh: Any = None) -> list[list[float]]:
        x = sf.placeholder((6, 4), sf.float64, name="x")
        total = distributed.shard(x, "data", None).sum(0)
        outs = [total[:2], total[2:] * 2, distributed.shard(total.exp(), "data")]
        step = sf.compile([x], outs[:2], mesh=mesh)
        both = sf.compile([x], [outs[0], outs[2].sum()], mesh=mesh)
        given = np.arange(24.0).reshape(6, 4) / 24
        return [y.numpy().tolist() for y in (*step(given), *both(given))]

    for found in distributed.simulate(lambda: run(distributed.mesh(data=-1)), 2):
        for ours, theirs in zip(found, run(), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-12)
