"""Operations on large arrays that lie in rows apart: parts of wider ones are not copied before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_ops import node, parsed

import staticflow as sf
from staticflow.eager import kernels, overwrite
from staticflow.eager.costs import LARGE, SPREAD
from staticflow.eager.programs import ArrayKind
from staticflow.eager.rows import in_known_rows, in_lines, in_rows, lies_apart, steps_of
from staticflow.graph.dtypes import DTYPES
from staticflow.graph.graph import close, new_param
from staticflow.graph.printer import print_graph
from tests.eager.test_planned_changes import python_calls

SIDE = 1 << 10
assert SIDE * SIDE > SPREAD

PARTS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda a: a[:, 3:],
    "every other": lambda a: a[::2, ::2],
    "one row": lambda a: a[5:6, 1:],
    "middle": lambda a: a.reshape(32, 32, SIDE)[:, 1:, :-1],
    "turned": lambda a: a.swapaxes(0, 1)[7:, 1:],
}

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "relu": lambda x: x.relu(),
    "sum": lambda x: x.sum(),
    "mean of rows": lambda x: x.mean(-1),
    "amax of columns": lambda x: x.amax(0),
    "var": lambda x: x.var(-1),
    "add": lambda x: x + x * 2.0,
    "column": lambda x: x * x[..., :1].clone(),
}


def drawn() -> Any:
    return np.random.default_rng(0).standard_normal((SIDE, SIDE)).astype(np.float32)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts_are_computed_where_they_lie(
    name: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied(array: Any) -> Any:
        raise AssertionError("a part was copied")

    monkeypatch.setattr(kernels, "make_copy", copied)
    x, fn = PARTS[part](sf.from_numpy(drawn())), FUNCTIONS[name]
    whole = sf.from_numpy(np.ascontiguousarray(x.numpy()))
    for _ in range(2):
        np.testing.assert_allclose(fn(x).numpy(), fn(whole).numpy(), rtol=2e-5, atol=2e-5)


def test_a_transposed_operand_is_read_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(array: Any) -> Any:
        raise AssertionError("an operand was copied")

    monkeypatch.setattr(kernels, "make_copy", copied)
    a, b = drawn(), drawn()[::-1].copy()
    x, y = sf.from_numpy(a), sf.from_numpy(b)
    for _ in range(3):
        np.testing.assert_array_equal((x.t() + y).numpy(), a.T + b)
        np.testing.assert_array_equal(
            (x.t()[:, ::2] * y[:, 1::2]).numpy(), a.T[:, ::2] * b[:, 1::2]
        )
        np.testing.assert_array_equal(y.clone().copy_(x.t()).numpy(), a.T)
        np.testing.assert_array_equal(y.clone().sub_(x.t()).numpy(), b - a.T)
        np.testing.assert_array_equal(x.t().reshape(-1).numpy(), a.T.reshape(-1))


def test_transposed_tensors_are_joined_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(array: Any) -> Any:
        raise AssertionError("a tensor was copied")

    monkeypatch.setattr(kernels, "make_copy", copied)
    a, b = drawn(), drawn()[::-1].copy()
    x, y = sf.from_numpy(a).t(), sf.from_numpy(b)
    for _ in range(3):
        for dim in (0, 1):
            for join, wanted in ((sf.cat, np.concatenate), (sf.stack, np.stack)):
                found = join([x, y], dim)
                assert found.is_contiguous()
                np.testing.assert_array_equal(found.numpy(), wanted([a.T, b], dim))


def test_floats_are_cast_as_they_are_copied() -> None:
    wide = np.random.default_rng(0).standard_normal((SIDE, SIDE))
    for dtype in (sf.float32, sf.float16, sf.bfloat16):
        x = sf.zeros(SIDE, SIDE, dtype=dtype)
        assert x.copy_(sf.from_numpy(wide)) is x and x._version == 1
        np.testing.assert_array_equal(x.numpy(), sf.from_numpy(wide).to(dtype).numpy())


SHORT_ROWS: dict[str, tuple[Callable[..., Any], set[tuple[Any, Any]]]] = {
    "a vector": (lambda x, v, c: x + v, {((0, 5), None), ((0,), None)}),
    "a column": (lambda x, v, c: x * c, {((0, 5), None), ((0, 1), None)}),
    "parts": (lambda x, v, c: x[:, 1:] - x[:, :-1], {((0, 4), (None, 1))}),
    "every other": (lambda x, v, c: x[:, ::2] + v[:3], {((0, 3), (None, 2)), ((0,), None)}),
    "whole rows": (lambda x, v, c: x + x, {((0, 0), None)}),
}
"""What an op is given of 150,000 rows of 5, and what its kernel knows of that: sizes (0: nothing)
and strides (None: nothing)."""


@pytest.mark.parametrize("name", SHORT_ROWS)
def test_kernels_know_how_long_short_rows_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()

    def note(dtype: Any, sizes: Any, steps: Any) -> ArrayKind:
        found.add((sizes, steps))
        return ArrayKind(dtype, sizes, steps)

    monkeypatch.setattr(kernels, "ArrayKind", note)
    fn, known = SHORT_ROWS[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in ((150_000, 5), (5,), (150_000, 1))]
    for _ in range(2):
        got = fn(*map(sf.from_numpy, arrays))
        np.testing.assert_array_equal(got.numpy(), fn(*arrays))
    assert found == known


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "int64", "bool"])
def test_parts_of_every_width(dtype: str) -> None:
    a = sf.from_numpy(drawn() * 3).to(getattr(sf, dtype))
    for part in (a[:, 1:], a[:, ::2], a[:, ::3]):
        got, wanted = part.sum(1), part.clone().contiguous().sum(1)
        np.testing.assert_allclose(got.to(sf.float64).numpy(), wanted.to(sf.float64).numpy())


CHANGES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "add": (lambda x, y: x.add_(y), lambda a, b: a + b),
    "neg": (lambda x, y: x.neg_(), lambda a, b: -a),
    "clamp": (lambda x, y: x.clamp_(-0.5, 0.5), lambda a, b: a.clip(-0.5, 0.5)),
    "copy": (lambda x, y: x.copy_(y), lambda a, b: b),
    "overlap": (lambda x, y: x.mul_(x.flip(0)), lambda a, b: a * a[::-1]),
}


@pytest.mark.parametrize("part", ["columns", "every other", "middle"])
@pytest.mark.parametrize("name", CHANGES)
def test_parts_change_in_place(name: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overwrite, "SPREAD", 1)
    monkeypatch.setattr(overwrite, "get_num_threads", lambda: 2)
    change, wanted = CHANGES[name]
    for _ in range(3):
        a, b = drawn(), PARTS[part](drawn()[::-1]) + 1
        x, y = sf.from_numpy(a.copy()), sf.from_numpy(np.ascontiguousarray(b))
        change(PARTS[part](x), y)
        PARTS[part](a)[...] = wanted(PARTS[part](a).copy(), b)
        np.testing.assert_array_equal(x.numpy(), a)


def test_parts_that_overlap() -> None:
    a = drawn()
    for _ in range(3):
        x = sf.from_numpy(a.copy())
        x[:, 1:].mul_(x[:, :-1])
        np.testing.assert_array_equal(x[:, 1:].numpy(), a[:, 1:] * a[:, :-1])


def test_bits_do_not_depend_on_what_was_computed_before() -> None:
    a = sf.from_numpy(drawn())
    first = a.sum().item()
    for _ in range(3):
        a[:, 1:].sum()
    assert a.sum().item() == first


def test_what_lies_in_rows() -> None:
    a = np.zeros((64, 64), np.float32)
    assert in_rows(a[:, 1:]) and in_rows(a[:, ::2]) and in_rows(np.broadcast_to(a[:1], (9, 64)))
    assert not in_rows(a.T) and not in_rows(a[:, :4]) and not in_rows(a[::-1])
    assert in_known_rows(a.T) and in_known_rows(a[:, :4]) and not in_known_rows(a[::-1])
    assert not in_known_rows(a[:16, :16].T) and not in_lines(a[:, :4])
    assert lies_apart(a[:, 1:]) and not lies_apart(np.broadcast_to(a[:1], (9, 64)))
    windows = np.lib.stride_tricks.sliding_window_view(a, 32, axis=1)
    assert in_rows(windows) and not lies_apart(windows)


def test_strides_are_in_the_text_of_a_graph() -> None:
    part = np.zeros((8, 64), np.float32)[:, 1:]
    x = new_param(ArrayKind(part.dtype, (0, 63), steps_of(part)).type("x"), "x")
    graph = close([x], [node("neg", x)])
    text = print_graph(graph)
    assert "%x: f32[x_0, 63] strides [x_s0, 1]" in text and "f32[x_0, 63] = neg" in text
    assert print_graph(parsed(text)) == text


TURNED: dict[str, tuple[int, ...]] = {
    "rows": (0, 1, 2), "columns": (2, 1, 0), "last first": (2, 0, 1), "first last": (1, 2, 0),
}  # fmt: skip


@pytest.mark.parametrize("side", [40, 41])
@pytest.mark.parametrize("order", TURNED)
def test_one_row_or_column_is_read_as_it_lies_beside_others(
    order: str, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever order the dims lie in: 40 ** 3 elements are below `LARGE`, and 41 ** 3 above."""
    copied: list[Any] = []
    monkeypatch.setattr(kernels, "make_copy", lambda a: copied.append(a) or a.copy())
    dims = TURNED[order]
    rng = np.random.default_rng(side)
    a, b = (rng.standard_normal((side,) * 3, np.float32) for _ in range(2))
    x, y = (sf.from_numpy(v.transpose(np.argsort(dims)).copy()).permute(dims) for v in (a, b))
    for part in (np.s_[:1], np.s_[:, 1:2], np.s_[:, :, 2:3], np.s_[:1, :1], np.s_[0, :, 3:4]):
        for threads in (1, 2):
            sf.set_num_threads(threads)
            for _ in range(3):
                np.testing.assert_array_equal((x + y[part]).numpy(), a + b[part])
                np.testing.assert_allclose(sf.hypot(x, y[part]), np.hypot(a, b[part]), 1e-6)
                changed = sf.from_numpy(x.numpy().copy(order="K"))
                assert changed.stride() == x.stride()
                np.testing.assert_array_equal(changed.sub_(y[part]).numpy(), a - b[part])
    assert not copied


