"""The CUDA C texts that programs for a GPU are launched from: of the op table and its gradients, of
the steps of the examples, and of programs made of loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from emulated_device import EmulatedDevice, emulated_gpus
from opinfo import ROWS
from opinfo.core import OpInfo, Sample
from opinfo.modes import arrays_of, call

import staticflow as sf
from staticflow.comparison.job import Request
from staticflow.comparison.requests import job_of
from staticflow.errors import CompileError
from staticflow.graph.dtypes import dtype_of
from staticflow.ops import OPS
from staticflow.ops.declaring.lowering import Host
from tests.comparison.test_examples_compared import FOLDER, GRAPHS
from tests.ops.loops.test_loop_programs import PROGRAMS, derivatives

__all__ = ["SUBJECTS", "texts_of"]

KNOWN, UNKNOWN = 40, 7
"""Sizes of samples, of which the second are unknown to the programs."""


OF_THE_CPU = {"added by rows"}
"""Loops over a tensor that is made on the CPU."""


def texts_of(subject: str) -> list[str]:
    """The texts of a subject: each is what the device compiles for one program."""
    texts: list[str] = []

    def keep(_: EmulatedDevice, source: str) -> Callable[[str], Any]:
        texts.append(source)
        return lambda name: name

    with emulated_gpus(), patch.object(EmulatedDevice, "compile", keep):
        SUBJECTS[subject]()
    return texts


def compile_op(info: OpInfo) -> None:
    """Programs of an op in its first dtype, and of its gradients, with sizes known and unknown."""
    assert info.sized is not None
    for size, unknown in ((KNOWN, False), (UNKNOWN, True)):
        sample = info.sized(info.dtypes[0], size)
        inputs = inputs_for(sample, size if unknown else None)
        outputs = call(info, sample, inputs)
        sf.compile(inputs, outputs, device="cuda")
        if info.grad:
            compile_gradients(inputs, outputs)


def inputs_for(sample: Sample, unknown: int | None) -> list[Any]:
    return [
        sf.placeholder(
            tuple("n" if d == unknown else d for d in a.shape), dtype_of(a.dtype), name=f"x{i}"
        )
        for i, a in enumerate(arrays_of(sample))
    ]


def compile_gradients(inputs: list[Any], outputs: list[Any]) -> None:
    outs = [o for o in outputs if o.dtype.is_floating]
    real = [x for x in inputs if x.dtype.is_floating]
    cotangents = [sf.placeholder(o.shape, o.dtype, name=f"ct{i}") for i, o in enumerate(outs)]
    found = sf.grad(outs, real, cotangents=cotangents, allow_unused=True)
    kept = [g for g in found if g is not None]
    try:
        sf.compile([*inputs, *cotangents], kept, device="cuda")
    except CompileError as error:
        assert "is computed by the host" in str(error)


def compile_step(model: str) -> None:
    """A training step of a model of the examples."""
    job = job_of(Request(f"{FOLDER}/{model}", steps=1))
    net = job.make_model().to("cuda")
    inputs = job.placeholders()
    output = job.output_of(net, inputs)
    loss = output.sum() if job.loss is None else job.loss_of(output, inputs)
    optimiser = job.make_optimizer(net)
    updates = None if optimiser is None else optimiser.minimize(loss)
    sf.compile(inputs, loss, updates=updates)


def compile_loop(name: str) -> None:
    """A program made of loops, with its derivatives of first and second order."""
    fn, given = PROGRAMS[name]
    inputs = [
        sf.placeholder((None,) * a.ndim, str(a.dtype), name=f"a{i}") for i, a in enumerate(given)
    ]
    real = [x for x, a in zip(inputs, given, strict=True) if a.dtype == np.float64]
    numbers = [x for x, a in zip(inputs, given, strict=True) if a.dtype != np.float64]
    outputs = derivatives(lambda *a: fn(*a, *numbers), real, create=True)
    sf.compile(inputs, outputs, device="cuda")


SUBJECTS: dict[str, Callable[[], None]] = {
    f"{kind} {name}": partial(compile_, what)
    for kind, compile_, subjects in (
        (
            "op",
            compile_op,
            {n: i for n, i in ROWS.items() if i.sized and not isinstance(OPS[n].lowering, Host)},
        ),
        ("step of", compile_step, {m: m for m in GRAPHS}),
        ("loop", compile_loop, {p: p for p in PROGRAMS if p not in OF_THE_CPU}),
    )
    for name, what in subjects.items()
}
"""What compiles the programs of each subject."""
