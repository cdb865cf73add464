"""NVRTC takes what programs for a GPU launch, without spills: the kernels of the op table and of its
gradients, of training steps of the examples, and of programs made of loops, as the GPU's schedules
leave them. The suite compiles a share of them, each for one architecture, others every day, the
campaign all."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from launched_texts import SUBJECTS, texts_of
from nvrtc import ARCHITECTURES, Nvrtc, nvrtc
from slices import daily

__all__ = ["nvrtc"]

_ENTRY = re.compile(r'^extern "C" __global__', re.MULTILINE)


def check(nvrtc: Nvrtc, subject: str, architectures: Sequence[str]) -> None:
    for text in texts_of(subject):
        for architecture in architectures:
            spilled = nvrtc.spilled(text, architecture)
            assert len(spilled) >= len(_ENTRY.findall(text)) and set(spilled) == {0}, subject


@pytest.mark.parametrize("subject", daily(list(SUBJECTS), 10, "nvrtc"))
def test_what_is_launched_compiles_without_spills(nvrtc: Nvrtc, subject: str) -> None:
    check(nvrtc, subject, daily(ARCHITECTURES, 1, subject))


@pytest.mark.campaign
@pytest.mark.parametrize("subject", SUBJECTS)
def test_all_that_is_launched_compiles_without_spills(nvrtc: Nvrtc, subject: str) -> None:
    check(nvrtc, subject, ARCHITECTURES)


WITHOUT = {
    "op cast", "op stop_gradient", "op keep_history", "op reshape", "op squeeze", "op unsqueeze",
    "op matmul", "op budget", "op once_differentiable", "op shard",
}  # fmt: skip
"""Subjects that are copies, and products of a library."""


def test_other_subjects_have_kernels() -> None:
    few = daily(list(SUBJECTS), 40, "kernels")
    without = {s for s in few if not any(map(_ENTRY.search, texts_of(s)))}
    assert without == WITHOUT & {*few}
