"""The gradients of every op whatever its arguments are like: of any layout, of no elements, of each
floating dtype. What they are of contiguous float64 arrays is held against differences in
`test_ops_gradients`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from op_derivatives import gradients, is_real, leaves_at, or_zeros, second_gradients
from opinfo import ROWS
from opinfo.core import Array, finfo
from opinfo.modes import arrays_of
from slices import by_days

import staticflow as sf
from staticflow.graph.dtypes import float64
from staticflow.ops import OPS

NAMES = [n for n, op in OPS.items() if op.vjp]
OF_ANY_LAYOUT = [n for n in NAMES if n != "as_strided"]
UNITS = {"group_norm": 100}
"""Of the last place: two elements that are nearly equal lose digits in their variance."""


def scattered(array: Array) -> Array:
    """The same elements in memory of another order, with gaps, and backwards."""
    memory = np.zeros([2 * n for n in reversed(array.shape)], array.dtype).T
    out = memory[(..., *[slice(None, None, -2)] * array.ndim)]
    out[...] = array
    return out


def shared_leaves(arrays: Sequence[Array]) -> list[sf.Tensor]:
    return [sf.from_numpy(a).requires_grad_(is_real(a)) for a in arrays]


@pytest.mark.parametrize("name", by_days(OF_ANY_LAYOUT, 75, "layouts"))
def test_layout_does_not_matter(name: str) -> None:
    info = ROWS[name]
    for sample in info.samples(float64, True):
        arrays = arrays_of(sample)
        moved = [scattered(a) for a in arrays]
        leaves = shared_leaves(moved)
        _, expected = gradients(info, sample, leaves_at(arrays))
        real, found = gradients(info, sample, leaves)
        for x, a, e in zip(real, found, expected, strict=True):
            np.testing.assert_allclose(
                or_zeros(a, x), or_zeros(e, x), 1e-12, 1e-12, err_msg=f"{name}({sample})"
            )
        assert all(np.array_equal(m, a) for m, a in zip(moved, arrays, strict=True))


@pytest.mark.parametrize("name", OF_ANY_LAYOUT)
def test_layout_does_not_matter_in_second_order(name: str, monkeypatch: Any) -> None:
    info = ROWS[name]
    for sample in list(info.samples(float64, True))[:3]:
        arrays = arrays_of(sample)
        expected = second_gradients(info, sample, arrays)
        monkeypatch.setattr("op_derivatives.leaves_at", shared_leaves)
        found = second_gradients(info, sample, [scattered(a) for a in arrays])
        monkeypatch.undo()
        real = [a for a in arrays if is_real(a)]
        for x, a, e in zip(real, found, expected, strict=True):
            np.testing.assert_allclose(
                or_zeros(a, x), or_zeros(e, x), 1e-10, 1e-10, err_msg=f"{name}({sample})"
            )


@pytest.mark.parametrize("name", NAMES)
def test_nothing_has_gradients_of_its_shape(name: str) -> None:
    info = ROWS[name]
    assert info.sized is not None
    sample = info.sized(float64, 0)
    real, found = gradients(info, sample, leaves_at(arrays_of(sample)))
    for x, g in zip(real, found, strict=True):
        assert g is None or (g.shape, g.dtype) == (x.shape, x.dtype)
        assert g is None or np.isfinite(g.numpy()).all()
    for x, g in zip(real, second_gradients(info, sample, arrays_of(sample)), strict=True):
        assert g is None or (g.shape, g.dtype) == (x.shape, x.dtype), "second"


@pytest.mark.parametrize("name", by_days(NAMES, 75, "dtypes"))
def test_each_floating_dtype_has_the_gradient_of_float64(name: str) -> None:
    """As near as its digits allow."""
    info = ROWS[name]
    for dtype in (d for d in info.dtypes if d.is_floating and d is not float64):
        eps = float(finfo(dtype).eps)
        for sample in list(info.samples(dtype, True))[:4]:
            arrays = arrays_of(sample)
            narrow = [sf.tensor(a) for a in arrays]
            wide = [t.double() if t.dtype is dtype else t.clone() for t in narrow]
            for t in (*narrow, *wide):
                t.requires_grad_(t.dtype.is_floating)
            _, expected = gradients(info, sample, wide)
            _, found = gradients(info, sample, narrow)
            for g, e in zip(found, expected, strict=True):
                if g is None or e is None or not e.numel():
                    continue
                a, w = g.detach().double().numpy(), e.detach().numpy()
                near = UNITS.get(name, 30) * eps * max(1, abs(w).max())
                np.testing.assert_allclose(a, w, 0, near, err_msg=f"{name}({sample})")
