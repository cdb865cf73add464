"""Models of ONNX as modules: out and in again, trained, compiled, saved; and of others' making."""

# ruff: noqa: E402
from __future__ import annotations

import copy
import io
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="models of ONNX are read by onnx")

from onnx import TensorProto, helper, numpy_helper
from onnx_judge import model_bytes
from opinfo import ROWS
from opinfo.modes import arrays_of, call
from slices import daily

import staticflow as sf
from staticflow import nn, pytree
from staticflow.comparison.job import Request
from staticflow.comparison.requests import job_of
from staticflow.graph.dtypes import dtype_of
from staticflow.onnx.table import way_of
from staticflow.ops import OPS

FOLDER = Path(__file__).parents[2] / "examples"
MODELS = (
    "custom_module.py:Polynomial", "lenet.py:LeNet", "lstm_classifier.py:Classifier",
    "peers.py:two_layer", "rnn_scan.py:Recurrent", "transformer.py:Reverser",
    "truncated_bptt.py:Predictor", "two_layer_nn.py:network", "weight_sharing.py:RandomDepth",
)  # fmt: skip

NOT_COMPILED = {"lstm_classifier.py:Classifier"}
"""Models that come back eagerly alone: inside of their loop sizes are of values that it computes."""


def leaves(value: Any) -> list[Any]:
    return [v.detach().numpy() for v in pytree.flatten(value)[0]]


def agree(found: Any, wanted: Any, bound: float = 1e-5) -> None:
    for a, w in zip(leaves(found), leaves(wanted), strict=True):
        assert (a.dtype, a.shape) == (w.dtype, w.shape)
        np.testing.assert_allclose(a.astype(np.float64), w.astype(np.float64), bound, bound)


def graph_of(nodes: Any, inputs: Any, outputs: Any, initializers: Any = (), **more: Any) -> bytes:
    """A model of nodes, written by onnx alone."""
    infos = [
        [helper.make_tensor_value_info(n, t, s) for n, t, s in values]
        for values in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "made", *infos, initializers)
    version = more.pop("opset", 21)
    imports = [helper.make_opsetid("", version), *more.pop("imports", ())]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, **more)
    return model.SerializeToString()


FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


# -- out and in ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_models_of_the_examples_come_back(name: str) -> None:
    job = job_of(Request(f"{FOLDER}/{name}", steps=2))
    first = job.make().eval()
    xs = job.placeholders()[: job.model_takes]
    model = sf.onnx.load(model_bytes(first, xs))
    assert set(model.state_dict()) <= set(first.state_dict())
    batch = [sf.from_numpy(a) for a in job.batches(1, job.sizes)[0][: job.model_takes]]
    agree(model(*batch), first(*batch), 2e-5)
    if name not in NOT_COMPILED:
        inputs = list(model.placeholders())
        agree(sf.compile(inputs, model(*inputs))(*batch), first(*batch), 2e-5)
    for m in (first, model):
        sum((y * y).sum() for y in pytree.flatten(m(*batch))[0] if y.dtype.is_floating).backward()
    theirs = dict(first.named_parameters())
    for n, p in model.named_parameters():
        if p.grad is not None:
            agree(p.grad, theirs[n].grad, 2e-4)
        p_grad = theirs[n].grad
        assert (p.grad is None) == (p_grad is None) or not p_grad.any()


def test_training_goes_on_as_it_would_have() -> None:
    sf.manual_seed(1)
    first = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 2))
    x, y = sf.randn(5, 1, 8, 8), sf.randn(5, 2)
    model = sf.onnx.load(model_bytes(first, sf.placeholder(("N", 1, 8, 8), name="x")))
    for m in (first, model):
        optimizer = sf.optim.SGD(m.parameters(), lr=0.1)
        optimizer.zero_grad()
        ((m(x) - y) ** 2).mean().backward()
        optimizer.step()
    assert list(first.state_dict()) == list(model.state_dict())
    for (n, p), (m_name, q) in zip(first.named_parameters(), model.named_parameters(), strict=True):
        assert n == m_name
        agree(q, p)


