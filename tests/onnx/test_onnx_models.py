"""Models of the examples, loops, training steps, and what is refused, as models of ONNX."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_judge import checked, model_bytes, run_model

import staticflow as sf
from staticflow import nn, pytree
from staticflow.comparison.job import Request
from staticflow.comparison.requests import job_of
from staticflow.nn import functional as F

pytest.importorskip("onnx.checker", reason="models of ONNX are written and checked by onnx")
pytest.importorskip("onnxruntime", reason="models of ONNX are run by onnxruntime")

FOLDER = Path(__file__).parents[2] / "examples"
MODELS = {
    "custom_module.py:Polynomial": {"MatMul"},
    "lenet.py:LeNet": {"Conv", "MaxPool", "Gemm", "Relu"},
    "lstm_classifier.py:Classifier": {"Scan", "Gather"},
    "peers.py:two_layer": {"Gemm", "Relu"},
    "rnn_scan.py:Recurrent": {"Scan"},
    "transformer.py:Reverser": {"Softmax", "MatMul", "Gather"},
    "truncated_bptt.py:Predictor": {"Scan"},
    "two_layer_nn.py:network": {"Gemm", "Relu"},
    "weight_sharing.py:RandomDepth": {"Loop"},
}
"""The models of the examples, and operators that each is written in."""


def agree(actual: Any, wanted: Any, bound: float = 2e-5) -> None:
    actual = list(actual)
    leaves = pytree.flatten(wanted)[0]
    assert len(actual) == len(leaves)
    for a, y in zip(actual, leaves, strict=True):
        w = y.detach().numpy()
        assert (a.dtype, a.shape) == (w.dtype, w.shape)
        np.testing.assert_allclose(a, w, bound, bound)


def arrays(results: Any) -> list[Any]:
    return [y.detach().numpy() for y in pytree.flatten(results)[0]]


def kinds(graph: Any) -> set[str]:
    return {n.op_type for n in graph.node}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_the_examples(name: str) -> None:
    job = job_of(Request(f"{FOLDER}/{name}", steps=2))
    model = job.make().eval()
    data = model_bytes(model, job.placeholders()[: job.model_takes])
    assert kinds(checked(data).graph) >= MODELS[name]
    loaded = sf.onnx.load(data)
    symbols = loaded.placeholders()
    program = sf.compile(list(symbols), loaded(*symbols))
    for less in (0, 1):
        sizes = {n: s - less for n, s in job.sizes.items()}
        batch = job.batches(1, sizes)[0][: job.model_takes]
        tensors = [*map(sf.from_numpy, batch)]
        wanted = model(*tensors)
        for found in (run_model(data, batch), arrays(loaded(*tensors)), arrays(program(*batch))):
            agree(found, wanted)


def test_names_sizes_and_lines_are_those_of_the_user() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    found = checked(model_bytes(model, sf.placeholder(("batch", 3), name="x")))
    graph = found.graph
    assert [i.name for i in graph.input] == ["x"]
    shape = graph.input[0].type.tensor_type.shape.dim
    assert (shape[0].dim_param, shape[1].dim_value) == ("batch", 3)
    names = {i.name for i in graph.initializer}
    assert names >= {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert all(".py:" in n.doc_string for n in graph.node if n.op_type != "Identity")
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert found.producer_name == "staticflow"


def test_sizes_are_computed_in_the_graph() -> None:
    x = sf.placeholder(("n", "m"), name="x")
    n, m = x.shape
    whole = x.reshape(n * m)[: (n * m) // 2 + 1]
    data = model_bytes(sf.compile([x], {"sum": whole.sum(), "size": whole * float(2) + n}))
    for shape in ((4, 3), (1, 1), (5, 7)):
        a = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        flat = a.reshape(-1)[: a.size // 2 + 1]
        sized, total = run_model(data, [a])
        np.testing.assert_allclose(total, flat.sum(), 1e-5, 1e-6)
        np.testing.assert_allclose(sized, flat * 2 + shape[0], 1e-6)


def test_two_sizes_of_one_name_stay_apart() -> None:
    x, y = sf.placeholder((None,), name="x"), sf.placeholder((None,), name="x_1")
    program = sf.compile([x, y], [x.sum() + x.shape[0], y * 2])
    graph = checked(model_bytes(program)).graph
    dims = [i.type.tensor_type.shape.dim[0].dim_param for i in graph.input]
    assert len({*dims}) == 2


@pytest.mark.parametrize("rows", [1, 5])
def test_loops_and_branches(rows: int) -> None:
    x = sf.placeholder(("T", 2), name="x")

    def step(c: Any, r: Any) -> Any:
        c = sf.cond(c.sum() > 1, lambda: c - r, lambda: c + 2 * r)
        return c, c * c

    last, ys = sf.scan(step, sf.zeros(2), x)
    _, back = sf.scan(lambda c, r: (c + r, c), sf.zeros(2), x, reverse=True)
    doubled = sf.while_loop(lambda t: t.sum() < 50, lambda t: 2 * t + 1, last)
    program = sf.compile([x], [last, ys, back, doubled])
    data = model_bytes(program)
    assert kinds(checked(data).graph) >= {"Scan", "Loop"}
    a = np.random.default_rng(rows).standard_normal((rows, 2)).astype(np.float32)
    agree(run_model(data, [a]), program(a))


def test_a_training_step_gives_the_new_values_and_takes_the_old() -> None:
    x, y = sf.placeholder(("N", 3), name="x"), sf.placeholder(("N", 1), name="y")
    model = nn.Linear(3, 1)
    loss = ((model(x) - y) ** 2).mean()
    optimizer = sf.optim.SGD(model.parameters(), lr=0.1)
    program = sf.compile([x, y], loss, updates=optimizer.minimize(loss))
    data = model_bytes(program)
    graph = checked(data).graph
    assert [o.name for o in graph.output] == ["output", "weight.new", "bias.new"]
    assert [i.name for i in graph.input] == ["x", "y", "weight", "bias"]
    random = np.random.default_rng(0)
    batch = [random.standard_normal((4, n)).astype(np.float32) for n in (3, 1)]
    found = run_model(data, batch)
    wanted = program(*batch)
    agree(found, [wanted, model.weight, model.bias])


class Resized(nn.Module):
    """Borders, pooling, resizing and running values, whose derivatives are ops of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect")
        self.second = nn.Conv2d(4, 2, 3, stride=2, padding=1)

    def forward(self, x: Any) -> Any:
        y = self.first(x).relu()
        z = F.interpolate(F.max_pool2d(y, 2), scale_factor=2, mode="bilinear")
        z = z + F.adaptive_max_pool2d(y, (3, 2)).sum((2, 3), keepdim=True)
        z = z + F.adaptive_avg_pool2d(y, (3, 5)).prod(-1).sum(-1)[:, :, None, None]
        return F.fold(F.unfold(self.second(z), 2), (4, 4), 2).cummax(-1)[0].logcumsumexp(2)


