"""Every op of every mode against its row of `opinfo`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.core import Array, Failure, OpInfo, Sample, values

import staticflow as sf
from staticflow import pytree
from staticflow.eager.tensor import Tensor
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DTYPES, DType, dtype_of, float64
from staticflow.graph.graph import Graph, close, new_param
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.node import Node
from staticflow.graph.op import OUT
from staticflow.graph.types import TensorType
from staticflow.ops import OPS
from staticflow.ops.gradient import pullback
from staticflow.ops.symbol import Symbol

every_op = pytest.mark.parametrize("name", list(OPS))
differentiable = pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.vjp is not None])
decomposed = pytest.mark.parametrize(
    "name", [n for n, op in OPS.items() if op.decompose is not None]
)


# -- calls in every mode --------------------------------------------------------------------------


def arrays_of(sample: Sample) -> list[Array]:
    return [a for a in pytree.flatten(sample.args)[0] if isinstance(a, np.ndarray)]


def with_arrays(sample: Sample, replacements: Sequence[Any]) -> Any:
    """The arguments of a sample with something else in place of each array."""
    rest = iter(replacements)
    return pytree.map_tree(lambda a: next(rest) if isinstance(a, np.ndarray) else a, sample.args)


def call(info: OpInfo, sample: Sample, arguments: Sequence[Any]) -> list[Any]:
    return pytree.flatten(info.call(*with_arrays(sample, arguments), **sample.kwargs))[0]


def run_eagerly(info: OpInfo, sample: Sample) -> list[Array]:
    tensors = [sf.from_numpy(a) for a in arrays_of(sample)]
    return [out.numpy() for out in call(info, sample, tensors)]


def expected_of(info: OpInfo, sample: Sample) -> list[Array]:
    out = info.expect(*sample.args, **sample.kwargs)
    return [np.asarray(a) for a in pytree.flatten(out)[0]]


def params_for(arrays: Sequence[Array], unknown: int | None = None) -> list[Node]:
    """A param for each array; dims of size ``unknown`` are one size that is not known."""
    n = Dim.of(Sym("n"))
    made = []
    for i, a in enumerate(arrays):
        shape: tuple[Size, ...] = tuple(n if d == unknown else d for d in a.shape)
        made.append(new_param(TensorType(dtype_of(a.dtype), shape), f"x{i}"))
    return made


def graph_of(info: OpInfo, sample: Sample, unknown: int | None = None) -> Graph:
    params = params_for(arrays_of(sample), unknown)
    outs = call(info, sample, [Symbol(p) for p in params])
    return close(params, [o.node for o in outs])


def assert_agree(info: OpInfo, actual: Sequence[Any], wanted: Sequence[Any], what: str) -> None:
    assert len(actual) == len(wanted), what
    for a, w in zip(actual, wanted, strict=True):
        assert (a.dtype, a.shape) == (w.dtype, w.shape), what
        dtype = dtype_of(w.dtype)
        if not dtype.is_floating:
            np.testing.assert_array_equal(a, w, what)
            continue
        wide_a, wide_w = a.astype(np.float64), w.astype(np.float64)
        np.testing.assert_allclose(wide_a, wide_w, *info.tolerance(dtype), err_msg=what)
        if info.zeros or info.exact:
            zeros = (wide_w == 0) & (wide_a == 0)
            np.testing.assert_array_equal(
                np.signbit(wide_a[zeros]), np.signbit(wide_w[zeros]), f"signs of zeros: {what}"
            )


# -- completeness ---------------------------------------------------------------------------------


@every_op
def test_declaration_is_complete(name: str) -> None:
    op = OPS[name]
    assert name in ROWS, "add a row to a table of tests/opinfo"
    info = ROWS[name]
    assert op.doc.strip().endswith((".", "stays.")), "the doc is a sentence"
    assert callable(op.infer) and callable(op.reference)
    assert (op.lowering is None) != (op.decompose is None), "one of lowering and decompose"
    assert info.grad == (op.vjp is not None)
    assert op.vjp is not None or not op.saves, "without a vjp nothing is saved"
    assert op.vjp is None or op.grad_name.endswith(("Backward0", "Backward")), "grad_fn has a name"
    assert op.promote in ("none", "common", "float", "tail")
    for dtype in info.dtypes:
        assert list(info.samples(dtype, False)), dtype
    assert not info.grad or list(info.samples(float64, True))
    assert info.sized is not None


@every_op
def test_row_leads_to_its_op(name: str) -> None:
    info = ROWS[name]
    dtype = info.dtypes[0]
    graphs = [graph_of(info, s) for s in info.samples(dtype, False)]
    assert any(n.op is OPS[name] for g in graphs for n in g.nodes)


# -- forward --------------------------------------------------------------------------------------


def each_sample(info: OpInfo) -> list[tuple[DType, Sample, str]]:
    return [
        (dtype, sample, f"{info.op.name}({sample})")
        for dtype in info.dtypes
        for sample in info.samples(dtype, False)
    ]


@every_op
def test_eager_and_interpreted_give_what_is_expected(name: str) -> None:
    """Also: the type that was inferred is the type that came out."""
    info = ROWS[name]
    for _, sample, what in each_sample(info):
        wanted = expected_of(info, sample)
        eager = run_eagerly(info, sample)
        assert_agree(info, eager, wanted, what)
        graph = graph_of(info, sample)
        for node, out in zip(graph.outputs, eager, strict=True):
            assert node.tensor_type == TensorType(dtype_of(out.dtype), out.shape), what
        assert_agree(info, interpret_graph(graph, arrays_of(sample)), eager, what)


@every_op
def test_unknown_sizes(name: str) -> None:
    """One graph, whatever the size that it was built without; 0 and 1 are sizes like any other."""
    info = ROWS[name]
    assert info.sized is not None
    dtype = info.dtypes[0]
    graph = graph_of(info, info.sized(dtype, 7), unknown=7)
    for n in (0, 1, 5):
        sample = info.sized(dtype, n)
        actual = interpret_graph(graph, arrays_of(sample))
        assert_agree(info, actual, expected_of(info, sample), f"{name}({sample})")


@every_op
def test_failures(name: str) -> None:
    info = ROWS[name]
    for failure in info.failures:
        refuse(failure, lambda f: run_eagerly(info, f.sample))
        if not failure.eager:
            refuse(failure, lambda f: graph_of(info, f.sample))


def refuse(failure: Failure, run: Callable[[Failure], Any]) -> None:
    with pytest.raises(failure.error, match=re.escape(failure.says)) as caught:
        run(failure)
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert re.search(r"\.py:\d+", text), f"no line of the user's in: {text}"


# -- decompositions -------------------------------------------------------------------------------


def decomposed_graph(info: OpInfo, sample: Sample, unknown: int | None = None) -> Graph:
    """The graph of a sample with the op replaced by its decomposition."""
    graph = graph_of(info, sample, unknown)
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        args = [new.get(a, a) for a in node.args]
        if node.op is info.op:
            assert info.op.decompose is not None
            new[node] = info.op.decompose(*map(Symbol, args), **node.attrs).node
        elif node.args:
            new[node] = Node(node.op, tuple(args), node.attrs, node.type, node.locs)
    return close(graph.params, [new.get(o, o) for o in graph.outputs], graph.equalities)


@decomposed
def test_decomposition(name: str) -> None:
    info = ROWS[name]
    for _, sample, what in each_sample(info):
        graph = decomposed_graph(info, sample)
        assert all(n.op is not info.op for n in graph.nodes)
        wanted = expected_of(info, sample)
        assert_agree(info, interpret_graph(graph, arrays_of(sample)), wanted, what)


@decomposed
def test_decomposition_with_unknown_sizes(name: str) -> None:
    info = ROWS[name]
    assert info.sized is not None
    dtype = info.dtypes[0]
    graph = decomposed_graph(info, info.sized(dtype, 7), unknown=7)
    for n in (0, 1, 5):
        sample = info.sized(dtype, n)
        actual = interpret_graph(graph, arrays_of(sample))
        assert_agree(info, actual, expected_of(info, sample), f"{name}({sample})")


# -- derivatives ----------------------------------------------------------------------------------

STEP = 1e-6


def smooth_samples(info: OpInfo) -> list[tuple[Sample, str]]:
    return [(s, f"gradient of {info.op.name}({s})") for s in info.samples(float64, True)]


def is_real(array: Array) -> bool:
    return bool(array.dtype == np.float64)


def weights(outs: Sequence[Any], seed: int) -> list[Array]:
    """A cotangent for each output."""
    return [values(tuple(o.shape), float64, 0.5, 2, seed=seed + i) for i, o in enumerate(outs)]


def weighted(outs: Sequence[Any]) -> Any:
    """One number that depends on every element of every output."""
    real = [o for o in outs if o.dtype.is_floating]
    parts = [(o * sf.from_numpy(w)).sum() for o, w in zip(real, weights(real, 5), strict=True)]
    return sum(parts[1:], parts[0])


def loss_at(info: OpInfo, sample: Sample, arrays: Sequence[Array]) -> float:
    with sf.no_grad():
        return float(weighted(call(info, sample, [sf.from_numpy(a) for a in arrays])))


def leaves_at(arrays: Sequence[Array]) -> list[Tensor]:
    return [sf.tensor(a, requires_grad=is_real(a)) for a in arrays]


def gradients(
    info: OpInfo, sample: Sample, arrays: Sequence[Array], create_graph: bool = False
) -> tuple[list[Tensor], list[Any]]:
    """The arguments that are differentiable and their gradients; None where nothing depends."""
    tensors = leaves_at(arrays)
    real = [t for t in tensors if t.requires_grad]
    loss = weighted(call(info, sample, tensors))
    if not loss.requires_grad:
        return real, [None] * len(real)
    return real, sf.grad(loss, real, allow_unused=True, create_graph=create_graph)


def or_zeros(gradient: Any, like: Any) -> Array:
    return np.zeros(like.shape) if gradient is None else gradient.detach().numpy()


def numerical_gradient(fn: Callable[[], float], array: Array) -> Array:
    """Central differences of ``fn``, which reads ``array``."""
    out = np.zeros(array.shape)
    for at in np.ndindex(array.shape):
        before = array[at]
        array[at] = before + STEP
        above = fn()
        array[at] = before - STEP
        out[at] = (above - fn()) / (2 * STEP)
        array[at] = before
    return out


def own_arrays(sample: Sample) -> list[Array]:
    return [np.array(a) for a in arrays_of(sample)]


# Their cotangents are not what differences give, on purpose.
STOPS = {"stop_gradient"}


@differentiable
def test_gradient_is_that_of_finite_differences(name: str) -> None:
    info = ROWS[name]
    for sample, what in smooth_samples(info):
        arrays = own_arrays(sample)
        real = [a for a in arrays if is_real(a)]
        _, found = gradients(info, sample, arrays)
        for array, gradient in zip(real, found, strict=True):
            if name in STOPS:
                assert gradient is None, what
                continue
            wanted = numerical_gradient(lambda: loss_at(info, sample, arrays), array)  # noqa: B023
            analytic = or_zeros(gradient, array)
            assert analytic.dtype == np.float64, what
            np.testing.assert_allclose(analytic, wanted, 1e-5, 1e-7, err_msg=what)


def directional(info: OpInfo, sample: Sample, arrays: Sequence[Array]) -> tuple[list[Tensor], Any]:
    """The gradient in one direction, as a number that can be differentiated again."""
    real, first = gradients(info, sample, arrays, create_graph=True)
    known = [g for g in first if g is not None]
    parts = [(g * sf.from_numpy(w)).sum() for g, w in zip(known, weights(known, 9), strict=True)]
    return real, sum(parts[1:], parts[0]) if parts else sf.tensor(0.0)


@differentiable
def test_second_derivative_is_that_of_finite_differences(name: str) -> None:
    info = ROWS[name]
    for sample, what in smooth_samples(info):
        arrays = own_arrays(sample)
        real, slope = directional(info, sample, arrays)
        if slope.requires_grad:
            second = sf.grad(slope, real, allow_unused=True)
        else:
            second = [None] * len(real)
        moves = [values(t.shape, float64, -1, 1, seed=3) for t in real]
        analytic = sum(np.sum(or_zeros(g, u) * u) for g, u in zip(second, moves, strict=True))
        numbers = []
        for sign in (1, -1):
            rest = iter(moves)
            moved = [a + sign * STEP * next(rest) if is_real(a) else a for a in arrays]
            numbers.append(directional(info, sample, moved)[1].item())
        wanted = (numbers[0] - numbers[1]) / (2 * STEP)
        np.testing.assert_allclose(analytic, wanted, 1e-4, 1e-6, err_msg=f"second {what}")


def gradient_graph(info: OpInfo, sample: Sample, unknown: int | None = None) -> Graph | None:
    """The gradients of the weighted outputs, with cotangents as further params."""
    params = params_for(arrays_of(sample), unknown)
    outs = [o for o in call(info, sample, [Symbol(p) for p in params]) if o.dtype.is_floating]
    cts = [new_param(o.node.tensor_type, "ct") for o in outs]
    real = [Symbol(p) for p in params if p.tensor_type.dtype.is_floating]
    found = pullback(outs, [Symbol(c) for c in cts], real)
    for p, g in zip(real, found, strict=True):
        assert g is None or g.node.tensor_type == p.node.tensor_type, f"{g} for {p}"
    kept = [g.node for g in found if g is not None]
    return close((*params, *cts), kept) if kept else None


@differentiable
def test_symbolic_gradient_is_the_eager_one(name: str) -> None:
    info = ROWS[name]
    for sample, what in smooth_samples(info):
        arrays = own_arrays(sample)
        _, eager = gradients(info, sample, arrays)
        graph = gradient_graph(info, sample)
        found = [g for g in eager if g is not None]
        if graph is None:
            assert not found, what
            continue
        cts = weights([p.tensor_type for p in graph.params[len(arrays) :]], 5)
        actual = interpret_graph(graph, [*arrays, *cts])
        for a, e in zip(actual, found, strict=True):
            np.testing.assert_allclose(a, e.numpy(), 1e-12, 1e-12, err_msg=what)


@differentiable
def test_gradient_with_unknown_sizes(name: str) -> None:
    info = ROWS[name]
    assert info.sized is not None
    graph = gradient_graph(info, info.sized(float64, 7), unknown=7)
    for n in (0, 1, 5) if graph is not None else ():
        sample = info.sized(float64, n)
        arrays = own_arrays(sample)
        outs = expected_of(info, sample)
        assert graph is not None
        cts = [w.astype(o.dtype) for o, w in zip(outs, weights(outs, 5), strict=True)]
        actual = interpret_graph(graph, [*arrays, *cts])
        if n == 0:  # the shapes are the whole answer, up to zeros
            assert all(np.isfinite(a).all() for a in actual), name
            continue
        eager = [g for g in gradients(info, sample, arrays)[1] if g is not None]
        for a, e in zip(actual, eager, strict=True):
            np.testing.assert_allclose(a, e.numpy(), 1e-12, 1e-12, err_msg=f"{name}, n = {n}")


# -- native code ----------------------------------------------------------------------------------

EVERYTHING = os.environ.get("OPINFO_EVERYTHING", "0") not in ("", "0")
"""Compile every sample in every dtype, with sizes known and unknown: minutes instead of seconds."""


def is_special(sample: Sample) -> bool:
    """Whether it holds the awkward values, which every dtype should meet."""
    return any(a.size and not np.isfinite(a.astype(np.float64)).all() for a in arrays_of(sample))


def compiled_samples(info: OpInfo, unknown: bool) -> dict[DType, list[Sample]]:
    """The samples to compile, each in one of the dtypes and in one of the two ways in turn."""
    found: dict[DType, list[Sample]] = {}
    for d, dtype in enumerate(info.dtypes):
        for i, sample in enumerate(info.samples(dtype, False)):
            turn = i % len(info.dtypes) == d and (i // len(info.dtypes)) % 2 == unknown
            if EVERYTHING or turn or (is_special(sample) and not unknown):
                found.setdefault(dtype, []).append(sample)
    return found


def placeholders_for(sample: Sample, name: str, unknown: bool) -> list[Symbol]:
    """With sizes unknown, all but those of 1: which dims stretch is part of the program."""
    return [
        sf.placeholder(
            tuple(None if unknown and n != 1 else n for n in a.shape),
            dtype_of(a.dtype),
            name=f"{name}_{i}",
        )
        for i, a in enumerate(arrays_of(sample))
    ]


def without(outs: list[Array], info: OpInfo, sample: Sample) -> list[Array]:
    """The results with what native code promises nothing of set to 0."""
    if info.beyond is None:
        return outs
    mask = info.beyond(*sample.args)
    return [np.where(mask, o.dtype.type(0), o) for o in outs]


def assert_program_agrees(info: OpInfo, samples: Sequence[Sample], unknown: bool) -> None:
    """One program for all samples."""
    inputs: list[Symbol] = []
    outputs = []
    for i, sample in enumerate(samples):
        own = placeholders_for(sample, f"x{i}", unknown)
        inputs += own
        outputs.append(call(info, sample, own))
    program = sf.compile(inputs, outputs)
    results = program(*(a for s in samples for a in arrays_of(s)))
    for sample, result in zip(samples, results, strict=True):
        actual = without([r.numpy() for r in result], info, sample)
        wanted = without(expected_of(info, sample), info, sample)
        sizes = "unknown" if unknown else "known"
        assert_agree(info, actual, wanted, f"{info.op.name}({sample}), sizes {sizes}")


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@every_op
def test_native_code(name: str, unknown: bool) -> None:
    info = ROWS[name]
    for samples in compiled_samples(info, unknown).values():
        assert_program_agrees(info, samples, unknown)


@every_op
def test_one_program_for_every_size(name: str) -> None:
    info = ROWS[name]
    assert info.sized is not None
    dtype = info.dtypes[0]
    graph_inputs = arrays_of(info.sized(dtype, 7))
    inputs = [
        sf.placeholder(
            tuple("n" if d == 7 else d for d in a.shape), dtype_of(a.dtype), name=f"x{i}"
        )
        for i, a in enumerate(graph_inputs)
    ]
    program = sf.compile(inputs, call(info, info.sized(dtype, 7), inputs))
    for n in (0, 1, 5, 40):
        sample = info.sized(dtype, n)
        actual = [o.numpy() for o in program(*arrays_of(sample))]
        assert_agree(info, actual, expected_of(info, sample), f"{name}({sample})")
    assert program.compile_count == 1


@differentiable
def test_native_gradient_for_every_size(name: str) -> None:
    info = ROWS[name]
    assert info.sized is not None
    graph = gradient_graph(info, info.sized(float64, 7), unknown=7)
    if graph is None:
        assert name in STOPS
        return
    inputs = [Symbol(p) for p in graph.params]
    named = {f"p{i}": p for i, p in enumerate(inputs)}
    program = sf.compile(named, [Symbol(o) for o in graph.outputs])
    for n in (0, 1, 5):
        sample = info.sized(float64, n)
        outs = expected_of(info, sample)
        cts = [w.astype(o.dtype) for o, w in zip(outs, weights(outs, 5), strict=True)]
        arrays = [*arrays_of(sample), *cts]
        wanted = interpret_graph(graph, arrays)
        for a, w in zip(program(*arrays), wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), w, 1e-12, 1e-12, err_msg=f"{name}, n = {n}")


@differentiable
def test_a_gradient_has_the_dtype_of_its_tensor(name: str) -> None:
    info = ROWS[name]
    for dtype in (d for d in info.dtypes if d.is_floating):
        sample = next(s for s in info.samples(dtype, False) if all(a.size for a in arrays_of(s)))
        tensors = [sf.tensor(a) for a in arrays_of(sample)]
        for t in tensors:
            t.requires_grad = t.dtype.is_floating
        for out in call(info, sample, tensors):
            if out.requires_grad:
                out.sum().backward(retain_graph=True)
        for t in tensors:
            assert t.grad is None or (t.grad.dtype, t.grad.shape) == (t.dtype, t.shape), dtype


def test_saves_name_arguments() -> None:
    """Positions that exist, and only of ops with a vjp. That nothing else is used shows in every
    backward: the other arguments are kept as shapes without values."""
    for op in OPS.values():
        assert all(i == OUT or i >= 0 for i in op.saves), op


def test_every_dtype_is_sampled() -> None:
    """By the tables as a whole."""
    assert {d for row in ROWS.values() for d in row.dtypes} >= set(DTYPES) - {sf.int16}