def test_a_compiled_step_trains_it() -> None:
    model = sf.onnx.load(model_bytes(nn.Linear(3, 1), sf.placeholder(("N", 3), name="x")))
    (x,) = model.placeholders()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    step = sf.compile([x], loss, updates=sf.optim.SGD(model.parameters(), lr=0.1).minimize(loss))
    a = sf.randn(20, 3)
    losses = [step(a).item() for _ in range(30)]
    assert losses[-1] < losses[0] / 3


def test_a_model_in_memory_is_read_as_its_bytes_are() -> None:
    written = model_bytes(nn.Linear(3, 2), sf.placeholder(("N", 3), name="x"))
    x = sf.randn(4, 3)
    agree(sf.onnx.load(onnx.load_from_string(written))(x), sf.onnx.load(written)(x))


def test_kinds_that_were_exported_come_back() -> None:
    first = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.GELU())
    model = sf.onnx.load(model_bytes(first.eval(), sf.placeholder(("N", 3), name="x")))
    assert [n for n, _ in model.named_parameters()] == [n for n, _ in first.named_parameters()]
    buffers = {n for n, _ in model.named_buffers()}
    assert buffers == {"1.running_mean", "1.running_var"}


def test_jit_copies_and_state_files() -> None:
    model = sf.onnx.load(model_bytes(nn.Linear(3, 2), sf.placeholder(("N", 3), name="x")))
    x = sf.randn(4, 3)
    agree(sf.jit(model)(x), model(x))
    other = copy.deepcopy(model)
    with sf.no_grad():
        other.weight.zero_()
    assert model.weight.abs().sum().item() > 0
    other.load_state_dict(model.state_dict())
    agree(other(x), model(x))
    (row,) = model.placeholders()
    file = io.BytesIO()
    sf.compile([row], model(row)).save(file)
    file.seek(0)
    agree(sf.load_program(file)(x), model(x))
    assert "takes x: f32[N, 3]" in repr(model)


def test_a_training_step_comes_back_as_what_it_gives() -> None:
    x = sf.placeholder(("N", 3), name="x")
    first = nn.Linear(3, 1)
    loss = first(x).square().mean()
    program = sf.compile([x], loss, updates=sf.optim.SGD(first.parameters(), 0.1).minimize(loss))
    model = sf.onnx.load(model_bytes(program))
    assert model.output_names == ("output", "weight.new", "bias.new")
    a = sf.randn(6, 3)
    found = model(a)
    agree(found, [program(a), first.weight, first.bias])
    agree(model(a, weight=sf.zeros(1, 3), bias=sf.zeros(1))[0], sf.zeros(()))


@pytest.mark.parametrize("rows", [1, 4])
def test_loops_and_branches_come_back(rows: int) -> None:
    x = sf.placeholder(("T", 2), name="x")
    last, ys = sf.scan(lambda c, r: (c + r, c * r), sf.zeros(2), x)
    _, back = sf.scan(lambda c, r: (c + r, c - r), sf.zeros(2), x, reverse=True)
    doubled = sf.while_loop(lambda t: t.sum() < 50, lambda t: 2 * t + 1, last)
    branch = sf.cond(last.sum() > 0, lambda: last * 2, lambda: last - 1)
    program = sf.compile([x], [last, ys, back, doubled, branch])
    model = sf.onnx.load(model_bytes(program))
    a = sf.randn(rows, 2).abs()
    agree(model(a), program(a))
    (row,) = model.placeholders()
    again = sf.compile([row], model(row))
    agree(again(a), program(a))
    found = {str(n.op.name) for n in again.graph.nodes}
    assert found >= {"scan", "while", "cond"}


NAMES = sorted(name for name in ROWS if way_of(OPS[name]) != "refused")


def _called(info: Any, sample: Any, *given: Any) -> Any:
    return call(info, sample, given)


def check_row(name: str, every: int) -> None:
    """Samples of an op, exported and loaded, in both modes."""
    info = ROWS[name]
    for sample in list(info.samples(info.dtypes[0], False))[::every]:
        arrays = arrays_of(sample)
        tensors = [sf.from_numpy(a.copy()) for a in arrays]
        try:
            wanted = call(info, sample, tensors)
            xs = [
                sf.placeholder(a.shape, dtype_of(a.dtype), name=f"x{i}")
                for i, a in enumerate(arrays)
            ]
            data = model_bytes(partial(_called, info, sample), xs) if xs else None
        except sf.StaticflowError:
            continue
        if data is None:
            continue
        model = sf.onnx.load(data)
        what = f"{name}: {sample}"
        for found in (model(*tensors), _compiled(model, tensors)):
            for a, w in zip(leaves(found), leaves(wanted), strict=True):
                assert (a.dtype, a.shape) == (w.dtype, w.shape), what
                wide = [v.astype(np.float64) for v in (a, w)]
                np.testing.assert_allclose(*wide, 1e-4, 1e-5, err_msg=what)


