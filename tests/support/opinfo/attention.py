"""Attention in one op, and its derivative."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opinfo.core import Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType, bool_, float32, float64
from staticflow.ops import OPS

__all__ = ["ROWS"]

_Extras = tuple[tuple[str, Array], ...]


def _matrices(
    lead: tuple[int, ...], rows: int, keys: int, inner: int, width: int, dtype: DType
) -> tuple[Array, ...]:
    shapes = ((rows, inner), (keys, inner), (keys, width))
    return tuple(values((*lead, *s), dtype, -1, 1, seed=i) for i, s in enumerate(shapes))


def _attrs(
    extras: _Extras, fill: float = -math.inf, scale: float = 1.0, cap: float = 0.0
) -> dict[str, Any]:
    roles = tuple(role for role, _ in extras)
    return {"roles": roles, "fill": fill, "scale": scale, "cap": cap}


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    q, k, v = _matrices((2,), 3, 5, 2, 4, dtype)
    kept = values((2, 3, 5), bool_, seed=4)
    kept[..., :1] = True
    extras = (
        ("bias", values((5,), dtype, seed=3)), ("keep", kept),
        ("factor", values((1, 3, 5), dtype, seed=5)),
    )  # fmt: skip
    yield Sample((q, k, v, *(x for _, x in extras)), _attrs(extras, scale=0.75))
    extras = (("times", values((3, 5), dtype, seed=6)), extras[0], ("keep", kept[:1]))
    yield Sample((q, k, v, *(x for _, x in extras)), _attrs(extras, scale=0.5, cap=1.5))
    if not smooth:
        q, k, v = (x.transpose(0, 2, 1).copy().transpose(0, 2, 1) for x in (q, k, v))
        keep = ("keep", np.arange(15).reshape(3, 5) > 6)
        yield Sample((q, k, v, keep[1]), _attrs((keep,), scale=-1.5))
        empty = ("empty", np.array([[[True], [True], [False]], [[True], [False], [False]]]))
        yield Sample((q, k, v, keep[1], empty[1]), _attrs((keep, empty)))
        if dtype is float32:
            yield Sample((q, k, v, keep[1]), _attrs((keep,), -1e9))
            yield Sample(_matrices((2,), 3, 0, 2, 3, dtype), _attrs(()))


def _scores(
    q: Array, k: Array, roles: tuple[str, ...], extras: tuple[Array, ...], fill: float, cap: float
) -> Any:
    """The scores in float64, their derivative by the products, and the factors."""
    of = dict(zip(roles, extras, strict=True))
    s = np.einsum("...le,...se->...ls", q.astype("f8"), k.astype("f8"))
    slope = np.ones_like(s)
    if cap:
        s, slope = cap * np.tanh(s), cap / np.cosh(s) ** 2
    keep, times = of.get("keep", True), of.get("times", 1.0)
    s = np.where(keep, s * times + of.get("bias", 0.0), fill)
    return s, np.where(keep, slope * times, 0.0), of.get("factor", 1.0)


def _attend(
    q: Array, k: Array, v: Array, *extras: Array, roles: tuple[str, ...], fill: float,
    scale: float, cap: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    s, _, factor = _scores(q * q.dtype.type(scale), k, roles, extras, fill, cap)
    peak = s.max(-1, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = np.exp(s - peak)
        total = p.sum(-1, keepdims=True)
        lse = np.where(np.isinf(peak), peak, peak + np.log(total)).astype(q.dtype)
        low = peak - lse + np.log(total)
        out = np.einsum("...ls,...sv->...lv", p / total * factor, v.astype("f8"))
    empty = dict(zip(roles, extras, strict=True)).get("empty", False)
    out, lse, low = np.where(empty, 0, out), np.where(empty, np.inf, lse), np.where(empty, 0, low)
    return out.astype(q.dtype), lse[..., 0].astype(q.dtype), low[..., 0].astype(q.dtype)


def _back_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for sample in _samples(dtype, smooth):
        q, k, v, *extras = sample.args
        _, lse, low = _attend(*sample.args, **sample.kwargs)
        ct = values((*q.shape[:-1], v.shape[-1]), dtype, -1, 1, seed=6)
        delta = values(q.shape[:-1], dtype, seed=7)
        yield Sample((q, k, v, ct, lse, low, delta, *extras), sample.kwargs)
        if "bias" in sample.kwargs["roles"]:
            attrs = {**sample.kwargs, "with_scores": True}
            yield Sample((q, k, v, ct, lse, low, delta, *extras), attrs)


def _attend_back(
    q: Array, k: Array, v: Array, ct: Array, lse: Array, low: Array, delta: Array, *extras: Array,
    roles: tuple[str, ...], fill: float, scale: float, cap: float, with_scores: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    q = q * q.dtype.type(scale)
    s, slope, factor = _scores(q, k, roles, extras, fill, cap)
    with np.errstate(invalid="ignore"):
        p = np.exp(s - lse[..., None] - low[..., None].astype("f8"))
    dp = np.einsum("...lv,...sv->...ls", ct.astype("f8"), v.astype("f8")) * factor
    keep = dict(zip(roles, extras, strict=True)).get("keep", True)
    ds = np.where(keep, p * (dp - delta[..., None]), 0.0)
    du = ds * slope
    found = (
        (np.einsum("...ls,...se->...le", du, k.astype("f8")) * scale).astype(q.dtype),
        np.einsum("...ls,...le->...se", du, q.astype("f8")).astype(q.dtype),
        np.einsum("...ls,...lv->...sv", p * factor, ct.astype("f8")).astype(q.dtype),
    )
    return (*found, ds.astype(q.dtype)) if with_scores else found


def _sized(dtype: DType, n: int) -> Sample:
    return Sample(_matrices((n,), n, n, 3, n, dtype), _attrs(()))


def _sized_back(dtype: DType, n: int) -> Sample:
    q, k, v = _matrices((n,), n, n, 3, n, dtype)
    ct, rows = values((n, n, n), dtype, seed=6), values((n, n), dtype, 1, 3, seed=7)
    return Sample((q, k, v, ct, rows, 0 * rows, rows), _attrs(()))


def _call(name: str) -> Callable[..., Any]:
    return lambda *args, **attrs: OPS[name](*args, **attrs)


def _refused(
    shapes: Any, says: str, error: Any = ShapeError, dtype: str = "f4", **attrs: Any
) -> Failure:
    arrays = tuple(np.zeros(shape, dtype) for shape in shapes)
    return Failure(
        Sample(arrays, {"roles": (), "fill": 0.0, "scale": 1.0, "cap": 0.0, **attrs}), error, says
    )


ROWS = (
    OpInfo(
        OPS["attend"], _call("attend"), _attend, _samples, (float32, float64), grad=True, sized=_sized,
        ulps=64, absolute=64, zeros=False,
        failures=(
            _refused(((3, 2), (4, 3), (4, 2)), "2 and 3 differ"),
            _refused(((3, 2), (4, 2), (5, 2)), "4 and 5 differ"),
            _refused(((2, 3, 2), (4, 2), (4, 2)), "(..., S, V)"),
            _refused(((2, 3, 2), (3, 4, 2), (3, 4, 2)), "2 and 3 differ"),
            _refused(((3, 2), (4, 2), (4, 2)), "32 or 64 bits", DTypeError, "f2"),
            _refused(((3, 2), (4, 2), (4, 2)), "0 arguments", roles=("bias",)),
            _refused(((3, 2), (4, 2), (4, 2), (3, 4)), "the keep is f32", DTypeError, roles=("keep",)),
            _refused(((3, 2), (4, 2), (4, 2), (3, 5)), "4 differ", roles=("bias",)),
            _refused(((3, 2), (4, 2), (4, 2), (1, 3, 4)), "more dims", roles=("bias",)),
            _refused(((3, 2), (4, 2), (4, 2), (3, 1)), "the empty is f32", DTypeError, roles=("empty",)),
        ),
    ),
    OpInfo(
        OPS["attend_back"], _call("attend_back"), _attend_back, _back_samples, (float32, float64),
        grad=True, sized=_sized_back, ulps=128, absolute=256, zeros=False,
        failures=(
            _refused(((3, 2), (4, 2), (4, 2), (3, 3), (3,), (3,), (3,)), "3 and 2 differ"),
            _refused(((3, 2), (4, 2), (4, 2), (3, 2), (3, 1), (3,), (3,)), "behind the values"),
        ),
    ),
)  # fmt: skip
