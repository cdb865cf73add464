"""Calls of fused functions, and their way back, in native code: the same bits as Python's way, and
none of its frames."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import staticflow as sf
import staticflow.nn.functional as F
from staticflow import nn
from staticflow.eager.mode import EAGER
from staticflow.errors import AutogradError
from staticflow.ops.declaring.by_shape import REMEMBERING

Case = Callable[[Any, Any, Any], Any]

CALLS = 5  # from the fourth on all is known: one tells that it is fused, one misses, one is learnt

TARGET = np.arange(6) % 4
SIGNS = np.where(np.arange(6) % 2, 1.0, -1.0).astype(np.float32)

CASES: dict[str, Case] = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, (4,), w, b),
    "layer_norm without weights": lambda x, w, b: F.layer_norm(x, [4]),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "rms_norm": lambda x, w, b: F.rms_norm(x, (4,), w, 1e-3),
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "batch_norm by running statistics": lambda x, w, b: F.batch_norm(
        x, sf.zeros(4), sf.ones(4), w, b
    ),
    "normalize": lambda x, w, b: F.normalize(x, dim=0),
    "cross_entropy": lambda x, w, b: F.cross_entropy(x, sf.from_numpy(TARGET)),
    "cross_entropy of weights": lambda x, w, b: F.cross_entropy(
        x, sf.from_numpy(TARGET), w.detach(), label_smoothing=0.1
    ),
    "nll_loss": lambda x, w, b: F.nll_loss(x, sf.from_numpy(TARGET), reduction="sum"),
    "mse_loss": lambda x, w, b: F.mse_loss(x, (w * b).expand(6, 4)),
    "l1_loss": lambda x, w, b: F.l1_loss(x, x.detach() * 1.5, reduction="none"),
    "huber_loss": lambda x, w, b: F.huber_loss(x, x.detach() * 1.5),
    "smooth_l1_loss": lambda x, w, b: F.smooth_l1_loss(x, x.detach() * 1.5, beta=0.3),
    "binary_cross_entropy_with_logits": lambda x, w, b: F.binary_cross_entropy_with_logits(
        x, (x.detach() > 0).float(), pos_weight=w.detach()
    ),
    "kl_div": lambda x, w, b: F.kl_div(x, x.detach().softmax(1), reduction="batchmean"),
    "glu": lambda x, w, b: F.glu(x),
    "prelu": lambda x, w, b: F.prelu(x - 1, w),
    "cosine_similarity": lambda x, w, b: F.cosine_similarity(x, x * w, dim=1),
    "cdist": lambda x, w, b: sf.cdist(x[:3], x[3:]),
    "dropout": lambda x, w, b: F.dropout(x, 0.5),
    "margin_ranking_loss": lambda x, w, b: F.margin_ranking_loss(
        x[:, 0], x[:, 1], sf.from_numpy(SIGNS)
    ),
    "both a view and its base": lambda x, w, b: F.mse_loss(x[:, :4], x),
    "one tensor twice": lambda x, w, b: F.l1_loss(x, x),
}


class Cells:
    """Recurrent steps, whose result is a tensor or several."""

    def __init__(self) -> None:
        sf.manual_seed(1)
        self.made = {kind: getattr(nn, kind)(4, 4) for kind in ("RNNCell", "GRUCell", "LSTMCell")}

    def __call__(self, kind: str) -> Case:
        cell = self.made[kind]

        def run(x: Any, w: Any, b: Any) -> Any:
            state = (x * w, x + b) if kind == "LSTMCell" else x * w
            found = cell(x, state)
            return found[0] * 2 + found[1] if isinstance(found, tuple) else found

        return run


@pytest.fixture(autouse=True)
def natively() -> Iterator[None]:
    EAGER.prepare()
    yield
    assert REMEMBERING.form is not None


CELLS = Cells()
CASES |= {kind: CELLS(kind) for kind in CELLS.made}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def leaves(seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    made = [rng.uniform(0.3, 1.7, shape).astype(np.float32) for shape in ((6, 4), (4,), (4,))]
    return [sf.from_numpy(a).requires_grad_() for a in made]


def seen(case: Case, needs: tuple[bool, ...] = (True, True, True), by_python: bool = False) -> Any:
    """The bits of what a case gives and of its gradients, natively or by Python."""
    given = [t.requires_grad_(need) for t, need in zip(leaves(), needs, strict=True)]
    sf.manual_seed(7)
    ways = sf.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with ways if by_python else nullcontext():
        out = case(*given)
    if out.requires_grad:
        out.backward(out.detach().cos())
    return out.detach().numpy().tobytes(), [
        t.grad is not None and t.grad.numpy().tobytes() for t in given
    ]


@every_case
def test_the_same_bits_whatever_is_wanted(case: Case) -> None:
    """By turns, so that calls that differ in what is wanted have plans of their own."""
    wants = [(True, True, True), (False, False, False), (True, False, False), (False, True, True)]
    wanted = {needs: seen(case, needs, by_python=True) for needs in wants}
    for _ in range(CALLS):
        for needs in wants:
            assert seen(case, needs) == wanted[needs], needs
    with sf.no_grad():
        for _ in range(CALLS):
            assert seen(case)[0] == wanted[wants[0]][0]


def frames_of(run: Callable[[], Any]) -> set[tuple[str, str]]:
    """The files and functions of Python that run."""
    found: set[tuple[str, str]] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            found.add((frame.f_code.co_filename.rpartition("staticflow")[2], frame.f_code.co_name))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


@every_case
def test_no_frame_of_python_from_the_fourth_call_on(case: Case) -> None:
    for recorded in (True, False):
        for _ in range(CALLS):
            with sf.set_grad_enabled(recorded):
                given = leaves()
                out = case(*given)
                if recorded:
                    out.backward(out.detach())
        with sf.set_grad_enabled(recorded):
            given = leaves()
            forward = frames_of(lambda given=given: case(*given))
            assert not any("eager/fused" in file for file, _ in forward), forward
            if recorded:
                out = case(*given)
                ct = out.detach()
                back = frames_of(lambda out=out, ct=ct: out.backward(ct))
                assert not {"pull", "general", "vjp_of", "vjp"} & {fn for _, fn in back}, back


def recorded(x: Any, w: Any, b: Any) -> Any:
    for _ in range(CALLS):
        F.layer_norm(x, (4,), w, b).sum().backward()
        x.grad = w.grad = b.grad = None
    return F.layer_norm(x, (4,), w, b)


def test_a_change_of_an_operand_is_found_and_its_line_told() -> None:
    x, w, b = leaves()
    y = x * 1
    out = recorded(y, w, b)
    y.add_(1.0)
    with pytest.raises(AutogradError, match="changed in place") as told:
        out.sum().backward()
    assert "test_eager_fused_native" in str(told.value)


def test_a_second_backward_needs_the_values() -> None:
    x, w, b = leaves()
    out = recorded(x, w, b).sum()
    out.backward(retain_graph=True)
    first = x.grad.clone()
    out.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * first.numpy())
    with pytest.raises(AutogradError, match="second time"):
        out.backward()


def test_the_second_derivative_is_that_of_the_ops() -> None:
    found = []
    for by_python in (False, True):
        x, w, b = leaves()
        recorded(x, w, b)
        ways = sf.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
        with ways if by_python else nullcontext():
            out = F.layer_norm(x, (4,), w, b)
        (first,) = sf.autograd.grad((out**3).sum(), [x], create_graph=True)
        found.append([g.numpy().tobytes() for g in sf.autograd.grad(first.sin().sum(), [x, w])])
    assert found[0] == found[1]


def test_a_result_that_depends_on_no_operand_has_a_recorded_way_back() -> None:
    """The sign of `slogdet`, which the tape has as one of its results; the permutation of `lu` needs
    no gradient."""
    for beside in (False, True):
        for _ in range(CALLS):
            x = leaves()[0][:4].detach().requires_grad_()
            assert not sf.linalg.lu(x)[0].requires_grad
            sign, log = sf.linalg.slogdet(x)
            out = sign + log**2 if beside else sign.sum()
            (first,) = sf.autograd.grad(out, [x], create_graph=True, allow_unused=True)
            if beside:
                log = sf.linalg.slogdet(x)[1]
                (wanted,) = sf.autograd.grad(log**2, [x], create_graph=True)
                np.testing.assert_array_equal(first.detach().numpy(), wanted.detach().numpy())
                (first**2).sum().backward()
                assert x.grad is not None
            else:
                assert first is None or not first.detach().numpy().any()


def test_results_of_several_whose_gradients_are_asked_for() -> None:
    """Hooks, gradients by a result itself, and results that nobody uses."""
    cell = nn.LSTMCell(4, 4)
    for _ in range(CALLS):
        x = leaves()[0]
        h, c = cell(x)
        noted: list[Any] = []
        h.register_hook(lambda g, noted=noted: noted.append(g.numpy().copy()))
        by_h, by_x = sf.autograd.grad((h * h).sum(), [h, x], retain_graph=True)
        np.testing.assert_array_equal(by_h.numpy(), 2 * h.detach().numpy())
        np.testing.assert_array_equal(noted[0], by_h.numpy())
        both = sf.autograd.grad((h * h).sum() + c.sum(), [x], retain_graph=True)[0]
        alone = sf.autograd.grad(c.sum(), [x])[0]
        np.testing.assert_allclose(both.numpy(), (by_x + alone).numpy(), 1e-5, 1e-6)


def test_a_view_whose_base_was_changed_has_its_new_history() -> None:
    for _ in range(CALLS):
        x, w, _ = leaves()
        base = x * 1
        view = base[:, :4]
        base.mul_(2.0)
        F.mse_loss(view, w.detach().expand(6, 4)).backward()
        wanted = 2 * 2 * (2 * x.detach() - w.detach()) / 24
        np.testing.assert_allclose(x.grad.numpy(), wanted.numpy(), 1e-5)


def test_a_target_that_is_broadcast_is_warned_of_each_time() -> None:
    for _ in range(CALLS):
        x = leaves()[0]
        with pytest.warns(UserWarning, match="are broadcast"):
            F.mse_loss(x[:, :1], x[:, 0])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: F.mse_loss(x, x, size_average=False), "no longer used"),
        (lambda x: F.softmax(x), "no dim is given"),
        (lambda x: F.log_softmax(x), "no dim is given"),
    ],
)
def test_what_is_warned_of_is_at_each_call(call: Callable[[Any], Any], says: str) -> None:
    for _ in range(CALLS):
        with pytest.warns(UserWarning, match=says):
            call(leaves()[0])


def test_an_index_out_of_range_is_refused_from_any_call_on() -> None:
    for _ in range(CALLS):
        x = leaves()[0]
        F.cross_entropy(x, sf.from_numpy(TARGET))
    with pytest.raises(sf.errors.IndexRangeError):
        F.cross_entropy(x, sf.from_numpy(TARGET + 7))


def test_threads_have_their_own_tapes() -> None:
    wanted = {name: seen(case) for name, case in CASES.items() if name != "dropout"}
    failed: list[str] = []

    def work() -> None:
        for _ in range(20):
            failed.extend(name for name, bits in wanted.items() if seen(CASES[name]) != bits)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
