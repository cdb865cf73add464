"""Sizes, dims and counts given as NumPy's integers and as tensors, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import DTypeError, SymbolicError

F = sf.nn.functional
X = np.arange(12, dtype=np.float32).reshape(3, 4)

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "split": lambda x, i: x.split(i(2)),
    "split in parts": lambda x, i: x.split([i(2), i(1)]),
    "chunk": lambda x, i: x.chunk(i(2), i(1)),
    "tensor_split": lambda x, i: x.tensor_split(i(2)),
    "hsplit": lambda x, i: x.hsplit(i(2)),
    "narrow": lambda x, i: x.narrow(i(0), i(1), i(2)),
    "topk": lambda x, i: x.topk(i(2), i(0)).values,
    "kthvalue": lambda x, i: x.kthvalue(i(2)).values,
    "roll": lambda x, i: x.roll(i(1), i(0)),
    "pad": lambda x, i: F.pad(x, (i(1), i(2))),
    "repeat": lambda x, i: x.repeat(i(2), i(1)),
    "repeat_interleave": lambda x, i: x.repeat_interleave(i(2)),
    "tile": lambda x, i: x.tile(i(2)),
    "view": lambda x, i: x.view(i(2), 6),
    "view -1": lambda x, i: x.view((i(-1), i(2))),
    "expand": lambda x, i: x.unsqueeze(i(0)).expand(i(2), i(-1), i(-1)),
    "unflatten": lambda x, i: x.unflatten(i(1), (i(2), i(2))),
    "unfold": lambda x, i: x.unfold(i(0), i(2), i(1)),
    "sum": lambda x, i: x.sum(i(0)),
    "sums": lambda x, i: x.sum((i(0), i(-1))),
    "std": lambda x, i: x.std(i(1), correction=i(0)),
    "quantile": lambda x, i: x.quantile(0.5, i(1)),
    "movedim": lambda x, i: x.movedim(i(0), i(1)),
    "permute": lambda x, i: x.permute(i(1), i(0)),
    "flip": lambda x, i: x.flip(i(0)),
    "diag_embed": lambda x, i: x.diag_embed(i(1)),
    "matrix norm": lambda x, i: sf.linalg.norm(x, 1, (i(0), i(1))),
    "tensordot": lambda x, i: sf.tensordot(x, x.t(), i(1)),
    "new_zeros": lambda x, i: x.new_zeros(i(2), i(3)),
    "adaptive_avg_pool2d": lambda x, i: F.adaptive_avg_pool2d(x[None], i(2)),
}


@pytest.mark.parametrize("kind", [np.int64, np.int32, sf.tensor], ids=["i8", "i4", "tensor"])
@pytest.mark.parametrize("case", CASES)
def test_integers_of_any_kind_are_sizes(case: str, kind: Any) -> None:
    of = CASES[case]
    expected = of(sf.tensor(X), int)
    x = sf.placeholder(X.shape, name="x")
    results = of(sf.tensor(X), kind), sf.compile([x], of(x, kind))(X)
    for found in results:
        parts = zip(*(v if isinstance(v, tuple) else (v,) for v in (found, expected)), strict=True)
        for a, b in parts:
            assert a.shape == b.shape
            np.testing.assert_array_equal(a, b)


def test_draws_take_them_too() -> None:
    assert sf.randint(np.int32(3), (np.int64(2),)).shape == (2,)
    assert sf.as_strided(sf.arange(4), (np.int64(2),), (np.int64(2),)).tolist() == [0, 2]


@pytest.mark.parametrize("size", [2.0, "2", None], ids=str)
def test_what_is_no_integer_is_refused(size: Any) -> None:
    with pytest.raises(DTypeError, match=r"must be an integer, not .*, at .*test_sizes\.py"):
        sf.zeros(4).view(size, 2)
    with pytest.raises(DTypeError, match=r"must be an integer, not f32\[\]"):
        sf.zeros(4).view(sf.tensor(2.0), 2)


def test_a_symbol_is_no_size() -> None:
    n = sf.placeholder((), "int64", name="n")
    with pytest.raises(SymbolicError, match="is known only when the program runs"):
        sf.zeros(4).chunk(n)
