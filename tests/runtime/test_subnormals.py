"""Programs in which subnormal numbers are zero: what is read and what is computed, on every thread,
and nothing outside of them."""

from __future__ import annotations

import io
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.modes import arrays_of, graph_of
from slices import daily

import staticflow as sf
from staticflow.codegen.llvm.subnormals import FLUSH_MODES
from staticflow.graph.dtypes import float32
from staticflow.ops import OPS
from staticflow.ops.symbols.symbol import Symbol
from staticflow.runtime.float_mode import run_flushing, run_keeping
from staticflow.static.interpretation import interpreter

TINY = {"float32": 1e-40, "float64": 1e-310}

pytestmark = pytest.mark.skipif(
    platform.machine() not in FLUSH_MODES, reason="it is not known how this machine is told so"
)


def doubled(size: Any, dtype: str, **options: Any) -> Any:
    x = sf.placeholder((size,), dtype, name="x")
    return sf.compile([x], x * 2, **options)


@pytest.mark.parametrize("dtype", TINY)
@pytest.mark.parametrize("size", [1, 1000, 3_000_000])
def test_what_is_read_is_zero(dtype: str, size: int) -> None:
    x = np.full(size, TINY[dtype], dtype)
    x[0] = 1.0
    for known in (size, None):
        kept, flushed = doubled(known, dtype), doubled(known, dtype, flush_subnormals=True)
        assert (kept(x).numpy()[1:] > 0).all()
        assert flushed(x).numpy()[0] == 2 and not flushed(x).numpy()[1:].any()
        assert (kept(x).numpy()[1:] > 0).all()  # and not outside
    assert (x[1:] * 2 > 0).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_computed_is_zero_on_every_thread(threads: int) -> None:
    before = sf.get_num_threads()
    try:
        sf.set_num_threads(threads)
        x = np.full((2000, 2000), 2.0**-80, np.float32)
        p = sf.placeholder((None, 2000), name="x")
        y = p * 2.0**-60  # 2**-140
        kept, flushed = sf.compile([p], y), sf.compile([p], y, flush_subnormals=True)
        assert (kept(x).numpy() == 2.0**-140).all()
        assert not flushed(x).numpy().any()
        assert (kept(x).numpy() == 2.0**-140).all()
    finally:
        sf.set_num_threads(before)


def test_a_loop_that_fades_ends_at_zero() -> None:
    x = sf.placeholder((16,), name="x")
    last, _ = sf.scan(lambda c, _: (c * 0.5, None), x, None, length=140)
    kept, flushed = sf.compile([x], last), sf.compile([x], last, flush_subnormals=True)
    ones = np.ones(16, np.float32)
    assert (kept(ones).numpy() == 2.0**-140).all() and not flushed(ones).numpy().any()


def test_what_is_asked_of_numpy_is_computed_as_usual() -> None:
    x = sf.placeholder((40, 40), "float64", name="x")
    _, s, _ = sf.linalg.svd(x)
    step = sf.compile([x], [s, x[0] * 2.0], flush_subnormals=True)
    assert "ask.usually" in step.source("llvm")
    found, row = step(np.eye(40) * 1e-310)
    assert (found.numpy() > 0).all() and not row.numpy().any()


def test_an_error_leaves_the_mode_as_it_was() -> None:
    x, i = sf.placeholder((4,), name="x"), sf.placeholder((2,), "int64", name="i")
    step = sf.compile([x, i], x[i] * 2, flush_subnormals=True)
    with pytest.raises(sf.errors.IndexRangeError):
        step(np.ones(4, np.float32), np.array([0, 9]))
    assert np.float32(1e-40) * np.float32(2) > 0


def test_jit_gradients_and_files_have_it_too() -> None:
    f = sf.jit(lambda x: (x * 2.0**-100).sum(), flush_subnormals=True)
    x = sf.full((3,), 2.0**-40).requires_grad_()
    y = f(x)
    assert y.item() == 0
    (y * 2.0**-30).backward()
    assert x.grad is not None and not x.grad.numpy().any()
    step = doubled(4, "float32", flush_subnormals=True)
    file = io.BytesIO()
    step.save(file)
    file.seek(0)
    again = sf.load_program(file)
    assert again.options == step.options
    assert not again(np.full(4, 1e-40, np.float32)).numpy().any()


def test_profiles_run_with_it() -> None:
    step = doubled(1000, "float32", flush_subnormals=True)
    assert step.profile(np.full(1000, 1e-40, np.float32)).rows


