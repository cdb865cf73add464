"""The text form of graphs, there and back."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from graph_ops import M, N, constant_of, f32, node, parsed
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from staticflow.errors import ParseError
from staticflow.graph.dim_queries import as_symbol
from staticflow.graph.dims import Dim, Sym, fresh_sym
from staticflow.graph.dtypes import DTYPES, DType
from staticflow.graph.graph import (
    close,
    new_param,
)
from staticflow.graph.printer import print_graph


def test_the_text_of_a_graph() -> None:
    x, y = new_param(f32(N), "x"), new_param(f32(M), "x")
    graph = close([x, y], [node("neg", node("add", x, y))])
    assert (
        str(graph)
        == print_graph(graph)
        == """\
graph (%x: f32[M] declared f32[N], %x_2: f32[M]) {
  %0: f32[M] = add(%x, %x_2)
  %1: f32[M] = neg(%0)
  assume N == M because "add: the sizes at dim -1"
  return %1
}
"""
    )


def test_source_lines_are_comments() -> None:
    x = new_param(f32(3), "x")
    graph = close([x], [node("add", node("neg", x), node("neg", x)), x, constant_of(1.0)])
    line = graph.outputs[0].locs[0].line
    text = print_graph(graph, locs=True)
    assert f"%0: f32[3] = neg(%x)  # test_graph_text.py:{line}\n" in text  # both of one line: once
    assert "constant 1.0\n" in text
    assert print_graph(parsed(text)) == print_graph(graph)


def test_names_are_told_apart() -> None:
    k, k2, odd = fresh_sym("N"), fresh_sym("N", upper=N), Sym("batch size")
    x, y = new_param(f32(N, k), "x_2"), new_param(f32(k2, k2 + k), "x")
    z = new_param(f32(Dim.of(odd), Dim.of(Sym("f32")), Dim.of(Sym("2d"))), "x")
    text = print_graph(close([x, y, z], []))
    assert (
        text
        == """\
