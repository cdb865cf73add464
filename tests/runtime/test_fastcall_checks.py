"""Whether ranges of memory meet: native code, the same as Python, and every pair compared."""

from __future__ import annotations

import ctypes
import random
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from staticflow.native.cpython import Array
from staticflow.native.language import Row, zero_row
from staticflow.native.layout import Layout, structure
from staticflow.native.module import render_native
from staticflow.runtime import fastcall_checks
from staticflow.runtime.fastcall_checks import Spec, overlap
from staticflow.runtime.native import compile_native
from staticflow.runtime.object_layout import ARRAYS
from tests.support.calling import needs_entry

MEMORY = np.zeros(400, np.int32)
WAYS = ("updated meets updated", "updated meets read", "read meets read", "apart")


def arrays(rng: random.Random, count: int, how: str, updated: int) -> list[Any]:
    """Views of `MEMORY` apart from each other, of one and two dims and empty ones, of which two are
    made to meet."""
    places = rng.sample(range(0, 400, 8), count)
    made = []
    for place in places:
        part = MEMORY[place : place + rng.randint(0, 8)]
        wide = MEMORY[place : place + 8].reshape(2, 4)[:, : rng.randint(0, 4)]
        made.append(rng.choice((part, wide, part[::2])))
    pairs = {
        "updated meets updated": [(i, j) for i, j in combinations(range(count), 2) if j < updated],
        "updated meets read": [
            (i, j) for i, j in combinations(range(count), 2) if i < updated <= j
        ],
        "read meets read": [(i, j) for i, j in combinations(range(count), 2) if updated <= i],
    }.get(how)
    if pairs:
        i, j = rng.choice(pairs)
        made[i], made[j] = MEMORY[places[i] :][:5], MEMORY[places[i] + 4 :][: rng.randint(1, 2)]
        if rng.random() < 0.5:
            made[i], made[j] = made[j], made[i]
    return made


def expected(listed: list[Any], updated: int) -> bool:
    bounds = [np.lib.array_utils.byte_bounds(a) if a.size else (0, 0) for a in listed]
    return any(
        a[0] < b[1] and b[0] < a[1] for i, a in enumerate(bounds[:updated]) for b in bounds[i + 1 :]
    )


def cases() -> list[tuple[list[Any], int]]:
    rng = random.Random(5)
    drawn = [(rng.randint(1, 30), rng.choice(WAYS)) for _ in range(150)]
    updated = [rng.randint(1, count) for count, _ in drawn]
    return [(arrays(rng, count, how, u), u) for (count, how), u in zip(drawn, updated, strict=True)]


@needs_entry
def test_native_code_finds_what_meets() -> None:
    kinds = (*[ctypes.c_void_p] * 2, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 2)
    module = compile_native(render_native([overlap], Layout(ARRAYS)), ["overlap"])
    native = ctypes.PYFUNCTYPE(ctypes.c_bool, *kinds)(module.address("overlap"))
    answers = []
    for listed, updated in cases():
        count = len(listed)
        order = random.Random(count).sample(range(count), count)  # of the specs' places
        rows = (ctypes.c_void_p * count)(*(id(listed[place]) for place in order))
        specs = (structure(Spec) * count)(*(spec_at(place) for place in order))
        starts, ends = (ctypes.c_int64 * count)(), (ctypes.c_int64 * count)()
        answers.append(native(rows, specs, count, updated, starts, ends))
    assert answers == [expected(*case) for case in cases()]
    assert {True, False} == {*answers}


def spec_at(place: int) -> Any:
    return structure(Spec)(item_size=4, position=place)


def test_it_is_the_same_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastcall_checks, "address", lambda data: data)
    for listed, updated in cases():
        rows = Row([
            Array(data=a.ctypes.data, ndim=a.ndim, dims=Row([*a.shape]), strides=Row([*a.strides]))
            for a in listed
        ])  # fmt: skip
        specs = zero_row(Spec, len(listed))
        for place in range(len(listed)):
            specs[place].position, specs[place].item_size = place, 4
        starts, ends = (Row([0] * len(listed)) for _ in range(2))
        assert overlap(rows, specs, len(listed), updated, starts, ends) == expected(listed, updated)
