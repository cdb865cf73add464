"""What is fused behind a product or a convolution, however long, is written once for a row of a
tile, not for each of its vectors: for each unary function, with the bits of the two apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from slices import daily

import staticflow as sf
from staticflow.ops.declaring.lowering import Elementwise

LONG = 48
"""Lines of the kernel of a function alone, of one vector and of one with lanes turned off, that
make it a long one."""

MOST = 5
"""How many times these lines come on top of those of the product: for both kinds of vectors, and
again for rows that are left over."""


def is_unary(name: str) -> bool:
    op, sample = ROWS[name].op, ROWS[name].samples
    return (
        isinstance(op.lowering, Elementwise)
        and sf.float32 in ROWS[name].dtypes
        and all(len(s.args) == 1 and not s.kwargs for s in sample(sf.float32, False))
    )


UNARY = [name for name in ROWS if is_unary(name)]
Case = tuple[Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...], int | None]
FEW = "a product of few numbers"
"""The case in which short functions are written out: there is too little to hide the wait in."""

CASES: dict[str, Case] = {
    FEW: (lambda x, w: x @ w, (17, 9), (9, 40), None),
    "a product": (lambda x, w: x @ w, (17, 60), (60, 40), None),
    "one of unknown rows": (lambda x, w: x @ w, (17, 60), (60, 40), 0),
    "a batch": (lambda x, w: x @ w, (2, 9, 60), (2, 60, 40), None),
    "a convolution": (sf.nn.functional.conv1d, (2, 20, 37), (11, 20, 3), None),
    "one of images": (sf.nn.functional.conv2d, (1, 9, 9, 17), (6, 9, 3, 3), None),
}


def inputs(case: Case) -> tuple[list[Any], list[Any]]:
    """The placeholders of a case, and tensors for them."""
    _, *shapes, unknown = case
    rng = np.random.default_rng(5)
    tensors = [sf.from_numpy(0.3 * rng.standard_normal(s).astype("f")) for s in shapes]
    sizes = [
        tuple(None if i == unknown and a == 0 else n for i, n in enumerate(s))
        for a, s in enumerate(shapes)
    ]
    return [sf.placeholder(s, name=f"x{i}") for i, s in enumerate(sizes)], tensors


def lines(step: Any) -> int:
    """The lines of all kernels of a program."""
    return int(step.source("kernels").count("\n"))


@pytest.mark.parametrize("title", CASES)
@pytest.mark.parametrize("name", daily(UNARY, 12, "long epilogues"))
def test_a_function_behind(name: str, title: str) -> None:
    fn, case = ROWS[name].call, CASES[title]
    xs, tensors = inputs(case)
    y = case[0](*xs)
    fused, alone = sf.compile(xs, fn(y)), sf.compile(xs, y)
    z = sf.placeholder(alone(*tensors).shape, name="z")
    behind = sf.compile([z], fn(z))
    given, expected = fused(*tensors), behind(alone(*tensors))
    assert given.dtype is expected.dtype
    assert given.numpy().tobytes() == expected.numpy().tobytes()
    if lines(behind) >= LONG and title != FEW:
        more = lines(fused) - lines(alone)
        assert more <= MOST * lines(behind), f"{more} lines behind the product"