size N_3 below N
graph (%x_2: f32[N, N_2], %x: f32[N_3, N_2 + N_3], %x_3: f32[batch_size, f32_2, _2d]) {
  return
}
"""
    )
    assert print_graph(parsed(text)) == text
    assert [p.attrs["name"] for p in parsed(text).params] == ["x_2", "x", "x_3"]
    bounded = as_symbol(parsed(text).params[1].tensor_type.shape[0])
    assert bounded is not None and (bounded, bounded.upper) == (Sym("N_3"), N)


@pytest.mark.parametrize("name", ["w", "layers.0.weight", "0", "", 'a "b"\n', "é", "a b"])
def test_params_keep_their_names(name: str) -> None:
    text = print_graph(close([x := new_param(f32(2), name)], [node("neg", x)]))
    again = parsed(text)
    assert again.params[0].attrs["name"] == name and print_graph(again) == text


@given(
    st.dictionaries(
        st.sampled_from(["a", "type", "graph", "size_2"]),
        st.recursive(
            st.booleans()
            | st.integers()
            | st.floats()
            | st.text(st.sampled_from("aé\"'\\\n#% \u2603"))
            | st.none()
            | st.sampled_from(
                [*DTYPES, N, N - 1, (N + 1) // 2, -(N // 2), N * ((M + 1) // 2), f32()]
            )
            | st.builds(f32, st.just(N), st.integers(0, 9)),
            lambda inner: st.lists(inner).map(tuple),
            max_leaves=5,
        ),
    )
)
def test_attributes_survive_text(tags: dict[str, Any]) -> None:
    x = new_param(f32(N, M), "x")
    graph = close([x], [node("tagged", x, **tags)])
    text = print_graph(graph)
    again = parsed(text)
    assert print_graph(again) == text
    assert repr(again.outputs[0].attrs) == repr(tags)  # repr: NaN equals itself, -0.0 is not 0.0


def arrays_of(dtype: DType) -> st.SearchStrategy[Any]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    if dtype.name == "bfloat16":
        bits = hnp.arrays(np.uint16, shapes)
        return bits.map(lambda a: a.view(ml_dtypes.bfloat16))
    return hnp.arrays(dtype.numpy, shapes)


@given(st.sampled_from(DTYPES).flatmap(arrays_of))
def test_constants_survive_text_bit_by_bit(array: Any) -> None:
    graph = close([], [constant_of(array)])
    text = print_graph(graph)
    again = parsed(text)
    back = again.outputs[0].attrs["value"].array
    assert back.dtype == array.dtype and back.shape == array.shape
    nan = np.isnan(array.astype(np.float64))
    assert (nan == np.isnan(back.astype(np.float64))).all()
    as_bits = f"u{array.itemsize}"
    assert (back.view(as_bits) == array.view(as_bits))[~nan].all()
    assert print_graph(again) == text


def test_text_does_not_depend_on_hashes() -> None:
    program = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from test_graph_text import *\n"
        "sizes = [fresh_sym('N') + fresh_sym('N') * fresh_sym('M') for _ in range(3)]\n"
        "xs = [new_param(f32(size), 'x') for size in sizes]\n"
        "print(close(xs, [node('tagged', x, a=1, b=x.type) for x in xs]))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1 and "M_3" in texts.pop()


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("", 1, 1, "'graph', found the end of the text"),
        ("graph (%x: f32[3]) {\n  return %y\n}", 2, 11, "a value that a line before defines"),
        ("graph (%x: f32[3], %x: f32[3]) {\n}", 1, 21, "a name that no value has yet, found 'x'"),
        ("graph (%x: f3[3]) {\n}", 1, 12, "a dtype, one of bool, u8, i8, i16"),
        ("graph (%x: f32[3) {\n}", 1, 17, "',' or ']', found ')'"),
        ("graph (%x: f32[]) {\n  %0: f32[] = sin(%x)\n}", 2, 15, "the name of an op, found 'sin'"),
        ("graph (x: f32[]) {\n}", 1, 8, "'%', found 'x'"),
        ("graph (%-: f32[]) {\n}", 1, 9, "the name of a value, found '-'"),
        ("graph () {\n  %0: f32[2] = constant [1.0, x]\n}", 2, 31, "an element of f32"),
        ("graph () {\n  %0: f32[2] = constant [1.0]\n}", 2, 29, "',', found ']'"),
        ("graph () {\n  %0: f32[2] = constant 1.0\n}", 2, 25, "'[', found '1.0'"),
        ("graph () {\n  %0: u8[] = constant 256\n}", 2, 23, "an element of u8, found '256'"),
        ("graph () {\n  %0: u8[] = constant -1\n}", 2, 24, "an element of u8, found '1'"),
        ("graph () {\n  %0: i8[] = constant 1.5\n}", 2, 23, "an element of i8, found '1.5'"),
        ("graph () {\n  %0: bool[] = constant 1\n}", 2, 25, "an element of bool, found '1'"),
        ("graph () {\n  %0: f32[N] = constant [1.0]\n}", 2, 25, "no elements, since the size N is"),
        ("graph () {\n  %0: (f32[]) = constant 1.0\n}", 2, 26, "arguments, since a constant of"),
        ("graph () {\n  assume N = M because \"\"\n}", 2, 14, "'=', found 'M'"),
        ("graph () {\n  assume N == M because\n  return\n}", 3, 3, "the reason in quotes"),
        ("graph () {\n  %0: f32[] = fill() {a=1, a=2}\n}", 2, 28, "an attribute that is not given"),
        ("graph () {\n  %0: f32[] = fill() {a=}\n}", 2, 25, "a size, found '}'"),
        ("graph () {\n  %0: f32[] = fill() {a=true//2}\n}", 2, 29, "',' or '}', found '//'"),
        ("graph () {\n  return\n} graph", 3, 3, "the end of the text, found 'graph'"),
        ('graph () {\n  assume 1 == 1 because "\\q"\n}', 2, 25, "the reason in quotes, found"),
        ('graph (%"\\q": f32[]) {\n}', 1, 9, "the name of a value, found"),
        ("size K above 3\ngraph () {\n  return\n}", 1, 8, "'below', found 'above'"),
    ],
)  # fmt: skip
def test_wrong_text_is_pointed_at(text: str, line: int, column: int, expected: str) -> None:
    with pytest.raises(ParseError) as raised:
        parsed(text)
    message = str(raised.value)
    assert message.startswith(f"line {line}, column {column}: expected {expected}")
    assert message.splitlines()[-1] == " " * (column + 1) + "^"
