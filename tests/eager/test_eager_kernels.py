"""Ops that run eagerly as compiled kernels: one for a kind of operands, results as the reference's."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import costs, kernels, overwrite, programs, pullback
from staticflow.eager.choose import compute_of
from staticflow.eager.costs import LARGE
from staticflow.eager.mode import EAGER
from staticflow.graph import rowmajor
from staticflow.graph.dtypes import DTYPES
from staticflow.graph.rowmajor import copy_to, row_major
from staticflow.ops import OPS
from staticflow.ops.along.order import FEW, NETWORK

F = sf.nn.functional
LARGE_OPS = sorted(
    (op for op in OPS.values() if op.numpy == "small" and not op.exact), key=lambda op: op.name
)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []

    def counted(fn: Any, kinds: Any) -> Any:
        made.append(fn.args[0].name)
        return programs.compile_function(fn, kinds)

    monkeypatch.setattr(kernels, "compile_function", counted)
    for op in OPS.values():
        monkeypatch.setattr(kernels.kernels_of(op), "_programs", programs.Programs())
    return made


def native(name: str) -> Any:
    return compute_of(OPS[name], True)


def test_one_kernel_for_all_sizes(compilations: list[Any]) -> None:
    exp = native("exp")
    for n in (2, 3, 100, 0, 17):
        x = np.linspace(-1, 1, n, dtype=np.float32)
        np.testing.assert_allclose(exp(np, x), np.exp(x), 1e-6)
    assert compilations == ["exp"]
    exp(np, np.ones(1, np.float32))  # broadcasts
    exp(np, np.ones(2, np.float64))
    exp(np, np.ones((2, 2), np.float32))
    assert compilations == ["exp"] * 4


def test_a_kernel_of_known_rows_declines_others(compilations: list[Any]) -> None:
    """A kernel knows both how long a short row is and how far apart its elements lie: rows that lie
    otherwise are for another one, though they are as long."""
    column = np.arange(300.0, dtype=np.float16).reshape(300, 1)
    numbers = np.arange(1.0, 13.0, dtype=np.float16)[None]
    rows = [numbers[:, : 3 * step : step] for step in (1, 2, 4)]
    rows.append(np.broadcast_to(numbers[:, :1], (1, 3)))
    found = [kernels.kernels_of(OPS["mul"]).kernel([column, row], {}) for row in rows]
    for kernel, own in zip(found, rows, strict=True):
        assert (kernel.fast(column, own) == column * own).all()
        assert all(kernel.fast(column, row) is None for row in rows if row is not own)
    assert compilations == ["mul"] * 4


def test_attributes_are_part_of_the_kind(compilations: list[Any]) -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    total = native("sum")
    for dims in ((0,), (1,), (0, 1)):
        np.testing.assert_array_equal(total(np, x, dims=dims, keepdim=False), x.sum(dims))
    total(np, x[:1], dims=(0,), keepdim=False)
    assert compilations == ["sum"] * 4


def test_attributes_that_change_are_not_kept_for_good(
    compilations: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "MOST_KINDS", 2)
    x = np.linspace(-5, 5, LARGE, dtype=np.float32)
    clamp = native("clamp")
    for bound in (1, 2, 3, 3):
        assert np.array_equal(clamp(np, x, min=-bound, max=bound), x.clip(-bound, bound))
    assert len(compilations) == 3
    clamp(np, x, min=-1, max=1)
    assert len(compilations) == 4


WITH_NUMBERS: dict[str, Any] = {
    "clamp": lambda x, v: x.clamp(-v, v), "clamp below": lambda x, v: x.clamp(min=-v),
    "addcmul": lambda x, v: x.addcmul(x, x, value=v),
    "addcdiv": lambda x, v: x.addcdiv(x, x + 9, value=v),
    "softplus": lambda x, v: F.softplus(x, v, v * 10), "elu": F.elu, "celu": F.celu,
    "leaky_relu": F.leaky_relu, "hardtanh": lambda x, v: F.hardtanh(x, -v, v),
    "threshold": lambda x, v: F.threshold(x, v, v * 2), "hardshrink": F.hardshrink,
    "softshrink": F.softshrink, "nan_to_num": lambda x, v: x.nan_to_num(v, -v, 2 * v),
    "logit": lambda x, v: x.logit(v),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [sf.float16, sf.bfloat16, sf.float32, sf.float64], ids=str)
@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_one_kernel_for_all_numbers(name: str, dtype: Any, compilations: list[Any]) -> None:
    fn = WITH_NUMBERS[name]
    drawn = np.random.default_rng(0).standard_normal(LARGE).astype(np.float32)
    x = sf.from_numpy(drawn).to(dtype)
    few = x[:5000].clone()
    near = {16: 1e-2, 32: 1e-5, 64: 1e-12}[dtype.bits]
    for v in (0.3, 0.47, 0.1):
        whole, part = fn(x, v)[:5000].to(sf.float64), fn(few, v).to(sf.float64)
        np.testing.assert_allclose(whole.numpy(), part.numpy(), near, near)
    assert compilations.count(name.split()[0].replace("celu", "elu")) == 1


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_one_derivative_for_all_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(
        pullback, "compile_graph", lambda g: made.append(g) or programs.compile_graph(g)
    )
    monkeypatch.setattr(pullback, "programs_of", functools.cache(lambda op: programs.Programs()))
    fn = WITH_NUMBERS[name]
    drawn = np.random.default_rng(0).standard_normal(LARGE)
    for v in (0.3, 0.47, 0.1):
        gradients = []
        for n in (LARGE, 5000):
            x = sf.from_numpy(drawn[:n]).requires_grad_()
            fn(x, v).backward(sf.ones(n, dtype=sf.float64))
            gradients.append(np.asarray(x.grad)[:5000])
        np.testing.assert_allclose(*gradients, 1e-12, 1e-12)
    assert len(made) <= 1


def test_arrays_of_any_layout() -> None:
    x = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    for a in (x, x.T, x[::2], x[:, ::-1], np.broadcast_to(x[:1], (6, 8)), x[1:1]):
        np.testing.assert_allclose(native("exp")(np, a), np.exp(a), 1e-6)
        found = native("softmax")(np, a, dim=1)
        np.testing.assert_allclose(found, OPS["softmax"].reference(np, a, dim=1), 1e-5, 1e-7)


def test_numbers_beside_arrays() -> None:
    c, x = np.array([True, False]), np.array([1.0, 2.0], np.float32)
    where = native("where")
    assert where(np, c, x, 0.5).tolist() == [1, 0.5] and where(np, c, x, 0.5).dtype == np.float32
    assert where(np, True, x, 0.0).tolist() == [1, 2]


@pytest.mark.parametrize("op", LARGE_OPS, ids=lambda op: op.name)
def test_large_arrays_give_what_small_ones_give(op: Any) -> None:
    """Where the tensor is large the method runs natively; the values of its parts stay the same."""
    x = sf.from_numpy(np.random.default_rng(0).random(LARGE, np.float32) * 0.8 + 0.1)
    rows = x.reshape(-1, 8)
    arguments: dict[str, Any] = {
        "where": lambda t: sf.where(t > 0.5, t, 0.0),
        "sum": lambda t: t.sum(-1), "mean": lambda t: t.mean(-1),
        "cast": lambda t: t.to(sf.float16), "clamp": lambda t: t.clamp(0.2, 0.6),
        "prod": lambda t: t.prod(-1), "gather": lambda t: t.gather(1, (t > 0.5).long()),
        "amax": lambda t: t.amax(-1), "amin": lambda t: t.amin(-1),
        "softmax": lambda t: t.softmax(-1), "log_softmax": lambda t: t.log_softmax(-1),
        "logsumexp": lambda t: t.logsumexp(-1),
        "cumsum": lambda t: t.cumsum(-1), "cumprod": lambda t: t.cumprod(-1),
        "masked_fill": lambda t: t.masked_fill(t > 0.5, 2.0), "hardtanh": F.hardtanh,
        "threshold": lambda t: F.threshold(t, 0.5, 0.1), "hardshrink": F.hardshrink,
        "elu": F.elu, "leaky_relu": F.leaky_relu, "softplus": F.softplus, "softshrink": F.softshrink,
        "logit": sf.logit, "nan_to_num": sf.nan_to_num,
    }  # fmt: skip
    compute = arguments.get(op.name)
    if compute is None:
        if op.vjp is None or len(getattr(op.vjp, "partials", ())) != 1:
            pytest.skip("has a test of its own")
        compute = op
    whole, part = compute(rows), compute(rows[:16])
    assert whole.dtype is part.dtype and whole.shape[1:] == part.shape[1:]
    np.testing.assert_allclose(whole[:16].numpy(), part.numpy(), 1e-5, 1e-6)


def test_gradients_of_large_arrays() -> None:
    x = sf.from_numpy(np.linspace(-3, 3, LARGE).astype(np.float32)).requires_grad_()
    x.sigmoid().sum().backward()
    s = 1 / (1 + np.exp(-x.detach().numpy()))
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), s * (1 - s), 1e-5)


def test_a_failure_is_that_of_this_call() -> None:
    """A kernel that was made at one line fails at another."""
    empty = sf.zeros(3, 0)
    with pytest.raises(sf.ShapeError, match=r"test_eager_kernels\.py:\d+"):
        empty.amax(1)


def test_threads_compile_once(compilations: list[Any]) -> None:
    x = np.ones(10, np.float32)
    exp = native("exp")
    threads = [threading.Thread(target=exp, args=(np, x)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert compilations == ["exp"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_large_arrays(dtype: Any) -> None:
    special = np.array([0.0, -0.0, 1, -1, 0.5, 3, -2.5, np.inf, -np.inf, np.nan, 1e-30, -1e30])
    x = np.resize(special, LARGE).astype(dtype)
    near = 4 * np.finfo(dtype).eps
    for y in (0, 1, 2, 3, 0.5, -1, -0.5, 1.7, np.inf):
        found = sf.from_numpy(x) ** y
        with np.errstate(all="ignore"):
            wanted = OPS["pow"].reference(np, x[: len(special)], y)
        part = found[: len(special)].numpy()
        np.testing.assert_allclose(part, wanted, near)
        zeros = wanted == 0
        np.testing.assert_array_equal(np.signbit(part[zeros]), np.signbit(wanted[zeros]))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose((2.0 ** sf.from_numpy(x)).numpy(), np.exp2(x), near)


EXACT_OPS = [op for op in OPS.values() if op.ufunc and op.exact]


@pytest.mark.parametrize("op", EXACT_OPS, ids=lambda op: op.name)
def test_what_kernels_do_exactly_has_numpys_bits(op: Any) -> None:
    special = [0.0, -0.0, 1, -1, 0.5, 3, -2.5, np.inf, -np.inf, np.nan, 1e-40, -1e30, 7.25]
    for dtype in DTYPES:
        if dtype.kind not in ("f" if op.promote == "float" else op.kinds):
            continue
        few = np.array(special) if dtype.kind == "f" else np.arange(-6, 7)
        with np.errstate(all="ignore"):
            few = few.astype(dtype.numpy)
            args = (np.repeat(few, 13), np.tile(few, 13))[: getattr(np, op.ufunc).nin]
            wanted = np.asarray(op.reference(np, *args))
        found = kernels.kernels_of(op)(np, *args)
        assert found.dtype == wanted.dtype
        is_nan = wanted != wanted
        np.testing.assert_array_equal(found != found, is_nan)
        differ = [a != b for a, b in zip(found.tolist(), wanted.tolist(), strict=True)]
        signs = np.signbit(found.astype(float)) != np.signbit(wanted.astype(float))
        assert not ((np.array(differ) | signs) & ~is_nan).any(), dtype


def test_floats_of_16_bits_need_a_kernel_earlier(compilations: list[Any]) -> None:
    """NumPy takes them one by one; what it is fast at it does until threads pay."""
    for dtype, made in ((np.float32, []), (np.float16, ["add"])):
        x = np.linspace(-3, 3, LARGE - 1).astype(dtype)
        assert np.array_equal(native("add")(np, x, x), x + x)
        assert compilations == made


MOVES: dict[str, tuple[Any, Any]] = {
    "cat": (lambda x: sf.cat([x, x[:2]], 0), lambda x: np.concatenate([x, x[:2]])),
    "stack": (lambda x: sf.stack([x, x], 1), lambda x: np.stack([x, x], 1)),
    "flip": (lambda x: x.flip(0, 1), lambda x: x[::-1, ::-1]),
    "roll": (lambda x: x.roll(2, 1), lambda x: np.roll(x, 2, 1)),
    "repeat": (lambda x: x.repeat(2, 3), lambda x: np.tile(x, (2, 3))),
    "index": (lambda x: x[sf.tensor([2, 0, -1])], lambda x: x[[2, 0, -1]]),
    "index_select": (lambda x: x.index_select(1, sf.tensor([3, 3, 0])), lambda x: x[:, [3, 3, 0]]),
    "embedding": (lambda x: F.embedding(sf.tensor([[1, 0], [2, 2]]), x),
                  lambda x: x[[[1, 0], [2, 2]]]),
}  # fmt: skip
"""What moves elements, and the same in NumPy."""


@pytest.mark.parametrize("columns", [8, costs.ROW])
@pytest.mark.parametrize("name", MOVES)
def test_moves_are_kernels(name: str, columns: int, compilations: list[Any]) -> None:
    rows = LARGE // columns
    counts = []
    for n in (rows // 2, rows + 9, rows + 31):
        x = np.random.default_rng(0).random((n, columns))
        move, expected = MOVES[name]
        np.testing.assert_array_equal(move(sf.from_numpy(x)).numpy(), expected(x))
        counts.append(compilations.count(name))
    assert counts[0] == 0 < counts[1] == counts[2]


def test_derivatives_of_one_computation_are_kernels(
    compilations: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (
        2,
        1,
        3,
        costs.SPREAD // 5,
    )  # a kind of array that no other test remembers a kernel of
    x, y = (sf.from_numpy(np.full(shape, v)).requires_grad_() for v in (2.0, 3.0))
    (x * y).backward(sf.ones(shape, dtype=sf.float64))
    assert compilations == ["mul"] and x.grad is not None
    assert np.unique(x.grad.numpy()).tolist() == [3]


def test_filling_has_one_program_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(overwrite, "programs_of", functools.cache(lambda fn: programs.Programs()))
    monkeypatch.setattr(overwrite, "get_num_threads", lambda: 2)
    monkeypatch.setattr(
        overwrite, "compile_graph", lambda g: made.append(g) or programs.compile_graph(g)
    )
    n = costs.SPREAD
    for shape, value in (((n,), 1.0), ((n // 8, 8), 0.25), ((2, n, 1), -0.0)):
        t = sf.full(shape, value)
        assert t.shape == shape and np.array_equal(t.numpy(), np.full(shape, value, np.float32))
        assert np.signbit(t.numpy()).all() == np.signbit(value)
        assert np.array_equal(t.clone().numpy(), t.numpy())
    assert len(made) == 2  # one fills, one copies


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_results_of_elementwise_kernels_lie_as_the_operands(order: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random((3, 4, 5), np.float32).transpose(order)
    for found in (native("exp")(np, x), native("where")(np, x > 0.5, x, 0.0)):
        assert found.strides == np.exp(x).strides
    np.testing.assert_allclose(native("exp")(np, x), np.exp(x), 1e-6)
    mixed = native("where")(np, x > 0.5, x, np.ascontiguousarray(x) + 1)
    np.testing.assert_array_equal(mixed, np.where(x > 0.5, x, x + 1))


def test_an_operand_of_fewer_dims_is_turned_with_the_others() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((3, 4, 5), np.float32).transpose(2, 0, 1)
    for y in (rng.random(4), rng.random((3, 1)), rng.random((3, 4)), rng.random((1, 1, 4))):
        y = y.astype(np.float32)
        found = kernels.kernels_of(OPS["add"])(np, x, y)
        np.testing.assert_array_equal(found, x + y)
        assert found.strides == x.strides


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
def test_flips_of_turned_arrays_copy_nothing(
    order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).random((3, 4, 5)).transpose(order)
    given: list[Any] = []
    run = kernels.run
    monkeypatch.setattr(kernels, "run", lambda p, arrays: given.append(arrays) or run(p, arrays))
    for dims in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
        turned = kernels.kernels_of(OPS["flip"])(np, x, dims=dims)
        np.testing.assert_array_equal(turned, np.flip(x, dims))
        assert turned.strides == x.strides
    assert all(a.flags.c_contiguous for arrays in given for a in arrays)


@pytest.mark.parametrize(("columns", "copies"), [(1, 0), (50, 1)])
def test_a_turned_array_is_copied_where_much_of_it_is_read(
    columns: int, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    make_copy = kernels.make_copy
    monkeypatch.setattr(kernels, "make_copy", lambda a: made.append(a) or make_copy(a))
    rng = np.random.default_rng(0)
    x, index = rng.random((70, 90)).T, rng.integers(0, 70, (90, columns))
    found = kernels.kernels_of(OPS["gather"])(np, x, index, dim=1)
    np.testing.assert_array_equal(found, np.take_along_axis(x, index, 1))
    assert len(made) == copies


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
def test_reductions_of_turned_arrays_copy_nothing(
    order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).random((3, 4, 5)).transpose(order)
    given: list[Any] = []
    run = kernels.run
    monkeypatch.setattr(kernels, "run", lambda p, arrays: given.append(arrays) or run(p, arrays))
    for dims in ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        for keepdim in (False, True):
            for name, fn in (("sum", np.sum), ("amax", np.max), ("var", np.var)):
                more = {"correction": 0} if name == "var" else {}
                found = native(name)(np, x, dims=dims, keepdim=keepdim, **more)
                wanted = fn(x, axis=dims, keepdims=keepdim)
                np.testing.assert_allclose(found, wanted, 1e-12, 1e-15)
                assert found.shape == wanted.shape
    assert all(a.flags.c_contiguous for arrays in given for a in arrays)


@pytest.mark.parametrize(
    "shape", [(200, 130), (9000, 3), (3, 90, 100), (5, 7, 600), (40000, 1), (1, 40000)]
)
def test_row_major_copies(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape)
    for order in {tuple(range(x.ndim)), tuple(range(x.ndim))[::-1], (*range(1, x.ndim), 0)}:
        repeated = np.broadcast_to(x[..., None], (*x.shape, 3))
        views = (x.transpose(order), x.transpose(order)[..., ::-1], x[::2].transpose(order))
        for view in (*views, repeated):
            found = row_major(view)
            assert found.flags.c_contiguous and found.base is None
            np.testing.assert_array_equal(found, view)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_short_rows_are_copied_one_element_of_each_after_the_other(dim: int) -> None:
    """As they are from part of an array to part of another, or turned."""
    shape = [130, 70]
    shape.insert(dim, 3)
    whole = np.random.default_rng(0).random([n + 2 for n in shape])
    part = whole[:-2, 1:-1, 2:]
    for source in (part, part[:, ::-1], np.broadcast_to(part[:, :, :1], shape), whole[0, 0, 0]):
        target = np.zeros([n + 1 for n in shape])
        copy_to(target[1:, 1:, :-1], source)
        np.testing.assert_array_equal(target[1:, 1:, :-1], np.broadcast_to(source, shape))
        assert not target[0].any() and not target[:, 0].any() and not target[..., -1].any()
    for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)):
        found = row_major(part.transpose(order))
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, part.transpose(order))


@pytest.mark.parametrize("columns", [rowmajor._SOME, rowmajor._SOME + 1])
def test_what_lies_in_rows_of_many_is_copied_at_once(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks then how the other dims lie, which took three times as long as the copy."""
    looked: list[int] = []
    turned = rowmajor._is_turned
    monkeypatch.setattr(rowmajor, "_is_turned", lambda a: looked.append(1) or turned(a))
    n = rowmajor._LARGE // columns + 1
    x = np.random.default_rng(0).random((n, columns + 1), np.float32)[:, :columns]
    for view in (x, np.broadcast_to(x[:, None], (n, 2, columns)), x[::-1]):
        np.testing.assert_array_equal(row_major(view), view)
    assert bool(looked) == (columns == rowmajor._SOME)
    found = sf.from_numpy(x).repeat_interleave(2, 0)
    np.testing.assert_array_equal(found.numpy(), np.repeat(x, 2, 0))


