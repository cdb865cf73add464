"""Every op compiled: for sizes that are known and for all that are not."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.core import OpInfo, Sample
from opinfo.modes import STOPS, arrays_of, assert_agree, call, expected_of, gradient_graph, weights
from slices import by_turns, daily

import staticflow as sf
from staticflow.config import config
from staticflow.graph.dtypes import dtype_of, float64
from staticflow.graph.interpret import interpret_graph
from staticflow.ops import OPS
from staticflow.ops.symbols.symbol import Symbol

every_op = pytest.mark.parametrize("name", list(OPS))
differentiable = pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.vjp])

EVERYTHING = os.environ.get("OPINFO_EVERYTHING", "0") not in ("", "0")
"""Compile every sample in every dtype, with sizes known and unknown: minutes instead of seconds."""


def is_special(sample: Sample) -> bool:
    """Whether it holds the awkward values, which every dtype should meet."""
    return any(a.size and not np.isfinite(a.astype(np.float64)).all() for a in arrays_of(sample))


def compiled_samples(info: OpInfo, unknown: bool) -> list[Sample]:
    """The samples to compile, each in one of the dtypes and in one of the two ways in turn."""
    found: list[Sample] = []
    for d, dtype in enumerate(info.dtypes):
        for i, sample in enumerate(info.samples(dtype, False)):
            turn = i % len(info.dtypes) == d and (i // len(info.dtypes) + d) % 2 == unknown
            if EVERYTHING or turn or (is_special(sample) and not unknown):
                found.append(sample)
    return found


def placeholders_for(sample: Sample, name: str, unknown: bool) -> list[Symbol]:
    """With sizes unknown, all but those of 1: which dims stretch is part of the program."""
    return [
        sf.placeholder(
            tuple(None if unknown and n != 1 else n for n in a.shape),
            dtype_of(a.dtype),
            name=f"{name}_{i}",
        )
        for i, a in enumerate(arrays_of(sample))
    ]


def assert_program_agrees(info: OpInfo, samples: Sequence[Sample], unknown: bool) -> None:
    """One program for all samples."""
    inputs: list[Symbol] = []
    outputs = []
    for i, sample in enumerate(samples):
        own = placeholders_for(sample, f"x{i}", unknown)
        inputs += own
        outputs.append(call(info, sample, own))
    program = sf.compile(inputs, outputs)
    results = program(*(a for s in samples for a in arrays_of(s)))
    for sample, result in zip(samples, results, strict=True):
        actual, wanted = [r.numpy() for r in result], expected_of(info, sample)
        sizes = "unknown" if unknown else "known"
        assert_agree(info, actual, wanted, f"{info.op.name}({sample}), sizes {sizes}")


def check_native(name: str, unknown: bool) -> None:
    info = ROWS[name]
    samples = compiled_samples(info, unknown)
    assert samples
    for start in range(0, len(samples), 50):
        assert_program_agrees(info, samples[start : start + 50], unknown)


@pytest.mark.parametrize(
    ("name", "sizes"), by_turns(list(OPS), ["known", "unknown"], "native code")
)
def test_native_code(name: str, sizes: str) -> None:
    check_native(name, sizes == "unknown")


@pytest.mark.parametrize("name", daily(list(OPS), 4, "poison"))
def test_native_code_reads_nothing_that_was_freed(name: str) -> None:
    with config.change(poison=True):
        check_native(name, unknown=True)


@pytest.mark.campaign
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@every_op
def test_no_native_code_reads_what_was_freed(name: str, unknown: bool) -> None:
    with config.change(poison=True):
        check_native(name, unknown)


@every_op
def test_one_program_for_every_size(name: str) -> None:
    info = ROWS[name]
    assert info.sized is not None
    dtype = info.dtypes[0]
    graph_inputs = arrays_of(info.sized(dtype, 7))
    inputs = [
        sf.placeholder(
            tuple("n" if d == 7 else d for d in a.shape), dtype_of(a.dtype), name=f"x{i}"
        )
        for i, a in enumerate(graph_inputs)
    ]
    program = sf.compile(inputs, call(info, info.sized(dtype, 7), inputs))
    for n in (0, 1, 5, 40):
        sample = info.sized(dtype, n)
        actual = [o.numpy() for o in program(*arrays_of(sample))]
        assert_agree(info, actual, expected_of(info, sample), f"{name}({sample})")
    assert program.compile_count == 1


@differentiable
def test_native_gradient_for_every_size(name: str) -> None:
    info = ROWS[name]
    assert info.sized is not None
    graph = gradient_graph(info, info.sized(float64, 7), unknown=7)
    if graph is None:
        assert name in STOPS
        return
    inputs = [Symbol(p) for p in graph.params]
    named = {f"p{i}": p for i, p in enumerate(inputs)}
    program = sf.compile(named, [Symbol(o) for o in graph.outputs])
    for n in (0, 1, 5):
        sample = info.sized(float64, n)
        outs = [o for o in expected_of(info, sample) if dtype_of(o.dtype).is_floating]
        cts = [w.astype(o.dtype) for o, w in zip(outs, weights(outs, 5), strict=True)]
        arrays = [*arrays_of(sample), *cts]
        wanted = interpret_graph(graph, arrays)
        for a, w in zip(program(*arrays), wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), w, 1e-12, 1e-12, err_msg=f"{name}, n = {n}")
