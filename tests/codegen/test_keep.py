"""Costly values that several passes over a row need wait in an output's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.kernel import Kernel, Let, Load
from staticflow.codegen.lower.cluster import lower_cluster
from staticflow.codegen.parts import walk
from staticflow.codegen.target import Target
from staticflow.graph.graph import close
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize

TARGET = Target(vector_bits=256, fma=True, masks=True)


def kernels(fn: Callable[..., Any], dtype: str = "float32", shared: Any = None) -> list[Kernel]:
    x = sf.placeholder((None, None), dtype, name="x")
    graph, _ = optimize(close([x.node], [fn(x).node]))
    return [
        lower_cluster(n.attrs["body"], n.attrs["kind"], TARGET, shared).kernel
        for n in graph.nodes
        if n.op is cluster
    ]


def reads_back(kernel: Kernel) -> bool:
    """Whether it loads from its output."""
    return any(
        isinstance(s, Let) and isinstance(s.expr, Load) and s.expr.buffer.startswith("o")
        for s in walk(kernel.body)
    )


@pytest.mark.parametrize(
    ("fn", "waits"),
    [
        (lambda x: x.softmax(1), True),
        (lambda x: x.softmax(0), False),  # written by a kernel of its own, row by row
        (lambda x: x.tanh() / x.tanh().sum(1, keepdim=True), True),
        (lambda x: x - x.mean(1, keepdim=True), False),  # cheaper to work out again
        (lambda x: x.log_softmax(1), False),  # the exponentials are summed and done with
        (lambda x: x.exp().sum(1) * 2, False),  # nothing of their size is written
    ],
)
def test_what_waits(fn: Callable[..., Any], waits: bool) -> None:
    assert any(map(reads_back, kernels(fn))) == waits


def test_not_where_the_dtype_differs() -> None:
    """The exponentials of a float16 softmax are float32."""
    (kernel,) = kernels(lambda x: x.softmax(1), "float16")
    assert not reads_back(kernel)


def test_not_over_a_param() -> None:
    """An output that lies over the input would overwrite what is read again."""
    (kernel,) = kernels(lambda x: x.softmax(1), shared={0: 0})
    assert not reads_back(kernel)
    w = sf.nn.Parameter(np.array([[1.0, 2.0, 3.0]], np.float32))
    step = sf.compile([], None, updates={w: sf.symbol(w).softmax(1)})
    wanted = w.detach().softmax(1).numpy()
    step()
    np.testing.assert_allclose(w.detach().numpy(), wanted, 1e-6)


def test_what_is_kept_is_not_overwritten_by_an_output_that_is_due_earlier() -> None:
    x, ct = sf.placeholder((4, 3), name="x"), sf.placeholder((4, 3), name="ct")
    y = sf.softmax(x, 1)
    program = sf.compile([x, ct], [y, sf.grad(y, x, ct)])
    assert program.kernel_count == 1
    data, seed = np.sin(np.arange(12.0).reshape(4, 3)), np.cos(np.arange(12.0).reshape(4, 3))
    e = np.exp(data)
    s = e / e.sum(1, keepdims=True)
    found = program(data.astype("f4"), seed.astype("f4"))
    for got, wanted in zip(found, (s, s * (seed - (seed * s).sum(1, keepdims=True))), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5, atol=1e-6)
