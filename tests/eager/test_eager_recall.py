"""What is remembered of calls is native code: what it holds, what it drops, and who else looks."""

from __future__ import annotations

import contextlib
import gc
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calling import ESTABLISHED

import staticflow as sf
from staticflow.eager import choose, costs
from staticflow.eager.fast import plans
from staticflow.eager.fast.recall import OFTEN, SLOTS
from staticflow.errors import IndexRangeError, StaticflowError
from staticflow.ops.along.order import SHORT

F = sf.nn.functional
sf.ones(1).neg()  # from then on the methods are native


def calls() -> list[Callable[[], Any]]:
    """Calls that come to views, to one op and to several, to one result and to several."""
    x, w = sf.ones(4, 5, requires_grad=True), sf.ones(3, 5, requires_grad=True)
    return [
        x.t, x.sum, x.mean, x.unbind, lambda: x.view(20), lambda: x[1], lambda: x[None, 1:3],
        lambda: x.split(2, dim=1), lambda: F.linear(x, w), lambda: sf.cat([x, x]),
        lambda: x.softmax(1), lambda: x.amax(0, keepdim=True),
    ]  # fmt: skip


def test_methods_are_native_and_have_the_signature_of_the_function() -> None:
    for name, signature in (
        ("sum", "(self, /, dim=None, keepdim=False, *, dtype=None)"),
        ("t", "(self, /)"),
        ("expand", "(self, /, *sizes, size=None)"),
        ("__getitem__", "(self, /, key)"),
    ):
        method = vars(sf.Tensor)[name]
        assert type(method).__name__ == "method_descriptor"
        assert str(inspect.signature(method)) == signature


def test_no_function_is_called_for_a_kind_that_is_known() -> None:
    all_calls = calls()
    for call in all_calls * 2:
        call()
    seen: list[str] = []

    def on_call(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_filename)

    sys.setprofile(on_call)
    try:
        for call in all_calls:
            call()
    finally:
        sys.setprofile(None)
    assert not any("plans" in name or "by_shape" in name for name in seen[:3])
    assert not any(
        f"ops/{m}.py" in name for name in seen for m in ("axes", "splitting", "subscript")
    )


def test_a_subscript_that_is_always_another_is_not_remembered() -> None:
    x = sf.arange(3 * SLOTS)
    assert [v.item() for v in x[1:]] == [x[i].item() for i in range(1, len(x))]
    for _ in range(2):  # and more kinds than there is room for
        assert [x[i : i + 2].tolist() for i in range(0, 3 * SLOTS, 2)] == x.view(-1, 2).tolist()


def _numpy_drops_dtypes() -> bool:
    """Whether NumPy alone drops the dtypes that its functions take: 2.1 keeps one each time."""
    dtype = np.dtype(np.float32)
    before = sys.getrefcount(dtype)
    for _ in range(100):
        np.full(3, 1, dtype)
    return sys.getrefcount(dtype) - before < 50


def test_nothing_is_held_or_dropped_too_often() -> None:
    x, w, number = sf.ones(4, 5), sf.ones(3, 5, requires_grad=True), 0.375
    objects = [x, w, x._data, w._data, number, sf.float32, sf.Tensor, None]
    if _numpy_drops_dtypes():
        objects.append(sf.float32.numpy)
    every = [
        x.t, x.sum, w.unbind, lambda: x[1], lambda: x[None, 1:3], lambda: w.split(2, dim=1),
        lambda: F.linear(x, w), lambda: sf.cat([x, w]), lambda: sf.addmm(x, x, x, beta=number),
        lambda: x[7], lambda: sf.cat([x, x[0]]), lambda: w.amax(0).sum().backward(),
    ]  # fmt: skip

    def run() -> None:
        for call in every:
            with contextlib.suppress(StaticflowError):
                call()
        w.grad = None

    for _ in range(ESTABLISHED):  # kernels that are compiled hold something, too
        run()
    gc.collect()  # what tests before left would else go meanwhile, with what it holds
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(100):
        run()
    after = [sys.getrefcount(o) for o in objects]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True)), (before, after)


def test_a_list_that_changes_while_a_call_runs() -> None:
    """What a call works on is held, also where its arguments let go of it."""
    many = [sf.ones(3) for _ in range(20)]
    for _ in range(3):
        assert sf.cat(many).shape == (60,)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            many[:] = [sf.ones(3) for _ in range(20)]

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(2000):
            assert sf.cat(many).tolist() == [1.0] * 60
    finally:
        stop.set()
        other.join()


