"""The fast path of eager operations gives what the general path gives, to the bit and to the
edge."""

from __future__ import annotations

import _thread
import contextlib
import gc
import inspect
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.modes import arrays_of, call
from slices import by_days

import staticflow as sf
from staticflow import pytree
from staticflow.eager.fast.forms import fast_forms, has_fast_form
from staticflow.eager.fast.records import MEMO
from staticflow.eager.mode import EAGER
from staticflow.eager.numbers import number_beside
from staticflow.eager.saved import SavedType
from staticflow.eager.vertex import PerElementEntry
from staticflow.errors import AutogradError, DTypeError, ShapeError
from staticflow.graph.dtypes import BY_PYTHON, DTYPES
from staticflow.graph.op import Op
from staticflow.ops import OPS
from staticflow.ops.declaring.declare import elementwise
from staticflow.ops.declaring.lowering import Elementwise


def is_bare(op: Op) -> bool:
    """Whether the op has no attributes, and brings its operands to one dtype."""
    parameters = inspect.signature(op.reference).parameters.values()
    bare = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    return bare and type(op.lowering) is Elementwise and op.promote in ("common", "float")


FAST = sorted(filter(is_bare, EAGER.prepare()), key=lambda op: op.name)
NUMBERS = (0, 1, -3, 2, 0.0, -0.0, 0.5, True, False, float("nan"), float("inf"), 10**6)


def operands(dtype: sf.DType, shape: tuple[int, ...]) -> sf.Tensor:
    values = np.resize(np.array([1, 0, 2, 3, 1, 5]), shape)
    if dtype.is_floating:
        values = values * 0.37 - 0.5
    return sf.tensor(values.astype(dtype.numpy))


def outcome(compute: Any, args: tuple[Any, ...]) -> Any:
    """The dtype, shape and bytes of a result, or the kind of failure."""
    try:
        out = compute(*args)
    except (DTypeError, ShapeError) as error:
        return type(error)
    return out.dtype, out.shape, out.detach().numpy().tobytes()


def both(op: Op, *args: Any) -> None:
    fast = outcome(lambda *a: EAGER.prepare()[op](a, {}), args)
    assert fast == outcome(lambda *a: EAGER.general(op, a, {}), args), (op.name, args)


def test_what_always_runs_as_its_kernel_names_no_ufunc() -> None:
    """Which the fast path would call at once."""
    assert not [op.name for op in OPS.values() if op.ufunc and op.numpy == "slower"]


@pytest.mark.parametrize("op", FAST, ids=lambda op: op.name)
def test_values_and_refusals(op: Op) -> None:
    arity = len(inspect.signature(op.reference).parameters) - 1
    for dtype in DTYPES:
        for shape in ((4,), (2, 3), (), (0,)):
            x = operands(dtype, shape)
            if arity != 2:
                both(op, *[x] * arity)
                continue
            for number in NUMBERS:
                both(op, x, number)
                both(op, number, x)
            for other in ((4,), (2, 3), (), (3,), (0,), (2, 1)):
                both(op, x, operands(dtype, other))
            both(op, x, operands(sf.float32, shape))
            both(op, operands(sf.int64, ()), x)


def recorded(out: Any) -> Any:
    """What was recorded of a result, in words that can be compared."""
    entry = out.grad_fn
    if entry is None:
        return out._base is None
    shadows = [(a.shape, a.dtype) if isinstance(a, SavedType) else None for a in entry.args]
    like = out.shape, out.dtype  # for which None stands as well
    held = [
        a if type(a) in BY_PYTHON else tuple if isinstance(a, tuple) else s if s != like else None
        for a, s in zip(entry.args, shadows, strict=True)
    ]
    kept = [a[0].tobytes() for a in entry.args if isinstance(a, tuple)]
    result = None if entry.result is None else isinstance(entry.result, tuple)
    lines = [loc.line for loc in entry.locs]
    return out._base is None, entry.op, entry.attrs, entry.edges, held, kept, result, lines


