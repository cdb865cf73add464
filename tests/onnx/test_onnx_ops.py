"""Every op of the table as a model of ONNX, run by others: a few samples in the suite, all as a
campaign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx_judge import RUNTIMES, model_bytes, run_model
from opinfo import ROWS
from opinfo.core import Array, OpInfo, Sample
from opinfo.modes import arrays_of, call

import staticflow as sf
from staticflow.graph.dtypes import dtype_of
from staticflow.onnx.table import way_of
from staticflow.ops import OPS

pytest.importorskip("onnx.checker", reason="models of ONNX are written and checked by onnx")
pytest.importorskip("onnxruntime", reason="models of ONNX are run by onnxruntime")

REFUSED = {
    "agree", "all_gather", "all_reduce", "all_to_all", "begin", "broadcast", "cholesky", "eigh", "eigvalsh",
    "end", "exchange", "gcd", "lcm", "least_squares", "lu", "matrix_exp", "print", "qr", "reduce_scatter", "row_order", "slogdet", "solve", "solve_lower", "solve_upper", "svd", "svdvals",
}  # fmt: skip
"""Ops that have no form in ONNX."""

PARTLY = {
    "border", "convolution_transpose", "correlate", "max_pool", "max_pool_index", "scatter_reduce",
}  # fmt: skip
"""Ops of which some calls are refused."""

POLES = {"digamma", "polygamma"}
"""Ops whose infinities have the sign of a zero, which runtimes may lose."""

WITHOUT_NAN = {
    "amax", "amin", "argmax", "argmax_across", "argmin", "argmin_across", "kthvalue", "max",
    "max_dim", "median", "median_dim",
    "max_dim_across", "max_pool", "max_pool_index", "min", "min_dim", "min_dim_across", "sort",
    "supremum", "of_rank", "top_few", "top_select", "topk", "scatter_reduce",
}  # fmt: skip
"""Ops that put NaN before all numbers, or behind, where runtimes do as they like."""

OVERFLOWING = {"prod", "sum"}
"""Ops of integers that onnxruntime adds up and multiplies as floats."""

FINITE = {"log_softmax", "softmax"}
"""Ops of infinities of which runtimes make what they like."""

WITH_ROWS = {"cummax", "cummin", "logcumsumexp", "recurrence", "scan"}
"""Loops, and what is written as one, that runtimes run over one row at least."""

WRONG_IN_REFERENCE = {"convolution_transpose"}
"""Ops that onnxruntime has no float64 for, and that the reference of onnx has wrong in groups."""

NAMES = sorted(set(ROWS) - REFUSED)
DTYPES = [(name, dtype) for name in NAMES for dtype in ROWS[name].dtypes]


def test_what_is_refused() -> None:
    assert {name for name, op in OPS.items() if way_of(op) == "refused"} == REFUSED


def agree(info: OpInfo, actual: Sequence[Array], wanted: Sequence[Array], what: str) -> None:
    """Equal, but for the signs of zeros, and what other libraries' functions round otherwise."""
    assert len(actual) == len(wanted), what
    for a, w in zip(actual, wanted, strict=True):
        assert (a.dtype, a.shape) == (w.dtype, w.shape), what
        if not dtype_of(w.dtype).is_floating:
            np.testing.assert_array_equal(a, w, what)
            continue
        relative, absolute = info.tolerance(dtype_of(w.dtype))
        eps = {2: 1 / 64, 4: 1e-5, 8: 1e-12}[w.dtype.itemsize]
        eps = 1e-6 if RUNTIMES[-1] == "onnx" else eps
        wide_a, wide_w = a.astype(np.float64), w.astype(np.float64)
        if info.op.name in POLES:
            wide_a, wide_w = (np.where(np.isinf(v), np.inf, v) for v in (wide_a, wide_w))
        np.testing.assert_allclose(
            wide_a, wide_w, max(relative, eps), max(absolute, eps), err_msg=what
        )


def check(info: OpInfo, sample: Sample, unknown: int | None = None) -> None:
    """A sample as a model; dims of size ``unknown`` are not known in it."""
    arrays = arrays_of(sample)
    if info.op.name in WITHOUT_NAN and any(_has_nan(a) for a in arrays):
        return
    if info.op.name in FINITE and not all(np.isfinite(a.astype(np.float64)).all() for a in arrays):
        return
    if info.op.name in OVERFLOWING and any(_is_large(a) for a in arrays):
        return
    if info.op.name in WRONG_IN_REFERENCE and any(a.dtype == np.float64 for a in arrays):
        return
    if info.op.name in WITH_ROWS and unknown == 0:
        return
    try:
        wanted = [o.numpy() for o in call(info, sample, [sf.from_numpy(a.copy()) for a in arrays])]
    except sf.StaticflowError:
        return
    xs = [
        sf.placeholder(
            tuple("n" if d == unknown else d for d in a.shape), dtype_of(a.dtype), name=f"x{i}"
        )
        for i, a in enumerate(arrays)
    ]
    if not xs:
        return

    def function(*given: Any) -> list[Any]:
        return call(info, sample, given)

    what = f"{info.op.name}: {sample}, unknown {unknown}"
    try:
        data = model_bytes(function, xs)
    except sf.SymbolicError as error:
        assert info.op.name in PARTLY and "has no form in ONNX: " in str(error), what
        return
    agree(info, run_model(data, arrays), wanted, what)


def _has_nan(array: Array) -> bool:
    return dtype_of(array.dtype).is_floating and bool(np.isnan(array.astype(np.float64)).any())


def _is_large(array: Array) -> bool:
    return array.dtype.kind in "iu" and bool((np.abs(array.astype(np.float64)) > 9999).any())


def samples_of(info: OpInfo, dtype: Any) -> list[tuple[Sample, int | None]]:
    found: list[tuple[Sample, int | None]] = [(s, None) for s in info.samples(dtype, False)]
    if info.sized is not None:
        found += [(info.sized(dtype, n), n) for n in (7, 5, 0)]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_results(name: str) -> None:
    info = ROWS[name]
    for dtype in dict.fromkeys((info.dtypes[0], info.dtypes[-1])):
        found = samples_of(info, dtype)
        for sample, unknown in found[:: max(1, len(found) // 3)]:
            check(info, sample, unknown)


@pytest.mark.campaign
@pytest.mark.parametrize(("name", "dtype"), DTYPES, ids=str)
def test_all_results(name: str, dtype: Any) -> None:
    for sample, unknown in samples_of(ROWS[name], dtype):
        check(ROWS[name], sample, unknown)
