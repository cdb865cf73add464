"""Files of ONNX that are damaged, absurd or meant to harm: each is one clear error of ours, or a
model that computes."""

# ruff: noqa: E402
from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="models of ONNX are read by onnx")

from onnx import TensorProto, helper, numpy_helper
from onnx_judge import model_bytes
from slices import today

import staticflow as sf
from staticflow import nn

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def relu(**more: Any) -> Any:
    """A model of one node, to be damaged."""
    node = helper.make_node("Add", ["x", "w"], ["y"], name="sum")
    weight = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    infos = [helper.make_tensor_value_info(n, FLOAT, [3]) for n in "xy"]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def edit(change: Callable[[Any], None]) -> bytes:
    model = relu()
    change(model)
    data: bytes = model.SerializeToString()
    return data


def _two(m: Any) -> None:
    m.graph.node.append(m.graph.node[0])


def _cycle(m: Any) -> None:
    m.graph.node[0].input[0] = "z"
    m.graph.node.append(helper.make_node("Relu", ["y"], ["z"]))


def _own(m: Any) -> None:
    m.graph.node[0].input[0] = "y"


def _recursive(m: Any) -> None:
    body = [helper.make_node("F", ["a"], ["b"], domain="d")]
    m.functions.append(
        helper.make_function("d", "F", ["a"], ["b"], body, [helper.make_opsetid("d", 1)])
    )
    m.opset_import.append(helper.make_opsetid("d", 1))
    m.graph.node[0].CopyFrom(helper.make_node("F", ["x"], ["y"], domain="d"))


def _laughs(m: Any) -> None:
    """Functions that call each other twice, 40 deep: a trillion nodes."""
    ids = [helper.make_opsetid("d", 1), helper.make_opsetid("", 21)]
    for i in range(20):
        kind = {"domain": "d"} if i else {}
        name = f"F{i - 1}" if i else "Relu"
        body = [
            helper.make_node(name, ["a"], ["c"], **kind),
            helper.make_node(name, ["c"], ["b"], **kind),
        ]
        m.functions.append(helper.make_function("d", f"F{i}", ["a"], ["b"], body, ids))
    m.opset_import.append(helper.make_opsetid("d", 1))
    m.graph.node[0].CopyFrom(helper.make_node("F19", ["x"], ["y"], domain="d"))


def _deep(m: Any) -> None:
    """Branches in branches, 27 of them."""
    out = helper.make_tensor_value_info
    flat = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["q"])], "in", [], [out("q", FLOAT, [3])]
    )
    graph = flat
    for i in range(26):
        node = helper.make_node("If", ["c"], [f"r{i}"], then_branch=graph, else_branch=flat)
        graph = helper.make_graph([node], "in", [], [out(f"r{i}", FLOAT, [3])])
    m.graph.input.append(out("c", TensorProto.BOOL, []))
    last = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=flat)
    m.graph.node[0].CopyFrom(last)


def _set(path: str, value: Any) -> Callable[[Any], None]:
    def change(m: Any) -> None:
        at = m
        *parts, last = path.split(".")
        for part in parts:
            at = at[int(part)] if part.isdigit() else getattr(at, part)
        if last.isdigit():
            at[int(last)] = value
        else:
            setattr(at, last, value)

    return change