def test_threads_learn_at_once() -> None:
    failures: list[BaseException] = []

    def work(k: int) -> None:
        try:
            x = sf.full((6, 4), float(k))
            for i in range(600):
                assert x[i % 6].tolist() == [k] * 4 and x.t().shape == (4, 6)
                assert x[i % 6 :].sum().item() == k * 4 * (6 - i % 6)
                assert x.view(2, 12)[i % 2, k:].tolist() == [k] * (12 - k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures


MOVES: dict[str, Callable[[sf.Tensor], Any]] = {
    "relu": lambda x: x.relu(),
    "where": lambda x: sf.where(x > 1, x, x.flip(1)), "clamp": lambda x: x.clamp(min=1),
    "cat": lambda x: sf.cat([x, x, x[:1]], 0), "stack": lambda x: sf.stack((x, x), -1),
    "gather": lambda x: x.gather(1, sf.tensor([[0, 2, 1, 0]] * 3)),
    "index_select": lambda x: x.index_select(0, sf.tensor([2, 0])), "roll": lambda x: x.roll(1, 0),
    "masked_fill": lambda x: x.masked_fill(x > 1, 2), "repeat": lambda x: x.repeat(2, 1),
    "tril": lambda x: x.tril(), "triu": lambda x: x.triu(-1), "flip": lambda x: x.flip((0, 1)),
    "embedding": lambda x: F.embedding(sf.tensor([1, 1, 0]), x), "take": lambda x: x.take(sf.tensor([-1])),
    "sort": lambda x: x.sort(0).values, "topk": lambda x: x.topk(2, 0).values,
    "kthvalue": lambda x: x.kthvalue(2, 1).values, "median": lambda x: x.median(1).values,
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_calls_that_come_often_give_the_same_bits(name: str) -> None:
    """NumPy computed the first of them, a kernel the last."""
    for dtype in (sf.float32, sf.int8, sf.bfloat16, sf.int32):
        values = np.array([[1.5, -0.0, 3, 0.5], [7, 0.0, -2, 1], [np.nan, np.inf, 1, 2]])
        whole = np.nan_to_num(values, posinf=3)
        x = sf.tensor((values if dtype.is_floating else whole).astype(dtype.numpy))
        if dtype.is_floating:
            x.requires_grad_()
        found = [MOVES[name](x) for _ in range(ESTABLISHED)]
        assert len({(y.dtype, y.shape, y.detach().numpy().tobytes()) for y in found}) == 1
        if found[0].requires_grad:
            grads = [sf.grad(y.sum(), x).tolist() for y in (found[0], found[-1])]
            assert grads[0] == grads[1]


ORDERS: dict[str, Callable[[sf.Tensor], Any]] = {
    "sort": lambda x: x.sort(0), "topk(1)": lambda x: x.topk(1, 0),
    "topk(9)": lambda x: x.topk(9, 0), "topk(17)": lambda x: x.topk(17, 0),
    "kthvalue": lambda x: x.kthvalue(9, 0), "median": lambda x: x.median(0),
}  # fmt: skip
WIDE = -(-costs.CALLS // costs.ROW)
BY_KERNEL: dict[tuple[int, int], set[str]] = {
    (costs.ROW - 1, 2): {"sort", "topk(1)", "kthvalue", "median"},
    (costs.ROW - 1, -(-costs.CALLS // (costs.ROW - 1))): {"sort", "topk(1)", "kthvalue", "median"},
    (costs.ROW, 2): {"sort", "topk(1)", "topk(9)", "topk(17)", "kthvalue", "median"},
    (costs.ROW, WIDE): {"sort", "topk(1)", "kthvalue", "median"},
    (SHORT + 1, 2): {"topk(1)", "topk(9)", "topk(17)", "kthvalue", "median"},
    (SHORT + 1, WIDE): {"topk(1)", "topk(9)", "kthvalue", "median"},
    (costs.LONG, 1): {*ORDERS},
}
"""Shapes, and what is found by a kernel along their columns once it comes often."""


@pytest.mark.parametrize("shape", BY_KERNEL, ids=str)
@pytest.mark.parametrize("name", ORDERS)
def test_order_that_comes_often_is_found_by_a_kernel(
    name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    original = plans.kernel_of
    monkeypatch.setattr(
        plans, "kernel_of", lambda op, *more: made.append(op) or original(op, *more)
    )
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.int64):
        x = sf.from_numpy(np.round(rng.standard_normal(shape) * 20).astype(dtype))
        if dtype is np.float32:
            x[shape[0] // 2, 0] = float("nan")
            x[3, 0] = -0.0
        found = [ORDERS[name](x) for _ in range(ESTABLISHED)]
        assert len({(y.values.numpy().tobytes(), y.indices.numpy().tobytes()) for y in found}) == 1
        assert len(made) == (name in BY_KERNEL[shape])
        made.clear()


LIE: dict[str, Callable[[Any], Any]] = {
    "every other": lambda a: np.repeat(a, 2, 1)[:, ::2],
    "expanded": lambda a: np.broadcast_to(a[:1], a.shape),
    "part": lambda a: np.pad(a, ((0, 1), (0, 3)))[: len(a), : a.shape[1]],
    "turned": lambda a: a.T.copy().T,
}  # fmt: skip
BY_CALLS: dict[str, tuple[Callable[[sf.Tensor], Any], set[str]]] = {
    "hardtanh": (F.hardtanh, set()), "nan_to_num": (lambda x: x.nan_to_num(), set()),
    "roll": (lambda x: x.roll(1, 1), {"turned", "expanded"}),
    "cumsum": (lambda x: x.cumsum(1), set()), "topk": (lambda x: x.topk(2, 1).values, set()),
    "flip": (lambda x: x.flip(1), {"turned"}),
}  # fmt: skip
"""Operations, and the layouts in which NumPy goes on to compute them: what it gives lies otherwise
than what a kernel gives."""


@pytest.mark.parametrize("layout", LIE)
@pytest.mark.parametrize("name", BY_CALLS)
def test_what_comes_often_is_a_kernels_however_arrays_lie(
    name: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy computed the first of the calls, with the same bits in the same places."""
    asked: list[Any] = []
    original = plans.kernel_of

    def noted(*given: Any) -> Any:
        asked.append(original(*given))
        return asked[-1]

    fn, by_numpy = BY_CALLS[name]
    monkeypatch.setattr(plans, "kernel_of", noted)
    monkeypatch.setattr(choose, "kernel_of", noted)
    for dtype in (np.float32, np.float64):
        a = np.random.default_rng(0).standard_normal((7, 40)).astype(dtype)
        a[0, :3] = np.nan, -0.0, np.inf
        x = sf.from_numpy(LIE[layout](a))
        assert not x.is_contiguous()
        found = [fn(x).numpy() for _ in range(ESTABLISHED)]
        assert len({(y.strides, y.tobytes()) for y in found}) == 1
        assert [k is not None for k in asked] == [layout not in by_numpy]
        asked.clear()


@pytest.mark.parametrize(
    ("columns", "made"), [(costs.BETWEEN, 0), (costs.BETWEEN + 1, 1), (costs.FEW_IN_ROW, 1)]
)
@pytest.mark.parametrize("name", ["max", "argmin"])
def test_extremes_down_columns_that_come_often_are_found_by_a_kernel(
    name: str, columns: int, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    original = plans.kernel_of
    monkeypatch.setattr(
        plans, "kernel_of", lambda op, *more: asked.append(op) or original(op, *more)
    )
    a = np.random.default_rng(0).integers(-9, 9, (costs.FEW_IN_ROW, columns)).astype(np.float32)
    a[7, 0] = a[9, 0] = np.nan
    x = sf.from_numpy(a)
    found = [getattr(x, name)(0) for _ in range(ESTABLISHED)]
    parts = [y if name == "argmin" else y.indices for y in found]
    assert len({(y.numpy().strides, y.numpy().tobytes()) for y in parts}) == 1
    np.testing.assert_array_equal(
        parts[-1].numpy(), getattr(a, name if name == "argmin" else "argmax")(0)
    )
    assert len(asked) == made


def test_what_a_kernel_refuses_is_worded_by_the_call() -> None:
    x, good, bad = sf.ones(3, 2), sf.tensor([0, 2]), sf.tensor([0, 3])
    for _ in range(ESTABLISHED):
        assert x.index_select(0, good).shape == (2, 2)
    for _ in range(2):
        with pytest.raises(IndexRangeError, match=r"index_select.*3.*test_eager_recall\.py"):
            x.index_select(0, bad)


def test_a_kernel_is_compiled_for_what_comes_often_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = plans.kernel_of

    def counted(op: Any, *given: Any) -> Any:
        compiled.append(op.name)
        return original(op, *given)

    monkeypatch.setattr(plans, "kernel_of", counted)
    x = sf.ones(7, 11, dtype=sf.int16)
    for _ in range(OFTEN // 2):
        x.flip(1)
    assert compiled == []
    for _ in range(OFTEN):
        x.flip(1)
    assert compiled == ["flip"]
