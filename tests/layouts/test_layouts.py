"""Every op of the op table on arrays in every layout, as operands and as cotangents, in place, eagerly
and compiled, at sizes on both sides of those at which other kernels compute, beside pages that may
not be touched; against the references of the ops in float64, on arrays in row-major order.

A read outside an array ends the process, with the name of the test as the last one that began.
Which cases there are is said in `layout_design`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from layout_cases import ALIASING, LAYOUTS, VIEWS
from layout_checks import Check
from layout_design import design
from layout_sizes import elements_of, enlarged_samples
from opinfo import ROWS
from opinfo.core import Sample
from slices import daily

import staticflow as sf
from staticflow.eager.choose import SMALL
from staticflow.eager.costs import LARGE, SPREAD
from staticflow.graph.dtypes import DType
from staticflow.ops.declaring.lowering import Host

AS_THEY_ARE = {
    "cholesky", "least_squares", "lu", "masked_scatter", "masked_take", "measure", "prefix", "qr",
    "row_order", "searchsorted", "size", "slogdet", "solve", "solve_lower", "solve_upper", "tied",
    "unprefix",
}  # fmt: skip
"""Ops whose operands are matrices with an inverse, or sorted, or of as many elements as another one
says by its values, or as its dtype holds: they are neither enlarged nor laid where elements are one."""

NORMALIZED = {"batch_norm", "layer_norm", "group_norm", "std"}
"""Ops that magnify how the elements of a row were rounded that is constant."""

IN_ONE_PIECE = {"as_strided"}
"""Ops of memory, not of elements, which refuse other layouts than these."""

NAMES = [n for n, row in ROWS.items() if not isinstance(row.op.lowering, Host)]
"""All ops but that which prints."""


def layouts_for(name: str) -> list[str]:
    if name in IN_ONE_PIECE:
        return ["row-major", "offset", "unaligned", "read-only"]
    return [n for n in LAYOUTS if n not in ALIASING or name not in NORMALIZED | AS_THEY_ARE]


def samples_for(name: str, dtype: DType) -> tuple[list[Sample], list[Sample]]:
    """The samples of an op: those at thresholds, and those of the op table."""
    info = ROWS[name]
    large = [] if name in AS_THEY_ARE | IN_ONE_PIECE else list(enlarged_samples(info, dtype))
    base = list(info.samples(dtype, True))
    if name in IN_ONE_PIECE:  # an offset counts from where the memory begins, not the array
        base = [s for s in base if len(s.args) < 4]
    return large, base


def check(name: str, layouts: Sequence[str], most: int | None = None) -> int:
    """The cases of an op in layouts, at sizes of at most so many elements; gives how many."""
    info, turn = ROWS[name], list(ROWS).index(name)
    by_dtype = {d: samples_for(name, d) for d in info.dtypes}
    large, base = by_dtype[info.dtypes[0]]
    elements = list(map(elements_of, [*large, *base]))
    cases = [
        case for case in design(elements, len(base), layouts_for(name), info.dtypes, turn)
        if case.layout in layouts and (most is None or elements[case.sample] <= most)
    ]  # fmt: skip
    checks: dict[tuple[int, DType], Check] = {}

    def checked(sample: int, dtype: DType) -> Check | None:
        if not any(s == sample for s, _ in checks):
            checks.clear()
        if (sample, dtype) not in checks:
            found = [s for part in by_dtype[dtype] for s in part]
            if sample >= len(found):
                return None
            checks[sample, dtype] = Check(info, found[sample])
        return checks[sample, dtype]

    had = sf.get_num_threads()
    try:
        for case in cases:
            sf.set_num_threads(case.threads)
            one = checked(case.sample, case.dtype)
            if one is not None:
                one.operands(case.layout)
                if case.layout not in (*ALIASING, "read-only"):
                    one.in_place(case.layout)
            if info.grad and case.real is not None:
                one = checked(case.sample, case.real)
                if one is not None:
                    one.backward(case.layout, "row-major")
                    one.backward("row-major", case.layout)
    finally:
        sf.set_num_threads(had)
    return len(cases)


def check_programs(name: str) -> None:
    """Programs of an op: on arrays in every layout, and on views of every kind."""
    info = ROWS[name]
    layouts = layouts_for(name)
    for number, dtype in enumerate(info.dtypes):
        large, base = samples_for(name, dtype)
        for sample in (*small_ones(large), base[number % len(base)]):
            Check(info, sample).compiled(layouts)
    large, base = samples_for(name, info.dtypes[0])
    for sample in small_ones(large) or base[:1]:
        one = Check(info, sample)
        for layout in VIEWS:
            if layout in layouts:
                one.views(layout)


def check_once(name: str) -> None:
    """An op on a small sample, and on those at the sizes from which on kernels compute."""
    info = ROWS[name]
    large, base = samples_for(name, info.dtypes[0])
    few = (
        min(large, key=lambda s: abs(elements_of(s) - n), default=base[0])
        for n in (SMALL, LARGE, SPREAD)
    )
    for sample in (base[-1], *few):
        one = Check(info, sample)
        one.operands("row-major")
        one.in_place("row-major")
        one.compiled(["row-major"])
        if info.grad and any(d.is_floating for d in info.dtypes[:1]):
            one.backward("row-major", "row-major")
            one.compiled_gradients()


def small_ones(large: Sequence[Sample]) -> list[Sample]:
    """The largest of those that are small, if there is one."""
    return [s for s in large if elements_of(s) < 2 * SMALL][-1:]


CASES = [(name, layout) for name in NAMES for layout in layouts_for(name)]

# -- the day's share ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "layout"), daily(CASES, 12, "layouts"))
def test_layouts_today(name: str, layout: str) -> None:
    check(name, [layout], SPREAD // 2)


@pytest.mark.parametrize("name", daily(NAMES, 2, "programs of layouts"))
def test_programs_today(name: str) -> None:
    check_programs(name)


# -- the whole ----------------------------------------------------------------------------------


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_layouts(name: str) -> None:
    check(name, list(LAYOUTS))


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_programs(name: str) -> None:
    check_programs(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_once(name: str) -> None:
    """For runs in which all memory is guarded, see `test_guarded_memory`."""
    check_once(name)


# -- the order of bytes -------------------------------------------------------------------------

FOREIGN = np.arange(6.0).reshape(2, 3).astype(">f4")
PLACES = np.array([0, 1]).astype(">i8")
ENTRANCES: dict[str, Callable[[], object]] = {
    "from_numpy": lambda: sf.from_numpy(FOREIGN),
    "tensor": lambda: sf.tensor(FOREIGN),
    "an operand": lambda: sf.ones(2, 3) + FOREIGN,
    "the first operand": lambda: FOREIGN + sf.ones(2, 3),
    "an argument": lambda: sf.where(sf.ones(2, 3) > 0, sf.ones(2, 3), FOREIGN),
    "an index": lambda: sf.ones(2, 3)[PLACES],
    "an index of a symbol": lambda: sf.placeholder((2, 3))[PLACES],
    "in place": lambda: sf.ones(2, 3).copy_(FOREIGN),
    "a constant": lambda: sf.placeholder((2, 3)) * FOREIGN,
    "a program": lambda: sf.compile([x := sf.placeholder((2, 3))], x + 1)(FOREIGN),
    "jit": lambda: sf.jit(lambda x: x + 1)(FOREIGN),
    "a cotangent": lambda: sf.ones(2, 3, requires_grad=True).exp().backward(FOREIGN),
    "cotangents": lambda: sf.autograd.grad(
        (x := sf.ones(2, 3, requires_grad=True)) * 2, x, FOREIGN
    ),
    "data": lambda: setattr(sf.ones(2, 3), "data", FOREIGN),
    "a state": lambda: sf.nn.Linear(3, 2).load_state_dict({"weight": FOREIGN}, strict=False),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_another_order_of_bytes_is_refused(entrance: str) -> None:
    with pytest.raises(sf.StaticflowError, match=r"[<>]f4|[<>]i8|ndarray"):
        ENTRANCES[entrance]()
