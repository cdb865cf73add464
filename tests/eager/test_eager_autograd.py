"""The tape: gradients, their accumulation, modes, in-place rules and memory behave as PyTorch's."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import AutogradError, DTypeError, ShapeError

inf, nan = float("inf"), float("nan")


def leaf(*data: float, dtype: str = "float32") -> sf.Tensor:
    return sf.tensor(list(data), dtype=dtype, requires_grad=True)


def grad_of(t: sf.Tensor) -> list[float]:
    assert t.grad is not None
    return t.grad.tolist()


# -- leaves and vertices --------------------------------------------------------------------------


def test_leaves_and_grad_fn() -> None:
    x = leaf(1, 2)
    y = x * 2
    assert x.is_leaf and x.requires_grad and x.grad_fn is None
    assert not y.is_leaf and y.requires_grad and repr(y.grad_fn) == "<MulBackward0>"
    assert (x + 1).grad_fn.name() == "AddBackward0" and repr(y.sum().grad_fn) == "<SumBackward0>"
    assert repr(x.reshape(2, 1).grad_fn) == "<ViewBackward0>"
    assert repr((x[:, None] @ x[None]).grad_fn) == "<MmBackward0>"
    assert y.sum().grad_fn.next_functions[0][0] is y.grad_fn
    assert sf.ones(1).is_leaf and not sf.ones(1).requires_grad


def test_what_is_recorded() -> None:
    x = leaf(1, 2)
    assert not (x > 0).requires_grad and not x.argmax().requires_grad
    assert not x.to("int64").requires_grad and x.to("float64").requires_grad
    assert not (sf.ones(2) * 2).requires_grad
    assert (sf.ones(2, dtype="int64") * x).requires_grad


def test_requires_grad_is_for_floating_leaves() -> None:
    x = sf.ones(2)
    assert x.requires_grad_() is x and x.requires_grad
    y = x * 2
    assert y.requires_grad_() is y
    with pytest.raises(AutogradError, match="leaves"):
        y.requires_grad_(False)
    with pytest.raises(AutogradError, match="int64"):
        sf.tensor([1]).requires_grad_()
    x.requires_grad = False
    assert not (x * 2).requires_grad


def test_detach() -> None:
    x = leaf(1, 2)
    d = x.detach()
    assert not d.requires_grad and d.is_leaf and np.shares_memory(d.numpy(), x.detach().numpy())
    (x * d).sum().backward()
    assert grad_of(x) == [1, 2]


def test_numpy_of_a_recorded_tensor_is_refused() -> None:
    x = leaf(1)
    for access in (x.numpy, (x * 2).numpy, lambda: np.asarray(x)):
        with pytest.raises(AutogradError, match="detach"):
            access()
    assert x.item() == 1 and x.tolist() == [1] and float(x * 2) == 2


# -- backward -------------------------------------------------------------------------------------


def test_the_tape_is_walked_as_pytorchs() -> None:
    """As programs do that draw it."""
    x = sf.ones(3, requires_grad=True)
    y = ((x * x + 1).max(0)[0] / x.detach().sum()).exp()

    def names(function: Any) -> Any:
        if function is None:
            return None
        return [function.name(), *(names(f) for f, _ in function.next_functions)]

    leaf = ["AccumulateGrad"]
    squares = ["MulBackward0", leaf, leaf]
    largest = ["MaxBackward0", ["AddBackward0", squares, None]]
    assert names(y.grad_fn) == ["ExpBackward0", ["DivBackward0", largest, None]]
    (a, _), (b, _) = (x * x).grad_fn.next_functions
    assert a.variable is x and a == b and len({a, b}) == 1 and repr(a) == "<AccumulateGrad>"


def test_gradients_accumulate() -> None:
    x = leaf(1, 2)
    (x * 3).sum().backward()
    (x * x).sum().backward()
    assert grad_of(x) == [5, 7]
    x.grad = None
    (x * 2).sum().backward()
    assert grad_of(x) == [2, 2]


def test_a_held_gradient_sees_the_accumulation() -> None:
    x = leaf(1, 2)
    x.sum().backward()
    held = x.grad
    x.sum().backward()
    assert x.grad is held and grad_of(x) == [2, 2]


def test_gradients_are_memory_of_their_own() -> None:
    a, b, c = leaf(1, 2), leaf(3, 4), leaf(5, 6)
    given = sf.ones(2)
    (a + b + c).backward(given)
    assert a.grad is not None and b.grad is not None and c.grad is not None
    a.grad.mul_(5)
    c.grad.zero_()
    assert (grad_of(b), given.tolist()) == ([1, 1], [1, 1])
    x = leaf(1, 2)
    x.sum().backward()  # the gradient comes as an expanded number
    assert x.grad is not None
    x.grad.zero_()
    assert grad_of(x) == [0, 0]
    y = leaf(1, 2, 3, 4)
    y.reshape(2, 2).t().sum().backward()
    y.sum().backward()
    assert grad_of(y) == [2, 2, 2, 2]


def test_backward_takes_a_gradient() -> None:
    x = leaf(1, 2)
    (x * x).backward(sf.tensor([1.0, 10.0]))
    assert grad_of(x) == [2, 40]
    (x * 1).backward(np.array([1.0, 1.0], np.float32))
    assert grad_of(x) == [3, 41]
    with pytest.raises(ShapeError, match=r"\[3\].*\[2\]"):
        (x * 1).backward(sf.ones(3))
    (x * 1).backward(sf.ones(2, dtype="float64"))
    assert x.grad is not None and x.grad.dtype is sf.float32
    with pytest.raises(DTypeError, match="float; give a tensor"):
        (x * 1).backward(1.0)


def test_backward_of_a_leaf() -> None:
    x = sf.tensor(3.0, requires_grad=True)
    x.backward()
    assert x.grad is not None and x.grad.item() == 1


def test_refusals_of_backward() -> None:
    x = leaf(1, 2)
    with pytest.raises(AutogradError, match=r"shape \[2\].*sum\(\)"):
        (x * 2).backward()
    with pytest.raises(AutogradError, match=r"no graph.*requires_grad=True"):
        sf.ones(()).backward()
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(AutogradError, match=r"mul .*second.*retain_graph=True") as caught:
        loss.backward()
    assert "test_eager_autograd.py" in str(caught.value)


def test_what_saves_nothing_can_be_walked_again() -> None:
    x = leaf(1, 2)
    loss = (x + 1).reshape(2, 1).sum()
    loss.backward()
    loss.backward()
    assert grad_of(x) == [2, 2]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.exp(), lambda x: x @ x, lambda x: x.softmax(0), lambda x: x.max(1).values,
        lambda x: x[[0, 0]], lambda x: x.prod(), lambda x: sf.where(x > 0, x, 0.0),
        lambda x: sf.nn.functional.layer_norm(x, (2,)), lambda x: x.sort()[0],
    ],
    ids=range(9),
)  # fmt: skip
def test_what_is_saved_is_freed(fn: Any) -> None:
    x = sf.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    loss = fn(x).sum()
    loss.backward()
    with pytest.raises(AutogradError, match="a second time"):
        loss.backward()


def test_retain_graph() -> None:
    x = leaf(1, 2)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert grad_of(x) == [4, 8]


def test_create_graph() -> None:
    x = leaf(2, dtype="float64")
    (x**3).sum().backward(create_graph=True)
    g = x.grad
    assert g is not None and g.requires_grad and grad_of(x) == [12]
    x.grad = None
    g.sum().backward()
    assert grad_of(x) == [12]


def test_grad_touches_nobody() -> None:
    x, y, z = leaf(1, 2), leaf(3, 4), leaf(5, 6)
    loss = (x * y).sum()
    gx, gy = sf.grad(loss, [x, y])
    assert (gx.tolist(), gy.tolist(), x.grad) == ([3, 4], [1, 2], None)
    with pytest.raises(AutogradError, match=r"entry 1 of wrt.*allow_unused"):
        sf.grad((x * x).sum(), [x, z])
    assert sf.grad((x * x).sum(), [x, z], allow_unused=True)[1] is None


def test_grad_of_inner_values_and_of_one_twice() -> None:
    x = leaf(1, 2)
    y = x * 3
    loss = (y * y).sum()
    gx, gy, again = sf.grad(loss, [x, y, x])
    assert (gx.tolist(), gy.tolist(), again.tolist()) == ([18, 36], [6, 12], [18, 36])


def test_grad_of_no_inputs_is_refused() -> None:
    with pytest.raises(AutogradError, match="there are no inputs"):
        sf.autograd.grad(leaf(1.0).sum(), [])


def test_grad_takes_cotangents() -> None:
    x = leaf(1, 2)
    (g,) = sf.grad([x * 2, x * x], [x], [sf.ones(2), sf.tensor([1.0, 0.0])])
    assert g.tolist() == [4, 2]
    with pytest.raises(ShapeError, match="1 cotangents for 2"):
        sf.grad([x, x], [x], [None])


def test_third_derivative() -> None:
    x = leaf(2, dtype="float64")
    y = (x**4).sum()
    for wanted in (32, 48, 48, 24):
        (y,) = sf.grad(y.sum(), [x], create_graph=True)
        assert y.tolist() == [wanted]


def test_accumulation_has_one_order() -> None:
    """Sums of numbers that do not commute in float32 come out the same each time."""

    def run() -> bytes:
        x = sf.tensor(np.linspace(-1, 1, 7, dtype=np.float32), requires_grad=True)
        parts = [x * float(10**k) for k in range(-8, 9)] + [x * x * 1e-5, x.exp(), x.sin()]
        total = parts[0]
        for p in parts[1:]:
            total = total + p * 1.1
        total.sum().backward()
        assert x.grad is not None
        return x.grad.numpy().tobytes()

    assert len({run() for _ in range(5)}) == 1


def test_gradients_at_nan_and_infinity_are_those_of_pytorch() -> None:
    def gradient(fn: Any, *args: list[float]) -> list[Any]:
        xs = [sf.tensor(a, requires_grad=True) for a in args]
        y = fn(*xs)
        y.backward(sf.ones_like(y).detach())
        return [x.grad.tolist() for x in xs]

    ends = [nan, inf, -inf, 0.0, 1.0, 0.5]
    assert gradient(sf.relu, ends) == [[1, 1, 0, 0, 1, 1]]
    assert gradient(lambda x: x.clamp(0, 1), ends) == [[0, 0, 0, 1, 1, 1]]
    assert gradient(lambda x: x.clamp(min=0), ends) == [[0, 1, 0, 1, 1, 1]]
    a, b = [nan, 1.0, inf, nan, 2.0, 3.0], [1.0, nan, inf, nan, 2.0, 4.0]
    assert gradient(sf.maximum, a, b) == [[1, 1, 0.5, 1, 0.5, 0], [1, 1, 0.5, 1, 0.5, 1]]
    assert gradient(sf.minimum, a, b) == [[1, 1, 0.5, 1, 0.5, 1], [1, 1, 0.5, 1, 0.5, 0]]
    assert gradient(lambda x: x.max(), [2.0, 1.0, 2.0]) == [[0.5, 0, 0.5]]
    assert gradient(lambda x: x.max(0).values, [2.0, 1.0, 2.0]) == [[1, 0, 0]]
    assert gradient(lambda x: x.max(), [nan, 1.0, 2.0]) == [[1, 0, 0]]
    assert gradient(lambda x: x**0, [0.0, 1.0, nan]) == [[0, 0, 0]]
    assert gradient(lambda x: x**2, [0.0, inf, 3.0]) == [[0, inf, 6]]
    np.testing.assert_allclose(gradient(lambda y: 2**y, [inf, -inf, 0.0]), [[inf, 0, np.log(2)]])
    assert gradient(lambda y: 0**y, [0.0, 1.0, -1.0]) == [[0, 0, -inf]]
    assert gradient(sf.pow, [0.0, 0.0, 2.0], [0.0, 2.0, inf])[1] == [0, 0, inf]
    assert gradient(sf.sqrt, [0.0, inf]) == [[inf, 0]]
    assert gradient(sf.atan2, [0.0, 0.0, 2.0], [0.0, 2.0, 0.0]) == [[0, 0.5, 0], [0, 0, -0.5]]


# -- modes ----------------------------------------------------------------------------------------


def test_modes_nest() -> None:
    x = leaf(1)
    with sf.no_grad():
        assert not sf.is_grad_enabled() and not (x * 2).requires_grad
        with sf.enable_grad():
            assert (x * 2).requires_grad
            with sf.set_grad_enabled(False):
                assert not (x * 2).requires_grad
            assert sf.is_grad_enabled()
        assert not sf.is_grad_enabled()
    assert sf.is_grad_enabled()


def test_modes_end_with_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), sf.no_grad():
        raise ZeroDivisionError
    assert sf.is_grad_enabled()


def test_set_grad_enabled_is_also_a_call() -> None:
    sf.set_grad_enabled(False)
    try:
        assert not sf.is_grad_enabled()
    finally:
        sf.set_grad_enabled(True)


def test_modes_decorate() -> None:
    x = leaf(1)

    @sf.no_grad()
    def quiet(a: Any) -> Any:
        """Doc."""
        return a * 2

    @sf.no_grad
    def bare(a: Any) -> Any:
        return a * 2

    @sf.enable_grad()
    def loud(a: Any) -> Any:
        return a * 2

    @sf.set_grad_enabled(False)
    def off(a: Any) -> Any:
        return a * 2

    assert sf.is_grad_enabled() and quiet.__doc__ == "Doc."
    assert not quiet(x).requires_grad and not bare(x).requires_grad and not off(x).requires_grad
    with sf.no_grad():
        assert loud(x).requires_grad


def test_a_decorated_generator_is_in_the_mode_while_it_runs() -> None:
    @sf.no_grad()
    def rows() -> Iterator[bool]:
        for _ in range(2):
            yield sf.is_grad_enabled()

    seen = []
    for inside in rows():
        seen += [inside, sf.is_grad_enabled()]
    assert seen == [False, True, False, True]


def test_each_thread_has_its_own_mode() -> None:
    seen: list[bool] = []
    with sf.no_grad():
        thread = threading.Thread(target=lambda: seen.append(sf.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not sf.is_grad_enabled()
    assert seen == [True]


def test_threads_differentiate_side_by_side() -> None:
    found: dict[int, list[float]] = {}

    def work(k: int) -> None:
        for _ in range(20):
            x = sf.full((50,), float(k), requires_grad=True)
            (x * x * x).sum().backward()
            found[k] = grad_of(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {k: [3.0 * k * k] * 50 for k in range(4)}


# -- in-place changes -----------------------------------------------------------------------------


def test_a_changed_saved_tensor_is_caught() -> None:
    x = leaf(1, 2)
    y = x * 2
    z = y * y
    with sf.no_grad():
        y.add_(1)
    with pytest.raises(
        AutogradError, match=r"mul: argument 0, float32\[2\].*version 1, version 0"
    ) as e:
        z.sum().backward()
    changed, used = str(e.value).split("changed at")[1].split("used at")
    assert "test_eager_autograd.py" in changed and "test_eager_autograd.py" in used


def test_a_changed_output_is_caught() -> None:
    x = leaf(1, 2)
    y = x.exp()
    with sf.no_grad():
        y.mul_(2)
    with pytest.raises(AutogradError, match="exp: its output"):
        y.sum().backward()


def test_a_change_through_a_view_or_numpy_alias_is_caught() -> None:
    views: tuple[Callable[[sf.Tensor], sf.Tensor], ...] = (
        lambda t: t[0],
        lambda t: t.detach(),
        lambda t: t.reshape(2, 1),
        lambda t: t.data,
    )
    for view in views:
        x = leaf(1, 2)
        y = x * 1
        z = (y * y).sum()
        with sf.no_grad():
            view(y).zero_()
        with pytest.raises(AutogradError, match="changed in place"):
            z.backward()


def test_a_change_of_what_is_not_saved_is_fine() -> None:
    x = leaf(1, 2)
    y = x * 2
    z = y + 1
    with sf.no_grad():
        y.zero_()
    z.sum().backward()
    assert grad_of(x) == [2, 2]


def test_recorded_in_place_operations_are_differentiated() -> None:
    x = leaf(1, 2)
    y = x * 2
    y.mul_(y)  # needs what it overwrites
    y += x
    y.sum().backward()
    assert grad_of(x) == [9, 17]


def test_a_tensor_can_take_another_with_its_history() -> None:
    w, x = leaf(3, 4), leaf(1, 2)
    y = x * 2
    y[...] = w
    (y * y).sum().backward()
    assert grad_of(w) == [6, 8] and grad_of(x) == [0, 0]
    y = sf.zeros(2)
    y.copy_(w)
    assert y.requires_grad


def test_the_gradient_of_an_in_place_form_has_the_dtype_of_its_tensor() -> None:
    w = leaf(3, 4, dtype="float64")
    x = leaf(1, 2)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype is sf.float32 and grad_of(x) == [3, 4]
    assert w.grad is not None and w.grad.dtype is sf.float64 and grad_of(w) == [1, 2]


def test_a_leaf_refuses_in_place() -> None:
    x = leaf(1, 2)
    with pytest.raises(AutogradError, match=r"leaf.*no_grad.*test_eager_autograd\.py:\d+"):
        x.add_(1)
    with sf.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 3]


def test_new_data_of_a_leaf_does_not_reach_old_products() -> None:
    x = leaf(1, 2)
    y = (x * x).sum()
    x.data = sf.tensor([10.0, 20.0])
    y.backward()
    assert grad_of(x) == [2, 4]


# -- size and memory ------------------------------------------------------------------------------


def test_a_long_chain_needs_no_recursion() -> None:
    x = leaf(1)
    y = x
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        for _ in range(100_000):
            y = y + x
        y.backward()
        assert grad_of(x) == [100_001]
        y = x
        for _ in range(30_000):  # freed without a backward
            y = y + x
        del y
    finally:
        sys.setrecursionlimit(limit)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_graphs_are_freed_by_reference_counts(no_collector: None) -> None:
    x = leaf(1, 2)
    y = (x.exp() * x).tanh()
    loss = (y * y).sum()
    watched = [weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(loss)]
    del y, loss
    assert [w() for w in watched] == [None] * 3


def test_backward_frees_what_it_used(no_collector: None) -> None:
    x = leaf(1, 2)
    y = x.exp()
    loss = (y * y).sum()
    entry, memory = y.grad_fn, y.detach().numpy()
    del y
    held = sys.getrefcount(memory)
    loss.backward()
    assert sys.getrefcount(memory) < held and entry.args is None and grad_of(x)


def test_failures_leave_no_cycles(no_collector: None) -> None:
    x = leaf(1, 2)
    watched = weakref.ref(x)
    with pytest.raises(ShapeError):
        x + sf.ones(3)
    y = x * x
    y.sum().backward()
    with pytest.raises(AutogradError):
        y.sum().backward()
    del x, y
    assert watched() is None


# -- loops ----------------------------------------------------------------------------------------


def test_scan_runs_forward_and_reverse() -> None:
    xs = sf.tensor([1.0, 2.0, 3.0])
    for reverse, wanted in ((False, [1, 3, 6]), (True, [6, 5, 3])):
        total, sums = sf.scan(lambda c, x: (c + x, c + x), sf.tensor(0.0), xs, reverse=reverse)
        assert total.item() == 6 and sums.tolist() == wanted


def test_scan_takes_trees() -> None:
    def step(carry: Any, x: Any) -> Any:
        a, b = carry["a"], carry["b"][0]
        return {"a": a + x[0], "b": [b * x[1]]}, (x[0], {"p": b})

    init = {"a": sf.tensor(0.0), "b": [sf.tensor(1.0)]}
    carry, ys = sf.scan(step, init, (sf.tensor([1.0, 2.0]), sf.tensor([3.0, 4.0])))
    assert carry["a"].item() == 3 and carry["b"][0].item() == 12
    assert ys[0].tolist() == [1, 2] and ys[1]["p"].tolist() == [1, 3]


def test_scan_by_length_only() -> None:
    last, ys = sf.scan(lambda c, x: (c * 2, None), sf.tensor(1.0), length=5)
    assert last.item() == 32 and ys is None
    _, ys = sf.scan(lambda c, x: (c * 2, c), sf.tensor(1.0), None, 3)
    assert ys.tolist() == [1, 2, 4]


def test_scan_is_differentiated() -> None:
    w = sf.tensor(2.0, requires_grad=True)
    last, ys = sf.scan(lambda h, x: (h * w + x, h), sf.tensor(1.0), sf.ones(3))
    (last + ys.sum()).backward()
    assert last.item() == 15 and w.grad is not None
    # h3 = w^3 + w^2 + w + 1, and y sums 1, w + 1, w^2 + w + 1
    assert w.grad.item() == (3 * 4 + 2 * 2 + 1) + (1 + 2 * 2 + 1)


def test_scan_refuses() -> None:
    one, xs = sf.tensor(1.0), sf.ones(3)
    cases: list[tuple[Any, Any, Any, dict[str, Any], type[Exception], str]] = [
        (lambda c, x: c, one, xs, {}, ShapeError, r"it must give a tuple of two, \(carry, y\)"),
        (lambda c, x: ((c, c), x), one, xs, {}, ShapeError, "came in as"),
        (lambda c, x: (c + xs, x), one, xs, {}, ShapeError, r"carry came in as f32\[\]"),
        (lambda c, x: (c.double(), x), one, xs, {}, DTypeError, "f64"),
        (lambda c, x: (c, x), one, None, {}, ShapeError, "xs or length"),
        (lambda c, x: (c, x), one, xs, {"length": 4}, ShapeError, "3 rows where 4"),
        (lambda c, x: (c, x), one, (xs, sf.ones(2)), {}, ShapeError, "2 rows where 3"),
        (lambda c, x: (c, x), one, one, {}, ShapeError, "0-d"),
    ]
    for fn, init, rows, more, error, says in cases:
        with pytest.raises(error, match=says) as caught:
            sf.scan(fn, init, rows, **more)
        assert "test_eager_autograd.py" in str(caught.value), says
