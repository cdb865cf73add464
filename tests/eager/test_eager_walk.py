"""The walk back in native code and in Python: the same bits, errors and references."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.modes import arrays_of, call
from slices import by_days

import staticflow as sf
from staticflow.eager import tape
from staticflow.eager.fast.walk import MOST_VERTICES
from staticflow.eager.mode import EAGER
from staticflow.eager.tape import WALK
from staticflow.errors import AutogradError, StaticflowError

RUNS = 4  # the second call of a vjp is remembered, the third runs by a plan

EAGER.prepare()
NATIVE = WALK.form


@pytest.fixture(autouse=True)
def natively() -> Iterator[None]:
    assert NATIVE is not None and WALK.form is NATIVE
    yield
    assert WALK.form is NATIVE


def in_python(run: Callable[[], Any]) -> Any:
    """What a function gives where the walk is Python's."""
    WALK.form = None
    try:
        return run()
    finally:
        WALK.form = NATIVE


def outcome(run: Callable[[], Any]) -> Any:
    """What a function gives, or the class and the words of what it raises."""
    try:
        return run()
    except Exception as error:
        return type(error), str(error), getattr(error, "__notes__", [])


def the_same(run: Callable[[], Any]) -> Any:
    """What a function gives by either walk, which is the same."""
    wanted = in_python(lambda: outcome(run))
    for _ in range(RUNS):
        assert outcome(run) == wanted
    return wanted


def bits(t: Any) -> Any:
    return None if t is None else (t.shape, t.dtype, t.stride(), t.detach().numpy().tobytes())


# -- any graphs ----------------------------------------------------------------------------------