def _compiled(model: Any, tensors: list[Any]) -> Any:
    xs = list(model.placeholders())
    return sf.compile(xs, model(*xs))(*tensors)


def test_operations_come_back() -> None:
    for name in daily(NAMES, 12, "onnx load"):
        check_row(name, 5)


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_all_operations_come_back(name: str) -> None:
    check_row(name, 1)


# -- of others' making -----------------------------------------------------------------------------


def test_names_lead_to_modules_and_never_collide() -> None:
    names = ["a.b", "a", "a.b.c", "forward", "x..y", "training", "_hooks", "0.weight", "a::b/c"]
    arrays = [numpy_helper.from_array(np.full(2, i, np.float32), n) for i, n in enumerate(names)]
    node = helper.make_node("Sum", names, ["y"])
    model = sf.onnx.load(graph_of([node], [], [("y", FLOAT, [2])], arrays))
    assert len(model.state_dict()) == len(names)
    assert {"a.b", "0.weight", "a::b/c"} <= set(model.state_dict())
    agree(model(), sf.full((2,), float(sum(range(len(names))))))


def test_what_shapes_are_made_of_is_no_parameter() -> None:
    shape = numpy_helper.from_array(np.array([-1, 2], np.int64), "shape")
    low = numpy_helper.from_array(np.float32(0), "low")
    scale = numpy_helper.from_array(np.full(1, 2, np.float32), "scale")
    ids = numpy_helper.from_array(np.arange(6), "ids")
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Clip", ["r", "low"], ["c"]),
        helper.make_node("Mul", ["c", "scale"], ["m"]),
        helper.make_node("Gather", ["m", "ids"], ["y"]),
    ]
    data = graph_of(nodes, [("x", FLOAT, ["N"])], [("y", FLOAT, [6, 2])], [shape, low, scale, ids])
    model = sf.onnx.load(data)
    assert [n for n, _ in model.named_parameters()] == ["scale"]
    assert [n for n, _ in model.named_buffers()] == ["low", "ids"]


@pytest.mark.parametrize("written", ["nodes", "initializers", "kinds of PyTorch's"])
def test_numbers_of_a_formula_are_not_trained(written: str) -> None:
    """A norm by the root of the mean square, as exporters write it: the exponent was a parameter,
    whose gradient is NaN for a negative number."""
    numbers = {"two": np.float32(2), "eps": np.float32(1e-5), "scale": np.float32([0.5, 2])}
    arrays = {n: numpy_helper.from_array(np.asarray(v), n) for n, v in numbers.items()}
    kept = ["weight", "temperature"]
    held = [
        numpy_helper.from_array(np.ones(2, np.float32), "weight"),
        numpy_helper.from_array(np.float32(3), "temperature"),
    ]
    nodes = [
        helper.make_node("Pow", ["x", "two"], ["p"]),
        helper.make_node("ReduceMean", ["p"], ["m"], keepdims=1),
        helper.make_node("Add", ["m", "eps"], ["e"]),
        helper.make_node("Sqrt", ["e"], ["r"]),
        helper.make_node("Div", ["x", "r"], ["n"]),
        helper.make_node("Mul", ["n", "scale"], ["k"]),
        helper.make_node("Mul", ["k", "weight"], ["w"]),
        helper.make_node("Mul", ["w", "temperature"], ["y"]),
    ]
    if written == "nodes":
        given = [helper.make_node("Constant", [], [n], value=a) for n, a in arrays.items()]
        nodes = [*given, *nodes]
    else:
        held += arrays.values()
    data = graph_of(nodes, [("x", FLOAT, ["N", 2])], [("y", FLOAT, ["N", 2])], held)
    if written == "kinds of PyTorch's":
        proto = onnx.load_from_string(data)
        for name in (*kept, "scale"):
            kind = "BUFFER" if name == "scale" else "PARAMETER"
            value = helper.make_tensor_value_info(name, FLOAT, None)
            key = "pkg.torch.export.graph_signature.InputSpec.kind"
            value.metadata_props.add(key=key, value=kind)
            proto.graph.value_info.append(value)
        data = proto.SerializeToString()
    model = sf.onnx.load(data)
    trained = {n for n, _ in model.named_parameters()}
    assert trained == {
        "nodes": {"weight"}, "initializers": {"weight", "scale"},
        "kinds of PyTorch's": {"weight", "temperature"},
    }[written]  # fmt: skip
    assert set(model.state_dict()) == {*numbers, *kept}
    optimizer = sf.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(sf.tensor([[-1.0, 2.0], [3.0, -4.0]])).square().sum().backward()
        optimizer.step()
    assert all(p.isfinite().all() for p in model.parameters())
    x = sf.placeholder((None, 2), name="x")
    out = io.BytesIO()
    sf.onnx.export(model, out, x)
    assert {n for n, _ in sf.onnx.load(out.getvalue()).named_parameters()} == trained


