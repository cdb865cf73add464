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
