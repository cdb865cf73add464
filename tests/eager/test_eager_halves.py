"""Floats of 16 bits: many are a kernel's, whichever op takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calling import ESTABLISHED, frames

import staticflow as sf
from staticflow.eager.choose import takes_halves
from staticflow.eager.costs import HALVES
from staticflow.graph.op import takes
from staticflow.ops import OPS
from staticflow.ops.declaring.lowering import Elementwise, Reduce

HALF = {
    name: op
    for name, op in OPS.items()
    if takes_halves(op) and type(op.lowering) in (Elementwise, Reduce) and op.kinds != "biu"
}


@pytest.mark.parametrize("layout", ["rows", "turned", "every other"])
@pytest.mark.parametrize("name", HALF)
def test_many_floats_of_16_bits_are_a_kernels(name: str, layout: str) -> None:
    """From the first call to the last with the same bits, and at the end without Python."""
    op = HALF[name]
    n = np.random.default_rng(1).uniform(0.1, 0.9, (9, 2 * HALVES // 9 + 1))
    a = n.astype(np.float16)
    lies = {"rows": a, "turned": a.T.copy().T, "every other": np.repeat(a, 2, 1)[:, ::2]}[layout]
    least, most, wanted = takes(op)
    if least != most or (wanted and wanted != {"dims", "keepdim"}):
        pytest.skip("takes attributes of its own")
    attrs: dict[str, Any] = {"dims": (1,), "keepdim": False} if wanted else {}
    x, wide = sf.from_numpy(lies), sf.from_numpy(a.astype(np.float32))
    try:
        expected = op(*[wide] * least, **attrs)
        found = [op(*[x] * least, **attrs) for _ in range(ESTABLISHED)]
    except sf.errors.DTypeError:
        pytest.skip("not of floats")
    assert len({(y.numpy().tobytes(), y.numpy().strides) for y in found}) == 1
    if expected.dtype.is_floating_point:
        y = found[-1].float().numpy()
        np.testing.assert_allclose(y, expected.numpy(), rtol=4e-3, atol=4e-3)
    if not attrs:
        assert "_Kernels.__call__" not in frames(lambda: op(*[x] * least))


ORDERED: dict[str, Any] = {
    "sort": lambda x, d: x.sort(d),
    "descending": lambda x, d: x.sort(d, descending=True),
    "topk": lambda x, d: x.topk(3, d),
    "kthvalue": lambda x, d: x.kthvalue(2, d),
    "median": lambda x, d: x.median(d),
    "max": lambda x, d: x.max(d),
    "min": lambda x, d: x.min(d),
    "cummax": lambda x, d: x.cummax(d),
}
"""Functions that give elements and where they are, which have float16 and bfloat16 from float32."""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ORDERED)
def test_elements_in_order_are_those_of_float32(name: str, dtype: str) -> None:
    """On rows of a few, of some and of many, with equal ones and NaN, however they lie."""
    rng = np.random.default_rng(3)
    for shape in ((3, 4), (5, 100), (100, 5), (70, 1000)):
        a = np.round(rng.standard_normal(shape) * 3, 1).astype(np.float32)
        a[1, 2] = a[-1, 1] = np.nan
        short = sf.from_numpy(a).to(dtype)
        lies = [short, short.t().contiguous().t(), sf.cat([short, short], 1)[:, : shape[1]]]
        for dim in (0, 1):
            wide = ORDERED[name](short.to("float32"), dim)
            for x in lies:
                for _ in range(4):
                    values, indices = ORDERED[name](x, dim)
                    np.testing.assert_array_equal(indices.numpy(), wide[1].numpy())
                    np.testing.assert_array_equal(values.float().numpy(), wide[0].numpy())
