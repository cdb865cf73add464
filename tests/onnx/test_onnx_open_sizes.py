"""Operators of signals, boxes and trees beside onnxruntime and NumPy, in both modes, of files that
leave their sizes open; and what they refuse."""

# ruff: noqa: E402
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="models of ONNX are read by onnx")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is the judge")

from onnx import TensorProto, helper, numpy_helper
from onnx_judge import model_bytes

import staticflow as sf

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
Inputs = list[tuple[str, int, list[Any]]]


def model_of(
    kind: str, names: list[str], inputs: Inputs, numbers: dict[str, Any], opset: int = 21,
    out: int = FLOAT, domain: str = "", **attrs: Any,
) -> bytes:  # fmt: skip
    """A model of one node; ``numbers`` are its initializers."""
    node = helper.make_node(kind, names, ["y"], domain=domain, **attrs)
    graph = helper.make_graph(
        [node], "made", [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info("y", out, None)],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in numbers.items()],
    )  # fmt: skip
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 5)]
    model: bytes = helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString()
    return model


def both(model: bytes, *xs: Any) -> list[Any]:
    """What the model gives eagerly, and compiled for sizes that the file leaves open."""
    loaded = sf.onnx.load(model)
    asked = loaded.placeholders()
    program = sf.compile(asked, loaded(*asked))
    given = [sf.from_numpy(x.copy()) for x in xs]
    return [loaded(*given).detach().numpy(), program(*given).numpy()]


def agree(model: bytes, *xs: Any, wanted: Any = None, bound: float = 1e-4) -> None:
    if wanted is None:
        session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        (wanted,) = session.run(None, dict(zip(names, xs, strict=True)))
    for found in both(model, *xs):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, bound, bound / 10)


@pytest.mark.parametrize("wanted", ["1", "n", "m", "first of n", "first of m"])
@pytest.mark.parametrize("own", ["1", "m", "first of n", "first of m"])
def test_expansion_to_sizes_that_are_computed(own: str, wanted: str) -> None:
    """As PyTorch exports ``index_add``: to the shape of a first row, whose size is 1, or 0 where
    there is none. Each of the two may be stretched to the other."""
    if {own, wanted} == {"m", "n"}:
        return  # which never stretch

    def of(size: str, to: str) -> list[Any]:
        if size == "1":
            return [helper.make_node("Slice", ["one", "zeros", "ones"], [to])]
        if size in ("n", "m"):
            return [helper.make_node("Identity", [size], [to])]
        return [helper.make_node("Slice", [size[-1], "zeros", "ones", "zeros"], [to])]

    nodes = [
        *of(own, "x"),
        *of(wanted, "like"),
        helper.make_node("Shape", ["like"], ["shape"]),
        helper.make_node("Expand", ["x", "shape"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info(name, FLOAT, [name, 2]) for name in "nm"],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [
            numpy_helper.from_array(np.ones((1, 2), np.float32), "one"),
            numpy_helper.from_array(np.zeros(1, np.int64), "zeros"),
            numpy_helper.from_array(np.ones(1, np.int64), "ones"),
        ],
    )
    sets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString()
    n, m = (np.random.default_rng(0).normal(size=(k, 2)).astype(np.float32) for k in (3, 5))
    agree(model, n, m)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_of_images(mode: str, ratio: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 9, 11)).astype(np.float32)
    regions = [[0, 0, 5, 5], [1, 2, 10, 8.5], [3, 1, 4, 2], [-3, -2, 30, 40]]
    inputs: Inputs = [("x", FLOAT, ["n", "c", "h", "w"]), ("r", FLOAT, ["k", 4]), ("b", INT, ["k"])]
    for shift in ("half_pixel", "output_half_pixel"):
        model = model_of(
            "RoiAlign", ["x", "r", "b"], inputs, {}, opset=16, mode=mode,
            coordinate_transformation_mode=shift, output_height=3, output_width=2,
            sampling_ratio=ratio, spatial_scale=0.7,
        )  # fmt: skip
        agree(model, x, np.array(regions, np.float32), np.array([0, 1, 1, 0]))


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("count", [30, 0])
def test_the_best_of_boxes_that_overlap(center: int, count: int) -> None:
    rng = np.random.default_rng(1)
    boxes = rng.uniform(size=(2, count, 4)).astype(np.float32)
    scores = rng.uniform(size=(2, 3, count)).astype(np.float32).round(1)  # some are equal
    inputs: Inputs = [("b", FLOAT, ["n", "k", 4]), ("s", FLOAT, ["n", "c", "k"])]
    numbers = {"m": [5], "i": np.float32([0.3]), "t": np.float32([0.2])}
    for given in (3, 2, 1, 0):
        names = ["b", "s", *list(numbers)[:given]]
        used = {n: numbers[n] for n in names[2:]}
        model = model_of(
            "NonMaxSuppression", names, inputs, used, opset=11, out=INT, center_point_box=center
        )
        loaded = sf.onnx.load(model)
        if given:
            agree(model, boxes, scores)
        else:
            assert tuple(loaded(sf.tensor(boxes), sf.tensor(scores)).shape) == (0, 3)


