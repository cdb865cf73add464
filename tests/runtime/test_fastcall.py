"""Calling compiled programs: what is taken, what is refused, and what comes back.

Every behaviour is tested through the native entry and through the portable path.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calling import doubled, f32, huge_output, needs_entry, taken

import staticflow as sf
from staticflow.errors import (
    DTypeError,
    IndexRangeError,
    ShapeError,
    StaticflowError,
    SymbolicError,
)
from staticflow.graph.dtypes import DTYPES, DType

# -- what is taken ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        sf.from_numpy,
        lambda a: sf.from_numpy(a).requires_grad_(),
        sf.nn.Parameter,
        lambda a: sf.nn.Parameter(a, requires_grad=False),
    ],
    ids=["array", "tensor", "leaf", "parameter", "frozen"],
)
def test_arrays_and_boxes(call_path: bool, make: Callable[[Any], Any]) -> None:
    program, a = doubled(), f32(2, 3)
    out = program(make(a))
    assert type(out) is sf.Tensor
    assert out.tolist() == (a + a).tolist()
    assert taken(program, make(a)) == call_path


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (2, 3)], ids=str)
def test_dtypes_and_shapes(call_path: bool, dtype: DType, shape: tuple[int, ...]) -> None:
    x = sf.placeholder(tuple(None for _ in shape), dtype, name="x")
    program = sf.compile([x], x)
    a = np.ones(shape, dtype.numpy)
    out = program(a)
    assert out.dtype is dtype
    assert out.shape == shape
    assert np.array_equal(out.numpy(), a)
    assert taken(program, a) == call_path


def test_sizes_are_bound_and_compared(call_path: bool) -> None:
    n, m = sf.placeholder(("N", "M"), name="a"), sf.placeholder(("M", "N"), name="b")
    flat = sf.placeholder((n.shape[0] * n.shape[1] + 1,), name="c")
    program = sf.compile([n, m, flat], (n + m.t()).sum() + flat.sum())
    for rows, cols in [(2, 3), (0, 5), (1, 1), (4, 0)]:
        args = f32(rows, cols), f32(cols, rows), f32(rows * cols + 1)
        assert program(*args).item() == sum(a.sum() for a in args)
        assert taken(program, *args) == call_path
    with pytest.raises(ShapeError, match="b has 4 in dim 0 where"):
        program(f32(2, 3), f32(4, 2), f32(7))
    with pytest.raises(ShapeError, match="c has 6 in dim 0 where"):
        program(f32(2, 3), f32(3, 2), f32(6))


def test_a_size_is_used_before_it_is_bound(call_path: bool) -> None:
    b = sf.placeholder(("N",), name="b")
    a = sf.placeholder((b.shape[0] // 2 + 3,), name="a")
    program = sf.compile([a, b], a.sum() * b.sum())
    assert program(f32(5), f32(4)).item() == 150
    assert taken(program, f32(5), f32(5)) == call_path
    with pytest.raises(ShapeError, match="a has 4 in dim 0"):
        program(f32(4), f32(4))


def test_assumed_equalities(call_path: bool) -> None:
    x, y = sf.placeholder((None, 2), name="x"), sf.placeholder((None,), name="y")
    program = sf.compile([x, y], x.reshape(x.shape[0] * 2) + y)
    assert program(f32(3, 2), f32(6)).tolist() == [2, 4, 6, 8, 10, 12]
    assert taken(program, f32(0, 2), f32(0)) == call_path
    with pytest.raises(ShapeError, match="must be equal"):
        program(f32(3, 2), f32(5))


def test_structures_of_outputs(call_path: bool) -> None:
    x = sf.placeholder((None,), name="x")
    nothing = sf.compile([x], None)
    assert nothing(f32(2)) is None
    assert sf.compile([x], [])(f32(2)) == []
    (one,) = sf.compile([x], [x + 1])(f32(2))
    assert one.tolist() == [2, 3]
    many = sf.compile([x], {"b": x + 1, "a": (x * 2, x.sum())})(f32(2))
    assert many["b"].tolist() == [2, 3]
    assert [t.tolist() for t in many["a"]] == [[2, 4], 3]
    assert taken(nothing, f32(2)) == call_path


def test_no_inputs(call_path: bool) -> None:
    w = sf.variable([1.0, 2.0])
    program = sf.compile([], sf.symbol(w) * 3)
    assert program().tolist() == [3, 6]
    assert taken(program) == call_path


def test_names(call_path: bool) -> None:
    x, y = sf.placeholder((2,), name="x"), sf.placeholder((2,), name="y")
    program = sf.compile([x, y], x - y)
    a, b = f32(2), f32(2, start=5)
    expected = program(a, b).tolist()
    assert program(y=b, x=a).tolist() == program(a, y=b).tolist() == expected
    with pytest.raises(ShapeError, match="no input is called 'z'"):
        program(a, z=b)
    with pytest.raises(
        ShapeError, match="the input 'x' is given twice, by its position and by its name"
    ):
        program(a, x=b)
    with pytest.raises(ShapeError, match=r"takes 2 inputs \(x, y\), 1 were given"):
        program(y=b)


def test_constants_of_the_graph(call_path: bool) -> None:
    x = sf.placeholder((None, 3), name="x")
    program = sf.compile([x], x * f32(3) + f32(1, start=10))
    assert program(f32(1, 3)).tolist() == [[11, 14, 19]]
    assert taken(program, f32(1, 3)) == call_path


# -- what is left to the portable path -------------------------------------------------------


class Sub(np.ndarray):
    pass


def misaligned(a: np.ndarray) -> np.ndarray:
    raw = np.zeros(a.nbytes + 1, np.uint8)[1:]
    raw[:] = np.frombuffer(a.tobytes(), np.uint8)
    return raw.view(a.dtype).reshape(a.shape)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[::-1][::-1].view(Sub),
        misaligned,
        lambda a: a.astype(np.dtype("f4", metadata={"made": "so"})),
        lambda a: sf.from_numpy(np.asfortranarray(a)),
    ],
    ids=["fortran", "strided", "subclass", "misaligned", "metadata", "boxed"],
)
def test_other_arrays_work_too(call_path: bool, make: Callable[[Any], Any]) -> None:
    program, a = doubled(), f32(2, 3)
    assert not taken(program, make(a))
    out = program(make(a))
    assert type(out.numpy()) is np.ndarray
    assert out.tolist() == (a + a).tolist()


def test_a_tensor_may_lie_in_an_array_of_a_subclass(call_path: bool) -> None:
    """As parameters in parts do."""
    program, a = doubled(), f32(2, 3)
    x = sf.Tensor._wrap(a.view(Sub))
    assert taken(program, x) == call_path
    out = program(x)
    assert type(out.numpy()) is np.ndarray and out.tolist() == (a + a).tolist()


@pytest.mark.parametrize("value", [2.0, np.float32(2)], ids=["number", "scalar"])
def test_numbers_work_too(call_path: bool, value: Any) -> None:
    program = doubled(())
    assert program(value).item() == 4.0
    assert not taken(program, value)


def test_read_only_inputs_are_fine(call_path: bool) -> None:
    a = f32(2, 3)
    a.flags.writeable = False
    program = doubled()
    assert program(a).tolist() == (a * 2).tolist()
    assert taken(program, a) == call_path


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        ((), ShapeError, "takes 1 inputs"),
        ((f32(1, 3), f32(1, 3)), ShapeError, "takes 1 inputs .*, 2 were given"),
        (("text",), SymbolicError, "the input x is str"),
        ((None,), SymbolicError, "the input x is NoneType"),
        (([1.0],), SymbolicError, "the input x is list"),
        ((3,), ShapeError, "x has 0 dims"),
        ((f32(1, 3).astype(np.float64),), DTypeError, "x is float64 and must be float32"),
        ((f32(1, 3).astype(">f4"),), DTypeError, "x is >f4 and must be float32"),
        ((f32(1, 3).view(np.int32),), DTypeError, "x is int32"),
        ((f32(3),), ShapeError, "x has 1 dims"),
        ((f32(1, 1, 3),), ShapeError, "x has 3 dims"),
        ((np.float32(3),), ShapeError, "x has 0 dims"),
        ((f32(3, 2),), ShapeError, "x has 2 in dim 1 where"),
        ((f32(3, 0),), ShapeError, "x has 0 in dim 1 where"),
    ],
    ids=str,
)
def test_wrong_arguments(
    call_path: bool, args: tuple[Any, ...], error: type[StaticflowError], match: str
) -> None:
    program = doubled()
    assert program._executable.fast(*args) is None
    with pytest.raises(error, match=match) as caught:
        program(*args)
    assert "test_fastcall.py" in str(caught.value)
    assert program(f32(1, 3)).tolist() == [[2, 4, 6]]


def test_a_tensor_without_data_is_declined(call_path: bool) -> None:
    assert doubled()._executable.fast(object.__new__(sf.Tensor)) is None


# -- failures as the program runs ------------------------------------------------------------


def test_an_index_out_of_range(call_path: bool) -> None:
    x, i = sf.placeholder((None,), name="x"), sf.placeholder((None,), "int64", name="i")
    w = sf.variable([7.0])
    program = sf.compile([x, i], (sf.gather(x, 0, i), x * 2), updates={w: sf.symbol(w) + 1})
    good = np.array([1, 0, 1])
    assert program(f32(2), good)[0].tolist() == [2, 1, 2]
    assert w.tolist() == [8]
    for bad in (np.array([2]), np.array([0, -9]), np.array([np.iinfo(np.int64).min])):
        if call_path:
            assert type(program._executable.fast(f32(2), bad)) is int
        with pytest.raises(IndexRangeError, match="nothing was updated"):
            program(f32(2), bad)
    assert w.tolist() == [8]
    assert w._version == 1


@pytest.mark.parametrize("several", [False, True])
def test_no_memory_for_an_output(call_path: bool, several: bool) -> None:
    """Sizes come from arrays without elements, so they may be as large as they like."""
    huge = 1 << 28
    with pytest.raises(MemoryError):
        huge_output(several)(np.empty((huge, 0), np.float32), np.empty((0, huge), np.float32))
    result = huge_output(several)(f32(2, 0), f32(0, 3))
    assert (result[1] if several else result).tolist() == [[0, 0, 0]] * 2


def test_outputs_that_no_integer_can_count(call_path: bool) -> None:
    huge = 1 << 40
    args = np.empty((huge, 0), np.float32), np.empty((0, huge), np.float32)
    program = huge_output(False)
    assert program._executable.fast(*args) is None
    with pytest.raises(ValueError, match=r"too big|[Mm]aximum"):
        program(*args)


@pytest.mark.parametrize("huge", [1 << 26, 1 << 31, 1 << 40])
def test_no_memory_for_the_arena(call_path: bool, huge: int) -> None:
    x, y = sf.placeholder((None, 0), name="x"), sf.placeholder((0, None), name="y")
    program = sf.compile([x, y], (x @ y).exp().sum(dim=1).max())
    assert program(f32(2, 0), f32(0, 3)).item() == 3.0
    with pytest.raises(MemoryError, match="no memory for the program"):
        program(np.empty((huge, 0), np.float32), np.empty((0, huge), np.float32))


# -- results ---------------------------------------------------------------------------------


def test_results_own_their_memory(call_path: bool) -> None:
    w = sf.variable(f32(3))
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], (x, w, x + 0, x.reshape(-1, 1), x), updates={w: sf.symbol(w) + 1})
    a = f32(3)
    first, second = program(a), program(a)
    arrays = [t.numpy() for t in (*first, *second)]
    assert all(b.flags.owndata and b.flags.writeable and b.base is None for b in arrays)
    for i, b in enumerate(arrays):
        assert not any(np.shares_memory(b, c) for c in (a, w.numpy(), *arrays[:i]))
    assert first[1].tolist() == [1, 2, 3]
    assert second[1].tolist() == [2, 3, 4]
    first[0].numpy()[:] = 0
    assert a.tolist() == [1, 2, 3]


# -- the call itself -------------------------------------------------------------------------


@needs_entry
def test_one_output_comes_without_a_frame_of_python() -> None:
    program = doubled()
    assert type(program.__call__) is type(len)
    w = sf.variable([1.0])
    updating = sf.compile([], (), updates={w: sf.symbol(w) + 1})
    assert type(updating.__call__) is not type(len)
    result, made = program(f32(1, 3)), sf.tensor([[2.0, 4.0, 6.0]])
    assert type(result) is sf.Tensor
    references = sys.getrefcount(result._data)
    assert references == 2  # the tensor, the argument
    for name in sf.Tensor.__slots__:
        if name not in ("__weakref__", "_data"):
            assert getattr(result, name) is getattr(made, name), name
    result.requires_grad_().sum().backward()
    assert result.grad.tolist() == [[1, 1, 1]]


def test_inputs_by_name(call_path: bool) -> None:
    program = doubled()
    assert program(x=f32(1, 3)).tolist() == [[2, 4, 6]]
    with pytest.raises(ShapeError, match="no input is called 'y'"):
        program(y=f32(1, 3))


def test_the_call_outlives_its_program(call_path: bool) -> None:
    call = doubled().__call__
    assert call(f32(1, 3)).tolist() == [[2, 4, 6]]
    with pytest.raises(ShapeError, match="x has 1 dims"):
        call(f32(3))


@needs_entry
def test_numbers_become_arrays_for_the_native_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    x = sf.placeholder((), name="x")
    program = sf.compile([x], x + x)
    portable: list[Any] = []
    monkeypatch.setattr(type(program._executable), "__call__", lambda *args: portable.append(args))
    assert [program(v).item() for v in (2.5, 3, np.float32(4))] == [5, 6, 8]
    assert not portable


def test_outputs_whose_size_the_run_tells(call_path: bool) -> None:
    x = sf.placeholder((None,), name="x")
    total, ys = sf.scan(lambda c, v: (c + v, c + v), x.sum() * 0, x, until=lambda c, y: c > 5)
    doubled = ys * 2.0
    for program in (sf.compile([x], ys), sf.compile([x], (doubled, total, ys))):
        for given, wanted in ((f32(9), [1, 3, 6]), (f32(2), [1, 3]), (f32(0), [])):
            out = program(given)
            if isinstance(out, tuple):
                assert out[0].tolist() == [2 * v for v in wanted]
                assert out[1].item() == (wanted or [0])[-1]
            assert (out[-1] if isinstance(out, tuple) else out).tolist() == wanted
            assert taken(program, given) == call_path