@pytest.mark.parametrize(("times", "by_program"), [(2, False), (4, False), (5, True)])
def test_elements_that_come_a_few_times_each_are_copied_so_many_times(
    monkeypatch: pytest.MonkeyPatch, times: int, by_program: bool
) -> None:
    copied = []
    by_one_pass = overwrite._copy_by_program
    monkeypatch.setattr(
        overwrite, "_copy_by_program", lambda *arrays: copied.append(1) or by_one_pass(*arrays)
    )
    x = np.random.default_rng(0).random((520, 520), np.float32)
    found = sf.from_numpy(x).repeat_interleave(times, 1)
    np.testing.assert_array_equal(found.numpy(), np.repeat(x, times, 1))
    assert bool(copied) == by_program


@pytest.mark.parametrize("largest", [True, False])
def test_topk_looks_at_few_and_chooses_as_a_sort_does(largest: bool) -> None:
    rng = np.random.default_rng(0)
    apart = rng.permutation(np.arange(400.0)).reshape(4, 100).astype(np.float32)
    equal, holes = np.round(apart / 20), np.where(apart % 50 == 0, np.nan, apart)
    topk, sort = OPS["topk"].reference, OPS["sort"].reference
    for x in (apart, equal, holes, apart.astype(np.int64)):
        for k, dim, a in ((5, 1, x), (5, 0, x.T), (0, 1, x), (100, 1, x)):
            found = topk(np, a, k=k, dim=dim, largest=largest)
            for f, w in zip(found, sort(np, a, dim=dim, descending=largest), strict=True):
                np.testing.assert_array_equal(f, np.take(w, np.arange(k), axis=dim))


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
@pytest.mark.parametrize(
    "row", [3, costs.BETWEEN, costs.BETWEEN + 1, costs.FEW_IN_ROW - 1, costs.FEW_IN_ROW]
)
def test_extremes_along_columns_and_rows_of_some_are_found_by_a_kernel(
    name: str, row: int, compilations: list[Any]
) -> None:
    a = np.round(np.random.default_rng(0).standard_normal((LARGE // row + 1, row)), 1)
    a[5, 2] = a[9, 2] = np.nan
    own, other = int(row < costs.FEW_IN_ROW), int(row > costs.BETWEEN)  # of few columns NumPy's
    for dim, made in ((1, own), (0, own + other)):
        found = getattr(sf.from_numpy(a), name)(dim)
        places = getattr(np, name if name.startswith("arg") else f"arg{name}")(a, dim)
        indices = found if name.startswith("arg") else found.indices
        np.testing.assert_array_equal(indices.numpy(), places)
        if found is not indices:
            np.testing.assert_array_equal(found.values.numpy(), getattr(np, name)(a, dim))
        assert len(compilations) == made


PICKS: dict[str, Any] = {
    "max": lambda x, d: x.max(d),
    "min": lambda x, d: x.min(d, keepdim=True),
    "argmax": lambda x, d: (x.argmax(d),),
    "argmin": lambda x, d: (x.argmin(d),),
    "kthvalue": lambda x, d: x.kthvalue(3, d),
    "median": lambda x, d: x.median(d, keepdim=True),
    "topk": lambda x, d: x.topk(3, d),
    "topk of many": lambda x, d: x.topk(FEW + 1, d),
}


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
@pytest.mark.parametrize("name", PICKS)
def test_elements_are_picked_of_arrays_as_they_lie(name: str, dtype: str) -> None:
    """With results that lie row by row, of rows of which a kernel knows the length, too."""
    for shape in ((NETWORK + 2, 30, 21), (200, 19, 35), (1, FEW + 1, LARGE // 8)):
        a = np.round(np.random.default_rng(1).standard_normal(shape) * 9).astype(dtype)
        if dtype != "int64":
            a[0, 3, 5] = a[0, 7, 5] = np.nan
        for order in ((2, 1, 0), (1, 2, 0), (0, 2, 1)):
            x, same = (sf.from_numpy(m) for m in (a.transpose(order), a.transpose(order).copy()))
            for dim in range(3):
                if x.shape[dim] > FEW:
                    wanted = PICKS[name](same, dim)
                    for _ in range(4):
                        for found, w in zip(PICKS[name](x, dim), wanted, strict=True):
                            np.testing.assert_array_equal(found.numpy(), w.numpy())
                            assert found.stride() == w.stride()


def test_a_few_of_large_rows_are_found_by_a_kernel(compilations: list[Any]) -> None:
    x = np.random.default_rng(0).integers(-999, 999, (costs.SPREAD // 512, 512))
    for k, made in ((5, ["topk"]), (FEW + 1, ["topk"])):
        found = sf.from_numpy(x).topk(k, largest=False)
        assert compilations == made
        order = np.argsort(x, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(found.indices.numpy(), order)
        np.testing.assert_array_equal(found.values.numpy(), np.take_along_axis(x, order, 1))


ORDERS: dict[str, Any] = {
    "sort": lambda x, dim: x.sort(dim),
    "topk": lambda x, dim: x.topk(min(FEW + 1, x.shape[dim]), dim),
    "kthvalue": lambda x, dim: x.kthvalue(2, dim), "median_dim": lambda x, dim: x.median(dim),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize(
    ("length", "made"),  # along rows and columns; one of a rank always is
    [(3, 2), (NETWORK, 2), (20, 0), (costs.ROW, 0), (costs.LONG - 1, 0), (costs.LONG, 2)],
)
def test_order_is_found_by_a_kernel_along_short_and_long_rows(
    name: str, length: int, made: int, compilations: list[Any]
) -> None:
    x = np.round(np.random.default_rng(0).standard_normal((LARGE // length + 1, length)), 2)
    x[3, 1] = np.nan
    with np.errstate(invalid="ignore"):
        for dim, a in ((1, x), (0, x.T.copy())):
            found = ORDERS[name](sf.from_numpy(a), dim)
            small = [ORDERS[name](sf.from_numpy(row.copy()), 0) for row in x[:5]]
            along = 1 - dim if found.values.ndim == 2 else 0
            for i, one in enumerate(small):
                np.testing.assert_array_equal(found.values.numpy().take(i, along), one.values)
                np.testing.assert_array_equal(found.indices.numpy().take(i, along), one.indices)
    by_rank = name in ("kthvalue", "median_dim")
    assert compilations.count(name) == (2 if by_rank else made)


@pytest.mark.parametrize(
    ("dtype", "least"),
    [("?", costs.LONG_BOOLS), ("f4", costs.LONG_NARROW), ("i4", costs.LONG_NARROW),
     ("f8", costs.LONG), ("i8", costs.LONG)],
)  # fmt: skip
def test_long_rows_are_sorted_by_a_kernel(dtype: str, least: int, compilations: list[Any]) -> None:
    """Those of fewer bytes sooner."""
    for n in (least - 1, least, least + 1):
        shape = LARGE // n + 1, n
        a = np.random.default_rng(n).integers(0, 2 if dtype == "?" else 50, shape).astype(dtype)
        for descending in (False, True):
            found = sf.sort(sf.from_numpy(a), 1, descending)
            keys = -a.astype(int) if descending else a
            order = np.argsort(keys, 1, kind="stable")
            np.testing.assert_array_equal(found.indices.numpy(), order)
            np.testing.assert_array_equal(found.values.numpy(), np.take_along_axis(a, order, 1))
        assert bool(compilations.count("sort")) == (n >= least)


def test_what_broadcasts_to_a_large_array_is_a_kernel(compilations: list[Any]) -> None:
    """Also where both operands are small."""
    for n, made in ((150, 0), (900, 1), (901, 1)):
        row = sf.from_numpy(np.random.default_rng(0).random((1, n)))
        column = sf.from_numpy(np.random.default_rng(1).random((n, 1)))
        np.testing.assert_array_equal((row + column).numpy(), row.numpy() + column.numpy())
        assert compilations.count("add") == made


def test_short_rows_are_a_kernels_sooner(compilations: list[Any]) -> None:
    """NumPy begins anew with each: where they are reduced, and where another array is broadcast
    along them."""
    summed, added = LARGE // costs.SUMMED_ROW, LARGE // (costs.STARTED + 3) + 1
    for n in (summed - 1, summed, added - 1, added, added + 1):
        x = np.random.default_rng(n).random((n, 3), np.float32)
        t, row = sf.from_numpy(x), sf.from_numpy(x[0])
        general = EAGER.general(OPS["sum"], (t,), {"dims": (1,), "keepdim": False})
        for _ in range(4):  # the function, its plan, and often
            np.testing.assert_array_equal((t + row).numpy(), x + x[0])
            np.testing.assert_array_equal(t.sum(1).numpy(), general.numpy())
        np.testing.assert_allclose(general.numpy(), x.sum(1), 1e-6)
        assert compilations.count("sum") == (n >= summed)
        assert compilations.count("add") == (n >= added)
        assert (t + t).numpy().sum() == (x + x).sum()  # one row of memory to NumPy, too
        assert compilations.count("add") == (n >= added)


@pytest.mark.parametrize("name", ["sum", "mean", "amax"])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)], ids=str)
def test_reductions_are_a_kernels_sooner(
    name: str, dims: tuple[int, ...], compilations: list[Any]
) -> None:
    """NumPy takes some times as long to add elements up as it takes to go through them."""
    columns, enough = 100, LARGE // costs.ADDED
    for n in (enough // columns, enough // columns + 1):
        x = np.random.default_rng(n).random((n, columns), np.float32)
        t = sf.from_numpy(x)
        attrs = {"dims": dims, "keepdim": False}
        general = EAGER.general(OPS[name], (t,), attrs).numpy()
        for _ in range(4):  # the function, and its plan
            np.testing.assert_array_equal(getattr(sf, name)(t, dims).numpy(), general)
        np.testing.assert_allclose(general, getattr(x.astype(float), name.strip("a"))(dims), 1e-5)
        assert compilations.count(name) == (n * columns >= enough)


@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_a_column_times_a_row_broadcasts(batch: tuple[int, ...]) -> None:
    """The gradient of ``matrix @ vector``; NumPy's product takes three times as long."""
    column = np.linspace(-2, 2, LARGE // 64 * 3, dtype=np.float32)[: 1000 * (3 if batch else 1)]
    column = column.reshape(*batch, 1000, 1).copy()
    row = np.linspace(0, 1, 80, dtype=np.float32).reshape(1, 80)
    column[..., 3, 0], column[..., 4, 0] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = column @ row
    got = sf.from_numpy(column) @ sf.from_numpy(row)
    np.testing.assert_array_equal(got.numpy(), expected)
    x = sf.from_numpy(np.ones((1000, 80), np.float32)).requires_grad_()
    (x @ sf.from_numpy(row[0])).backward(sf.from_numpy(column.reshape(-1, 1000)[0]))
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), expected.reshape(-1, 1000, 80)[0])


def test_products_of_16_bits_are_summed_in_32(compilations: list[Any]) -> None:
    """By a kernel if they are many, and else by NumPy."""
    for dtype in (sf.float16, sf.bfloat16):
        x = sf.full((4, 5000), 0.5).to(dtype)
        assert (x @ x.t()).tolist() == [[1250.0 if dtype is sf.float16 else 1248.0] * 4] * 4
    assert compilations == ["matmul"] * 2
    compilations.clear()
    for dtype in (sf.float16, sf.bfloat16):
        x = sf.full((2, 999), 0.5).to(dtype)
        assert (x @ x.t()).tolist() == [[249.75 if dtype is sf.float16 else 250.0] * 2] * 2
    assert compilations == []
