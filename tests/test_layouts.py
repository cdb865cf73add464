"""Every op of the op table on arrays in every layout, as operands and as cotangents, in place, eagerly
and compiled, at sizes on both sides of those at which other kernels compute, beside pages that may
not be touched; against the references of the ops in float64, on arrays in row-major order.

A read outside an array ends the process, with the name of the test as the last one that began.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
from layout_cases import ALIASING, LAYOUTS, THRESHOLDS, enlarged_samples, in_layout
from opinfo import ROWS
from opinfo.core import Array, OpInfo, Sample, values
from opinfo.modes import arrays_of, call, gradient_graph, graph_of, with_arrays
from slices import daily

import staticflow as sf
from staticflow.graph.dtypes import DType, dtype_of, float32, float64
from staticflow.graph.interpret import interpret_graph
from staticflow.ops.lowering import Host, Region

DRAWN = {"integers", "random_bits", "uniform", "normal"}
"""Ops whose values depend on what was drawn before."""

APART = {"as_strided", "bitcast", "qr", "eigh", "svd"}
"""Ops whose results are others in float64 (bits, vectors of either sign), and the one that refuses
views whose memory does not lie in one row."""

AS_THEY_ARE = {
    "cholesky", "masked_scatter", "masked_take", "measure", "prefix", "searchsorted", "slogdet",
    "solve", "tied", "unprefix",
}  # fmt: skip
"""Ops whose operands are matrices with an inverse, or sorted, or of as many elements as another one
says by its values: they are neither enlarged nor laid where elements are one."""

NORMALIZED = {"batch_norm", "layer_norm", "group_norm", "std"}
"""Ops that magnify how the elements of a row were rounded that is constant."""

NAMES = [
    n for n, row in ROWS.items()
    if n not in DRAWN | APART and not isinstance(row.op.lowering, Host)
]  # fmt: skip
CASES = [(name, layout) for name in NAMES for layout in LAYOUTS]


# -- what is expected ---------------------------------------------------------------------------


def widened(array: Array) -> Array:
    """In float64, if it holds floats."""
    return array.astype(np.float64) if array.dtype.kind in "fV" else array.copy()


def exact(sample: Sample) -> Sample:
    """The sample in float64, in row-major order."""
    kwargs = {k: float64 if v is float32 else v for k, v in sample.kwargs.items()}
    return Sample(with_arrays(sample, list(map(widened, arrays_of(sample)))), kwargs)


def assert_near(got: Array, wanted: Array, what: str) -> None:
    """As near as sums of floats come that were rounded on the way."""
    assert got.shape == wanted.shape, what
    if got.dtype.kind not in "fV":
        np.testing.assert_array_equal(got, wanted, what)
        return
    info = ml_dtypes.finfo(got.dtype)
    room = 1000 * float(info.eps)
    wide, wanted = got.astype(np.float64), wanted.astype(np.float64)
    safe = ~(
        np.abs(wanted) > float(info.max) * 1e-3
    )  # of others some overflow, as they are rounded
    wide, wanted = wide[safe], wanted[safe]
    scale = max(float(np.abs(wanted).max(initial=0, where=~np.isnan(wanted))), 1.0)
    np.testing.assert_allclose(wide, wanted, rtol=room, atol=room * scale, err_msg=what)


# -- the checks ---------------------------------------------------------------------------------


class Check:
    """One sample, and what its op gives of it in any layout."""

    def __init__(self, info: OpInfo, sample: Sample) -> None:
        self.info, self.sample, self.what = info, sample, f"{info.op.name}({sample})"
        self.largest = max((a.size for a in arrays_of(sample)), default=0)
        self._values: list[Array] | None = None  # of the sample as it is
        self._gradients: list[Array] | None = None
        outs = self.values(sample, "row-major")
        self.cts = [values(o.shape, float64, 0.5, 2, seed=i) for i, o in enumerate(outs)]

    def laid(self, layout: str, at_end: bool = True) -> Sample:
        """The sample with arrays in a layout; vectors of integers, which are indices, as before."""
        arrays = [
            in_layout(a, layout if a.dtype.kind in "fV" or a.ndim > 1 else "row-major", at_end)
            for a in arrays_of(self.sample)
        ]
        return Sample(with_arrays(self.sample, arrays), self.sample.kwargs)

    def values(self, given: Sample, layout: str) -> list[Array]:
        """What is expected of the sample in a layout."""
        if layout not in ALIASING and self._values is not None:
            return self._values
        wide = exact(given)
        found = list(interpret_graph(graph_of(self.info, wide), arrays_of(wide)))
        if layout not in ALIASING:
            self._values = found
        return found

    def gradients(self, given: Sample, cts: Sequence[Array], layout: str) -> list[Array]:
        """What is expected of its gradients by cotangents."""
        if layout not in ALIASING and self._gradients is not None:
            return self._gradients
        wide = exact(given)
        graph = gradient_graph(self.info, wide)
        found = [] if graph is None else list(interpret_graph(graph, [*arrays_of(wide), *cts]))
        if layout not in ALIASING:
            self._gradients = found
        return found

    def operands(self, layout: str) -> None:
        """The op on operands in a layout, twice, for what remembers the first call."""
        for at_end in (True, False):
            given = self.laid(layout, at_end)
            outs = call(self.info, given, list(map(sf.from_numpy, arrays_of(given))))
            for out, wanted in zip(outs, self.values(given, layout), strict=True):
                assert_near(out.numpy(), wanted, f"{self.what} of {layout}")

    def compiled(self, layout: str) -> None:
        """The compiled program on arrays in a layout."""
        given = self.laid(layout)
        arrays = arrays_of(given)
        inputs = [sf.placeholder(a.shape, dtype_of(a.dtype)) for a in arrays]
        program = sf.compile(inputs, call(self.info, given, inputs))
        for out, wanted in zip(program(*arrays), self.values(given, layout), strict=True):
            assert_near(out.numpy(), wanted, f"{self.what} of {layout}, compiled")

    def backward(self, layout: str, of_cotangents: str) -> None:
        """The gradients by operands and cotangents in layouts."""
        given = self.laid(layout)
        tensors = [sf.from_numpy(a) for a in arrays_of(given)]
        real = [t.requires_grad_() for t in tensors if t.dtype.is_floating]
        outs = call(self.info, given, tensors)
        pairs = [(o, ct) for o, ct in zip(outs, self.cts, strict=True) if o.dtype.is_floating]
        if not real or not pairs or not all(o.requires_grad for o, _ in pairs):
            return
        cts = [in_layout(ct.astype(o.dtype.numpy), of_cotangents) for o, ct in pairs]
        either = layout if layout in ALIASING else of_cotangents
        wanted = self.gradients(given, list(map(widened, cts)), either)
        results = [o for o, _ in pairs]
        given_cts = list(map(sf.from_numpy, cts))
        found = sf.autograd.grad(results, real, given_cts, allow_unused=True)
        for got, want in zip([g for g in found if g is not None], wanted, strict=True):
            what = f"the gradient of {self.what} of {layout} by a cotangent of {of_cotangents}"
            assert_near(got.numpy(), want, what)

    def in_place(self, layout: str) -> None:
        """The form that changes its first operand, and no other."""
        name = f"{self.info.op.name}_"
        given = self.laid(layout)
        arrays = arrays_of(given)
        first = (*given.args, None)[0]
        if not hasattr(sf.Tensor, name) or first is not arrays[0] or not arrays[0].ndim:
            return
        wanted = self.values(given, layout)
        if len(wanted) != 1 or wanted[0].shape != arrays[0].shape:
            return
        before = [widened(a) for a in arrays[1:]]
        x, *args = with_arrays(given, list(map(sf.from_numpy, arrays)))
        try:
            getattr(x, name)(*args, **self.sample.kwargs)
        except (sf.StaticflowError, TypeError):
            return  # of another dtype, or another function of that name
        assert not arrays[0].size or np.may_share_memory(x.numpy(), arrays[0]), name
        assert_near(x.numpy(), wanted[0], f"{name}: {self.what} of {layout}")
        for a, b in zip(arrays[1:], before, strict=True):
            np.testing.assert_array_equal(widened(a), b, f"{name} changed another operand")


def check(
    name: str, layouts: Sequence[str], dtype: DType, thresholds: Sequence[int], threads: int
) -> None:
    info = ROWS[name]
    had = sf.get_num_threads()
    sf.set_num_threads(threads)
    slow = isinstance(info.op.lowering, Region)
    large: list[Sample] = []
    if name not in AS_THEY_ARE:
        large += enlarged_samples(info, dtype, [] if slow else thresholds)
    if name in NORMALIZED | AS_THEY_ARE:
        layouts = [layout for layout in layouts if layout not in ALIASING]
    try:
        for number, sample in enumerate([*large, *info.samples(dtype, True)]):
            one = Check(info, sample)
            for layout in layouts:
                one.operands(layout)
                if number in (0, len(large)):
                    one.compiled(layout)
                if info.grad and dtype.is_floating:
                    one.backward(layout, "row-major")
                    one.backward("row-major", layout)
                if layout not in (*ALIASING, "read-only"):
                    one.in_place(layout)
    finally:
        sf.set_num_threads(had)


@pytest.mark.parametrize(("name", "layout"), daily(CASES, 40, "layouts"))
def test_layouts_today(name: str, layout: str) -> None:
    check(name, [layout], ROWS[name].dtypes[0], [THRESHOLDS["LARGE"]], 2)


@pytest.mark.campaign
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_layouts(name: str, threads: int) -> None:
    check(name, list(LAYOUTS), ROWS[name].dtypes[0], sorted(THRESHOLDS.values()), threads)


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_layouts_of_other_dtypes(name: str) -> None:
    for dtype in ROWS[name].dtypes[1:]:
        check(name, list(LAYOUTS), dtype, [THRESHOLDS["LARGE"]], 2)