def test_gradients_of_what_resizes_and_pads() -> None:
    x = sf.placeholder(("N", 2, 8, 8), name="x")
    sf.manual_seed(0)
    model = Resized()
    loss = model(x).sin().mean()
    program = sf.compile([x], [loss, *sf.grad(loss, [x, *model.parameters()])])
    a = np.random.default_rng(0).standard_normal((3, 2, 8, 8)).astype(np.float32)
    agree(run_model(model_bytes(program), [a]), program(a))


def test_a_module_is_written_as_in_evaluation() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    model(sf.ones(2, 3))
    assert model.training
    data = model_bytes(model, sf.placeholder(("N", 3), name="x"))
    assert model.training and all(m.training for m in model.modules())
    a = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    agree(run_model(data, [a]), model.eval()(sf.from_numpy(a)))


def test_random_numbers_are_those_of_the_state() -> None:
    x = sf.placeholder((3,), name="x")
    sf.manual_seed(7)
    data = model_bytes(sf.compile([x], x + sf.rand_like(x)))
    sf.manual_seed(7)
    wanted = sf.zeros(3) + sf.rand_like(sf.zeros(3))
    agree(run_model(data, [np.zeros(3, np.float32)])[:1], [wanted])


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (FOLDER.parent / "docs" / "onnx.md").read_text()
    first, second = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(first, names)
    a = np.ones((5, 3), np.float32)
    for file in ("model.onnx", "program.onnx"):
        agree(run_model(Path(file).read_bytes(), [a]), names["model"](sf.from_numpy(a)))
    exec(second, names)
    agree([names["program"](a).numpy()], names["y"])
    agree(run_model(Path("trained.onnx").read_bytes(), [a]), names["y"])


