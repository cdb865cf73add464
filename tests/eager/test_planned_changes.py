"""In-place operations on large arrays whose kind was met before: programs that native code runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager.costs import LARGE
from staticflow.errors import IndexRangeError
from tests.eager.test_eager_overwrite import BY_ELEMENT, FORMS, drawn

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda a: sf.from_numpy(a.copy()),
    "columns": lambda a: sf.from_numpy(a.T.copy()).t(),
    "a part": lambda a: sf.from_numpy(np.pad(a, ((0, 1), (3, 70))))[:-1, 3:-70],
    "every other": lambda a: sf.from_numpy(a.repeat(2, 1))[:, ::2],
}

AT_LARGE, BELOW = (256, LARGE // 256), (256, LARGE // 256 - 1)


def python_calls(run: Callable[[], Any]) -> list[str]:
    """The functions of Python that are called meanwhile, but ``run`` and the lambda in it."""
    names: list[str] = []

    def on_event(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<lambda>":
            names.append(frame.f_code.co_name)

    sys.setprofile(on_event)
    try:
        run()
    finally:
        sys.setprofile(None)
    return names


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FORMS)
def test_each_call_changes_what_it_is_called_on(name: str, layout: str) -> None:
    form, wanted = FORMS[name]
    lay = LAYOUTS[layout]
    for shape in (AT_LARGE, BELOW):
        for threads in (1, 2):
            sf.set_num_threads(threads)
            for seed in range(4):
                a, b = drawn(*shape, seed=seed), drawn(*shape, seed=seed + 9)
                x, y = lay(a), lay(b)
                version, strides = x._version, x.stride()
                assert form(x, y) is x
                assert (x._version, x.stride()) == (version + 1, strides)
                changed = np.asarray(wanted(a, b), np.float32)
                np.testing.assert_array_equal(x.numpy(), changed)
                np.testing.assert_array_equal(y.numpy(), b)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", sorted({*BY_ELEMENT, "fill", "zero"} - {"gt", "masked_fill"}))
def test_no_function_is_called_for_a_kind_that_was_met(name: str, layout: str) -> None:
    x, y = (LAYOUTS[layout](drawn(*AT_LARGE, seed=seed)) for seed in (0, 1))
    form, _ = FORMS[name]
    for _ in range(4):
        form(x, y)
    assert python_calls(lambda: form(x, y)) == []


def test_a_tensor_beside_itself_and_beside_one_that_is_on_its_memory() -> None:
    """Which arguments are on one array in a call says nothing of the next one."""
    a, b = drawn(*AT_LARGE), drawn(*AT_LARGE, seed=1)
    for first in range(3):
        x, y = sf.from_numpy(a.copy()), sf.from_numpy(b)
        beside = [x.detach(), y, x]
        for _ in range(3):
            for other in (*beside[first:], *beside[:first]):
                before, factor = x.numpy().copy(), other.numpy().copy()
                x.addcmul_(other, other, value=0.25)
                wanted = before + factor * factor * np.float32(0.25)
                np.testing.assert_array_equal(x.numpy(), wanted)


def test_overlapping_views_are_copied_first() -> None:
    a = drawn(1 + AT_LARGE[0], AT_LARGE[1])
    for _ in range(2):
        x = sf.from_numpy(a.copy())
        apart = x[:-1].clone()
        for _ in range(3):
            x[1:].addcmul_(apart, apart, value=0.0)
        wanted = x[1:].numpy() + x[:-1].numpy() * x[:-1].numpy()
        x[1:].addcmul_(x[:-1], x[:-1], value=1.0)
        np.testing.assert_array_equal(x[1:].numpy(), wanted)


def test_what_is_recorded_goes_its_own_way() -> None:
    x, w = (sf.from_numpy(drawn(*AT_LARGE, seed=seed)) for seed in (0, 1))

    def change(x: Any, w: Any) -> Any:
        return x.lerp_(w, 0.25)

    for _ in range(4):
        change(x, w)  # the kind is known from here on
    leaf = w.clone().requires_grad_()
    y = x.clone()
    change(y, leaf)
    y.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), np.full(AT_LARGE, 0.25, np.float32))
    with pytest.raises(sf.AutogradError, match="leaf"):
        change(leaf, w)
    part = (leaf * 1)[:]
    change(part, w)  # a view of what has a history
    leaf.grad = None
    part.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), np.full(AT_LARGE, 0.75, np.float32))
    with sf.no_grad():
        assert change(leaf, w) is leaf
    saved = (leaf * 1).exp()
    with sf.no_grad():
        change(saved, w)
    with pytest.raises(sf.AutogradError, match="changed in place"):
        saved.sum().backward()


def test_a_parameter_is_changed_without_a_history() -> None:
    a = drawn(*AT_LARGE)
    p = sf.from_numpy(a.copy()).requires_grad_()
    for _ in range(5):
        with sf.no_grad():
            p.addcmul_(p, p, value=0.5)
        a = a + a * a * np.float32(0.5)
        np.testing.assert_array_equal(p.detach().numpy(), a)
    assert p.requires_grad and p.is_leaf


def test_nothing_is_written_where_an_index_is_wrong() -> None:
    x, rows = sf.from_numpy(drawn(*AT_LARGE)), sf.from_numpy(drawn(3, AT_LARGE[1]))
    good, wrong = sf.tensor([4, 0, 2]), sf.tensor([4, 0, 256])
    for change in (
        lambda index: x.index_add_(0, index, rows),
        lambda index: x.index_copy_(0, index, rows),
        lambda index: x.scatter_(0, index[:, None], rows),
    ):
        for _ in range(4):
            change(good)
        before, version = x.numpy().copy(), x._version
        with pytest.raises(IndexRangeError, match="256"):
            change(wrong)
        np.testing.assert_array_equal(x.numpy(), before)
        assert x._version == version


def test_memory_that_may_not_be_written_is_not() -> None:
    a = drawn(*AT_LARGE)
    x = sf.from_numpy(a.copy())
    for _ in range(4):
        x.clamp_(-1.0, 1.0)
    a.flags.writeable = False
    with pytest.raises(sf.AutogradError, match="read-only"):
        sf.from_numpy(a).clamp_(-1.0, 1.0)
    row = sf.from_numpy(drawn(1, AT_LARGE[1])).expand(AT_LARGE)
    with pytest.raises(sf.AutogradError, match="one place in memory"):
        row.clamp_(-1.0, 1.0)


UFUNCS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add_": (lambda x, y: x.add_(y), lambda a, b: a + b),
    "sub_ scaled": (lambda x, y: x.sub_(y, alpha=2), lambda a, b: a - 2 * b),
    "mul_": (lambda x, y: x.mul_(y), lambda a, b: a * b),
    "div_ by a number": (lambda x, y: x.div_(3.0), lambda a, b: a / np.float32(3)),
    "div_ by a row": (lambda x, y: x.div_(y[0]), lambda a, b: a / b[0]),
    "abs_": (lambda x, y: x.abs_(), lambda a, b: np.abs(a)),
    "reciprocal_": (lambda x, y: x.reciprocal_(), lambda a, b: 1 / a),
}


@pytest.mark.parametrize("beside", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [AT_LARGE, BELOW, (LARGE // 3 + 1, 3), (3, LARGE // 3 + 1)])
def test_what_numpy_does_as_well_however_arrays_lie(
    shape: tuple[int, int], layout: str, beside: str
) -> None:
    """By a program, by NumPy or by the operations, as the two lie; rows may be short, too."""
    for threads in (1, 2):
        sf.set_num_threads(threads)
        for form, wanted in UFUNCS.values():
            for seed in range(4):
                a, b = drawn(*shape, seed=seed), drawn(*shape, seed=seed + 9)
                x, y = LAYOUTS[layout](a), LAYOUTS[beside](b)
                strides = x.stride()
                assert form(x, y) is x and x.stride() == strides
                np.testing.assert_array_equal(x.numpy(), np.asarray(wanted(a, b), np.float32))
                np.testing.assert_array_equal(y.numpy(), b)