def _dims(*dims: int) -> Callable[[Any], None]:
    def change(m: Any) -> None:
        m.graph.initializer[0].dims[:] = dims

    return change


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (lambda m: m.Clear(), "has no graph"),
    "a newer IR": (_set("ir_version", 99), "is of IR version 99; onnx .* install a newer onnx"),
    "no IR": (_set("ir_version", 0), "is of IR version 0"),
    "a newer opset": (_set("opset_import.0.version", 999), "is of opset 999; onnx .* knows"),
    "an opset below 1": (_set("opset_import.0.version", -3), "is of opset -3"),
    "a name that is no UTF-8": (lambda m: m.ParseFromString(m.SerializeToString().replace(b"sum", b"s\xffm")), r"has text that is no UTF-8, .*s.+xffm.*, as name"),
    "no opset": (lambda m: m.ClearField("opset_import"), "does not say which version"),
    "an opset twice": (lambda m: m.opset_import.append(m.opset_import[0]), "'' twice"),
    "an older form": (_set("opset_import.0.version", 6), r"'sum' \(Add\) is Add of version 6; it is read from version 7"),
    "an unknown operator": (_set("graph.node.0.op_type", "Frobnicate"), r"'sum' \(Frobnicate\) is an operator that onnx"),
    "an unknown domain": (_set("graph.node.0.domain", "com.example"), "of the domain 'com.example', and the model does not"),
    "an operator of texts": (lambda m: m.graph.node[0].CopyFrom(helper.make_node("StringConcat", ["x", "w"], ["y"])), "it is of texts"),
    "a value that nobody makes": (_set("graph.node.0.input.0", "nobody"), "takes 'nobody', which nothing in its graph 'g' makes"),
    "an output that nobody makes": (_set("graph.output.0.name", "nobody"), "gives 'nobody', which no node makes"),
    "a value made twice": (_two, "makes 'y' twice"),
    "an input twice": (lambda m: m.graph.input.append(m.graph.input[0]), "has two inputs of one name"),
    "an initializer twice": (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "the initializer 'w' twice"),
    "an initializer without a name": (_set("graph.initializer.0.name", ""), "an initializer without a name"),
    "a cycle": (_cycle, "needs its own result, by a cycle"),
    "a node of itself": (_own, "needs its own result"),
    "too few inputs": (lambda m: m.graph.node[0].input.pop(), "has 1 inputs; Add takes 2 to 2"),
    "too many inputs": (lambda m: m.graph.node[0].input.append("x"), "has 3 inputs"),
    "an input left out": (_set("graph.node.0.input.0", ""), "lacks its input 0"),
    "too many outputs": (lambda m: m.graph.node[0].output.append("z"), "has 2 outputs; Add gives 1 to 1"),
    "a strange attribute": (lambda m: m.graph.node[0].attribute.append(helper.make_attribute("alpha", 1.0)), "the attribute 'alpha', which Add of version 14 does not take"),
    "an attribute of another type": (lambda m: m.graph.node[0].CopyFrom(helper.make_node("LeakyRelu", ["x"], ["y"], alpha="s")), "not of the type"),
    "an attribute left out": (lambda m: m.graph.node[0].CopyFrom(helper.make_node("Concat", ["x", "w"], ["y"])), "lacks the attribute axis"),
    "a strange dtype": (_set("graph.initializer.0.data_type", 17), "'w' has the dtype FLOAT8E4M3FN, which is none of"),
    "no dtype": (_set("graph.initializer.0.data_type", 0), "has the dtype UNDEFINED"),
    "a dtype of nobody": (_set("graph.initializer.0.data_type", 4711), "has the dtype 4711"),
    "an absurd size": (_dims(1 << 60), r"has 12 bytes of data; f32\[1152921504606846976\] takes"),
    "absurd sizes": (_dims(1 << 40, 1 << 40), "has 12 bytes of data"),
    "a negative size": (_dims(-3), r"has the shape \[-3\]; sizes are 0 or more"),
    "many dims": (_dims(*[1] * 100), "there are 64 at most"),
    "too few bytes": (_set("graph.initializer.0.raw_data", b"123"), "has 3 bytes of data"),
    "too few elements": (lambda m: (m.graph.initializer[0].ClearField("raw_data"), m.graph.initializer[0].float_data.append(1)), "has 1 elements"),
    "an absurd size of an input": (lambda m: _set("graph.input.0.type.tensor_type.shape.dim.0.dim_value", -5)(m), "says a size of 'x' to be -5"),
    "a function of itself": (_recursive, "calls itself"),
    "functions upon functions": (_laughs, "has .* nodes with those of its functions"),
    "graphs in graphs": (_deep, "lie in each other"),
    "sparse weights": (lambda m: m.graph.sparse_initializer.add(), "has sparse initializers"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_each_is_one_clear_error(what: str) -> None:
    change, message = WRONG[what]
    with pytest.raises(sf.ModelError, match=rf"^onnx.load: the bytes: .*{message}") as caught:
        sf.onnx.load(edit(change))
    assert re.search(r", at .*test_onnx_hostile\.py:\d+$", str(caught.value))


@pytest.mark.parametrize("dtype", sorted(set(TensorProto.DataType.values())))
@pytest.mark.parametrize(
    "held", ["raw_data", "float_data", "int32_data", "int64_data", "double_data"]
)
def test_absurd_sizes_beside_a_size_of_0(dtype: int, held: str) -> None:
    """Such a tensor has no elements, so that no data are too few for it; NumPy has no such array."""
    for dims in ((0, (1 << 63) - 1, 2), (1 << 62, 0, 1 << 62), (1 << 40, 1 << 40, 0)):

        def change(m: Any, dims: Any = dims) -> None:
            tensor = m.graph.initializer[0]
            tensor.ClearField("raw_data")
            if held == "raw_data":
                tensor.raw_data = b""
            tensor.data_type, tensor.dims[:] = dtype, dims

        with pytest.raises(sf.ModelError, match=r"must be \d+ bytes at most|has the dtype"):
            sf.onnx.load(edit(change))


def outside(location: str, **more: Any) -> bytes:
    def change(m: Any) -> None:
        tensor = m.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **more}.items():
            tensor.external_data.add(key=key, value=str(value))

    return edit(change)


