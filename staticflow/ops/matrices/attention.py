"""Attention as one op: weights that need not be in memory, and their derivative.

With the scores ``s = (scale q) k^T``, bounded by a ``cap`` as ``cap tanh(s)`` unless that is 0, and
then changed by what `Roles` names, the weights are ``p = softmax(s)`` and the result is ``p v``.
The derivative works the weights out again from the scores and the logarithm of the sum of their
exponentials, which is a number for each query (Dao et al. 2022, arXiv:2205.14135). What rounding
took from that is a second one: scores may be so large that nothing of the sum is left beside them,
as where all are -1e9.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, TypeAlias

from staticflow.data_classes import dataclass
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import float32, float64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.softmax import lse_parts, lse_reference_parts
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.reduce import sum_op
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.declaring.declare import strict, sum_to
from staticflow.ops.declaring.lowering import Attend
from staticflow.ops.elementwise.maths import exp
from staticflow.ops.elementwise.trig import tanh
from staticflow.ops.matrices.contract import matmul_op

__all__ = ["ROLES", "Roles", "attend_back_op", "attend_op", "write_out", "write_out_back"]

ROLES = ("times", "bias", "keep", "factor", "empty")

Roles: TypeAlias = tuple[str, ...]
"""What the arguments behind the matrices are, each at most once and in the order of `ROLES`, of a
shape that broadcasts to (..., L, S): scores are multiplied by ``times``, and then a ``bias`` is
added; where ``keep`` is false a score is ``fill``; weights are multiplied by a ``factor``; where
``empty``, which broadcasts to (..., L, 1), is true, all weights of a query are 0, also if all its
scores are -inf."""

_BOOLS = ("keep", "empty")


# -- types ----------------------------------------------------------------------------------------


def _infer_sizes(
    facts: Facts, q: TensorType, k: TensorType, v: TensorType, extras: Sequence[TensorType],
    roles: Roles,
) -> None:  # fmt: skip
    """Refuse what does not fit together."""
    for t in (q, k, v):
        if t.ndim < 2 or t.ndim != q.ndim:
            raise ShapeError(f"takes (..., L, E), (..., S, E) and (..., S, V), not {q}, {k}, {v}")
        if t.dtype is not q.dtype or t.dtype not in (float32, float64):
            raise DTypeError(
                f"takes floats of 32 or 64 bits, all alike, not {q.dtype}, {k.dtype}, {v.dtype}"
            )
    for a, b in (*zip(q.shape[:-2], k.shape[:-2], strict=True),
                 *zip(q.shape[:-2], v.shape[:-2], strict=True)):  # fmt: skip
        facts.equal(a, b, f"the leading sizes of {q}, {k} and {v}")
    facts.equal(q.shape[-1], k.shape[-1], f"the columns of {q} and of {k}")
    facts.equal(k.shape[-2], v.shape[-2], f"the rows of {k} and of {v}")
    if len(extras) != len(roles) or list(roles) != [r for r in ROLES if r in roles]:
        raise ShapeError(f"{len(extras)} arguments stand behind the matrices for {list(roles)}")
    for role, t in zip(roles, extras, strict=True):
        scores = (*q.shape[:-1], 1 if role == "empty" else k.shape[-2])
        if (t.dtype.kind != "b") if role in _BOOLS else (t.dtype is not q.dtype):
            raise DTypeError(f"the {role} is {t.dtype}")
        if t.ndim > q.ndim:
            raise ShapeError(f"the {role} {t} has more dims than {list(scores)}")
        for n, m in zip(t.shape, scores[q.ndim - t.ndim :], strict=True):
            if n != 1:
                facts.equal(n, m, f"the sizes of the {role} {t} and of {list(scores)}")


def _infer(
    facts: Facts, q: TensorType, k: TensorType, v: TensorType, *extras: TensorType,
    roles: Roles, fill: float, scale: float, cap: float = 0.0,
) -> Any:  # fmt: skip
    _infer_sizes(facts, q, k, v, extras, roles)
    shape = q.shape[:-1]
    row = TensorType(q.dtype, shape)
    return TensorType(q.dtype, (*shape, v.shape[-1])), row, row


def _infer_back(
    facts: Facts, q: TensorType, k: TensorType, v: TensorType, ct: TensorType, lse: TensorType,
    low: TensorType, delta: TensorType, *extras: TensorType, roles: Roles, fill: float,
    scale: float, cap: float = 0.0, with_scores: bool = False,
) -> Any:  # fmt: skip
    out, row, _ = _infer(facts, q, k, v, *extras, roles=roles, fill=fill, scale=scale)
    for given, wanted in ((ct, out), (lse, row), (low, row), (delta, row)):
        if given.dtype is not wanted.dtype or given.ndim != wanted.ndim:
            raise ShapeError(f"takes {out} and three {row} behind the values, not {given}")
        for n, m in zip(given.shape, wanted.shape, strict=True):
            facts.equal(n, m, f"the sizes of {given} and {wanted}")
    found = [TensorType(t.dtype, t.shape) for t in (q, k, v)]
    if with_scores:
        found.append(TensorType(q.dtype, (*q.shape[:-1], k.shape[-2])))
    return tuple(found)


# -- references -----------------------------------------------------------------------------------


def _reference_scores(
    xp: Any, q: Any, k: Any, of: dict[str, Any], fill: float, cap: float
) -> tuple[Any, Any]:
    """The scores, and their derivative by the products of queries and keys."""
    s = q @ xp.swapaxes(k, -1, -2)
    slope = s.dtype.type(1)
    if cap:
        t, cap = xp.tanh(s), s.dtype.type(cap)
        s, slope = cap * t, cap * (1 - t * t)
    if "times" in of:
        s, slope = s * of["times"], slope * of["times"]
    if "bias" in of:
        s = s + of["bias"]
    if "keep" in of:
        s, slope = (xp.where(of["keep"], x, s.dtype.type(n)) for x, n in ((s, fill), (slope, 0)))
    return s, slope


def _reference(
    xp: Any, q: Any, k: Any, v: Any, *extras: Any, roles: Roles, fill: float, scale: float,
    cap: float = 0.0,
) -> tuple[Any, Any, Any]:  # fmt: skip
    of = dict(zip(roles, extras, strict=True))
    s, _ = _reference_scores(xp, q * q.dtype.type(scale), k, of, fill, cap)
    m, rest = lse_reference_parts(xp, s, (s.ndim - 1,))
    lse = m + rest
    p = xp.exp(s - m - rest)
    used = p * of["factor"] if "factor" in of else p
    out, lse, low = used @ v, lse, m - lse + rest
    if "empty" in of:
        out, lse, low = (
            xp.where(of["empty"], q.dtype.type(n), x) for x, n in ((out, 0), (lse, inf), (low, 0))
        )
    return out, lse[..., 0], low[..., 0]


def _reference_back(
    xp: Any, q: Any, k: Any, v: Any, ct: Any, lse: Any, low: Any, delta: Any, *extras: Any,
    roles: Roles, fill: float, scale: float, cap: float = 0.0, with_scores: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    of = dict(zip(roles, extras, strict=True))
    by = q.dtype.type(scale)
    q = q * by
    s, slope = _reference_scores(xp, q, k, of, fill, cap)
    p = xp.exp(s - lse[..., None] - low[..., None])
    dp, used = ct @ xp.swapaxes(v, -1, -2), p
    if "factor" in of:
        dp, used = dp * of["factor"], p * of["factor"]
    ds = p * (dp - delta[..., None])
    if "keep" in of:
        ds = xp.where(of["keep"], ds, ds.dtype.type(0))
    du = ds * slope
    found = (du @ k) * by, xp.swapaxes(du, -1, -2) @ q, xp.swapaxes(used, -1, -2) @ ct
    return (*found, ds) if with_scores else found


# -- in other ops ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scores:
    """The ``scores`` of scaled queries; what they are ``before`` they are multiplied by ``times``;
    the derivative of that by the products, a ``slope`` that is None where it is 1; and the
    ``bounded`` products ``tanh(q k^T)``, None without a cap."""

    scores: Any
    before: Any
    slope: Any = None
    bounded: Any = None


def _scores(q: Any, k: Any, of: dict[str, Any], fill: float, cap: float) -> _Scores:
    before, slope, bounded = matmul_op(q, mT(k)), None, None
    if cap:
        bounded = tanh(before)
        before, slope = bounded * cap, (1.0 - bounded * bounded) * cap
    s = before * of["times"] if "times" in of else before
    if "bias" in of:
        s = s + of["bias"]
    return _Scores(where(of["keep"], s, fill) if "keep" in of else s, before, slope, bounded)


def _scale(x: Any, scale: float) -> Any:
    return x if scale == 1 else x * scale


def _times(x: Any, *factors: Any) -> Any:
    """The product with those factors that are not None."""
    for factor in factors:
        x = x if factor is None else x * factor
    return x


def _keep_seen(x: Any, of: dict[str, Any]) -> Any:
    return where(of["keep"], x, 0.0) if "keep" in of else x


def write_out(
    q: Any, k: Any, v: Any, *extras: Any, roles: Roles, fill: float, scale: float,
    cap: float = 0.0,
) -> tuple[Any, ...]:  # fmt: skip
    """What `attend_op` gives, in ops that have the weights in memory."""
    of = dict(zip(roles, extras, strict=True))
    s = _scores(_scale(q, scale), k, of, fill, cap).scores
    m, rest = lse_parts(s, (s.ndim - 1,))
    lse = m + rest
    out, low = matmul_op(_times(exp(s - m - rest), of.get("factor")), v), m - lse + rest
    if "empty" in of:
        out, lse, low = (where(of["empty"], n, x) for x, n in ((out, 0.0), (lse, inf), (low, 0.0)))
    return out, *(reshape(x, q.shape[:-1]) for x in (lse, low))


def write_out_back(
    q: Any, k: Any, v: Any, ct: Any, lse: Any, low: Any, delta: Any, *extras: Any, roles: Roles,
    fill: float, scale: float, cap: float = 0.0, with_scores: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """What `attend_back_op` gives, in ops that have the weights in memory."""
    of = dict(zip(roles, extras, strict=True))
    q = _scale(q, scale)
    scored = _scores(q, k, of, fill, cap)
    p, _, ds = _parts(scored, v, ct, lse, low, delta, of)
    ds = _keep_seen(ds, of)
    du = _times(ds, of.get("times"), scored.slope)
    found = (
        _scale(matmul_op(du, k), scale),
        matmul_op(mT(du), q),
        matmul_op(mT(_times(p, of.get("factor"))), ct),
    )
    return (*found, ds) if with_scores else found


def _parts(
    scored: _Scores, v: Any, ct: Any, lse: Any, low: Any, delta: Any, of: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """The weights, the cotangent of their product with the factor, and that of the scores."""
    p = exp(scored.scores - unsqueeze(lse, -1) - unsqueeze(low, -1))
    dp = matmul_op(ct, mT(v))
    return p, dp, p * (_times(dp, of.get("factor")) - unsqueeze(delta, -1))


def _sum_keys(x: Any) -> Any:
    return sum_op(x, dims=(x.ndim - 1,), keepdim=False)


# -- derivatives ----------------------------------------------------------------------------------


def _vjp(
    needs: Sequence[bool], cts: Sequence[Any], out: Sequence[Any], q: Any, k: Any, v: Any,
    *extras: Any, roles: Roles, fill: float, scale: float, cap: float = 0.0,
) -> list[Any]:  # fmt: skip
    of = dict(zip(roles, extras, strict=True))
    # where a query is empty, the logarithm of its sum is inf, and exp(s - inf) = 0
    # dp = factor (ct v^T), ds = p (dp - sum_j p dp), and that sum is the one over the values of
    # ct out; d lse / d s = p, and what rounding took has no derivative
    ct = zeros_like(out[0]) if cts[0] is None else cts[0]
    if "empty" in of:
        ct = where(of["empty"], 0.0, ct)
    delta = _sum_keys(ct * out[0])
    if cts[1] is not None:
        delta = delta - cts[1]
    needed = {role for role, need in zip(roles, needs[3:], strict=True) if need}
    large: dict[str, Any] = {}
    if needed & {"times", "factor"}:
        scored = _scores(_scale(q, scale), k, of, fill, cap)
        p, dp, ds = _parts(scored, v, ct, out[1], out[2], delta, of)
        ds = _keep_seen(ds, of)
        large = {"times": ds * scored.before, "bias": ds, "factor": p * dp}
    found: list[Any] = [None] * 3
    with_scores = "bias" in needed - large.keys()
    if any(needs[:3]) or with_scores:
        found[:] = attend_back_op(
            q, k, v, ct, out[1], out[2], delta, *extras, roles=roles, fill=float(fill),
            scale=float(scale), cap=float(cap), with_scores=with_scores,
        )  # fmt: skip
    if with_scores:
        large["bias"] = found.pop()
    found += _of_extras(large, of)
    return [x if need else None for x, need in zip(found, needs, strict=True)]


def _of_extras(large: dict[str, Any], of: dict[str, Any]) -> list[Any]:
    """The cotangents of what stands behind the matrices, summed to its shapes."""
    return [sum_to(large[role], x.__sf_shape__) if role in large else None
            for role, x in of.items()]  # fmt: skip


def _vjp_back(
    needs: Sequence[bool], cts: Sequence[Any], out: Sequence[Any], q: Any, k: Any, v: Any, ct: Any,
    lse: Any, low: Any, delta: Any, *extras: Any, roles: Roles, fill: float, scale: float,
    cap: float = 0.0, with_scores: bool = False,
) -> list[Any]:  # fmt: skip
    # of du k, du^T q and (p factor)^T ct with ds = p (factor (ct v^T) - delta) and
    # du = ds times slope, whose cotangents are cq, ck and cv, and that of ds with the scores; the
    # first is scaled, and so is q
    of = dict(zip(roles, extras, strict=True))
    times, factor = of.get("times"), of.get("factor")
    cq, ck, cv = (
        zeros_like(x) if c is None else c for c, x in zip(cts[:3], (q, k, v), strict=True)
    )
    q, cq = _scale(q, scale), _scale(cq, scale)
    scored = _scores(q, k, of, fill, cap)
    slope = scored.slope
    p, dp, ds = _parts(scored, v, ct, lse, low, delta, of)
    cdu = matmul_op(cq, mT(k)) + matmul_op(q, mT(ck))
    cds = _times(cdu, times, slope)
    if with_scores and cts[3] is not None:
        cds = cds + cts[3]
    cds = _keep_seen(cds, of)
    used = matmul_op(ct, mT(cv))
    cdp = cds * p
    cs = (_times(used, factor) + cds * (_times(dp, factor) - unsqueeze(delta, -1))) * p
    rows = -_sum_keys(cs)
    seen, kept, cdv = _keep_seen(cs, of), _keep_seen(ds, of), _times(cdp, factor)
    cu, du = _times(seen, times, slope), _times(kept, times, slope)
    if scored.bounded is not None:  # d slope = -2 tanh slope
        cu = cu - 2.0 * cdu * du * scored.bounded
    large = {"bias": seen, "factor": cdp * dp + p * used}
    if times is not None:
        large["times"] = seen * scored.before + _times(cdu * kept, slope)
    found = [
        _scale(matmul_op(cu, k) + matmul_op(du, ck), scale),
        matmul_op(mT(cu), q) + matmul_op(mT(du), cq),
        matmul_op(mT(cdv), ct),
        matmul_op(cdv, v) + matmul_op(_times(p, factor), cv),
        rows,
        rows,
        -_sum_keys(cdp),
        *_of_extras(large, of),
    ]
    return [x if needed else None for x, needed in zip(found, needs, strict=True)]


attend_op: Op = Op(
    name="attend",
    doc="``softmax((scale q) k^T) v`` over the keys, of queries (..., L, E), keys (..., S, E) and "
    "values (..., S, V); the logarithm of the sum of the exponentials of the scores; and what "
    "rounding took from that.",
    infer=_infer,
    reference=strict(_infer, _reference),
    vjp=_vjp,
    lowering=Attend(3),
    kinds="f",
    numpy="faster",
    grad_name="ScaledDotProductFlashAttentionForCpuBackward0",
)

attend_back_op: Op = Op(
    name="attend_back",
    doc="The cotangents of queries, keys and values from that of the result of ``attend``, the "
    "logarithms that it gave with what rounding took, and the sum of the products of the result "
    "and its cotangent; ``with_scores`` those of the scores (..., L, S), too, which are in memory.",
    infer=_infer_back,
    reference=strict(_infer_back, _reference_back),
    vjp=_vjp_back,
    saves=range(7 + len(ROLES)),  # all but a mask of empty queries
    lowering=Attend(4, rows=3, backward=True),
    kinds="f",
    numpy="faster",
    grad_name="ScaledDotProductFlashAttentionForCpuBackward1",
)
