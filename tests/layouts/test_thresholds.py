"""The sizes of the checks of layouts lie on both sides of every threshold, and every threshold is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from layout_cases import LAYOUTS, in_layout
from layout_design import THREADS, design
from layout_sizes import elements_of, enlarged_samples
from opinfo import ROWS
from opinfo.core import values
from test_layouts import samples_for
from thresholds import BY_MATRICES, SIZES, constants, stale_names, unknown_constants

import staticflow as sf
from staticflow.eager.choose import SMALL
from staticflow.eager.costs import LARGE, PRODUCT, SPREAD
from staticflow.graph.dtypes import DType, float16, float32, float64, int64


def test_every_constant_is_known() -> None:
    """A constant is a threshold, which these checks have sizes around, or it is said why not."""
    assert not unknown_constants(), "say in tests/layouts/thresholds.py what is compared with them"
    assert not stale_names(), "they are no more: take them out of tests/layouts/thresholds.py"


def test_samples_lie_on_both_sides() -> None:
    """The sizes of an op of a matrix, as it grows by rows and with long rows."""
    found = [elements_of(s) for s in enlarged_samples(ROWS["exp"], float32)]
    for name, measure in SIZES.items():
        if measure == "elements":
            least = constants()[name]
            assert any(least - 64 <= n < least for n in found), name
            assert any(least <= n <= least + 64 for n in found), name


def test_the_design_covers() -> None:
    """Every pair that is promised, for an op with all dtypes and one with few."""
    layouts = list(LAYOUTS)
    for name in ("where", "softmax"):
        info = ROWS[name]
        large, base = samples_for(name, info.dtypes[0])
        elements = list(map(elements_of, [*large, *base]))
        cases = list(design(elements, len(base), layouts, info.dtypes, 3))
        reals = [d for d in info.dtypes if d.is_floating]
        assert {(c.layout, c.dtype) for c in cases} == {*product(layouts, info.dtypes)}
        assert {(c.layout, c.real) for c in cases} == {*product(layouts, reals)}
        assert {(c.layout, c.threads) for c in cases} == {*product(layouts, THREADS)}
        assert {(c.dtype, c.threads) for c in cases} == {*product(info.dtypes, THREADS)}
        for least, most in (
            (0, SMALL),
            (SMALL, LARGE // 2),
            (LARGE // 2, 2 * LARGE),
            (SPREAD // 2, 2 * SPREAD),
        ):
            met = {c.layout for c in cases if least <= elements[c.sample] < most}
            assert met == set(layouts), (least, most)


# -- products of matrices -------------------------------------------------------------------------

Sizes = tuple[int, int, int]
"""Rows, the inner dim, columns."""


def sizes_around(least: int) -> list[Sizes]:
    """Sizes on both sides of a constant, as each of the three, as the elements of the second matrix and
    as those in so many bytes, and as the multiplications; with others at which kernels compute."""
    found = []
    for n in (least - 1, least, least + 1):
        if n <= 1 << 12:
            wide = max(40, -(-PRODUCT // (160 * n)) + 1)
            found += [
                (n, 160, wide),
                (160, n, wide),
                (160, wide, n),
                (n, 24, 20),
                (20, n, 24),
                (20, 24, n),
            ]
        if n >= 1 << 10:
            columns = max(24, n // 2048)
            found += [(m, -(-n // columns), columns) for m in (3, 20, 200)]
        if n >= PRODUCT - 1:
            found.append((160, n // 160 // 128 + 1, 128))
    return list(dict.fromkeys(found))


@pytest.mark.campaign
@pytest.mark.parametrize("dtype", [float32, float64, float16, int64], ids=str)
@pytest.mark.parametrize("name", BY_MATRICES)
def test_products(name: str, dtype: DType) -> None:
    layouts = (
        "row-major",
        "transposed",
        "cropped",
        "every other",
        "backwards",
        "one row",
        "unaligned",
    )
    least = constants()[name]
    for turn, (m, k, n) in enumerate(sizes_around(least)):
        least_value, most = (-1, 1) if dtype.is_floating else (-9, 9)
        a, b = (values(shape, dtype, least_value, most) for shape in ((m, k), (k, n)))
        x, y = sf.placeholder(a.shape, dtype), sf.placeholder(b.shape, dtype)
        program = sf.compile([x, y], x @ y)
        for i, layout in enumerate(layouts):
            other = layouts[(i + turn) % len(layouts)]
            left, right = in_layout(a, layout), in_layout(b, other)
            wanted = left.astype(np.float64) @ right.astype(np.float64)
            eps = np.finfo(dtype.numpy).eps if dtype.is_floating else 0
            room = 16 * eps * k**0.5 * max(1, np.abs(wanted).max() / k)
            for found in (sf.from_numpy(left) @ sf.from_numpy(right), program(left, right)):
                what = f"{m, k, n} of {layout} and {other}"
                np.testing.assert_allclose(found.numpy(), wanted, 0, room * k**0.5, err_msg=what)