def test_data_outside_stays_in_the_folder_of_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    numbers = np.arange(5, dtype=np.float32).tobytes()
    (folder / "inner" / "w.bin").write_bytes(numbers)
    (tmp_path / "secret").write_bytes(numbers)
    os.symlink(tmp_path / "secret", folder / "link")
    os.symlink(tmp_path, folder / "up")
    os.mkfifo(folder / "pipe")
    path = folder / "model.onnx"

    def load(location: str, **more: Any) -> Any:
        path.write_bytes(outside(location, **more))
        return sf.onnx.load(path)

    assert load("inner/w.bin", offset=4, length=12).w.tolist() == [1, 2, 3]
    assert load("inner/w.bin").w.tolist() == [0, 1, 2]
    wrong = {
        "../secret": "without '..'", str(tmp_path / "secret"): "without '..'", "": "without '..'",
        "inner/../../secret": "without '..'", "..\\secret": "without '..'", "C:secret": "without",
        "link": "which a link leads to", "up/secret": "which a link leads to",
        "none": "cannot be read", "inner": "which is no plain file", "pipe": "no plain file",
        "a\0b": "without '..'",
    }  # fmt: skip
    for location, message in wrong.items():
        with pytest.raises(sf.ModelError, match=f"its initializer 'w' has its data in .*{message}"):
            load(location)
    for more, message in (
        ({"offset": -1}, "no number of bytes"), ({"offset": 12}, "up to byte 24, and that file"),
        ({"length": 1 << 50}, "and takes 12"), ({"offset": "9" * 30}, "no number of bytes"),
    ):  # fmt: skip
        with pytest.raises(sf.ModelError, match=message):
            load("inner/w.bin", **more)
    with pytest.raises(sf.ModelError, match="bytes and open files have no folder"):
        sf.onnx.load(outside("inner/w.bin"))


# -- by chance -------------------------------------------------------------------------------------


