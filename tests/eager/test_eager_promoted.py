"""Operands that are promoted: every op that takes them, called once or remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.graph.op import Op, takes
from staticflow.ops import OPS
from staticflow.ops.declaring.lowering import Elementwise


def operands() -> dict[str, Any]:
    n = np.random.default_rng(0).uniform(0.6, 3.4, (3, 4))
    return {
        "floats": sf.from_numpy(n.astype(np.float32)), "doubles": sf.from_numpy(n[::-1].copy()),
        "integers": sf.from_numpy(n.round().astype(np.int64)), "bools": sf.from_numpy(n > 2),
        "half": 2.5, "two": 2,
    }  # fmt: skip


PROMOTED = {
    name: op
    for name, op in OPS.items()
    if type(op.lowering) is Elementwise and op.promote in ("common", "float") and takes(op)[1] <= 2
}
BESIDE = [
    ("floats", "integers"), ("integers", "floats"), ("bools", "doubles"), ("integers", "half"),
    ("two", "integers"), ("bools", "two"), ("doubles", "floats"), ("half", "bools"),
]  # fmt: skip


def outcome(op: Op, args: list[Any]) -> Any:
    try:
        out = op(*args)
    except Exception as error:
        return type(error), str(error).split(", at ")[0]
    return out.dtype, out.shape, out.numpy().tobytes()


@pytest.mark.parametrize("name", PROMOTED)
def test_a_promoted_call_that_is_remembered_gives_what_the_first_gave(name: str) -> None:
    op, given = PROMOTED[name], operands()
    one = takes(op)[0] == 1
    for names in [("integers",), ("bools",)] if one else BESIDE:
        args = [given[n] for n in names]
        found = [outcome(op, args) for _ in range(4)]
        assert found == [found[0]] * 4


@pytest.mark.parametrize("name", [n for n, op in PROMOTED.items() if op.vjp and takes(op)[0] == 2])
def test_a_gradient_goes_through_promotion(name: str) -> None:
    op, given = PROMOTED[name], operands()
    found = []
    for _ in range(4):
        x = given["floats"].clone().requires_grad_()
        out = op(x, given["integers"])
        if not out.dtype.is_floating_point:
            return
        out.sum().backward()
        assert x.grad is not None and x.grad.dtype is sf.float32
        found.append(x.grad.numpy().tobytes())
    assert found == [found[0]] * 4