def test_bent_windows() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2, 4, 7, 8)).astype(np.float32)
    weight, bias = rng.normal(size=(6, 2, 3, 2)), rng.normal(size=6)
    offset = (2 * rng.normal(size=(2, 24, 4, 7))).astype(np.float32)
    mask = rng.uniform(size=(2, 12, 4, 7)).astype(np.float32)
    model = model_of(
        "DeformConv", ["x", "w", "o", "b", "m"],
        [("x", FLOAT, ["n", 4, 7, 8]), ("o", FLOAT, ["n", 24, "h", "w"]),
         ("m", FLOAT, ["n", 12, "h", "w"])],
        {"w": weight.astype(np.float32), "b": bias.astype(np.float32)}, opset=19,
        strides=[2, 1], pads=[1, 0, 1, 1], dilations=[1, 2], group=2, offset_group=2,
    )  # fmt: skip
    agree(model, x, offset, mask)
    with pytest.raises(sf.ShapeError, match="as many as windows along dim 0"):
        sf.onnx.load(model)(sf.tensor(x), sf.tensor(offset[:, :, :3]), sf.tensor(mask[:, :, :3]))


@pytest.mark.parametrize("length", [None, 7, 14])
@pytest.mark.parametrize("parts", [1, 2])
def test_frequencies(length: int | None, parts: int) -> None:
    x = np.random.default_rng(3).normal(size=(2, 10, 3, parts)).astype(np.float32)
    z = x[..., 0] if parts == 1 else x[..., 0] + 1j * x[..., 1]
    ways: list[tuple[Any, dict[str, int]]] = [
        (np.fft.fft, {}), (np.fft.ifft, {"inverse": 1}),
        (np.fft.rfft, {"onesided": 1}) if parts == 1
        else (np.fft.irfft, {"inverse": 1, "onesided": 1}),
    ]  # fmt: skip
    for way, attrs in ways:
        wanted = way(z, length, axis=1)
        real = np.isrealobj(wanted)
        wanted = wanted[..., None] if real else np.stack([wanted.real, wanted.imag], -1)
        numbers = {"a": 1} if length is None else {"n": length, "a": 1}
        names = ["x", "n" if length else "", "a"]
        inputs: Inputs = [("x", FLOAT, ["b", "l", "k", parts])]
        model = model_of("DFT", names, inputs, numbers, opset=20, **attrs)
        agree(model, x, wanted=wanted.astype(np.float32))


def test_frames_of_a_signal() -> None:
    x = np.random.default_rng(4).normal(size=(2, 33, 1)).astype(np.float32)
    numbers = {"s": 3, "w": np.hanning(8).astype(np.float32)}
    agree(model_of("STFT", ["x", "s", "w"], [("x", FLOAT, ["b", "l", 1])], numbers, opset=17), x)


def ensemble(**changed: Any) -> bytes:
    """Two trees over three features: of all comparisons, with a set, and of a leaf alone."""
    splits = np.float32([0.5, 0.1, 0, -0.3, 0.2])
    given: dict[str, Any] = {
        "tree_roots": [0, 4], "n_targets": 2, "nodes_featureids": [0, 1, 2, 1, 0],
        "nodes_splits": numpy_helper.from_array(splits, "splits"),
        "nodes_modes": numpy_helper.from_array(np.uint8([0, 3, 6, 1, 2]), "modes"),
        "nodes_truenodeids": [1, 0, 1, 3, 5], "nodes_trueleafs": [0, 1, 1, 1, 1],
        "nodes_falsenodeids": [2, 3, 2, 4, 5], "nodes_falseleafs": [0, 0, 1, 1, 1],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 1],
        "leaf_targetids": [0, 1, 0, 1, 1, 0],
        "leaf_weights": numpy_helper.from_array(np.float32([1, 2, 3, 4, 5, 0.25]), "weights"),
        "membership_values": numpy_helper.from_array(np.float32([1, 2, np.nan]), "sets"),
    }  # fmt: skip
    inputs: Inputs = [("x", FLOAT, ["n", 3])]
    return model_of("TreeEnsemble", ["x"], inputs, {}, domain="ai.onnx.ml", **{**given, **changed})


