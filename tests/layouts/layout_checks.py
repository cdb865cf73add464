"""What is held of one sample of an op in any layout: values, gradients, changes in place, programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
from layout_cases import ALIASING, VIEWS, in_layout
from layout_sizes import elements_of
from opinfo.core import Array, OpInfo, Sample, values
from opinfo.modes import arrays_of, call, gradient_graph, graph_of, run_eagerly, with_arrays

import staticflow as sf
from staticflow.graph.dtypes import dtype_of, float32, float64
from staticflow.graph.interpret import interpret_graph

__all__ = ["Check"]

BY_ITSELF = {"bitcast", "random_bits", "integers", "uniform", "normal", "eigh", "svd"}
"""Ops whose results are others in float64 (bits, draws, vectors of either sign): those on row-major
arrays of the same dtype are the reference, and equal bit by bit."""

UNITS = 16
"""Units in the last place of the largest result by which results may differ, of what is rounded a few
times; a sum of n elements may by a share of the root of n more, and of n equal ones by a share of n,
since what is lost is then the same each time."""

ROUNDING = {
    # a step for all that lies before, one after another
    "recurrence": 64, "logcumsumexp": 64,
    # sums of whole rows, of which nearly all cancels, and of all windows, one after another
    "log_softmax": 4096, "convolution_kernel": 1024,
    # exponentials of sums, which make of their rounding as many units more as the sums are large
    "attend": 256, "attend_back": 1024,
}  # fmt: skip
"""Of ops that round more often, or magnify it."""

RUNNING = {"cumsum", "cumprod", "logcumsumexp", "product_of_others", "recurrence"}
"""Ops whose results follow from all that lies before along a dim."""


def room_of(name: str, got: Array, summed: float, are_equal: bool) -> float:
    """The difference allowed, by the largest result, of sums of so many numbers: of float64 with what
    the reference itself loses, which adds one number after another."""
    are_equal = are_equal or got.dtype == np.float64
    units = ROUNDING.get(name, UNITS) * (1 + (summed / 16 if are_equal else math.sqrt(summed) / 8))
    return units * float(ml_dtypes.finfo(got.dtype).eps)


def is_index(a: Array) -> bool:
    """Whether an array may hold indices, which must not become one."""
    return a.ndim < 2 and a.dtype.kind not in "fV"


def widened(array: Array) -> Array:
    """In float64, if it holds floats."""
    return array.astype(np.float64) if array.dtype.kind in "fV" else array.copy()


def exact(sample: Sample) -> Sample:
    """The sample in float64, in row-major order."""
    kwargs = {k: float64 if v is float32 else v for k, v in sample.kwargs.items()}
    return Sample(with_arrays(sample, list(map(widened, arrays_of(sample)))), kwargs)


def copied(sample: Sample) -> Sample:
    """The sample in row-major order."""
    return Sample(with_arrays(sample, [a.copy() for a in arrays_of(sample)]), sample.kwargs)


class Check:
    """One sample, and what its op gives of it in any layout."""

    def __init__(self, info: OpInfo, sample: Sample) -> None:
        self.info, self.sample, self.what = info, sample, f"{info.op.name}({sample})"
        self._values: list[Array] | None = None  # of the sample as it is
        self._gradients: list[Array] | None = None

    @cached_property
    def cts(self) -> list[Array]:
        """A cotangent of each result."""
        outs = self.values(self.sample, "row-major")
        return [values(o.shape, float64, 0.5, 2, seed=i) for i, o in enumerate(outs)]

    def laid(self, layout: str, at_end: bool = True) -> Sample:
        """The sample with arrays in a layout; indices stay as different as they are."""
        arrays = [
            in_layout(a, "row-major" if layout in ALIASING and is_index(a) else layout, at_end)
            for a in arrays_of(self.sample)
        ]
        return Sample(with_arrays(self.sample, arrays), self.sample.kwargs)

    # -- what is expected ------------------------------------------------------------------------

    def values(self, given: Sample, layout: str) -> list[Array]:
        """What is expected of the sample in a layout."""
        if layout not in ALIASING and self._values is not None:
            return self._values
        if self.info.op.name in BY_ITSELF:
            found = run_eagerly(self.info, copied(given))
        else:
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

    def assert_near(
        self, got: Array, wanted: Array, what: str, are_equal: bool = False, summed: float = 0
    ) -> None:
        """As near as the op comes that rounds on its way, and sums up at least so many numbers."""
        assert got.shape == wanted.shape, what
        if got.dtype.kind not in "fV" or self.info.op.name in BY_ITSELF:
            np.testing.assert_array_equal(got, wanted, what)
            return
        summed = max(summed, elements_of(self.sample) / max(got.size, 1))
        if self.info.op.name in RUNNING and got.ndim:
            summed = max(summed, *got.shape)
        room = room_of(self.info.op.name, got, summed, are_equal)
        wide, wanted = got.astype(np.float64), wanted.astype(np.float64)
        most = float(ml_dtypes.finfo(got.dtype).max) * 1e-3  # of others some overflow on the way
        safe = ~(np.abs(wanted) > most)
        wide, wanted = wide[safe], wanted[safe]
        scale = max(float(np.abs(wanted).max(initial=0, where=~np.isnan(wanted))), 1.0)
        np.testing.assert_allclose(wide, wanted, rtol=room, atol=room * scale, err_msg=what)

    # -- what is checked -------------------------------------------------------------------------

    def operands(self, layout: str) -> None:
        """The op on operands in a layout, twice, for what remembers the first call."""
        for at_end in (True, False):
            given = self.laid(layout, at_end)
            outs = call(self.info, given, list(map(sf.from_numpy, arrays_of(given))))
            for out, wanted in zip(outs, self.values(given, layout), strict=True):
                self.assert_near(
                    out.numpy(), wanted, f"{self.what} of {layout}", layout in ALIASING
                )

    def compiled(self, layouts: Sequence[str]) -> None:
        """A program of the op, on arrays in layouts."""
        inputs = [sf.placeholder(a.shape, dtype_of(a.dtype)) for a in arrays_of(self.sample)]
        program = sf.compile(inputs, call(self.info, self.sample, inputs))
        for layout in layouts:
            given = self.laid(layout)
            for out, wanted in zip(
                program(*arrays_of(given)), self.values(given, layout), strict=True
            ):
                self.assert_near(
                    out.numpy(), wanted, f"{self.what} of {layout}, compiled", layout in ALIASING
                )

    def views(self, layout: str) -> None:
        """A program that makes the operands as views of its inputs, and its gradients by these."""
        base, view = VIEWS[layout]
        arrays = arrays_of(self.sample)
        plain = [not a.ndim or not a.size or (layout in ALIASING and is_index(a)) for a in arrays]
        given = [
            a if p else np.ascontiguousarray(base(a)) for a, p in zip(arrays, plain, strict=True)
        ]
        inputs = [sf.placeholder(a.shape, dtype_of(a.dtype)) for a in given]
        viewed = [
            x if p else view(x, a.shape) for x, a, p in zip(inputs, arrays, plain, strict=True)
        ]
        outs = call(self.info, self.sample, viewed)
        seen = [np.broadcast_to(base(a), a.shape) if layout in ALIASING and not p else a
                for a, p in zip(arrays, plain, strict=True)]  # fmt: skip
        sample = Sample(with_arrays(self.sample, seen), self.sample.kwargs)
        program = sf.compile(inputs, outs)
        for out, wanted in zip(program(*given), self.values(sample, layout), strict=True):
            self.assert_near(
                out.numpy(), wanted, f"{self.what} of views: {layout}", layout in ALIASING
            )

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
            self.assert_near(got.numpy(), want, what, either in ALIASING, self._added(want, cts))

    def _added(self, gradient: Array, cts: Sequence[Array]) -> float:
        """How many numbers of cotangents are added up to one of a gradient."""
        indices = [a for a in arrays_of(self.sample) if a.dtype.kind in "iu" and a.size]
        # how often one place or a part of it is named
        most = max((int(np.unique(a, return_counts=True)[1].max()) for a in indices), default=0)
        return max(most * len(cts), *(ct.size / max(gradient.size, 1) for ct in cts))

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
        if arrays[0].dtype.kind in "iu":  # which wraps what is computed in wider integers
            wanted = [wanted[0].astype(arrays[0].dtype)]
        self.assert_near(x.numpy(), wanted[0], f"{name}: {self.what} of {layout}")
        for a, b in zip(arrays[1:], before, strict=True):
            np.testing.assert_array_equal(widened(a), b, f"{name} changed another operand")

    def program_of_gradients(self) -> tuple[Any, list[Array], list[Array]] | None:
        """A program of the gradients by cotangents, what it is called with, and what it must give;
        None if there is none."""
        arrays = arrays_of(self.sample)
        inputs = [sf.placeholder(a.shape, dtype_of(a.dtype)) for a in arrays]
        real = [x for x in inputs if x.dtype.is_floating]
        outs = call(self.info, self.sample, inputs)
        pairs = [(o, ct) for o, ct in zip(outs, self.cts, strict=True) if o.dtype.is_floating]
        cts = [ct.astype(o.dtype.numpy) for o, ct in pairs]
        weights = [sf.placeholder(ct.shape, dtype_of(ct.dtype)) for ct in cts]
        parts = [(o * w).sum() for (o, _), w in zip(pairs, weights, strict=True)]
        if not self.info.grad or not real or not parts:
            return None
        found = sf.grad(sum(parts[1:], parts[0]), real, allow_unused=True)
        known = [g for g in found if g is not None]
        if not known:
            return None
        wanted = self.gradients(self.sample, list(map(widened, cts)), "row-major")
        return sf.compile([*inputs, *weights], known), [*arrays, *cts], wanted

    def compiled_gradients(self) -> None:
        """A program of the gradients."""
        found = self.program_of_gradients()
        if found is not None:
            program, arrays, wanted = found
            what = f"the gradient of {self.what}, compiled"
            for got, want in zip(program(*arrays), wanted, strict=True):
                self.assert_near(got.numpy(), want, what, summed=self._added(want, self.cts))
