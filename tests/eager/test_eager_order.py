"""The order in which gradients are added up: that of the recording alone, the last use first."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence

import numpy as np
import pytest

import staticflow as sf

NUMBERS = np.random.RandomState(0)
SCALES = (NUMBERS.randn(60) * 10.0 ** NUMBERS.randint(-4, 5, 60)).astype(np.float32)


def added(terms: Sequence[np.float32]) -> np.float32:
    total = terms[0]
    for term in terms[1:]:
        total = np.float32(total + term)
    return total


def test_the_order_is_visible() -> None:
    """Else the other tests would say nothing."""
    assert added(SCALES) != added(SCALES[::-1])


def test_a_leaf_of_many_uses() -> None:
    """In whatever order the results of the uses are used themselves."""
    for order in (range(60), reversed(range(60)), NUMBERS.permutation(60)):
        x = sf.ones(1, requires_grad=True)
        uses = [x * float(c) for c in SCALES]
        sf.cat([uses[i] for i in order]).sum().backward()
        assert x.grad is not None
        assert x.grad.item() == added(SCALES[::-1])


@pytest.mark.parametrize("between", [False, True])
def test_a_symbol_of_many_uses(between: bool) -> None:
    """A graph adds in the order of the tape: the last use first."""
    for order in (range(60), reversed(range(60)), NUMBERS.permutation(60)):
        x = sf.placeholder((1,), name="x")
        y = x.abs() if between else x
        uses = [y * float(c) for c in SCALES]
        gradient = sf.grad(sum(uses[i].sum() for i in order), x)
        assert sf.compile([x], gradient)(np.ones(1, np.float32)).item() == added(SCALES[::-1])


def test_a_recorded_tensor_of_many_uses() -> None:
    x = sf.ones(1, requires_grad=True)
    y = x * 1.0
    uses = [y * float(c) for c in SCALES]
    sf.autograd.backward(uses)  # many roots
    assert x.grad is not None
    assert x.grad.item() == added(SCALES[::-1])


def test_uses_by_one_operation() -> None:
    """Argument after argument."""
    x = sf.ones(1, requires_grad=True)
    weights = sf.from_numpy(SCALES)
    (sf.cat([x] * 60) * weights).sum().backward()
    assert x.grad is not None
    assert x.grad.item() == added(SCALES)


def diamonds(names: str = "abc") -> bytes:
    """Gradients of three leaves, made in the order of ``names``, that meet again and again."""
    values = {"a": 0.3, "b": 1.7, "c": -0.9}
    leaves = {n: sf.full((5,), values[n]) for n in names}
    for leaf in leaves.values():
        leaf.requires_grad_()
    a, b, c = (leaves[n] for n in "abc")
    for scale in SCALES:
        left, right = (a * b).tanh() * float(scale), (b - c).sin()
        a, b, c = left + right * c, right / (left * left + 1.0), (a + c) * 0.5
    sf.autograd.backward([a.sum(), (b * c).sum(), c.exp().sum()])
    return b"".join(leaves[n].grad.numpy().tobytes() for n in "abc")


@pytest.mark.parametrize("names", ["acb", "bac", "bca", "cab", "cba"])
def test_the_order_in_which_leaves_are_made_is_none(names: str) -> None:
    assert diamonds(names) == diamonds()


def test_several_threads() -> None:
    expected, given = diamonds(), []
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=lambda: given.append(diamonds())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert given == [expected] * 8


def test_other_processes() -> None:
    """With other hashes, and kernels on other numbers of threads."""
    program = "from test_eager_order import diamonds, large; print(diamonds().hex(), large().hex())"
    outputs = set()
    for seed, threads in (("0", "1"), ("1", "2"), ("2", "3")):
        setting = {"PYTHONHASHSEED": seed, "STATICFLOW_NUM_THREADS": threads}
        path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
        outputs.add(
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, **setting, "PYTHONPATH": path},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert outputs == {f"{diamonds().hex()} {large().hex()}\n"}


def large() -> bytes:
    """The gradient of a row that all rows of a large array use, beside a product and a mean."""
    row = sf.from_numpy(SCALES).requires_grad_()
    x = sf.from_numpy(np.random.RandomState(1).randn(20000, 60).astype(np.float32))
    y = (x * row).tanh() + row
    (y.mean(0).square().sum() + (y @ row).sum()).backward()
    assert row.grad is not None
    return row.grad.numpy().tobytes()
