"""One number in all elements of an array: the bits of NumPy, however it is put there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager.costs import LARGE
from staticflow.eager.mode import EAGER
from staticflow.graph.dtypes import DTYPES
from staticflow.graph.rowmajor import copy_to

EAGER.prepare()

SHAPES = ((), (7,), (3, 11), (1, LARGE + 3), (130, 517))
NUMBERS = (0.0, -0.0, 1.0, -2.5, float("nan"), float("inf"))


def numbers_of(dtype: Any) -> tuple[Any, ...]:
    if dtype.is_floating:
        return NUMBERS
    return (False, True) if dtype is sf.bool else (0, 1, 3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_are_filled(dtype: Any) -> None:
    for shape in SHAPES:
        for number in numbers_of(dtype):
            wanted = np.full(shape, number, dtype.numpy)
            ways = {
                "fill_": sf.ones(shape, dtype=dtype).fill_(number),
                "copy_": sf.ones(shape, dtype=dtype).copy_(sf.full((), number, dtype=dtype)),
                "expanded": sf.ones(shape, dtype=dtype).copy_(
                    sf.full((1,) * len(shape), number, dtype=dtype).expand(shape)
                ),
                "full": sf.full(shape, number, dtype=dtype),
                "clone": sf.full((), number, dtype=dtype).expand(shape).contiguous(),
            }
            if not number and not np.signbit(number):
                ways["zero_"] = sf.ones(shape, dtype=dtype).zero_()
            for way, found in ways.items():
                array = found.numpy()
                assert array.dtype == wanted.dtype and array.shape == shape, way
                assert array.tobytes() == wanted.tobytes(), way


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "bfloat16"])
def test_parts_are_filled_and_no_more(dtype: str) -> None:
    def whole() -> Any:
        return sf.ones(300, 300, dtype=getattr(sf, dtype))

    for part in (
        np.s_[:, :],
        np.s_[:, ::2],
        np.s_[1:],
        np.s_[:, 3:9],
        np.s_[7],
        np.s_[:, 5],
        np.s_[1:, 1:],
    ):
        for turned in (False, True):
            x = whole()
            seen = x.t() if turned else x
            seen[part].fill_(3)
            wanted = np.ones((300, 300))
            (wanted.T if turned else wanted)[part] = 3
            np.testing.assert_array_equal(x.to(sf.float64).numpy(), wanted)


def test_what_does_not_stretch_is_refused() -> None:
    x = np.zeros((3, LARGE), np.float32)
    one = np.ones((), np.float32)
    for shape in ((5,), (2, LARGE), (3, 1, LARGE)):
        with pytest.raises(ValueError, match="broadcast"):
            copy_to(x, np.broadcast_to(one, shape))
    assert not x.any()
    copy_to(x, np.broadcast_to(one, (LARGE,)))
    assert x.all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_call_fills_memory_of_its_own(dtype: Any, threads: int) -> None:
    """Those as well that a plan makes, by a kernel from `LARGE` elements on."""
    sf.set_num_threads(threads)
    for shape in ((LARGE - 1,), (LARGE,), (2, 3, LARGE // 6 + 1)):
        like = sf.zeros(shape, dtype=dtype)
        for number in numbers_of(dtype):
            wanted = np.full(shape, number, dtype.numpy).tobytes()
            made = [
                found
                for _ in range(4)
                for found in (
                    sf.full(shape, number, dtype=dtype),
                    sf.full_like(like, number),
                    like.new_full(shape, number),
                )
            ]
            for found in made:
                array = found.numpy()
                assert array.shape == shape and array.tobytes() == wanted
                array.fill(1)  # which no other sees
        assert not like.numpy().any()
