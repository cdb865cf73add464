"""What one does to gradients on their way, and to what is saved for them: hooks, retain_grad,
inference mode, saved-tensor hooks, anomaly detection, checkpointing."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.autograd import backward, detect_anomaly, grad, set_detect_anomaly
from staticflow.autograd.graph import save_on_cpu, saved_tensors_hooks
from staticflow.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from staticflow.utils.checkpoint import checkpoint, checkpoint_sequential


def leaf(*data: float) -> sf.Tensor:
    return sf.tensor(list(data), dtype="float32", requires_grad=True)


# -- backward and grad under PyTorch's names --------------------------------------------------------


def test_backward_of_several() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    backward([(x * 2).sum(), x * w], [None, sf.ones(2)])
    assert x.grad.tolist() == [5, 6] and w.grad.tolist() == [1, 2]
    with pytest.raises(ArgumentError, match="1 grad_tensors for 2 tensors"):
        backward([x.sum(), x.sum()], [None])


def test_only_what_is_asked_for_is_computed() -> None:
    """The hooks of other branches are not run, and what they keep is not freed."""
    x, w = leaf(1, 2), leaf(3, 4)
    other = w.exp()
    seen: list[Any] = []
    other.register_hook(seen.append)
    loss = (x * 2 + other).sum()
    assert grad(loss, x)[0].tolist() == [2, 2] and not seen
    loss.backward()
    assert len(seen) == 1


def test_a_gradient_that_was_used_and_then_added_to_is_caught() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    x.sum().backward()
    assert x.grad is not None
    penalty = (x.grad * w).sum()
    version = x.grad._version
    x.sum().backward()
    assert x.grad._version == version + 1
    with pytest.raises(AutogradError, match="changed in place"):
        penalty.backward()


def test_backward_to_some_inputs_alone() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    y = x * w
    loss = (y * y).sum()
    loss.backward(inputs=[x, y], retain_graph=True)
    assert x.grad.tolist() == [18, 64] and y.grad.tolist() == [6, 16] and w.grad is None
    loss.backward(inputs=w)
    assert w.grad.tolist() == [6, 32]
    with pytest.raises(AutogradError, match=r"must not be empty.*test_autograd_hooks\.py"):
        y.sum().backward(inputs=[])
    with pytest.raises(AutogradError, match="entry 1 of inputs= does not require"):
        y.sum().backward(inputs=[x, sf.ones(2)])


def test_grad() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    loss = (x * x).sum()
    assert [g.tolist() for g in grad(loss, [x], retain_graph=True)] == [[2, 4]]
    with pytest.raises(AutogradError, match="allow_unused"):
        grad(loss, [x, w], retain_graph=True)
    assert grad(loss, [x, w], allow_unused=True, retain_graph=True)[1] is None
    assert grad(loss, [x, w], materialize_grads=True)[1].tolist() == [0, 0]
    (g,) = grad(x * x, x, sf.ones(2), create_graph=True)
    assert grad(g.sum(), x)[0].tolist() == [2, 2] and x.grad is None


# -- hooks ------------------------------------------------------------------------------------------


def test_hooks_of_leaves_and_inner_tensors() -> None:
    x = leaf(1, 2)
    y = x * 3
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(("x", g.tolist())))
    y.register_hook(lambda g: seen.append(("y", g.tolist())))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    (y * y).sum().backward()
    assert seen == [("y", [6, 12]), ("after", [60, 120]), ("x", [180, 360])]
    assert x.grad.tolist() == [180, 360]


def test_handles() -> None:
    x = leaf(1)
    handle = x.register_hook(lambda g: g * 2)
    with x.register_hook(lambda g: g * 5):
        x.sum().backward()
    x.sum().backward()
    handle.remove()
    handle.remove()
    x.sum().backward()
    assert x.grad.tolist() == [10 + 2 + 1]


def test_a_hook_sees_the_whole_gradient_once() -> None:
    x = leaf(1, 2)
    seen: list[Any] = []
    y = x * 1
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * 2 + y * y).sum().backward()
    assert seen == [[4, 6]]


def test_hooks_of_one_of_several_results() -> None:
    x = leaf(3, 1, 2)
    values, _ = x.sort()
    values.register_hook(lambda g: g * sf.tensor([1.0, 10.0, 100.0]))
    values.sum().backward()
    assert x.grad.tolist() == [100, 1, 10]


def test_hooks_work_in_grad_and_in_second_order() -> None:
    x = leaf(1, 2)
    y = x * x
    y.register_hook(lambda g: g * y)
    (g,) = grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [2, 16]
    assert grad(g.sum(), x)[0].tolist() == [6, 72]  # the hook takes part again, as in PyTorch


def test_gradients_that_hooks_keep_do_not_change() -> None:
    x = leaf(1, 2)
    kept: list[Any] = []
    x.register_hook(kept.append)
    y = x + 0
    y.register_hook(kept.append)
    for _ in range(2):
        (x + y).sum().backward(retain_graph=True)
    assert [k.tolist() for k in kept] == [[1, 1], [2, 2]] * 2


def test_what_hooks_may_not_do() -> None:
    x = leaf(1, 2)
    with x.register_hook(lambda g: g.sum()), pytest.raises(ShapeError, match=r"\[2\] to \[\]"):
        x.sum().backward()
    with x.register_hook(lambda g: 3.0), pytest.raises(DTypeError, match="gave float"):
        x.sum().backward()
    for wanted in (
        lambda t: t.register_hook(print),
        lambda t: t.retain_grad(),
        lambda t: t.register_post_accumulate_grad_hook(print),
    ):
        with pytest.raises(AutogradError, match=r"requires_grad_\(\).*test_autograd_hooks\.py"):
            wanted(sf.ones(2))


def test_post_accumulate_hooks() -> None:
    x = leaf(1, 2)
    seen: list[Any] = []

    def step(t: Any) -> None:
        seen.append(t.grad.tolist())
        t.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    assert seen == [[2, 2]] and x.grad is None
    grad((x * 2).sum(), x)
    assert len(seen) == 1
    handle.remove()
    (x * 2).sum().backward()
    assert len(seen) == 1
    with pytest.raises(AutogradError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(step)


# -- retain_grad ------------------------------------------------------------------------------------


def test_a_gradient_that_nobody_keeps_is_warned_of() -> None:
    x = sf.ones(3, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match=r"f32\[3\], which is no leaf.*retain_grad") as caught:
        assert y.grad is None
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y.retain_grad()
        assert y.grad is None and x.grad is None and sf.ones(2).grad is None
        y.sum().backward()
        assert y.grad.tolist() == [1, 1, 1]


def test_retain_grad() -> None:
    x = leaf(1, 2)
    y = x * 3
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    x.retain_grad()
    assert y.retains_grad and not x.retains_grad
    y.register_hook(lambda g: g * 2)
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    assert y.grad.tolist() == [12, 24]
    loss.backward()
    assert y.grad.tolist() == [24, 48] and x.grad.tolist() == [72, 144]


def test_a_retained_gradient_does_not_keep_the_tensor() -> None:
    gc.disable()
    try:
        x = leaf(1, 2)
        y = x * 3
        y.retain_grad()
        z = (y * 2).sum()
        gone = weakref.ref(y)
        del y
        assert gone() is None
        z.backward()
    finally:
        gc.enable()


# -- inference mode ---------------------------------------------------------------------------------


def test_inference_mode() -> None:
    x = leaf(1, 2)
    with sf.inference_mode():
        assert sf.is_inference_mode_enabled() and not sf.is_grad_enabled()
        y = x * 2
        made = sf.ones(2)
        view = x[0]
        y.add_(1)
        y[0] = 7
    assert not sf.is_inference_mode_enabled() and sf.is_grad_enabled()
    assert y.is_inference() and made.is_inference() and y[0].is_inference()
    assert not x.is_inference() and not view.is_inference() and not y.requires_grad
    assert (y + 1).tolist() == [8, 6] and not (y + 1).is_inference()


def test_inference_tensors_take_no_part_in_what_saves_them() -> None:
    x = leaf(1, 2)
    with sf.inference_mode():
        y = sf.ones(2) * 2
    for wrong in (lambda: x * y, lambda: y.add_(1), lambda: y.zero_(), lambda: y[0].mul_(2)):
        with pytest.raises(
            AutogradError, match=r"inference mode, at .*test_autograd_hooks\.py.*clone"
        ):
            wrong()
    assert y.tolist() == [2, 2]
    (x + y).sum().backward()
    (x * y.clone()).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_inference_mode_decorates_and_nests() -> None:
    @sf.inference_mode()
    def quiet(t: Any) -> Any:
        return t * 2

    @sf.inference_mode
    def bare(t: Any) -> Any:
        return t * 2

    assert quiet(leaf(1)).is_inference() and bare(leaf(1)).is_inference()
    with sf.inference_mode():
        with sf.inference_mode(False):
            assert (leaf(1) * 2).requires_grad
        assert (leaf(1) * 2).is_inference()
    seen = []
    with sf.inference_mode():
        t = threading.Thread(target=lambda: seen.append(sf.is_inference_mode_enabled()))
        t.start()
        t.join()
    assert seen == [False]


# -- saved-tensor hooks -----------------------------------------------------------------------------


def test_saved_tensors_hooks_pack_and_unpack() -> None:
    packed: list[Any] = []

    def pack(t: Any) -> Any:
        assert not t.requires_grad and not sf.is_grad_enabled()
        packed.append(t.tolist())
        return t.numpy().tobytes(), t.shape

    def unpack(p: Any) -> Any:
        return sf.from_numpy(np.frombuffer(p[0], np.float32).reshape(p[1]).copy())

    x, w = leaf(1, 2), leaf(3, 4)
    with saved_tensors_hooks(pack, unpack):
        y = (x * w).exp()
    z = (y * y).sum()
    assert packed == [[1, 2], [3, 4], y.tolist()]
    z.backward()
    wanted = 2 * np.exp(2 * np.array([3.0, 8.0]))
    np.testing.assert_allclose(x.grad.numpy(), wanted * [3, 4], rtol=1e-5)


def test_saved_tensors_keep_their_place_on_the_tape() -> None:
    x = sf.tensor([1.0, 2.0], dtype="float64", requires_grad=True)
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = (x * 2).exp() * x
        (g,) = grad(y.sum(), x, create_graph=True)
        (h,) = grad(g.sum(), x, create_graph=True)
    e = np.exp(2 * x.detach().numpy())
    np.testing.assert_allclose(h.detach().numpy(), 4 * e + 4 * x.detach().numpy() * e)


def test_the_innermost_hooks_count() -> None:
    x = leaf(1)
    seen = []
    with saved_tensors_hooks(lambda t: seen.append("outer") or t, lambda t: t):
        with saved_tensors_hooks(lambda t: seen.append("inner") or t, lambda t: t):
            x * x
        x * x
    x * x
    assert seen == ["inner"] * 2 + ["outer"] * 2


def test_custom_functions_save_through_the_hooks() -> None:
    class Square(sf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return 2 * ct * ctx.saved_tensors[0]

    x = leaf(3)
    with saved_tensors_hooks(lambda t: t + 1, lambda t: t):
        y = Square.apply(x)
    y.backward()
    assert x.grad.tolist() == [8]


def test_what_saved_hooks_may_not_do() -> None:
    x = leaf(1, 2)
    with saved_tensors_hooks(lambda t: t, lambda t: None):
        y = (x * x).sum()
    with pytest.raises(DTypeError, match="NoneType"):
        y.backward()
    with saved_tensors_hooks(lambda t: t, lambda t: t[:1]):
        y = (x * x).sum()
    with pytest.raises(DTypeError, match=r"float32\[1\] for what was float32\[2\]"):
        y.backward()
    with (
        saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(AutogradError, match="modifying its input in place"),
    ):
        (x * 2).exp()


def test_save_on_cpu() -> None:
    x = leaf(1, 2)
    with save_on_cpu():
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [2, 4]


# -- anomaly detection ------------------------------------------------------------------------------


def test_anomaly_detection_names_the_operation_and_its_line() -> None:
    x = leaf(0)
    root = x.sqrt()  # the line that is named
    loss = (root * 0).sum()
    message = "'SqrtBackward0' returned nan values in its 0th"
    with pytest.raises(AutogradError, match=message) as e, detect_anomaly():
        loss.backward(retain_graph=True)
    assert "test_autograd_hooks.py:" in str(e.value) and "named" in _line(str(e.value))
    loss.backward()
    assert np.isnan(x.grad.numpy()).all()


def _line(message: str) -> str:
    number = int(message.rsplit(":", 1)[1])
    with open(__file__) as source:
        return source.readlines()[number - 1]


def test_anomaly_detection_lets_right_gradients_pass() -> None:
    x = leaf(1, 2)
    with set_detect_anomaly(True):
        (x.sort().values * x).exp().sum().backward()
        with set_detect_anomaly(False):
            assert not sf.autograd.is_anomaly_enabled()
        assert sf.autograd.is_anomaly_enabled()
    assert not sf.autograd.is_anomaly_enabled()


def test_other_errors_of_backward_say_which_operation() -> None:
    class Fails(sf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return {}["missing"]

    with pytest.raises(KeyError) as caught:
        Fails.apply(leaf(1)).backward()
    assert "FailsBackward" in caught.value.__notes__[0]


# -- checkpointing ----------------------------------------------------------------------------------


def layers(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = (x * w).sin() + sf.dropout(x, 0.5, True)
    return x


def test_checkpointing_gives_the_same_gradients() -> None:
    w = leaf(0.5, 1.5)
    for x in (leaf(1, 2), sf.ones(2)):
        results = []
        for fn in (layers, lambda a, b: checkpoint(layers, a, b)):
            w.grad = x.grad = None
            sf.manual_seed(1)
            fn(x, w).sum().backward()
            results.append(
                (w.grad.tolist(), None if x.grad is None else x.grad.tolist(), sf.rand(2).tolist())
            )
        assert results[0] == results[1]


def test_checkpointing_keeps_only_the_arguments() -> None:
    kept: list[Any] = []
    x = leaf(1, 2)

    def body(t: Any) -> Any:
        inner = t.exp()
        kept.append(weakref.ref(inner))
        return (inner * inner).sum()

    y = checkpoint(body, x)
    assert kept[0]() is None and len(kept) == 1
    y.backward(retain_graph=True)
    assert len(kept) == 2 and kept[1]() is None
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * np.exp([2, 4]), rtol=1e-5)


def test_checkpoints_draw_the_same_numbers() -> None:
    x = sf.ones(100, requires_grad=True)
    y = checkpoint(lambda t: t * sf.rand(100) * t, x)
    sf.rand(3)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * y.detach().numpy(), rtol=1e-6)


def test_checkpoints_reach_closures_keywords_and_second_order() -> None:
    x = sf.tensor([1.0, 2.0], dtype="float64", requires_grad=True)
    w = sf.tensor([0.5, 0.5], dtype="float64", requires_grad=True)

    def fn(t: Any, *, scale: Any) -> Any:
        return (t * w).exp() * scale

    y = checkpoint(fn, x, scale=2.0, use_reentrant=True)
    gx, gw = grad(y.sum(), [x, w], create_graph=True)
    (h,) = grad(gx.sum(), [x])
    e = np.exp(x.detach().numpy() * 0.5)
    np.testing.assert_allclose(gw.detach().numpy(), 2 * e * x.detach().numpy())
    np.testing.assert_allclose(h.numpy(), 0.5 * e)


def test_nested_checkpoints() -> None:
    x = leaf(1, 2)
    inner = lambda t: checkpoint(lambda u: u.exp().sin(), t) * t  # noqa: E731
    checkpoint(lambda t: checkpoint(inner, t).cos(), x).sum().backward()
    found = x.grad.tolist()
    x.grad = None
    (x.exp().sin() * x).cos().sum().backward()
    assert found == x.grad.tolist()


def test_checkpoints_outside_of_recording_and_in_graphs() -> None:
    with sf.no_grad():
        assert not checkpoint(sf.exp, leaf(1)).requires_grad
    x = sf.placeholder((2,), name="x")
    f = sf.compile([x], sf.grad(checkpoint(lambda t: (t * t).sum(), x), x))
    assert f(sf.ones(2)).tolist() == [2, 2]


def test_checkpoint_sequential() -> None:
    x = leaf(1, 2)
    chain = [sf.exp, sf.sin, sf.cos, lambda t: t * 2, sf.sin]
    for segments in (1, 2, 5):
        x.grad = None
        checkpoint_sequential(chain, segments, x).sum().backward()
        found = x.grad.tolist()
        x.grad = None
        (x.exp().sin().cos() * 2).sin().sum().backward()
        assert found == x.grad.tolist()
    with pytest.raises(ArgumentError, match="6 segments of 5"):
        checkpoint_sequential(chain, 6, x)


def test_what_checkpoints_cannot_bear() -> None:
    x = leaf(1, 2) * 1
    y = checkpoint(lambda t: t.exp() * 2, x)
    with sf.no_grad():
        x.add_(1)
    with pytest.raises(AutogradError, match=r"changed in place at .*test_autograd_hooks\.py"):
        y.sum().backward()
    calls: list[int] = []

    def changes(t: Any) -> Any:
        calls.append(1)
        return t.exp() if len(calls) > 1 else t.exp() * t

    with pytest.raises(AutogradError, match=r"saved 3 tensors.*1 when"):
        checkpoint(changes, leaf(1)).backward()


def test_grad_takes_the_arguments_of_pytorch() -> None:
    x = sf.tensor([2.0], requires_grad=True)
    (g,) = grad(x**3, x, sf.ones(1), True, True, True, True)
    assert g.requires_grad and g.tolist() == [12]
    with pytest.raises(ArgumentError, match="only_inputs=False would touch"):
        grad(x * 2, x, sf.ones(1), only_inputs=False)


def test_inference_tensors_cannot_be_made_to_require_gradients() -> None:
    with sf.inference_mode():
        y = sf.ones(2) * 2
        assert y.requires_grad_().requires_grad
    z = sf.inference_mode()(lambda: sf.ones(2) * 2)()
    with pytest.raises(AutogradError, match="made in inference mode"):
        z.requires_grad_()
