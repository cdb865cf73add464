"""What passes, lowering and planning make of a graph, before there is text or machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.codegen.program.routine import Routine
from staticflow.data_classes import dataclass
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import Graph
from staticflow.graph.types import TensorType
from staticflow.passes.pipeline import PassReport
from staticflow.runtime.plan import Plan

__all__ = ["Draft", "ParamSpec", "Signature"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """An array that the caller gives: its name, the type that the user declared, whether the
    program overwrites it."""

    name: str
    type: TensorType
    updated: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """What a program takes and gives.

    ``params`` (inputs, then variables) fill the first slots of the table, then come ``constants``
    and ``outputs``. ``equalities`` are what the graph assumed of the sizes. What is ``donated`` are
    pairs: an output of the user's that is none of ``outputs``, and the param that it is written
    over.
    """

    params: tuple[ParamSpec, ...]
    constants: tuple[Array, ...]
    outputs: tuple[TensorType, ...]
    equalities: tuple[Equality, ...]
    donated: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A program before its text: the ``graph`` behind all passes and what each of them did, the
    ``routine``, the ``plan`` of its memory, and its ``signature``. The passes had run at
    ``optimised``, on `time.perf_counter`."""

    graph: Graph
    passes: Sequence[PassReport]
    routine: Routine
    plan: Plan
    signature: Signature
    optimised: float
