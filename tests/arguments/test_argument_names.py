"""Arguments may be given by PyTorch's names, dims also by NumPy's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.graph.op import Op
from staticflow.ops.tensors.elementwise_methods import ElementwiseMethods

X, Y = [[0.5, 2.0], [3.0, 1.0]], [[2.0, 0.25], [1.0, 4.0]]

CASES: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "unary": lambda x, y: (sf.exp(input=x), sf.exp(x)),
    "both": lambda x, y: (sf.mul(other=y, input=x), sf.mul(x, y)),
    "second": lambda x, y: (sf.maximum(x, other=y), sf.maximum(x, y)),
    "method": lambda x, y: (x.mul(other=y), x * y),
    "number": lambda x, y: (x.mul(other=3), x * 3),
    "exponent": lambda x, y: (sf.pow(x, exponent=2), x**2),
    "exponent of a method": lambda x, y: (x.pow(exponent=y), x**y),
    "values": lambda x, y: (sf.heaviside(x, values=y), sf.heaviside(x, y)),
    "three": lambda x, y: (sf.lerp(x, end=y, weight=0.25), sf.lerp(x, y, 0.25)),
    "where": lambda x, y: (sf.where(x > y, input=x, other=y), sf.where(x > y, x, y)),
    "products": lambda x, y: (sf.mm(input=x, mat2=y), x @ y),
    "maximum": lambda x, y: (sf.max(x, other=y), sf.maximum(x, y)),
    "shape": lambda x, y: (sf.reshape(input=x, shape=(4,)), x.reshape(4)),
    "size": lambda x, y: (x[0].expand(size=(3, -1)), x[0].expand(3, -1)),
    "order of dims": lambda x, y: (sf.permute(x, dims=(1, 0)), x.permute(1, 0)),
    "flipped dims": lambda x, y: (sf.flip(x, dims=[0]), x.flip(0)),
    "repeats": lambda x, y: (x.repeat(repeats=(2, 1)), x.repeat(2, 1)),
    "axis": lambda x, y: (x.sum(axis=1, keepdims=True), x.sum(1, keepdim=True)),
    "axis of several": lambda x, y: (sf.cat([x, y], axis=1), sf.cat([x, y], 1)),
    "named by NumPy": lambda x, y: (np.mean(x), x.mean()),
    "sum by NumPy": lambda x, y: (np.sum(x, axis=0), x.sum(0)),
    "spread by NumPy": lambda x, y: (np.std(x, ddof=1), x.std()),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_arguments_have_the_names_of_pytorch(case: str, compiled: bool) -> None:
    run = sf.jit(CASES[case]) if compiled else CASES[case]
    named, plain = run(sf.tensor(X), sf.tensor(Y))
    assert named.tolist() == plain.tolist()


def test_in_place_forms_take_names() -> None:
    x = sf.tensor(X)
    assert x.mul_(other=2).pow_(exponent=2).tolist() == [[1.0, 16.0], [36.0, 4.0]]


METHODS = {name: m for name, m in vars(ElementwiseMethods).items() if isinstance(m, Op)}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_that_is_an_op_takes_its_arguments_by_name(name: str) -> None:
    op = METHODS[name]
    x = sf.tensor([0.5] if "f" in op.kinds else [1])
    count = len(inspect.signature(op.reference).parameters) - 2
    others = dict.fromkeys(op.names[1 : count + 1], x)
    plain = getattr(x, name)(*others.values())
    for named in (getattr(x, name)(**others), op(input=x, **others)):
        np.testing.assert_array_equal(named.numpy(), plain.numpy())


def test_the_high_end_of_random_integers_by_name() -> None:
    assert sf.randint(3, size=(4,)).max() < 3
    assert sf.randint(high=3, size=(4,)).max() < 3


FUNCTIONS = {n: f for n in sf.__all__ if callable(f := getattr(sf, n)) and not isinstance(f, type)}
CALLABLE = {n: f for n in dir(sf.Tensor) if n[0] != "_" and callable(f := getattr(sf.Tensor, n))}


@pytest.mark.parametrize("of", ["the package", "tensors"])
def test_help_says_what_is_taken_and_given(of: str) -> None:
    """Also of ops, which are objects, and of in-place forms, which are made of others."""
    for name, fn in (FUNCTIONS if of == "the package" else CALLABLE).items():
        assert fn.__doc__ and fn.__doc__ != Op.__doc__, name
        kinds = {p.kind for p in inspect.signature(fn).parameters.values()}
        assert not (name.endswith("_") and inspect.Parameter.VAR_KEYWORD in kinds), name
