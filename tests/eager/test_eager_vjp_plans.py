"""Vjps by remembered ops give what the vjps themselves give, and none of them is run in Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.modes import arrays_of, call
from slices import by_days

import staticflow as sf
from staticflow.eager.mode import EAGER
from staticflow.eager.pullback import when_compiled
from staticflow.eager.vjp_plans import VJPS, pull_by_plan
from staticflow.errors import AutogradError
from staticflow.ops import OPS
from tests.eager.test_planned_changes import python_calls

RUNS = 3  # the second is remembered, and so the third runs by a plan


@pytest.fixture(autouse=True)
def natively() -> Iterator[None]:
    EAGER.prepare()
    yield
    assert VJPS.form is not None


def other_values(a: Any) -> Any:
    """An array of the same kind with other values, of the same domain for most ops."""
    if a.dtype.kind not in "biu":
        return np.asarray(a * a.dtype.type(0.75), a.dtype)
    return a.reshape(-1)[::-1].reshape(a.shape).copy()


def gradients(info: Any, sample: Any, arrays: Any) -> Any:
    """The bytes of the gradients by the arrays, or the class of what was raised."""
    tensors = [sf.from_numpy(a.copy()) for a in arrays]
    for t in tensors:
        t.requires_grad_(t.dtype.is_floating)
    sf.manual_seed(3)
    try:
        outs = [o for o in call(info, sample, tensors) if getattr(o, "requires_grad", False)]
        sf.autograd.backward(outs, [o.detach().cos() for o in outs])
    except Exception as error:
        return type(error)
    return [None if t.grad is None else t.grad.numpy().tobytes() for t in tensors]


@pytest.mark.parametrize("name", by_days(list(ROWS), 60, "vjp plans"))
def test_gradients_of_samples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the samples of the op's row, and then on other values of the same kinds."""
    info = ROWS[name]
    for dtype in {sf.float32, info.dtypes[-1]} & {*info.dtypes}:
        for sample in info.samples(dtype, False):
            arrays = arrays_of(sample)
            others = [*map(other_values, arrays)]
            found = [gradients(info, sample, arrays) for _ in range(RUNS)]
            with monkeypatch.context() as patch:
                patch.setattr(VJPS, "form", None)
                wanted, of_others = [gradients(info, sample, a) for a in (arrays, others)]
            assert found == [wanted] * RUNS, (dtype, sample)
            assert gradients(info, sample, others) == of_others, (dtype, sample)


SEVERAL: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: x.max(1),
    "sort": lambda x: x.sort(0),
    "topk": lambda x: x.topk(2, 1),
    "cummax": lambda x: x.cummax(0),
    "median": lambda x: x.median(1),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_ops_of_several_results_are_pulled_by_plans(name: str) -> None:
    x = sf.from_numpy(np.random.default_rng(0).standard_normal((10, 30))).requires_grad_()
    ct = sf.ones_like(SEVERAL[name](x)[0].detach())
    for _ in range(RUNS):
        x.grad = None
        SEVERAL[name](x)[0].backward(ct)
    before, x.grad = x.grad, None
    found = SEVERAL[name](x)[0]
    assert "pull_by_program" not in python_calls(lambda: found.backward(ct))
    np.testing.assert_array_equal(x.grad.numpy(), before.numpy())


BY_PROGRAM = [
    name
    for name, info in ROWS.items()
    if name in OPS and sf.float32 in info.dtypes and when_compiled(OPS[name]) == "always"
]


@pytest.mark.parametrize("name", BY_PROGRAM)
def test_a_cotangent_on_the_array_of_the_result_or_not(name: str) -> None:
    """What was learnt of a cotangent that is the result itself holds for others, too."""
    info = ROWS[name]
    sample = next(iter(info.samples(sf.float32, False)))

    def gradients_by(cotangent: Callable[[Any], Any]) -> Any:
        tensors = [sf.from_numpy(a.copy()) for a in arrays_of(sample)]
        for t in tensors:
            t.requires_grad_(t.dtype.is_floating)
        outs = [o for o in call(info, sample, tensors) if getattr(o, "requires_grad", False)]
        sf.autograd.backward(outs, [cotangent(o.detach()) for o in outs])
        return [None if t.grad is None else t.grad.numpy().tobytes() for t in tensors]

    of_copy = gradients_by(lambda o: o.clone())
    of_others = gradients_by(sf.cos)
    assert [gradients_by(lambda o: o) for _ in range(RUNS)] == [of_copy] * RUNS
    assert gradients_by(sf.cos) == of_others


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "a number beside": lambda x, y: x[0, 0] * y,
    "a row beside": lambda x, y: x + y[0],
    "permuted": lambda x, y: x.T,
    "reshaped": lambda x, y: x.reshape(2, 8),
    "a row": lambda x, y: x[1],
    "a part": lambda x, y: x[1:3, ::2],
    "joined": lambda x, y: sf.cat([x, y], 1),
    "chosen": lambda x, y: sf.where(y > 0, x, y),
    "sums": lambda x, y: x.sum(0) + y.mean(1),
    "product": lambda x, y: x @ y,
    "vectors": lambda x, y: x[0] @ y[0],
    "relu": lambda x, y: (x - 0.1).relu(),
    "chunks": lambda x, y: x.chunk(2)[1],
    "expanded": lambda x, y: x[:1].expand(4, 4),
}


