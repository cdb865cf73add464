"""Stores past the caches: where they are made, and that what is stored so is the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.target import Target
from staticflow.config import config
from staticflow.runtime import drafting, machine, recipe

F = sf.nn.functional

CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "map": (lambda x: x * 2.0 + 1.0, ((1000,),)),
    "rows of lines": (lambda x: x - x.mean(1, keepdim=True), ((37, 96),)),
    "rows of no lines": (lambda x: x - x.mean(1, keepdim=True), ((37, 100),)),
    "rows that are read again": (lambda x: x.softmax(1), ((37, 96),)),
    "two results": (lambda x, y: (x + y, x * y), ((64, 64), (64, 64))),
    "transposed": (lambda x: x.t().contiguous() * 2.0, ((96, 128),)),
    "expanded": (lambda x, y: x + y, ((50, 64), (64,))),
    "layer norm": (lambda x, w: F.layer_norm(x, (128,), w), ((65, 128), (128,))),
    "one element": (lambda x: x.exp(), ((1,),)),
    "none": (lambda x: x.exp(), ((0, 64),)),
}

STREAMED = ("map", "rows of lines", "two results", "transposed", "expanded", "layer norm")


def stream_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that may be stored past the caches is."""
    here = replace(machine.host_target(), streamed_bytes=1)
    for module in (drafting, recipe):
        monkeypatch.setattr(module, "host_target", lambda: here)


@pytest.fixture
def streaming(monkeypatch: pytest.MonkeyPatch) -> None:
    stream_all(monkeypatch)


def program_of(case: str, known: bool) -> tuple[sf.Program, list[np.ndarray[Any, Any]]]:
    fn, shapes = CASES[case]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    inputs = []
    for i, shape in enumerate(shapes):  # the first dim of the first is unknown
        first = shape[0] if known or i or len(shape) != 2 else None
        inputs.append(sf.placeholder((first, *shape[1:]), name=f"x{i}"))
    return sf.compile(inputs, fn(*inputs)), arrays


def results_of(program: sf.Program, arrays: list[np.ndarray[Any, Any]]) -> list[bytes]:
    given = program(*arrays)
    return [np.asarray(a).tobytes() for a in (given if isinstance(given, tuple) else (given,))]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_same_bits(case: str, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = results_of(*program_of(case, known))
    stream_all(monkeypatch)
    for fast_call in (True, False):  # without it arrays lie where NumPy puts them
        monkeypatch.setattr(config, "fast_call", fast_call)
        program, arrays = program_of(case, known)
        assert results_of(program, arrays) == usual
    if known:
        assert ("!nontemporal" in program.source("llvm")) == (case in STREAMED)


@pytest.mark.usefixtures("streaming")
def test_threads_see_what_others_have_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sf.get_num_threads()
    sf.set_num_threads(2)
    try:
        x = sf.placeholder((None, 256), name="x")
        y = x * 2.0
        program = sf.compile([x], y.sum(0) + (y @ y.t())[0, :1])
        a = np.random.default_rng(0).standard_normal((4096, 256)).astype(np.float32)
        wanted = program(a).numpy()
        for _ in range(50):
            np.testing.assert_array_equal(program(a).numpy(), wanted)
        np.testing.assert_allclose(wanted, (2 * a).sum(0) + 4 * (a[0] @ a[0]), rtol=2e-3, atol=1e-2)
    finally:
        sf.set_num_threads(before)


@pytest.mark.usefixtures("streaming")
def test_what_is_updated_in_place_is_the_same() -> None:
    w = sf.ones(64, 64)
    x = sf.placeholder((64, 64), name="x")
    step = sf.compile([x], w.sum(), updates={w: w - 0.5 * x})
    for _ in range(3):
        step(np.ones((64, 64), np.float32))
    assert (w.numpy() == -0.5).all()


def test_how_large_the_caches_are(tmp_path: Path) -> None:
    assert machine._largest_cache(tmp_path / "nothing") == 32 << 20
    for i, text in enumerate(("32K\n", "1024K\n", "16384K\n", "?\n")):
        (tmp_path / f"index{i}").mkdir()
        (tmp_path / f"index{i}" / "size").write_text(text)
    assert machine._largest_cache(tmp_path) == 16 << 20
    assert machine.host_target().streamed_bytes >= 1 << 20
    assert Target(128, False, False).streamed_bytes == 48 << 20