class Program:
    """A function of a few leaves that a seed has made up: of ops, views, changes in place, and what
    users do to gradients on their way. It makes the same choices whenever it runs."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def run(self) -> Any:
        """The gradients of the leaves, their second derivatives, and what hooks have seen."""
        rng = np.random.default_rng(self.seed)
        dtype = rng.choice([np.float32, np.float64])
        leaves = [
            sf.from_numpy(rng.uniform(-1, 1, (3, 3)).astype(dtype)).requires_grad_()
            for _ in range(3)
        ]
        constant = sf.from_numpy(rng.uniform(-1, 1, (3, 3)).astype(dtype))
        self.seen: list[Any] = []
        self.kept: list[Any] = []
        values = [*leaves, constant]
        for _ in range(rng.integers(4, 25)):
            values.append(self.step(rng, values))
        out = sum((v * v).mean() for v in values[-int(rng.integers(1, 4)) :])
        how = rng.choice(["backward", "inputs", "grad", "twice", "second", "partly"])
        found = self.differentiate(how, out, leaves, values, rng)
        kept = [bits(t.grad) for t in self.kept]
        return how, [*map(bits, found)], kept, self.seen

    def step(self, rng: Any, values: list[Any]) -> Any:
        x, y, z = (values[i] for i in rng.integers(0, len(values), 3))
        name = rng.choice([*STEPS])
        out = STEPS[name](x, y, z)
        event = rng.integers(0, 12)
        if out.requires_grad and event == 0:
            out.register_hook(lambda ct: self.seen.append(bits(ct)))
        elif out.requires_grad and event == 1:
            out.register_hook(lambda ct: ct * 0.5)
        elif out.requires_grad and event == 2:
            out.retain_grad()
            self.kept.append(out)
        elif out.requires_grad and not out.is_leaf and event == 3:
            out = out.clone()
            out.mul_(0.5)
        elif not out.is_leaf and event == 4:
            out = out.clone()
            out[1].add_(y[0])
        elif not out.is_leaf and event == 5 and out._base is None:
            out.add_(1.0)  # which may change a saved value
        return out

    def differentiate(self, how: str, out: Any, leaves: Any, values: Any, rng: Any) -> list[Any]:
        inner = [v for v in values[3:] if v.requires_grad]
        if not out.requires_grad:
            return []
        if how == "backward":
            out.backward()
        elif how == "inputs":
            out.backward(inputs=leaves[:2])
        elif how == "twice":
            out.backward(retain_graph=True)
            out.backward()
        elif how == "second":
            first = sf.grad(out, leaves, create_graph=True, allow_unused=True)
            total = sum((g * g).sum() for g in first if g is not None)
            if total.requires_grad:
                total.backward()
            return [*first, *(t.grad for t in leaves)]
        else:
            wrt = [leaves[0], *inner[: 2 if how == "partly" else 0]]
            return list(sf.grad(out, wrt, allow_unused=True))
        return [t.grad for t in leaves]


class Twice(sf.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        (x,) = ctx.saved_tensors
        return ct * 2.0 + x * 0.0


STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda x, y, z: x + y,
    "sub": lambda x, y, z: x - y,
    "mul": lambda x, y, z: x * y,
    "square": lambda x, y, z: x * x,
    "div": lambda x, y, z: x / (y * y + 1.0),
    "number": lambda x, y, z: 2.0 - x * 0.5,
    "tanh": lambda x, y, z: x.tanh(),
    "sigmoid": lambda x, y, z: x.sigmoid(),
    "relu": lambda x, y, z: x.relu(),
    "exp": lambda x, y, z: (x * 0.1).exp(),
    "abs": lambda x, y, z: x.abs(),
    "pow": lambda x, y, z: x**2,
    "clamp": lambda x, y, z: x.clamp(-0.5, 0.5),
    "matmul": lambda x, y, z: x @ y,
    "linear": lambda x, y, z: sf.nn.functional.linear(x, y, z[0]),
    "softmax": lambda x, y, z: x.softmax(1),
    "transposed": lambda x, y, z: x.t(),
    "flipped": lambda x, y, z: x.flip(0),
    "row": lambda x, y, z: x[0] + y,
    "element": lambda x, y, z: x[1, 2] * y,
    "column": lambda x, y, z: x[:, :1].expand(3, 3),
    "joined": lambda x, y, z: sf.cat([x, y])[1:4],
    "chunks": lambda x, y, z: sf.cat(x.chunk(3, 1)[::-1], 1),
    "largest": lambda x, y, z: x.max(1)[0] * y,
    "sums": lambda x, y, z: x.sum(0) + y.mean(1)[:, None],
    "reshaped": lambda x, y, z: x.reshape(9).view(3, 3),
    "chosen": lambda x, y, z: sf.where(x > y, x, z),
    "gathered": lambda x, y, z: x[sf.tensor([2, 0, 2])],
    "norm": lambda x, y, z: sf.nn.functional.layer_norm(x, (3,)),
    "triple": lambda x, y, z: x + x + x,
    "detached": lambda x, y, z: x.detach() * y,
    "double": lambda x, y, z: (x.double() * 0.5).to(x.dtype),
    "of a user": lambda x, y, z: Twice.apply(x),
}


@pytest.mark.parametrize("seed", range(250))
def test_any_graph(seed: int) -> None:
    the_same(Program(seed).run)


@pytest.mark.parametrize("name", by_days(list(ROWS), 60, "walks"))
def test_samples_of_ops(name: str) -> None:
    info = ROWS[name]
    for dtype in {sf.float32, info.dtypes[-1]} & {*info.dtypes}:
        for sample in info.samples(dtype, False):
            arrays = arrays_of(sample)

            def run(sample: Any = sample, arrays: Any = arrays) -> Any:
                tensors = [sf.from_numpy(a.copy()) for a in arrays]
                for t in tensors:
                    t.requires_grad_(t.dtype.is_floating)
                sf.manual_seed(3)
                out = call(info, sample, tensors)
                outs = [o for o in out if getattr(o, "requires_grad", False)]
                sf.autograd.backward(outs, [o.detach().cos() for o in outs])
                return [bits(t.grad) for t in tensors]

            the_same(run)


# -- how it is done ------------------------------------------------------------------------------


def frames_of(run: Callable[[], Any]) -> list[str]:
    """The functions of Python that run."""
    frames: list[str] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            frames.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return frames


def leaf(*shape: int) -> Any:
    size = int(np.prod(shape))
    return sf.from_numpy(np.linspace(-1, 1, size).reshape(shape)).requires_grad_()


def deep(x: Any, w: Any) -> Any:
    """A graph of many vertices, some of which have several users."""
    for _ in range(8):
        y = (x @ w).tanh()
        x = x + sf.cat([y[:2], y[2:]]) * y.t()
    return x.sum()


def test_usual_vertices_are_walked_natively() -> None:
    x, w = leaf(4, 4), leaf(4, 4)
    for run in range(RUNS):
        frames = frames_of(deep(x, w).backward)
        if run > 2:
            assert frames.count("pull") <= 2  # one in `MOST_VERTICES`
            assert not {"sum_cotangents", "vjp_of", "vjp"} & {*frames}


def test_a_part_of_the_graph_is_walked_natively() -> None:
    x, w = leaf(4, 4), leaf(4, 4)
    inner: list[Any] = []

    def run() -> None:
        y = (x * 1.0).tanh()
        inner.append(y)
        sf.grad(deep(y, w), [y, w])

    for _ in range(RUNS):
        frames = frames_of(run)
    assert frames.count("pull") <= 2


def test_python_comes_again_where_vertices_are_many() -> None:
    for _ in range(4):  # the plan of the sum is made by Python
        leaf(2).sum().backward()
    x = leaf(2)
    y = x
    for _ in range(4 * MOST_VERTICES):
        y = y * 1.0
    frames = frames_of(y.sum().backward)
    assert frames.count("pull") == 4 * MOST_VERTICES // (MOST_VERTICES + 1)


def test_another_thread_runs_meanwhile() -> None:
    """The interpreter's lock is not kept for the length of a walk."""
    x = leaf(2)
    y = x
    for _ in range(50_000):
        y = y * 1.0
    times: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            times.append(time.perf_counter())

    thread = threading.Thread(target=look)
    thread.start()
    start = time.perf_counter()
    y.sum().backward()
    end = time.perf_counter()
    over.set()
    thread.join()
    assert sum(start < t < end for t in times) > 3


