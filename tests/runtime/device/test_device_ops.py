"""The rows of the op table as programs on an emulated GPU, against what they expect on the CPU.

The suite takes a few ops a day; the campaign takes all, with sizes known and unknown. No two
threads of a kernel may race.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from emulated_device import emulated_gpus
from opinfo import ROWS
from opinfo.core import OpInfo, Sample
from opinfo.modes import arrays_of, assert_agree, call, expected_of
from slices import daily

import staticflow as sf
from staticflow.graph.dtypes import bfloat16, dtype_of
from staticflow.ops import OPS
from staticflow.ops.declaring.lowering import Host
from staticflow.ops.symbols.symbol import Symbol

HOST = {name for name, op in OPS.items() if isinstance(op.lowering, Host)}
RUN = [name for name in OPS if name not in HOST]
"""The ops that run on a GPU."""

_MOST = 12
"""Samples of an op in one program."""


def samples_of(info: OpInfo, unknown: bool) -> list[Sample]:
    """Samples of every dtype that arrays of cupy have, spread over all there are."""
    found = [
        sample
        for dtype in info.dtypes
        if dtype is not bfloat16
        for sample in info.samples(dtype, False)
        if all(dtype_of(a.dtype) is not bfloat16 for a in arrays_of(sample))
    ]
    return found[unknown :: max(1, len(found) // _MOST)][:_MOST]


def placeholders_for(sample: Sample, name: str, unknown: bool) -> list[Symbol]:
    return [
        sf.placeholder(
            tuple(None if unknown and n != 1 else n for n in a.shape),
            dtype_of(a.dtype),
            name=f"{name}_{i}",
        )
        for i, a in enumerate(arrays_of(sample))
    ]


def check_program(name: str, unknown: bool) -> None:
    """A program of samples of an op gives what they expect, on the GPU that there is."""
    info = ROWS[name]
    samples: Sequence[Sample] = samples_of(info, unknown)
    inputs: list[Symbol] = []
    outputs = []
    for i, sample in enumerate(samples):
        own = placeholders_for(sample, f"x{i}", unknown)
        inputs += own
        outputs.append([o for o in call(info, sample, own) if o.dtype is not bfloat16])
    program = sf.compile(inputs, outputs, device="cuda")
    arrays = [a for s in samples for a in arrays_of(s)]
    program(*arrays)
    results = program(*arrays)  # by captured graphs
    for sample, result in zip(samples, results, strict=True):
        actual = [r.cpu().numpy() for r in result]
        wanted = [w for w in expected_of(info, sample) if dtype_of(w.dtype) is not bfloat16]
        assert_agree(info, actual, wanted, f"{name}({sample}) on a GPU")


@pytest.mark.parametrize("name", daily(RUN, 4, "device"))
def test_on_an_emulated_gpu(name: str) -> None:
    with emulated_gpus(races=True):
        check_program(name, unknown=True)


@pytest.mark.campaign
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("name", RUN)
def test_every_op_on_an_emulated_gpu(name: str, unknown: bool) -> None:
    with emulated_gpus(races=True):
        check_program(name, unknown)
