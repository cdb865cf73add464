"""Calls of an op in every mode, and what their results are held to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from opinfo.core import Array, OpInfo, Sample

import staticflow as sf
from staticflow import pytree
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.graph import Graph, close, new_param
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.ops.symbol import Symbol

__all__ = [
    "arrays_of", "assert_agree", "call", "expected_of", "graph_of", "params_for", "run_eagerly",
]  # fmt: skip


def arrays_of(sample: Sample) -> list[Array]:
    return [a for a in pytree.flatten(sample.args)[0] if isinstance(a, np.ndarray)]


def with_arrays(sample: Sample, replacements: Sequence[Any]) -> Any:
    """The arguments of a sample with something else in place of each array."""
    rest = iter(replacements)
    return pytree.map_tree(lambda a: next(rest) if isinstance(a, np.ndarray) else a, sample.args)


def call(info: OpInfo, sample: Sample, arguments: Sequence[Any]) -> list[Any]:
    return pytree.flatten(info.call(*with_arrays(sample, arguments), **sample.kwargs))[0]


def run_eagerly(info: OpInfo, sample: Sample) -> list[Array]:
    tensors = [sf.from_numpy(a) for a in arrays_of(sample)]
    return [out.numpy() for out in call(info, sample, tensors)]


def expected_of(info: OpInfo, sample: Sample) -> list[Array]:
    out = info.expect(*sample.args, **sample.kwargs)
    return [np.asarray(a) for a in pytree.flatten(out)[0]]


def params_for(arrays: Sequence[Array], unknown: int | None = None) -> list[Node]:
    """A param for each array; dims of size ``unknown`` are one size that is not known."""
    n = Dim.of(Sym("n"))
    made = []
    for i, a in enumerate(arrays):
        shape: tuple[Size, ...] = tuple(n if d == unknown else d for d in a.shape)
        made.append(new_param(TensorType(dtype_of(a.dtype), shape), f"x{i}"))
    return made


def graph_of(info: OpInfo, sample: Sample, unknown: int | None = None) -> Graph:
    params = params_for(arrays_of(sample), unknown)
    outs = call(info, sample, [Symbol(p) for p in params])
    return close(params, [o.node for o in outs])


def assert_agree(info: OpInfo, actual: Sequence[Any], wanted: Sequence[Any], what: str) -> None:
    assert len(actual) == len(wanted), what
    for a, w in zip(actual, wanted, strict=True):
        assert (a.dtype, a.shape) == (w.dtype, w.shape), what
        dtype = dtype_of(w.dtype)
        if not dtype.is_floating:
            np.testing.assert_array_equal(a, w, what)
            continue
        wide_a, wide_w = a.astype(np.float64), w.astype(np.float64)
        np.testing.assert_allclose(wide_a, wide_w, *info.tolerance(dtype), err_msg=what)
        if info.zeros or info.exact:
            zeros = (wide_w == 0) & (wide_a == 0)
            np.testing.assert_array_equal(
                np.signbit(wide_a[zeros]), np.signbit(wide_w[zeros]), f"signs of zeros: {what}"
            )
