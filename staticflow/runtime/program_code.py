"""The machine code of a program, and the few facts beside it that a call has to know: all that a
process needs of a program that another one has compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from staticflow.codegen.llvm.parallel import DECLARATIONS
from staticflow.codegen.llvm.probes import PROBED, Probes
from staticflow.codegen.llvm.routine import render_routine
from staticflow.codegen.program.routine import Ask, walk_steps
from staticflow.config import config
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import DType
from staticflow.graph.equalities import Equality
from staticflow.graph.types import TensorType
from staticflow.runtime.draft import Draft, Signature
from staticflow.runtime.fastcall_checks import UNKNOWN
from staticflow.runtime.fastcall_text import Entry, fits, numbers_of, render_entry
from staticflow.runtime.native import ObjectCode, compile_object, host_target

__all__ = ["EntryCode", "OutputFacts", "ParamFacts", "ProgramCode", "generate", "render_draft"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ParamFacts:
    """What an array of a call has to be: its ``sizes``, with `UNKNOWN` for one that the call tells,
    whether it lies in one row, and whether the program overwrites it."""

    dtype: DType
    sizes: tuple[int, ...]
    is_row_major: bool
    is_updated: bool


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """An output: where its bytes are among the numbers of a call, and its ``ndim`` sizes behind;
    and whether only the run can tell these."""

    dtype: DType
    at: int
    ndim: int
    is_late: bool


@dataclass(frozen=True, slots=True)
class EntryCode:
    """The code of a native entry; what it is given and gives. A call computes ``numbers`` many
    numbers, one of which, that at ``traffic``, are the bytes that it moves."""

    object: ObjectCode
    params: tuple[ParamFacts, ...]
    outputs: tuple[OutputFacts, ...]
    constants: tuple[Array, ...]
    numbers: int
    traffic: int


@dataclass(frozen=True, slots=True)
class ProgramCode:
    """The code of a program, and the names that it ``exports``. It has so many ``kernels``, buffers
    that are ``growing``, and ``asks`` of references. The ``entry`` is None of a program that is
    called from Python alone."""

    object: ObjectCode
    exports: tuple[str, ...]
    is_shared: bool
    """Whether it may run on several threads."""
    kernels: int
    growing: int
    asks: int
    entry: EntryCode | None


def render_draft(draft: Draft, keeps_arena: bool = True, probes: Probes | None = None) -> str:
    """The LLVM text of a program."""
    params, constants = draft.signature.params, draft.signature.constants
    types = [p.type for p in params]
    table = [*map(_bytes, types), *map(_bytes, constants), *map(_bytes, draft.signature.outputs)]
    updated = [i for i, p in enumerate(params) if p.updated]
    poison = None
    if config.poison:
        from staticflow.runtime.poison import plan_poison

        poison = plan_poison(draft.plan, draft.signature.outputs)
    return render_routine(
        draft.routine, draft.plan.layout, table, updated, keeps_arena, host_target(), probes, poison
    )


def generate(draft: Draft, text: str, has_entry: bool, has_probes: bool = False) -> ProgramCode:
    """The code of a program whose LLVM text is ``text``, with a native entry if that is wanted and
    the program small enough for one."""
    routine = draft.routine
    exports = ["run"]
    exports += ["release"] if routine.buffers else []
    exports += ["iterations"] if routine.loops else []
    exports += ["room"] if routine.growing else []
    exports += PROBED if has_probes else []
    return ProgramCode(
        compile_object(text),
        tuple(exports),
        DECLARATIONS in text,
        len(routine.kernels),
        len(routine.growing),
        sum(isinstance(s, Ask) for s in walk_steps(routine.steps)),
        _generate_entry(draft) if has_entry else None,
    )


def _generate_entry(draft: Draft) -> EntryCode | None:
    signature = draft.signature
    entry = Entry(
        draft.routine,
        tuple(p.type for p in signature.params),
        tuple(c.nbytes for c in signature.constants),
        signature.outputs,
        tuple(e for e in signature.equalities if _is_known(e, signature)),
        (draft.plan.layout.most,),
    )
    if not fits(entry):
        return None
    numbers = numbers_of(entry)
    params = tuple(
        ParamFacts(
            p.type.dtype,
            tuple(s if isinstance(s, int) else UNKNOWN for s in p.type.shape),
            p.type.strides is None,
            p.updated,
        )
        for p in signature.params
    )
    outputs = tuple(
        OutputFacts(t.dtype, at, t.ndim, entry.is_late(t))
        for t, at in zip(signature.outputs, numbers.outputs, strict=True)
    )
    code = compile_object(render_entry(entry), quick=True)
    return EntryCode(code, params, outputs, signature.constants, numbers.count, numbers.traffic)


def _is_known(equality: Equality, signature: Signature) -> bool:
    """Whether a call can tell the sizes of an equality; the others are checked on the way."""
    given = {s for p in signature.params for d in p.type.sizes for s in symbols_of(d)}
    return symbols_of(equality.a) | symbols_of(equality.b) <= given


def _bytes(array: TensorType | Array) -> Size:
    return array.nbytes if isinstance(array, np.ndarray) else array.size * array.dtype.itemsize