def leaves() -> list[Any]:
    made = np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)
    return [sf.from_numpy(a).requires_grad_() for a in made]


@pytest.mark.parametrize("name", STEPS)
def test_no_vjp_runs_in_python_from_the_third_call_on(name: str) -> None:
    for run in range(5):
        x, y = leaves()
        out = STEPS[name](x, y)
        ct = sf.ones(out.shape)
        frames: list[str] = []

        def note(frame: Any, event: str, argument: Any, frames: list[str] = frames) -> None:
            if event == "call":
                frames.append(frame.f_code.co_name)

        sys.setprofile(note)
        try:
            out.backward(ct)
        finally:
            sys.setprofile(None)
        if run > 2:
            assert not {"vjp_of", "general", "apply", "vjp"} & {*frames}, frames


def test_a_number_that_is_another_at_each_call() -> None:
    x, _ = leaves()
    for scale in (0.5, 2.0, 3.0, 4.0, 0.5, 0.25):
        x.grad = None
        (x[:, 0] * scale + (x * scale)[0]).sum().backward()
        wanted = np.zeros((4, 4), np.float32)
        wanted[:, 0] += scale
        wanted[0] += scale
        np.testing.assert_array_equal(x.grad.numpy(), wanted)


def test_a_change_of_a_saved_value_is_found_and_the_line_told() -> None:
    for _ in range(4):
        x, y = leaves()
        z = x * 1.0
        out = z @ y
        out.sum().backward()
    z = x * 1.0
    out = z @ y
    z.add_(1.0)
    with pytest.raises(AutogradError, match="changed in place"):
        out.sum().backward()


def test_a_second_backward_needs_the_values() -> None:
    for _ in range(4):
        x, y = leaves()
        out = (x @ y).sum()
        out.backward(retain_graph=True)
        first = x.grad.clone()
        out.backward()
        np.testing.assert_array_equal(x.grad.numpy(), 2 * first.numpy())
        with pytest.raises(AutogradError, match="second time"):
            out.backward()


def test_derivatives_of_second_order_are_recorded() -> None:
    for _ in range(4):
        x, y = leaves()
        (first,) = sf.grad((x @ y).sin().sum(), [x], create_graph=True)
        assert first.requires_grad
        (second,) = sf.grad(first.sum(), [x])
        a, b = x.detach().numpy(), y.detach().numpy()
        wanted = (-np.sin(a @ b) * (np.ones((4, 4)) @ b)) @ b.T
        np.testing.assert_allclose(second.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_gradients_own_their_memory() -> None:
    """Of a cotangent that goes to several leaves each has its own."""
    for _ in range(4):
        x, y = leaves()
        sf.cat([x, y]).sum().backward()
        x.grad.add_(1.0)
        assert y.grad.tolist() == [[1.0] * 4] * 4
        x, y = leaves()
        (x + y[0]).sum().backward()
        x.grad.mul_(2.0)
        assert y.grad.tolist() == [[4.0] * 4, *[[0.0] * 4] * 3]


def test_what_is_no_op_of_the_table_or_fails_is_left_to_the_vjp() -> None:
    exp, relu = OPS["exp"], OPS["relu"]
    alias = sf.graph.op.Op(
        "exp", "", exp.infer, exp.reference, exp.vjp, lowering=exp.lowering, grad_name="Exp"
    )
    ct = sf.ones(4, 4)
    assert pull_by_plan(alias, [True], ct, ct, [ct], {}) is None
    assert pull_by_plan(relu, [True], ct, sf.ones(3, 3), [ct], {"unknown": 1}) is None