def test_sizes_stay_unknown() -> None:
    """The arithmetic of sizes that exporters write: Shape, Gather, Mul, Concat, Reshape."""
    one, two = (
        numpy_helper.from_array(np.array([v], np.int64), n) for v, n in ((1, "i"), (2, "k"))
    )
    first = numpy_helper.from_array(np.array([0], np.int64), "f")
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "f"], ["n"]),
        helper.make_node("Gather", ["s", "i"], ["m"]),
        helper.make_node("Div", ["m", "k"], ["half"]),
        helper.make_node("Concat", ["n", "k", "half"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    data = graph_of(
        nodes, [("x", FLOAT, ["batch", "width"])], [("y", FLOAT, ["a", 2, "b"])], [one, two, first]
    )
    model = sf.onnx.load(data)
    (x,) = model.placeholders()
    y = model(x)
    assert str(y.shape) == "(batch, 2, width//2)"
    a = sf.randn(3, 8)
    agree(sf.compile([x], y)(a), a.reshape(3, 2, 4))
    agree(model(a), a.reshape(3, 2, 4))


def test_attributes_that_became_inputs() -> None:
    """One model in the versions in which axes, bounds and ratios were attributes, and inputs."""

    def model(opset: int) -> Any:
        old = opset < 11
        axes = numpy_helper.from_array(np.array([1], np.int64), "axes")
        low = numpy_helper.from_array(np.float32(-0.5), "low")
        ends = [
            numpy_helper.from_array(np.array([v], np.int64), n) for v, n in ((1, "st"), (9, "en"))
        ]
        nodes = [
            helper.make_node("Clip", ["x"], ["c"], min=-0.5) if old
            else helper.make_node("Clip", ["x", "low"], ["c"]),
            helper.make_node("Slice", ["c"], ["s"], starts=[1], ends=[9], axes=[0]) if opset < 10
            else helper.make_node("Slice", ["c", "st", "en"], ["s"]),
            helper.make_node("ReduceSum", ["s"], ["r"], axes=[1]) if opset < 13
            else helper.make_node("ReduceSum", ["s", "axes"], ["r"]),
            helper.make_node("Squeeze", ["r"], ["q"], axes=[1]) if opset < 13
            else helper.make_node("Squeeze", ["r", "axes"], ["q"]),
            helper.make_node("Unsqueeze", ["q"], ["y"], axes=[1]) if opset < 13
            else helper.make_node("Unsqueeze", ["q", "axes"], ["y"]),
        ]  # fmt: skip
        used = {n for node in nodes for n in node.input}
        arrays = [a for a in (axes, low, *ends) if a.name in used]
        return sf.onnx.load(
            graph_of(nodes, [("x", FLOAT, ["N", 3])], [("y", FLOAT, None)], arrays, opset=opset)
        )

    a = sf.randn(5, 3)
    wanted = a.clamp(min=-0.5)[1:].sum(1, keepdim=True)
    for opset in (7, 9, 11, 12, 13, 18, 26):
        agree(model(opset)(a), wanted)


def test_a_squeeze_without_axes_takes_away_what_is_known_to_be_one() -> None:
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["two"], axis=0),
        helper.make_node("Squeeze", ["two"], ["y"]),
    ]
    model = sf.onnx.load(graph_of(nodes, [("x", FLOAT, ["N", 1, 3])], [("y", FLOAT, None)]))
    for rows in (
        1,
        2,
    ):  # of the doubled rows there are never one, of known ones everything is known
        a = sf.randn(rows, 1, 3)
        agree(model(a), sf.cat([a, a]).squeeze())
    x = sf.placeholder((None, 1, 3), name="x")
    with pytest.raises(
        sf.ShapeError, match=r"Squeeze without axes.* dim 0 may be one.*write the axes"
    ):
        model(x)
    more = sf.cat([sf.zeros(1, 1, 3), x])
    assert [str(n) for n in model(more).shape] == ["2*x_0 + 2", "3"]


