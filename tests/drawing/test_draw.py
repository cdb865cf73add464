"""``sf.draw`` and ``python -m staticflow view``: what they take, write and refuse."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from test_drawing import nested

import staticflow as sf
from staticflow.comparison.pictures import load_picture
from staticflow.comparison.source import _models_of, import_source
from staticflow.drawing import events
from staticflow.drawing.model import Drawing
from staticflow.errors import ArgumentError, AutogradError, DTypeError
from staticflow.tools.cli import main

PROGRAM = """
import staticflow as sf
from staticflow import nn

x = sf.placeholder((None, 3), name="x")
step = sf.compile([x], (x * 1).exp().sum())
loss = (sf.ones(3, requires_grad=True) * 2).sum()
uncalled = sf.jit(lambda a: a + 1)
number = 3
example_inputs = ("x: f32[batch=4, 3]",)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x).relu()

def loss_of(output):
    return output.pow(2).mean()

def make():
    return step

def fail():
    return 1 / 0
""".replace("def loss_of(", "def loss(").replace("loss = (", "result = (")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("prog.py").write_text(PROGRAM)
    return "prog.py"


def test_everything_of_a_graph_can_be_drawn() -> None:
    x = sf.placeholder((2,), name="x")
    y = x.exp()
    step = sf.compile([x], y)
    f = sf.jit(lambda a: a.exp())
    f(sf.ones(2))
    w = sf.ones(2, requires_grad=True)
    for thing, nodes in [
        (step.graph, 2), (y, 2), ([y, y + x], 3), (w * 2, 2), ((w.exp(), w * 2), 3),
    ]:  # fmt: skip
        assert len(sf.draw(thing).drawing.nodes) == nodes
    assert [s.name for s in sf.draw(step).stages] == ["written", "fuse"]
    assert sf.draw(f).drawing.title == "<lambda>"
    assert "<svg" in sf.draw(step)._repr_svg_()


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(DTypeError, match=r"draw: an int is no program.* at .*test_draw\.py"):
        sf.draw(3)
    with pytest.raises(DTypeError, match="was not called yet"):
        sf.draw(sf.jit(lambda a: a))
    with pytest.raises(AutogradError, match=r"has no tape.*test_draw\.py"):
        sf.draw(sf.ones(2))
    x = sf.placeholder((2,), name="x")
    with pytest.raises(ArgumentError, match=r"'a\.gif' ends in none of \.html, \.svg"):
        sf.draw(x, "a.gif")
    with pytest.raises(ArgumentError, match=r"'fusion' is no pass .* these did: written, fuse"):
        sf.draw(sf.compile([x], x.exp()), after="fusion")


def test_files_of_all_formats_are_written(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--html", "a.html", "--svg", "a.svg", "--dot", "a.dot", "--json", "a.json"]
    assert main(["view", f"{file}:step", *asked, "--pass", "written"]) == 0
    assert "5 nodes" in capsys.readouterr().out
    drawing = Drawing.from_dict(json.loads(Path("a.json").read_text()))
    assert [n.label for n in drawing.nodes] == ["x", "1.0", "mul", "exp", "sum"]
    assert Path("a.dot").read_text().count("->") == len(drawing.edges) == 4
    ElementTree.parse("a.svg")
    assert Path("a.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("name", ["step", "make", "make()", "result", "Net", "Net()"])
def test_things_of_a_file_are_found_by_name(
    name: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", f"{file}:{name}"]) == 0
    page = f"{name.removesuffix('()')}.html"
    assert page in capsys.readouterr().out and Path(page).is_file()


def test_a_file_with_one_thing_needs_no_name(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("alone.py").write_text(
        "import staticflow as sf\nx = 3\ndoubled = sf.ones(2, requires_grad=True) * 2\n"
    )
    assert main(["view", "alone.py", "--dot", "-"]) == 0
    assert "alone.py:doubled" in capsys.readouterr().out


def test_a_model_has_a_tape(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", f"{file}:Net", "--eager", "--dot", "-"]) == 0
    text = capsys.readouterr().out
    assert "linear.weight" in text and "relu" in text and text.startswith("digraph")


def test_a_model_is_drawn_with_the_inputs_that_are_asked_for(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path(file)
    source.write_text(source.read_text().replace("example_inputs =", "others ="))
    assert main(["view", f"{file}:Net", "--dot", "-"]) == 2
    assert "--input on the command line" in capsys.readouterr().err
    assert main(["view", f"{file}:Net", "--input", "rows: f32[N=5, 3]", "--dot", "-"]) == 0
    assert "rows" in capsys.readouterr().out


def test_the_text_of_a_graph_is_drawn(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    graph = nested().graph
    Path("nested.sf").write_text(str(graph))
    assert main(["view", "nested.sf", "--json", "-"]) == 0
    drawing = Drawing.from_dict(json.loads(capsys.readouterr().out))
    ours = sf.draw(graph).drawing
    assert [(n.label, n.type, n.parent) for n in drawing.nodes] == [
        (n.label, n.type, n.parent) for n in ours.nodes
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothere.py:x"], "there is no file 'nothere.py'"),
        (["nothere.sf"], "there is no file 'nothere.sf'"),
        (["prog.py"], "write prog.py:NAME, it has x, step, result, uncalled, Net"),
        (["prog.py:stp"], "prog.py has no 'stp'; it has x, step"),
        (["prog.py:number"], "an int is no program"),
        (["prog.py:fail"], "prog.py:fail cannot be called: ZeroDivisionError"),
        (["prog.py:uncalled"], "prog.py:uncalled was not called yet"),
        (["prog.py:step", "--eager"], "only a model has an eager step"),
        (["prog.py:step", "--input", "f32[3]"], "a Program; only a model is given inputs"),
        (["wrong.sf", "--input", "f32[3]"], "a graph as text; only a model is given inputs"),
        (["prog.py:Net", "--input", "f32[3"], "'f32[3' is not an input"),
        (["prog.py:step", "--pass", "x"], "'x' is no pass that changed something"),
        (["prog.py:step", "--svg", "no/a.svg"], "cannot be written to 'no/a.svg'"),
        (["prog.py:step", "--tensorboard", "prog.py/x"], "cannot be written to 'prog.py/x'"),
        (["prog.py:step", "--size", "M=3"], "'M' is no size of what is drawn"),
        (["wrong.sf"], "wrong.sf: line 1, column 1: expected 'graph', found 'grap'\n"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("wrong.sf").write_text("grap")
    before = sorted(Path().iterdir())
    assert main(["view", *arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and out == "" and "<unknown" not in err
    assert [p for p in sorted(Path().iterdir()) if p.name != "__pycache__"] == before


def test_tensorboard_reads_what_is_written(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    picture = sf.draw(nested())
    runs = events.write_events(picture.stages, tmp_path)
    assert [r.name for r in runs] == [f"{i} {s.name}" for i, s in enumerate(picture.stages, 1)]
    read = accumulator.EventAccumulator(str(runs[0]))
    read.Reload()
    nodes = {n.name: n for n in read.Graph().node}
    groups = {n.parent for n in picture.stages[0].drawing.nodes}
    assert len(nodes) == len(picture.stages[0].drawing.nodes) - len(groups - {None})
    assert all(source in nodes for n in nodes.values() for source in n.input)
    (branch,) = (n for name, n in nodes.items() if "/true_" in name and n.op == "mul")
    assert branch.attr["lines"].s.startswith(b"test_drawing.py:")
    shape = nodes["x_0"].attr["_output_shapes"].list.shape[0]
    assert [d.size for d in shape.dim] == [-1, 3]


def test_without_tensorboard_its_package_is_named(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    assert main(["view", f"{file}:step", "--tensorboard", "runs"]) == 2
    assert 'pip install "staticflow[tensorboard]"' in capsys.readouterr().err


def test_tensors_have_the_names_of_the_code() -> None:
    scale, layer = sf.ones(3), sf.nn.Linear(3, 2)
    x = sf.placeholder((None, 3), name="x")
    step = sf.compile([x], {"y": layer(x * scale)}, updates={scale: sf.symbol(scale) + 1})
    nodes = sf.draw(step).drawing.nodes
    assert {n.label for n in nodes if n.kind == "variable"} == {"scale", "weight", "bias"}
    assert {o for n in nodes if n.parent is None for o in n.outputs} == {"output['y']", "new scale"}


EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.campaign
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_models_of_the_examples_are_drawn(path: Path) -> None:
    for name in (
        _models_of(import_source(str(path))) if "example_inputs" in path.read_text() else ()
    ):
        tape = load_picture(f"{path}:{name}", is_eager=True)
        assert tape.drawing.kind == "tape" and tape.html()
        try:
            picture = load_picture(f"{path}:{name}")
        except ArgumentError as error:  # Python asks for a value of it
            assert "cannot be a graph, and --eager draws its tape" in str(error)
            continue
        ids = [n.id for n in picture.drawing.nodes]
        for is_open in (True, False):
            nodes = ids if is_open else [n for n in picture.drawing.nodes if n.parent is None]
            assert picture.svg(is_open).count("<rect") == len(nodes)
        assert len(picture.html()) < 2e6
        assert Drawing.from_dict(picture.drawing.as_dict()) == picture.drawing
