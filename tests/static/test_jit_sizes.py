"""A function that is traced for each set of sizes, so that Python takes them as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.testing import assert_close


def running_product(x: Any, w: Any) -> Any:
    """What takes sizes as numbers: a loop, a branch, a list, a key and a float."""
    steps, width = x.shape
    scale = {3: 2.0, 4: 0.5}[width] / float(steps)
    state, found = sf.zeros(width), []
    for t in range(steps):
        state = (state @ w + x[t]).tanh()
        found.append(state * scale if t % 2 or width == 4 else state)
    return sf.stack(found) + sf.tensor([[0.1] * width] * len(found))


@pytest.mark.parametrize("shape", [(3, 3), (1, 4), (5, 4), (3, 4)])
def test_it_gives_what_it_gives_eagerly(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x, w = sf.tensor(rng.random(shape)).float(), sf.tensor(rng.random((shape[1],) * 2)).float()
    f = sf.jit(running_product, dynamic=False)
    results = []
    for run in (running_product, f, f):
        leaves = [t.clone().requires_grad_() for t in (x, w)]
        out = run(*leaves)
        results.append((out, *sf.autograd.grad(out.pow(2).sum(), leaves)))
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            assert_close(a, b)
    assert f.trace_count == f.compile_count == 1


def test_each_set_of_sizes_is_traced_and_found_again() -> None:
    traced = []

    @sf.jit(dynamic=False)
    def f(x: Any) -> Any:
        traced.append(x.shape)
        return x * x.shape[0]

    for n in (2, 3, 2, 3, 1, 2):
        assert f(sf.ones(n)).tolist() == [n] * n
    assert len(traced) == f.trace_count == f.compile_count == 3
    assert all(type(n) is int for shape in traced for n in shape)
    assert sf.jit(lambda x: x + 1)(sf.ones(2)).tolist() == [2, 2]


def test_so_many_sets_of_sizes_are_told() -> None:
    f = sf.jit(lambda x: x + 1, dynamic=False)
    with pytest.warns(UserWarning, match=r"jit: <lambda> was .* 16 times, for each set of sizes"):
        for n in range(1, 19):
            f(sf.ones(n))
    assert f.trace_count == 18


def test_a_module_and_a_change_in_place() -> None:
    class Unrolled(sf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = sf.nn.GRUCell(2, 3)

        def forward(self, x: Any) -> Any:
            h = sf.zeros(x.shape[0], 3)
            for row in x.unbind(1):
                h = self.cell(row, h)
            x.zero_()
            return h

    net = Unrolled()
    x = sf.randn(4, 5, 2)
    given = x.clone()
    assert_close(sf.jit(net, dynamic=False)(given), net(x))
    assert given.abs().sum().item() == 0


REFUSED = {
    "an int": lambda x: sf.stack([x[t] for t in range(x.shape[0])]),
    "equality": lambda x: x if x.shape[0] == 3 else -x,
    "order": lambda x: x if x.shape[0] > 3 else -x,
    "len": lambda x: x * len(x),
    "iteration": lambda x: sf.stack([row * 2 for row in x]),
    "unbind": lambda x: sf.stack(x.unbind()),
    "split": lambda x: x.split(2)[0],
}


@pytest.mark.parametrize("fn", REFUSED.values(), ids=REFUSED)
def test_the_error_for_a_size_says_how_to_have_it_known(fn: Any) -> None:
    with pytest.raises(sf.SymbolicError, match=r"dynamic=False.*test_jit_sizes"):
        sf.jit(fn)(sf.ones(3))
    sf.jit(fn, dynamic=False)(sf.ones(3))
    wrong: Any = sf.jit  # mypy would refuse the call
    with pytest.raises(sf.DTypeError, match="dynamic"):
        wrong(fn, dynamic="no")