@pytest.mark.parametrize("name", by_days(list(ROWS), len(ROWS) // 3, "fast path"))
def test_what_ops_give_and_record(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the samples of the op's row: natively as by the general path."""
    natively = EAGER.prepare()

    def checked(op: Op, args: Any, attrs: Any) -> Any:
        paths = natively[op], partial(EAGER.general, op)
        out, other = [path(args, attrs) for path in paths]
        for a, b in zip(pytree.flatten(out)[0], pytree.flatten(other)[0], strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes(), op.name
            if type(out) is sf.Tensor:
                assert recorded(a) == recorded(b), op.name
        return out

    monkeypatch.setitem(vars(EAGER), "fast", {op: partial(checked, op) for op in natively})
    info = ROWS[name]
    for dtype in {sf.float32, info.dtypes[0], info.dtypes[-1]} & {*info.dtypes}:
        for sample in info.samples(dtype, False):
            arrays = arrays_of(sample)
            for wanted in {(True,) * len(arrays), (True, *(False,) * (len(arrays) - 1))}:
                tensors = [sf.from_numpy(a) for a in arrays]
                for t, w in zip(tensors, wanted, strict=False):
                    t.requires_grad_(w and t.dtype.is_floating)
                call(info, sample, tensors)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "exp", "tanh", "relu", "pow"])
def test_gradients(name: str) -> None:
    """Of the entry that is filled in fast, and of the one that is made the general way."""
    op = OPS[name]
    shapes = [(3,), (2, 3), (1,), ()]
    two = name in ("add", "sub", "mul", "div", "pow")
    for a, b in itertools.product(shapes, shapes) if two else ((s, s) for s in shapes):
        found = []
        for path in (EAGER.prepare()[op], partial(EAGER.general, op)):
            xs = [operands(sf.float64, s).add(1.5).requires_grad_() for s in (a, b)][: 1 + two]
            out = path(tuple(xs), {})
            grads = sf.grad((out * out).sum(), xs, create_graph=True)
            second = sf.grad(sum(g.sum() for g in grads), xs, allow_unused=True)
            found.append([g.tolist() for g in (*grads, *(s for s in second if s is not None))])
        assert found[0] == found[1], (name, a, b)


def test_gradients_of_products_of_matrices() -> None:
    """Square ones, too, whose operands have the shape of the result."""
    for shapes in (((3, 3), (3, 3)), ((2, 3), (3, 4)), ((2, 3, 3), (3, 3)), ((2, 2, 3), (2, 3, 1))):
        for wanted in ((True, True), (True, False), (False, True)):
            found = []
            for path in (EAGER.prepare()[OPS["matmul"]], partial(EAGER.general, OPS["matmul"])):
                xs = [operands(sf.float64, s) for s in shapes]
                leaves = [x.requires_grad_() for x, w in zip(xs, wanted, strict=True) if w]
                out = path(tuple(xs), {})
                assert [a[0] if isinstance(a, tuple) else None for a in out.grad_fn.args] == [
                    x._data if w else None for x, w in zip(xs, wanted[::-1], strict=True)
                ]
                grads = sf.grad((out * out).sum(), leaves, create_graph=True)
                second = sf.grad(sum(g.sum() for g in grads), leaves)
                found.append([g.tolist() for g in (*grads, *second)])
            assert found[0] == found[1]


def test_one_entry_for_one_operation() -> None:
    x = sf.ones(3, requires_grad=True)
    entry = (x * 2).grad_fn
    assert type(entry) is PerElementEntry and entry.name() == "MulBackward0" and entry.attrs == {}
    assert "test_eager_fast.py" in str(entry.locs[0])
    assert entry.locs[0].line == test_one_entry_for_one_operation.__code__.co_firstlineno + 2
    called = sf.nn.functional.relu(x).grad_fn
    assert "test_eager_fast.py" in str(called.locs[0])


def test_what_is_kept_is_what_is_needed() -> None:
    w, x = sf.ones(3, requires_grad=True), sf.ones(3)
    assert [a is None for a in (w * x).grad_fn.args] == [True, False]
    assert [a is None for a in (w * w).grad_fn.args] == [False, False]
    assert (w / 2.0).grad_fn.result is None and (2.0 / w).grad_fn.result is not None
    assert (w + x).grad_fn.args == (None, None)
    bias = sf.ones(1, requires_grad=True)
    assert (x * bias).grad_fn.args[0] is not None


def test_floating_errors_are_not_told(recwarn: pytest.WarningsRecorder) -> None:
    x = sf.tensor([0.0, -1.0, 1e38])
    with np.errstate(all="raise"):
        for y in (x / 0.0, x.log(), x * x, x.sqrt(), x.sum(), x.exp()):
            assert not y.requires_grad
    assert not recwarn


def test_a_finalizer_may_compute_while_an_operation_runs() -> None:
    """The context in which floating errors are ignored cannot be entered twice."""
    from staticflow.ops.declaring.thread import thread

    x = sf.ones(2)
    assert thread.state.run(lambda: (x * 2).tolist()) == [2, 2]
    assert thread.state.run(lambda: x.sum().item()) == 2


def test_subclasses_take_part() -> None:
    w = sf.nn.Parameter([1.0, 2.0])
    y = w * w
    assert type(y) is sf.Tensor
    y.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [2, 4]


def test_arrays_take_part() -> None:
    w = sf.ones(2, requires_grad=True)
    array = np.ones(2, np.float32)
    for y in (w * array, array * w, w * np.ma.array(array)):
        assert y.requires_grad and y.tolist() == [1, 1]


def test_loops_have_no_fast_form() -> None:
    for name in ("scan", "while", "cond"):
        assert not has_fast_form(OPS[name]) and OPS[name] not in EAGER.prepare()


# -- native code
# ------------------------------------------------------------------------------------


def test_methods_are_native_and_say_what_they_take() -> None:
    x = sf.ones(2)
    assert type(vars(sf.Tensor)["__mul__"]).__name__ == "method_descriptor"
    assert vars(sf.Tensor)["mul"] is vars(sf.Tensor)["__mul__"]
    assert str(inspect.signature(sf.Tensor.mul)) == "(self, /, other)"
    assert (sf.Tensor.mul.__doc__ or "").startswith("``x * y``")
    times = x.mul
    assert times(3).tolist() == x.mul(other=3).tolist() == sf.mul(input=x, other=3).tolist()
    assert (3 - x).tolist() == sf.Tensor.__rsub__(x, 3).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.mul(), "mul"),
        (lambda x: x.mul(1, 2), "mul"),
        (lambda x: x.exp(1), "exp"),
        (lambda x: x.mul(1, scale=2), "scale"),
        (lambda x: sf.exp(x, base=2), "base"),
        (lambda x: x.__rsub__(), "sub"),
        (lambda x: x * "a", "'other' must be a tensor, not 'a'"),
    ],
)
def test_wrong_calls_are_worded(call: Any, message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        call(sf.ones(2))
    assert "test_eager_fast.py" in str(caught.value)


def test_arguments_in_a_list_and_attributes_in_a_mapping() -> None:
    w = sf.ones(2, 3, requires_grad=True)
    product = EAGER.apply(OPS["mul"], [w, w], MappingProxyType({}))
    turned = EAGER.apply(OPS["permute"], (w,), MappingProxyType({"dims": (1, 0)}))
    assert product.shape == (2, 3) and turned.shape == (3, 2)
    assert sf.grad(product.sum() + turned.sum(), w).tolist() == [[3] * 3] * 2


def test_nothing_is_held_or_dropped_too_often() -> None:
    x, w, row = sf.ones(2, 3), sf.ones(2, 3, requires_grad=True), sf.ones(3, requires_grad=True)
    number, array = 1.25, np.ones(2)
    objects = (x, w, row, number, x._data, w._data, array, sf.float32.numpy, OPS["mul"], sf.Tensor)

    def run() -> None:
        for y in (x * x, x * w, w * row, w * number, number / w, x @ row, w.exp(), x.sigmoid()):
            assert y.shape
        for wrong in (x, "a", None, array, sf.ones(2)):
            with contextlib.suppress(Exception):
                x * wrong
        (w * row).sum().backward()
        w.grad = row.grad = None

    run()
    gc.collect()  # what tests before left would else go meanwhile, with what it holds
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(100):
        run()
    after = [sys.getrefcount(o) for o in objects]
    changes = [a - b for a, b in zip(after, before, strict=True)]
    assert all(abs(c) < 50 for c in changes), changes


def test_what_was_recorded_is_freed_at_once() -> None:
    w = sf.ones(3, requires_grad=True)
    y = (w * 2).exp() * w
    entry = weakref.ref(y.grad_fn)
    data = weakref.ref(y.grad_fn.args[0][0])
    del y
    assert entry() is None and data() is None


def test_what_is_kept_is_not_the_garbage_collectors() -> None:
    """Of a recorded operation it looks at the entry and its edges alone; the rest leads nowhere."""
    w, x = sf.ones(3, requires_grad=True), sf.ones(3)
    entry = (w * x).grad_fn
    assert gc.is_tracked(entry) and gc.is_tracked(entry.edges)
    assert not gc.is_tracked(entry.args) and not gc.is_tracked(entry.args[1])
    w.register_hook(lambda g, held=w * x: g)  # a cycle through the tape
    seen = weakref.ref(w)
    del w, entry
    gc.collect()
    assert seen() is None


def test_numbers_that_are_equal_but_not_the_same() -> None:
    x = sf.ones(1)
    zero, minus = float("0.0"), float("-0.0")
    for _ in range(2):
        assert np.signbit((x * minus).numpy()[0]) and not np.signbit((x * zero).numpy()[0])
        assert (x * True).dtype is sf.float32 and (sf.tensor([2]) * True).tolist() == [2]
        assert (sf.tensor([2]) * 1.5).dtype is sf.float32
        assert (sf.tensor([True]) * 2).dtype is sf.int64
    many = [float(i) + 0.5 for i in range(3 * MEMO)]  # more than are remembered
    assert [(x * m).item() for m in many] == many


def test_an_operation_that_no_frame_of_python_asked_for() -> None:
    """A thread that begins in native code records without a line."""
    w = sf.ones(2, requires_grad=True)
    found: list[sf.Tensor] = []
    _thread.start_new_thread(found.extend, (map(w.mul, [2.0]),))
    for _ in range(1000):
        if found:
            break
        time.sleep(0.005)
    assert found[0].tolist() == [2, 2] and found[0].grad_fn.locs == ()


def test_an_interrupt_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the user's is not the general path's to word."""

    def handler(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    x = sf.ones(60, 1000)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            while True:
                x = x.sigmoid()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("error", "number"), [(KeyboardInterrupt, 7.125), (ValueError, 7.25)])
def test_an_interrupt_while_a_number_is_taken_up(error: type[BaseException], number: float) -> None:
    """What only says that the number is for the general path does not go through."""
    x = sf.ones(3)
    raised = []

    def on_call(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code is number_beside.__code__ and not raised:
            raised.append(error())
            raise raised[0]

    refusal = pytest.raises(error) if error is KeyboardInterrupt else contextlib.nullcontext()
    sys.setprofile(on_call)
    try:
        with refusal:
            assert (x * number).tolist() == [number] * 3
    finally:
        sys.setprofile(None)
    assert raised and (x * number).tolist() == [number] * 3


def test_dtypes_that_are_equal_but_not_the_same() -> None:
    """An array that was pickled has one of its own, and so has one with metadata."""
    pickled = pickle.loads(pickle.dumps(np.ones((2, 3), np.float32)))
    noted = np.ones((2, 3), np.dtype(np.float32, metadata={"unit": "m"}))
    for array in (pickled, noted):
        assert array.dtype is not np.dtype(np.float32)
        w, x = sf.from_numpy(array).requires_grad_(), sf.ones(2, 3, requires_grad=True)
        for _ in range(2):  # some are remembered
            for y in (w.T, w.reshape(6), w[0], w.sum(0), w * 2, w * x, w @ x.T, sf.cat([x, w])):
                g = sf.grad(y.sum(), w)
                assert g.dtype is sf.float32 and g.shape == (2, 3)


def test_finalizers_of_a_thread_that_ends_may_compute() -> None:
    x, local, found = sf.ones(2), threading.local(), []

    class Late:
        def __del__(self) -> None:
            found.append((x * 2).tolist())

    def work() -> None:
        assert (x + 1).tolist() == [2, 2]  # by which the thread has its state
        local.late = Late()

    run_in_threads([work])
    assert found == [[2, 2]]


def test_elsewhere_the_general_path_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staticflow.eager.fast.core.has_known_layout", lambda: False)
    fast = fast_forms(FAST, FAST, FAST, sf.Tensor, EAGER.general, EAGER.finish, [len], {})
    assert fast.functions == fast.methods == fast.reflected == {}


_WITHOUT_SOURCES = """
import importlib.machinery
importlib.machinery.SourceFileLoader.get_source = lambda self, name: None
import staticflow as sf
from staticflow.eager.mode import EAGER
try:
    EAGER.prepare()
except sf.errors.StaticflowError as error:
    print(error)
"""


def test_without_its_sources_it_says_what_to_ship() -> None:
    """As in an application that is shipped as compiled files."""
    command = [sys.executable, "-c", _WITHOUT_SOURCES]
    alone = os.environ | {"STATICFLOW_CACHE_DIR": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    assert done.returncode == 0, done.stderr
    assert "is not there, from which native code is translated" in done.stdout
    assert "ship the .py files of staticflow, too" in done.stdout


def test_a_partial_that_names_only_its_arguments_runs_on_arrays() -> None:
    plain = elementwise("a", "", "add", lambda k, x, y: x, (lambda ct, o, x, y: ct * x, None))
    naming = elementwise("b", "", "add", lambda k, x, y: x, (lambda ct, o, x, y: abs(ct), None))
    assert plain.vjp.self_contained and not naming.vjp.self_contained


# -- threads --------------------------------------------------------------------------------------


def run_in_threads(works: list[Any]) -> None:
    failures: list[BaseException] = []

    def guarded(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(w,)) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures


def test_switches_are_those_of_the_thread() -> None:
    inside, done = threading.Event(), threading.Event()
    x = sf.ones(2, requires_grad=True)

    def quiet() -> None:
        with sf.no_grad():
            inside.set()
            assert done.wait(5)
            assert not (x * 2).requires_grad

    def loud() -> None:
        assert inside.wait(5)
        assert (x * 2).requires_grad and sf.is_grad_enabled()
        done.set()

    run_in_threads([quiet, loud])


def test_threads_run_graphs_of_their_own() -> None:
    def work(k: int) -> Any:
        def run() -> None:
            x = sf.full((50,), float(k), requires_grad=True)
            for _ in range(20):
                y = x
                for _ in range(30):
                    y = (y * 1.01 + x).tanh()
                y = y * 1
                y[:10].mul_(2.0)
                y.sum().backward()
            again = sf.full((50,), float(k), requires_grad=True)
            for _ in range(20):
                y = again
                for _ in range(30):
                    y = (y * 1.01 + again).tanh()
                y = y * 1
                y[:10].mul_(2.0)
                y.sum().backward()
            assert x.grad is not None and again.grad is not None
            assert x.grad.tolist() == again.grad.tolist()

        return run

    run_in_threads([work(k) for k in range(4)])


def test_threads_share_leaves_without_gradients() -> None:
    w = sf.ones(100)

    def run() -> None:
        for _ in range(50):
            x = sf.ones(100, requires_grad=True)
            (x * w).sum().backward()
            assert x.grad is not None and x.grad.tolist() == [1.0] * 100

    run_in_threads([run] * 3)


# -- failures -------------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[tuple[sf.Tensor, sf.Tensor]]:
    yield sf.ones(2, 3), sf.ones(4)


def test_failures_name_the_op_and_the_line(pair: tuple[sf.Tensor, sf.Tensor]) -> None:
    x, y = pair
    with pytest.raises(ShapeError, match=r"add\(f32\[2, 3\], f32\[4\]\).*test_eager_fast\.py:\d+"):
        x + y
    with pytest.raises(DTypeError, match=r"sub\(bool\[1\], bool\[1\]\).*not defined for bool"):
        sf.tensor([True]) - sf.tensor([True])


def test_the_second_backward_names_both_lines() -> None:
    x = sf.ones(2, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(AutogradError) as caught:
        loss.backward()
    first = test_the_second_backward_names_both_lines.__code__.co_firstlineno
    text = str(caught.value)
    assert f"test_eager_fast.py:{first + 2}" in text and f"test_eager_fast.py:{first + 3}" in text
    assert "retain_graph=True" in text


def test_grad_can_retain_the_graph() -> None:
    x = sf.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    assert sf.grad(y, x, retain_graph=True).tolist() == sf.grad(y, x).tolist() == [2, 4]
    with pytest.raises(AutogradError, match="second"):
        sf.grad(y, x)


def test_grad_computes_only_what_is_wanted() -> None:
    x, w = sf.ones(2, requires_grad=True), sf.ones(2, requires_grad=True)
    apart = w.exp()
    y = (x * apart).sum()
    assert sf.grad(y, x).tolist() == apart.tolist()
    apart.sum().backward()  # what led to w alone was neither walked nor freed
    assert w.grad is not None and x.grad is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_relu_leaves_nan_and_the_sign_of_zero(dtype: str) -> None:
    x = sf.tensor([-0.0, 0.0, float("nan"), -1.0, 2.0] * 5, dtype=dtype)
    y = x.relu().numpy().astype(np.float64)
    np.testing.assert_array_equal(y, [-0.0, 0.0, np.nan, 0.0, 2.0] * 5)
    np.testing.assert_array_equal(np.signbit(y[[0, 1, 3]]), [True, False, False])