def test_threads_that_a_program_begins_are_as_usual() -> None:
    code = """if True:
        import numpy as np
        import staticflow as sf

        sf.set_num_threads(3)
        x = sf.placeholder((None,), name="x")
        big = np.full(4_000_000, 1e-2, np.float32)
        sf.compile([x], x.sin().sum(), flush_subnormals=True)(big)  # begins the threads
        usual = sf.compile([x], (x * 1e-20) * 1e-20)
        print([int((usual(big).numpy() == 0).sum()) for _ in range(5)])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0, 0, 0, 0, 0]"


@pytest.mark.parametrize("wrong", ["yes", None, 1.0])
def test_it_is_a_bool(wrong: Any) -> None:
    with pytest.raises(sf.DTypeError, match="'flush_subnormals' must be bool"):
        doubled(3, "float32", flush_subnormals=wrong)


def test_an_unknown_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with pytest.raises(sf.errors.CompileError, match="how vax is told so; it is for x86_64"):
        doubled(3, "float32", flush_subnormals=True)


def test_check_nan_sees_what_the_program_does() -> None:
    x = sf.placeholder((4,), name="x")
    y = x * 2.0**-100
    for outputs in (y / y, sf.scan(lambda c, _: (c / (y * 1.0), None), y, None, length=1)[0]):
        kept, flushed = sf.compile([x], outputs), sf.compile([x], outputs, flush_subnormals=True)
        given = np.full(4, 2.0**-40, np.float32)
        assert kept(given).tolist() == [1.0] * 4 and flushed(given).isnan().all()
        kept.check_nan(given)
        with pytest.raises(
            sf.errors.NanError, match=r"div\(.*makes the first NaN at \[0\] of 0.0, 0.0"
        ):
            flushed.check_nan(given)
    assert np.float32(1e-40) * np.float32(2) > 0


def test_bisect_sees_what_the_program_does() -> None:
    x = sf.placeholder((1000,), name="x")
    y = (x * 2.0**-100) * 2.0**100
    flushed = sf.compile([x], y.cumsum(0), flush_subnormals=True)
    given = np.full(1000, 2.0**-40, np.float32)
    assert not flushed(given).numpy().any()
    assert flushed.bisect(given) is None
    assert np.float32(1e-40) * np.float32(2) > 0


def test_what_an_interpreted_program_asks_of_numpy_is_computed_as_usual() -> None:
    x = sf.placeholder((4, 4), "float64", name="x")
    step = sf.compile([x], sf.linalg.svd(x)[1], flush_subnormals=True)
    found = interpreter(flushes=True)(step.graph, [np.eye(4) * 1e-310])
    assert (found[0] > 0).all()


def is_usual() -> bool:
    return bool(np.float32(1e-40) * np.float32(2) > 0)


class Interrupt:
    """A trace function that raises KeyboardInterrupt at the line of a number, wherever that is."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def interrupted(run: Any, at: int) -> bool:
    """Whether ``run()`` has a line of that number, at which it was interrupted."""
    before = sys.gettrace()
    sys.settrace(Interrupt(at))
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_at_any_line_leaves_the_mode_as_it_was() -> None:
    x = sf.placeholder((2, 2), "float64", name="x")
    y = sf.compile([x], sf.linalg.svd(x * 2)[1].t().exp() + 1)
    arrays = [np.eye(2) * 1e-310]
    interpret = interpreter(flushes=True)
    interpret(y.graph, arrays)
    at = 1
    while interrupted(lambda: interpret(y.graph, arrays), at):
        assert is_usual(), at
        at += 1
    assert at > 300


def test_a_function_of_a_mode_raises_as_it_does() -> None:
    def within() -> None:
        assert not is_usual()
        assert run_keeping(is_usual)
        assert not is_usual()
        with pytest.raises(ZeroDivisionError):
            run_keeping(lambda: 1 // 0)
        assert not is_usual()
        raise KeyError("within")

    with pytest.raises(KeyError, match="within"):
        run_flushing(within)
    assert is_usual()


def subnormal_arrays(name: str) -> tuple[Any, list[Any]] | None:
    """A graph of the op of this name on float32, and arrays of numbers nearly all subnormal."""
    info = ROWS[name]
    if info.dtypes[0] is not float32:
        return None
    sample = next((s for s in info.samples(float32, True)), None)
    if sample is None:
        return None
    rng = np.random.default_rng(len(name))
    arrays = [
        (rng.choice([1e-40, -1e-40, 3e-39, 0.0, 1.0], a.shape)).astype(a.dtype)
        if a.dtype == np.float32
        else a
        for a in arrays_of(sample)
    ]
    return graph_of(info, sample), arrays


OTHERWISE = {
    "fmin": "which of two zeros is taken is a matter of their bits",
    "nansum": "of one number it is that number, to which NumPy adds 0",
    "remainder": "the C library, which NumPy asks, divides by such a number",
    **dict.fromkeys(
        ("cholesky", "solve", "solve_lower", "solve_upper"), "the matrices are singular"
    ),
}
COMPARED = sorted(OPS.keys() - OTHERWISE)


@pytest.mark.parametrize("name", daily(COMPARED, 40, "subnormals"))
def test_the_interpreter_flushes_as_a_program_does(name: str) -> None:
    check_flushes(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", COMPARED)
def test_the_interpreter_flushes_as_a_program_does_at_every_op(name: str) -> None:
    check_flushes(name)


def check_flushes(name: str) -> None:
    made = subnormal_arrays(name)
    if made is None:
        return
    graph, arrays = made
    inputs = [Symbol(p) for p in graph.params]
    outputs = [Symbol(o) for o in graph.outputs]
    step = sf.compile(inputs, outputs, flush_subnormals=True)
    found = [t.numpy() for t in step(*arrays)]
    with np.errstate(all="ignore"):
        wanted = interpreter(flushes=True)(step.graph, arrays)
    for f, w in zip(found, wanted, strict=True):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                f.astype(np.float64), np.asarray(w).astype(np.float64), 1e-3, 1e-45, err_msg=name
            )