def test_functions_of_the_model() -> None:
    body = [
        helper.make_node("Constant", [], ["c"], value_float=2.0),
        helper.make_node("Mul", ["a", "c"], ["m"]),
        helper.make_node("LeakyRelu", ["m"], ["b"]),
    ]
    leaky = body[-1].attribute.add()
    leaky.name, leaky.ref_attr_name, leaky.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    function = helper.make_function("mine", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 21)], ["slope"])  # fmt: skip
    nodes = [
        helper.make_node("Twice", ["x"], ["t"], domain="mine", slope=0.5),
        helper.make_node("Twice", ["t"], ["y"], domain="mine", slope=0.25),
    ]
    data = graph_of(
        nodes, [("x", FLOAT, [3])], [("y", FLOAT, [3])], functions=[function],
        imports=[helper.make_opsetid("mine", 1)],
    )  # fmt: skip
    model = sf.onnx.load(data)
    agree(model(sf.tensor([1.0, -1.0, 0.0])), sf.tensor([4.0, -0.5, 0.0]))


def test_inputs_are_held_to_what_the_file_says() -> None:
    model = sf.onnx.load(model_bytes(nn.Linear(3, 2), sf.placeholder(("N", 3), name="x")))
    with pytest.raises(sf.ShapeError, match=r"'x' has the shape \[2, 4\]; the file takes x: f32"):
        model(sf.ones(2, 4))
    with pytest.raises(sf.DTypeError, match=r"'x' is f64; the file takes f32: convert it"):
        model(sf.ones(2, 3, dtype="float64"))
    with pytest.raises(sf.ArgumentError, match=r"lacks x; it takes x"):
        model()
    with pytest.raises(sf.ArgumentError, match=r"'y' is no input of the file"):
        model(sf.ones(2, 3), y=sf.ones(1))
    with pytest.raises(sf.ArgumentError, match=r"was given 2 tensors"):
        model(sf.ones(2, 3), sf.ones(1))
    with pytest.raises(sf.DTypeError, match=r"'x' is int; give a tensor"):
        model(3)


def test_an_operation_that_fails_names_its_node() -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"], name="product")
    model = sf.onnx.load(
        graph_of([node], [("a", FLOAT, None), ("b", FLOAT, None)], [("y", FLOAT, None)])
    )
    with pytest.raises(sf.ShapeError, match=r"it is node 'product' \(MatMul\) of the bytes"):
        model(sf.ones(2, 3), sf.ones(2, 3))


def test_paths_and_open_files(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    sf.onnx.export(nn.Linear(3, 2), path, sf.placeholder(("N", 3), name="x"))
    for given in (path, str(path), path.read_bytes(), io.BytesIO(path.read_bytes())):
        assert sf.onnx.load(given)(sf.ones(1, 3)).shape == (1, 2)
    with open(path, "rb") as file:
        assert str(path) in repr(sf.onnx.load(file))
    with pytest.raises(sf.ArgumentError, match="takes a path, bytes, a file that is open"):
        sf.onnx.load(3)  # type: ignore[arg-type]
    with pytest.raises(
        FileNotFoundError, match=r"no file .*none.onnx'; give .* at .*_load.py"
    ) as e:
        sf.onnx.load(tmp_path / "none.onnx")
    assert isinstance(e.value, sf.ModelError)
    with pytest.raises(IsADirectoryError, match=r"'.*' is a folder; give .* at .*_load.py") as at:
        sf.onnx.load(tmp_path)
    assert isinstance(at.value, sf.ModelError)


def test_without_onnx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "staticflow\[onnx\]"'):
        sf.onnx.load(b"")