ROWS = np.float32(
    [[0, 0.2, 1], [0, 0, 1], [0, -1, 0], [1, 0, 2], [1, 0, 3], [np.nan, 0.2, 0], [1, 0, np.nan]]
)
REACHED = [0, 4, 3, 1, 2, 0, 2]
"""The leaf of the first tree that each row comes to, by hand; the other tree has leaf 5 alone."""


@pytest.mark.parametrize("how", range(4))
def test_trees(how: int) -> None:
    weights, targets = [1, 2, 3, 4, 5, 0.25], [0, 1, 0, 1, 1, 0]
    empty = np.finfo(np.float32)
    wanted = np.full((7, 2), [0, 0, empty.max, empty.min][how], np.float32)
    for i, leaf in enumerate(REACHED):
        for one in (leaf, 5):
            w, t = weights[one], targets[one]
            old = wanted[i, t]
            wanted[i, t] = [old + w / 2, old + w, min(old, w), max(old, w)][how]
    agree(ensemble(aggregate_function=how), ROWS, wanted=wanted)


def test_values_of_trees_are_transformed() -> None:
    plain = both(ensemble(), ROWS)[0]
    powers = np.exp(plain)
    there = np.where(plain != 0, powers, 0)
    wanted = {1: powers / powers.sum(1, keepdims=True), 2: 1 / (1 + np.exp(-plain)),
              3: there / there.sum(1, keepdims=True)}  # fmt: skip
    for how, values in wanted.items():
        agree(ensemble(post_transform=how), ROWS, wanted=values)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"nodes_truenodeids": [0, 0, 1, 3, 5], "nodes_trueleafs": [0, 0, 1, 1, 1]}, "leads back"),
        ({"nodes_truenodeids": [9, 0, 1, 3, 5]}, "none of 5 nodes and 6 leaves"),
        ({"tree_roots": [5]}, "a root is none of 5 nodes"),
        ({"nodes_featureids": [0, 1]}, "2 nodes have"),
        ({"n_targets": 1}, "none of 1 targets"),
        ({"aggregate_function": 4}, "0 to 3"),
        ({"leaf_targetids": [0]}, "6 leaves have 1 targets"),
    ],
)
def test_wrong_trees(changed: dict[str, Any], words: str) -> None:
    model = sf.onnx.load(ensemble(**changed))
    with pytest.raises(sf.ShapeError, match=words):
        model(sf.tensor(ROWS))


def test_wrong_signals_and_boxes() -> None:
    dft = sf.onnx.load(model_of("DFT", ["x"], [("x", FLOAT, None)], {}, opset=20))
    with pytest.raises(sf.ShapeError, match="1, of real numbers, or 2"):
        dft(sf.zeros(2, 4, 3))
    sizes = {"a": 1 << 20, "b": 1 << 20, "c": 8192, "d": np.float32(0), "e": np.float32(4000)}
    mel = sf.onnx.load(model_of("MelWeightMatrix", list("abcde"), [], sizes, opset=17))
    with pytest.raises(sf.ShapeError, match="a matrix of over 16777216 elements"):
        mel()
    boxes = model_of(
        "NonMaxSuppression", ["b", "s", "m"], [("b", FLOAT, None), ("s", FLOAT, None)], {"m": [1]},
        out=INT,
    )  # fmt: skip
    with pytest.raises(sf.ShapeError, match=r"\(batch, number, 4\)"):
        sf.onnx.load(boxes)(sf.zeros(2, 4), sf.zeros(1, 1, 2))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_scan_of_any_number_of_rows(rows: int) -> None:
    def step(carry: Any, x: Any) -> Any:
        return carry + x, carry * x

    def run(begin: Any, xs: Any) -> Any:
        return sf.scan(step, begin, xs)

    begin, xs = sf.placeholder((2,), name="begin"), sf.placeholder((None, 2), name="xs")
    model = model_bytes(sf.compile([begin, xs], run(begin, xs)))
    values = sf.ones(2), sf.arange(2.0 * rows).reshape(rows, 2)
    wanted = run(*values)
    loaded = sf.onnx.load(model)
    asked = loaded.placeholders()
    for found in (loaded(*values), sf.compile(asked, loaded(*asked))(*values)):
        for a, b in zip(found, wanted, strict=True):
            assert a.tolist() == b.tolist() and tuple(a.shape) == tuple(b.shape)