def seeds() -> list[tuple[bytes, list[Any]]]:
    """Models to be mutated, and what they take."""
    x = sf.placeholder(("N", 3), name="x")
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2))
    image = sf.placeholder(("N", 1, 6, 6), name="image")
    conv = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    rows = sf.placeholder(("T", 2), name="rows")

    def loops(rows: Any) -> Any:
        last, ys = sf.scan(lambda c, r: (c + r, c * r), sf.zeros(2), rows)
        branch = sf.cond(last.sum() > 0, lambda: last * 2, lambda: last - 1)
        top = sf.topk(ys, 1, 0).values
        return sf.while_loop(lambda t: t.sum() < 50, lambda t: t.abs() + 1, branch), top

    return [
        (model_bytes(net, x), [sf.ones(2, 3)]),
        (model_bytes(conv, image), [sf.ones(2, 1, 6, 6)]),
        (model_bytes(loops, rows), [sf.ones(3, 2)]),
    ]


NUMBERS = (-(1 << 63), -(1 << 31), -7, -2, -1, 0, 1, 2, 3, 5, 64, 1 << 31, (1 << 63) - 1)
TEXTS = (
    "",
    "x",
    "a.b",
    "Relu",
    "Concat",
    "Reshape",
    "Loop",
    "Attention",
    "SAME_UPPER",
    "\0",
    "é" * 9,
)


def mutate_fields(message: Any, chance: random.Random) -> None:
    """One field of a message changed, taken away or doubled, anywhere in it."""
    at = message
    while True:
        fields = at.ListFields()
        if not fields:
            return
        field, value = chance.choice(fields)
        several = not isinstance(value, int | float | str | bytes) and hasattr(value, "__len__")
        if field.message_type is not None and chance.random() < 0.85:
            at = chance.choice(list(value)) if several else value
            continue
        break
    way = chance.random()
    if way < 0.15:
        at.ClearField(field.name)
    elif several and way < 0.4 and len(value):
        del value[chance.randrange(len(value))]
    elif several and way < 0.6 and len(value):
        value.append(value[chance.randrange(len(value))])
    elif field.message_type is None and (not several or len(value)):
        new: Any = value[0] if several else value
        if isinstance(new, bool | int):
            new = chance.choice(NUMBERS)
        elif isinstance(new, float):
            new = chance.choice((0.0, -1.0, 1e38, float("nan"), float("inf")))
        elif isinstance(new, str):
            new = chance.choice(TEXTS)
        else:
            new = bytes(chance.randrange(256) for _ in range(chance.choice((0, 3, 4, 8, 12))))
        try:
            if several:
                value[chance.randrange(len(value))] = new
            else:
                setattr(at, field.name, new)
        except (ValueError, TypeError):
            return


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(found))
        way = chance.random()
        if way < 0.6:
            found[at] = chance.randrange(256)
        elif way < 0.8:
            del found[at : at + chance.randrange(1, 9)]
        else:
            found[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 5)))
    return bytes(found)


def attempt(data: bytes, inputs: list[Any]) -> str:
    """What becomes of a file: it computes, or is refused by an error of ours."""
    try:
        model = sf.onnx.load(data)
    except sf.StaticflowError:
        return "refused"
    try:
        model(*inputs)
    except sf.StaticflowError:
        return "fails"
    return "runs"


def campaign(count: int, chance: random.Random) -> None:
    found: dict[str, int] = {}
    for data, inputs in seeds():
        for i in range(count):
            if i % 3 == 0:
                wrong = mutate_bytes(data, chance)
            else:
                model = onnx.ModelProto.FromString(data)
                for _ in range(chance.choice((1, 1, 2, 3))):
                    mutate_fields(model, chance)
                wrong = model.SerializeToString()
            what = attempt(wrong, inputs)
            found[what] = found.get(what, 0) + 1
    assert found.get("refused") and found.get("runs"), found


@pytest.mark.filterwarnings("ignore")
def test_files_that_were_changed_by_chance() -> None:
    campaign(60, random.Random(f"{today()} onnx"))


@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore")
def test_many_files_that_were_changed_by_chance() -> None:
    campaign(3000, random.Random(f"{today()} onnx, many"))