@pytest.mark.parametrize("base", [Exception, RuntimeError, TimeoutError, BaseException])
def test_a_signal_stops_a_walk(base: type[BaseException]) -> None:
    """Wherever it comes: an error of the handler is raised once, so whoever takes it for one of
    the operands loses it."""
    x = leaf(2)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    out = y.sum()

    class Stop(base):
        pass

    def stop(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(Stop):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            while True:
                out.backward(retain_graph=True)
    finally:
        signal.signal(signal.SIGALRM, before)
    x.grad = None
    out.backward()
    assert x.grad.tolist() == [1.0, 1.0]


# -- errors --------------------------------------------------------------------------------------


def test_errors_in_the_middle() -> None:
    def changed() -> None:
        x = leaf(3, 3)
        y = x * 1.0
        out = (y * y).tanh().sum()
        y.add_(1.0)
        out.backward()

    kind, said, _ = the_same(changed)
    assert kind is AutogradError and "changed in place" in said and "test_eager_walk.py" in said

    def again() -> None:
        x = leaf(3, 3)
        out = (x @ x).sum()
        out.backward()
        out.backward()

    kind, said, _ = the_same(again)
    assert kind is AutogradError and "second time" in said and "test_eager_walk.py" in said

    class Bad(sf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            raise ValueError("no gradient")

    def failing() -> None:
        (Bad.apply(leaf(3) * 2.0) * 3.0).sum().backward()

    kind, said, notes = the_same(failing)
    assert kind is ValueError and said == "no gradient" and "in the backward of" in notes[0]

    def hooked() -> None:
        y = leaf(3) * 2.0

        def hook(ct: Any) -> Any:
            raise KeyError("a hook")

        y.register_hook(hook)
        (y * 3.0).sum().backward()

    kind, said, notes = the_same(hooked)
    assert kind is KeyError and notes == []


def test_what_fails_natively_is_raised_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vertex whose plan fails keeps its values until Python has pulled it."""
    x, w = leaf(3, 3), leaf(3, 3)
    for _ in range(RUNS):
        (x @ w).sum().backward()
    out = (x @ w).sum()
    ct = sf.ones(2, dtype=sf.float64)  # of a wrong shape
    monkeypatch.setattr(tape, "_seed", lambda out, gradient: ct.detach())
    with pytest.raises(StaticflowError):
        (x @ w).backward()
    monkeypatch.undo()
    out.backward()


def test_anomalies_are_found() -> None:
    def run() -> None:
        with sf.autograd.detect_anomaly():
            ((leaf(3) * 0.0).sqrt() * 0.0).sum().backward()

    kind, said, _ = the_same(run)
    assert kind is AutogradError and "SqrtBackward0" in said


# -- references ----------------------------------------------------------------------------------


def test_nothing_is_left_behind() -> None:
    x, w = leaf(4, 4), leaf(4, 4)
    gc.disable()
    try:
        for run in range(RUNS + 2):
            out = deep(x, w)
            vertex = weakref.ref(out.grad_fn)
            before = sys.getrefcount(x), sys.getrefcount(w)
            sf.grad(out, [x, w], retain_graph=True)
            out.backward()
            if run > RUNS:
                assert (sys.getrefcount(x), sys.getrefcount(w)) <= before
            del out
            assert vertex() is None
    finally:
        gc.enable()


def test_values_are_freed_as_the_walk_goes() -> None:
    """What a vertex keeps is gone when those before it are pulled."""

    def run() -> list[bool]:
        x = leaf(3, 3)
        gone: list[bool] = []
        first = x * 1.0
        first.register_hook(lambda ct: gone.append(late() is None))
        middle = (first @ x).tanh()
        late = weakref.ref(middle._data)
        out = (middle @ x).sum()
        del middle
        assert late() is not None
        out.backward()
        return gone

    assert the_same(run) == [True]


@pytest.mark.parametrize("walk", ["native", "Python"])
def test_memory_stays_as_it_is(walk: str) -> None:
    x, w = leaf(4, 4), leaf(4, 4)

    def blocks_after(times: int) -> int:
        for _ in range(times):
            x.grad = w.grad = None
            deep(x, w).backward()
        return sys.getallocatedblocks()

    def measure() -> int:
        before = blocks_after(2000)  # lists of free objects take up to 2,000 each
        return blocks_after(300) - before

    assert (measure() if walk == "native" else in_python(measure)) < 100


def test_threads_walk_over_one_graph() -> None:
    x, w = leaf(4, 4), leaf(4, 4)
    out = deep(x, w)
    wanted = [*map(bits, sf.grad(out, [x, w], retain_graph=True))]
    found: list[Any] = []

    def work() -> None:
        for _ in range(30):
            found.append([*map(bits, sf.grad(out, [x, w], retain_graph=True))])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [wanted] * 120