IN_ROWS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda a: a,
    "a part": lambda a: np.pad(a, ((0, 1), (3, 70)))[:-1, 3:-70],
    "every other": lambda a: a.repeat(2, 1)[:, ::2],
    "one row": lambda a: np.broadcast_to(a[0], a.shape),
    "one column": lambda a: np.broadcast_to(a[:, :1], a.shape),
    "rows turned": lambda a: a.reshape(2, -1, a.shape[1]).swapaxes(0, 1),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", IN_ROWS)
def test_arrays_in_rows_are_copied(layout: str, dtype: Any) -> None:
    """To the bit, those of no number as well, into memory of their own; without Python where the
    kind was met and the array is large."""
    rng = np.random.default_rng(0)
    for shape in ((LARGE // 256, 256), (LARGE // 256, 255)):
        below = 2 if dtype is sf.bool else 256
        drawn = rng.integers(0, below, (*shape, dtype.itemsize), np.uint8)
        a = drawn.view(dtype.numpy)[..., 0]
        x = sf.from_numpy(IN_ROWS[layout](a))
        for name in ("clone", "contiguous"):
            copy = getattr(sf.Tensor, name)
            is_whole = name == "contiguous" and x.is_contiguous()
            for threads in (1, 2):
                sf.set_num_threads(threads)
                for _ in range(4):
                    found = copy(x)
                    assert (found is x) == is_whole
                    assert found.numpy().tobytes() == x.numpy().tobytes()
                    assert is_whole or not np.may_share_memory(found.numpy(), x.numpy())
            if name == "clone":
                continue
            assert found.is_contiguous()
            if x.numel() >= LARGE:
                assert python_calls(lambda x=x: x.contiguous()) == []