def test_paths_and_files(tmp_path: Path) -> None:
    x = sf.placeholder((2,), name="x")
    program = sf.compile([x], x * 2)
    sf.onnx.export(program, tmp_path / "a.onnx")
    sf.onnx.export(program, str(tmp_path / "b.onnx"))
    file = io.BytesIO()
    sf.onnx.export(program, file)
    texts = {(tmp_path / n).read_bytes() for n in ("a.onnx", "b.onnx")} | {file.getvalue()}
    assert len(texts) == 1


def test_a_path_is_as_it_was_where_nothing_is_exported(tmp_path: Path) -> None:
    x = sf.placeholder((3, 3), name="x")
    fine, refused = sf.compile([x], x * 2), sf.compile([x], sf.linalg.cholesky(x))
    with pytest.raises(
        FileNotFoundError, match=r"onnx\.export: there is no folder .*makedirs.* at "
    ):
        sf.onnx.export(fine, tmp_path / "none" / "a.onnx")
    with pytest.raises(IsADirectoryError, match=r"onnx\.export: .* is a folder"):
        sf.onnx.export(fine, tmp_path)
    sf.onnx.export(fine, tmp_path / "a.onnx")
    before = (tmp_path / "a.onnx").read_bytes()
    with pytest.raises(sf.SymbolicError, match="cholesky"):
        sf.onnx.export(refused, tmp_path / "a.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["a.onnx"]
    assert (tmp_path / "a.onnx").read_bytes() == before


def test_tensors_and_dicts_say_what_inputs_are() -> None:
    model = nn.Linear(3, 2)
    graph = checked(model_bytes(model, sf.ones(5, 3))).graph
    assert [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == [5, 3]
    data = model_bytes(model, {"input": np.ones((4, 3), np.float32)})
    assert checked(data).graph.input[0].name == "input"


def test_what_is_refused_says_the_operation_the_line_and_what_to_do() -> None:
    x = sf.placeholder((3, 3), name="x")
    refused = r"cholesky\(f32\[3, 3\]\) has no form in ONNX: no operator .* at .*test_onnx_models"
    with pytest.raises(sf.SymbolicError, match=refused):
        model_bytes(lambda x: sf.linalg.cholesky(x), x)
    with pytest.raises(sf.ArgumentError, match=r"takes a program of sf\.compile, a module"):
        model_bytes(3)
    with pytest.raises(sf.ArgumentError, match="say of which inputs"):
        model_bytes(nn.Linear(3, 3))
    with pytest.raises(sf.ArgumentError, match="a program has its inputs"):
        model_bytes(sf.compile([x], x), x)
    with pytest.raises(sf.ArgumentError, match="an input is list; it must be a placeholder"):
        model_bytes(nn.Linear(3, 3), [[1.0]])
    with pytest.raises(sf.ArgumentError, match="'path' must be a path or an open file, not int"):
        sf.onnx.export(sf.compile([x], x), 3)  # type: ignore[arg-type]


def test_without_onnx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "staticflow\[onnx\]"'):
        model_bytes(nn.Linear(3, 3), sf.ones(1, 3))
