"""Switches: the branch of an index, in both modes, beside a chain of conds; in loops, under vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

X = np.random.default_rng(5).normal(size=(3,)) + 2


def branches(many: int) -> list[Callable[[Any], Any]]:
    return [lambda x, k=k: (x * (k + 1)).sin() + x**k for k in range(many)]


@pytest.mark.parametrize("many", [1, 2, 3, 5, 8])
def test_it_is_the_branch_of_the_index(many: int) -> None:
    fns = branches(many)
    i, x = sf.placeholder((), "int64", name="i"), sf.placeholder((None,), "float64", name="x")
    y = sf.switch(i, fns, x)
    (g,) = sf.grad(y.sum(), [x])
    (h,) = sf.grad((g * g).sum(), [x])
    _, pushed = sf.autograd.functional.jvp(lambda x: sf.switch(i, fns, x), x, sf.cos(x))
    program = sf.compile([i, x], [y, g, h, pushed])
    for index in range(-2, many + 2):
        t = sf.tensor(X, requires_grad=True)
        plain = fns[min(max(index, 0), many - 1)](t)
        (g,) = sf.autograd.grad(plain.sum(), [t], create_graph=True)
        (h,) = sf.autograd.grad((g * g).sum(), [t])
        expected = [plain, g, h, g * t.cos()]
        for a, b in zip(program(index, X), expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.detach().numpy(), 1e-9)
        for given in (index, sf.tensor(index)):
            u = sf.tensor(X, requires_grad=True)
            found = sf.switch(given, fns, u)
            assert sf.equal(found, plain)
            found.sum().backward()
            np.testing.assert_allclose(u.grad.numpy(), expected[1].detach().numpy(), 1e-12)


def test_only_the_branch_that_is_chosen_runs() -> None:
    ran: list[int] = []
    fns = [lambda x, k=k: (ran.append(k), x)[1] for k in range(4)]
    sf.switch(2, fns, sf.ones(1))
    assert ran == [2]
    i = sf.placeholder((), "int32", name="i")
    weights = [sf.zeros(1) for _ in range(4)]
    step = sf.compile([i], sf.switch(i, [lambda w=w: w * 2 for w in weights]))
    assert step(3).tolist() == [0.0]
    noise = sf.compile([i], sf.switch(i, [lambda: sf.rand(2), lambda: sf.zeros(2)]))
    sf.manual_seed(1)
    first = sf.rand(2)
    sf.manual_seed(1)
    assert noise(1).tolist() == [0.0, 0.0]  # draws nothing
    assert sf.equal(noise(0), first)


def test_comparisons_are_the_logarithm_of_the_branches() -> None:
    i, x = sf.placeholder((), "int64", name="i"), sf.placeholder((None,), name="x")
    text = str(sf.compile([i, x], sf.switch(i, branches(16), x)).graph)
    depth = max(
        (len(line) - len(line.lstrip())) // 2 for line in text.splitlines() if " lt" in line
    )
    assert text.count(" lt") == 15 and depth <= 10


def test_a_machine_of_states_in_a_loop() -> None:
    """A small interpreter: one instruction an iteration."""
    fns = [lambda a: a + 1, lambda a: a * 2, lambda a: a - 3, lambda a: a * a]
    code = [0, 1, 3, 2, 9, -4]
    ops, a = sf.placeholder((None,), "int64", name="ops"), sf.placeholder((), "float64", name="a")

    def run(ops: Any, a: Any) -> Any:
        return sf.scan(lambda a, op: (sf.switch(op, fns, a),) * 2, a, ops)

    last, path = run(ops, a)
    program = sf.compile([ops, a], [last, path, sf.grad(last, a)])
    t = sf.tensor(0.5, dtype=sf.float64, requires_grad=True)
    eager, way = run(sf.tensor(code), t)
    eager.backward()
    found = program(np.array(code), 0.5)
    value = 0.5
    for op in code:
        value = float(fns[min(max(op, 0), 3)](value))
    assert found[0].item() == eager.item() == value
    assert sf.equal(found[1], way.detach()) and found[2].item() == t.grad.item()
    assert sf.jit(run)(sf.tensor(code), t.detach())[0].item() == value


def test_rows_with_an_index_each() -> None:
    fns = branches(4)
    index, xs = sf.tensor([3, 0, 7, -1, 2]), sf.randn(5, 2).exp()
    expected = sf.stack(
        [fns[min(max(i, 0), 3)](x) for i, x in zip(index.tolist(), xs, strict=True)]
    )
    assert sf.allclose(sf.vmap(lambda i, x: sf.switch(i, fns, x))(index, xs), expected)


@pytest.mark.parametrize("graph", [False, True])
def test_numbers_take_the_dtype_of_tensors_beside_them(graph: bool) -> None:
    fns = [lambda x: 0, lambda x: 1.5, lambda x: x, lambda x: True]
    x = sf.tensor(2.0, dtype=sf.float64)
    for i, value in enumerate([0.0, 1.5, 2.0, 1.0]):
        index = sf.placeholder((), "int64", name="i") if graph else sf.tensor(i)
        found = sf.switch(index, fns, x)
        found = sf.compile([index], found)(i) if graph else found
        assert found.dtype is sf.float64 and found.item() == value


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    ("fns", "says"),
    [
        ([lambda x: x, lambda x: x, lambda x: x.sum()], "result is f32[3] from branches[0] and f32[]"
         " from branches[2]; all must give"),
        ([lambda x: x, lambda x: (x, x), lambda x: x], "branches[0] gives * and branches[1] gives"),
        ([lambda x: x, lambda x: x > 0], "f32[3] from branches[0] and bool[3] from branches[1]; both"),
        ([lambda x: x, lambda x, y: x], "switch: branches[1] takes (x, y), and is called with 1"),
        ([], "not an empty one"),
        (None, "not of type NoneType"),
        (0, "not of type int"),
        (lambda x: x, "not of type function"),
        ([lambda x: x, 3], "branches[1] is of type int; sf.stack(values)[index]"),
    ],
)  # fmt: skip
def test_what_is_refused(fns: Any, says: str, graph: bool) -> None:
    index = sf.placeholder((), "int64", name="i") if graph else sf.tensor(0)
    with pytest.raises(sf.StaticflowError) as error:
        sf.switch(index, fns, sf.ones(3))
    assert says in str(error.value) and "test_switch.py" in str(error.value)


@pytest.mark.parametrize("index", [1.0, True, sf.ones(2, dtype=sf.int64), sf.tensor(1.0), "one"])
def test_an_index_is_one_integer(index: Any) -> None:
    with pytest.raises(sf.DTypeError, match=r"switch: the index is .*integer dtype and of no dims"):
        sf.switch(index, branches(3), sf.ones(3))
