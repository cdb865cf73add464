"""In-place forms of expanded tensors: allowed where each place in memory gets one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import staticflow as sf
from staticflow.errors import AutogradError


def _row(x: Any) -> None:
    x[0].add_(5)


def _column(x: Any) -> None:
    x[:, 1] = 5


def _narrow(x: Any) -> None:
    x[1:2, 1:] += 5


ALLOWED: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "a row": (_row, [5.0, 5.0, 5.0]),
    "a column": (_column, [0.0, 5.0, 0.0]),
    "a part of a row": (_narrow, [0.0, 5.0, 5.0]),
    "an element": (lambda x: x[2, 0].fill_(5), [5.0, 0.0, 0.0]),
    "one row": (lambda x: x[:1].add_(5), [5.0, 5.0, 5.0]),
    "zero_": (lambda x: x.zero_(), [0.0, 0.0, 0.0]),
    "fill_": (lambda x: x.fill_(5), [5.0, 5.0, 5.0]),
    "a number for several": (lambda x: x[1:].copy_(sf.tensor(5.0)), [5.0, 5.0, 5.0]),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", ALLOWED)
def test_a_part_that_holds_no_element_twice_is_changed(case: str) -> None:
    change, expected = ALLOWED[case]
    for _ in range(3):  # the first call of a kind, and those that are remembered
        base = sf.zeros(1, 3)
        x = base.expand(4, 3)
        change(x)
        assert base.tolist() == [expected]
        assert x.tolist() == [expected] * 4


REFUSED: dict[str, Callable[[Any], Any]] = {
    "add_": lambda x: x.add_(1),
    "copy_": lambda x: x.copy_(sf.ones(4, 3)),
    "rows": lambda x: x[1:3].mul_(2),
    "assigned rows": lambda x: x.__setitem__(slice(2), sf.ones(2, 3)),
    "an index tensor": lambda x: x.__setitem__(sf.tensor([0, 1]), 1.0),
    "uniform_": lambda x: x.uniform_(),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_write_one_place_several_times_is_refused(case: str) -> None:
    x = sf.zeros(1, 3).expand(4, 3)
    with pytest.raises(AutogradError, match="several of its elements are one place in memory"):
        REFUSED[case](x)
    assert not x.any()


def test_read_only_memory_stays_so() -> None:
    array = sf.zeros(1, 3).numpy()
    array.flags.writeable = False
    with pytest.raises(AutogradError, match="read-only"):
        sf.from_numpy(array).expand(4, 3)[0].add_(1)


def test_the_change_of_a_column_is_recorded() -> None:
    w = sf.tensor([[1.0], [2.0]], requires_grad=True)
    x = (w * 1).expand(2, 3)
    x[:, 1].mul_(w[:, 0])
    x.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [[6.0], [12.0]]  # 3 w**2


def test_the_zeros_of_an_expanded_tensor_are_recorded() -> None:
    w = sf.ones(2, 1, requires_grad=True)
    x = (w * 2).expand(2, 3)
    x.zero_()
    (x + w).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [[3.0], [3.0]]


def test_the_gradient_of_an_expanded_leaf_is_memory_of_its_own() -> None:
    leaf = sf.zeros(()).expand(3).requires_grad_()
    for times in (1.0, 2.0, 3.0):
        leaf.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.tolist() == [times] * 3
