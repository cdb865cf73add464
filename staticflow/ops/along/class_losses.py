"""Losses of scores against classes, which are checked to be such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Dim, Size
from staticflow.graph.dtypes import DType, int32, int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.along.softmax import lse_parts, lse_reference_parts
from staticflow.ops.basics.arithmetic import cast, logical_and, ne, where
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.reduce import accumulator, narrow_as, sum_op, wide, widen
from staticflow.ops.basics.view import reshape, squeeze, unsqueeze
from staticflow.ops.declaring.declare import per_arg, strict
from staticflow.ops.declaring.lowering import Checked
from staticflow.ops.elementwise.maths import exp
from staticflow.ops.indexing.gather_ops import check_range, gather_op, take_along

__all__ = ["check_classes", "class_hits", "cross_entropy_op", "nll_op", "sum_chosen"]


def _rows(facts: Facts, x: TensorType, target: TensorType, what: str) -> Shape:
    """The shape of a loss for each class of ``target`` (N, ...), of ``x`` (N, C, ...)."""
    if x.ndim < 2 or target.ndim != x.ndim - 1:
        raise ShapeError(
            f"takes {what} (N, C, ...) and classes (N, ...), not shapes {list(x.shape)} and "
            f"{list(target.shape)}"
        )
    if not x.dtype.is_floating:
        raise DTypeError(f"the {what} are {x.dtype}; they must be of a floating dtype")
    if target.dtype.kind not in "iu":
        raise DTypeError(f"the classes are {target.dtype}; they must be of an integer dtype")
    rows = (x.shape[0], *x.shape[2:])
    for a, b in zip(rows, target.shape, strict=True):
        facts.equal(a, b, f"the rows of {x} and the classes {target}")
    return rows


# -- classes --------------------------------------------------------------------------------------


def _class_emit(k: Any, target: Any, *, ignore_index: Size | None, **_: Any) -> Any:
    value = k.cast(target, int64)
    if ignore_index is None:
        return value
    return k.select(_is_ignored(k, value, ignore_index), -1, value)


def _is_ignored(k: Any, value: Any, ignore_index: Size) -> Any:
    number = k.index_value(ignore_index) if isinstance(ignore_index, Dim) else ignore_index
    return k.compare("eq", value, number)


def _class_inside(
    k: Any, target: Any, *, classes: Size, ignore_index: Size | None, **_: Any
) -> Any:
    value = place = k.cast(target, int64)
    if ignore_index is not None:
        place = k.select(_is_ignored(k, value, ignore_index), 0, value)
    return k.apply("and", k.compare("ge", place, 0), k.compare("lt", place, k.index_value(classes)))


def _class_reference(
    xp: Any, target: Any, *, classes: int, ignore_index: int | None, dtype: DType, of: str
) -> Any:
    target = target.astype(xp.int64)
    if ignore_index is None:
        check_range(xp, target, classes, of, 1)
        return target.astype(dtype.numpy)
    keep = target != ignore_index
    check_range(xp, xp.where(keep, target, 0), classes, of, 1)
    return xp.where(keep, target, -1).astype(dtype.numpy)


class_op = Op(
    name="class_index",
    doc="``target``, checked to lie in [0, ``classes``); -1 where it is ``ignore_index``. In "
    "``dtype``; ``of`` says who asks, for the message of an error. None ignores no class.",
    infer=lambda facts, target, *, dtype, **_: TensorType(dtype, target.shape),
    reference=_class_reference,
    vjp=None,
    lowering=Checked(_class_emit, _class_inside),
)


def check_classes(x: Any, target: Any, ignore_index: int | None, of: str) -> Any:
    """``target`` where it is a class of ``x`` (N, C, ...), -1 where it is ``ignore_index``, unless
    that is None; any other stops ``of`` with an `IndexRangeError`."""
    size = x.shape[1]
    # in int32 where that is known to do: as wide as most floats that they stand beside
    dtype = int32 if isinstance(size, int) and size < 2**31 else int64
    attrs = {"classes": size, "ignore_index": ignore_index, "dtype": dtype, "of": of}
    return class_op.beside(x, target, **attrs)


# -- minus the log-probability ---------------------------------------------------------------------


def _nll_infer(facts: Facts, x: TensorType, target: TensorType, *, ignore_index: int) -> TensorType:
    return TensorType(x.dtype, _rows(facts, x, target, "log-probabilities"))


def _nll_reference(xp: Any, x: Any, target: Any, *, ignore_index: int) -> Any:
    keep = target != ignore_index
    classes = xp.where(keep, target, xp.zeros_like(target))
    check_range(xp, classes, x.shape[1], "nll_loss", 1)
    index = xp.expand_dims(classes.astype(xp.int64), 1)
    chosen = take_along(xp, x, index, 1)[:, 0]
    return xp.where(keep, -chosen, xp.zeros_like(chosen))


def _nll_vjp(ct: Any, out: Any, x: Any, target: Any, *, ignore_index: int) -> Any:
    # of rows there are views alone, so that one kernel of elements does all of it
    classes = iota.beside(x, shape=x.shape, dim=1, dtype=int64)
    target = cast(expand(unsqueeze(target, 1), x.shape), dtype=int64)  # any ignore_index fits
    hit = logical_and(classes == target, ne(target, ignore_index))
    return where(hit, -expand(unsqueeze(ct, 1), x.shape), 0.0)


def _nll_decompose(x: Any, target: Any, *, ignore_index: int) -> Any:
    classes = check_classes(x, target, ignore_index, "nll_loss")
    keep = classes >= 0
    chosen = gather_op(x, unsqueeze(where(keep, classes, 0), 1), dim=1)
    return where(keep, -squeeze(chosen, 1), 0.0)


def sum_chosen(hit: Any, x: Any, dim: int) -> Any:
    """The element of ``x`` along ``dim`` at which ``hit`` is true, of which there is one or none;
    then it is 0. A kernel that reads all of ``x`` anyway finds it in the same pass."""
    return sum_op(where(hit, x, 0.0), dims=(dim,), keepdim=True)


nll_op = Op(
    name="nll",
    doc="Minus ``x[i, target[i]]``, or 0 where the target is ``ignore_index``.",
    infer=_nll_infer,
    reference=strict(_nll_infer, _nll_reference),
    vjp=per_arg(_nll_vjp, None),
    decompose=_nll_decompose,
    grad_name="NllLossBackward0",
)


# -- from scores -----------------------------------------------------------------------------------


def _ce_infer(
    facts: Facts, x: TensorType, target: TensorType, *, ignore_index: int, mean: bool
) -> Any:
    rows = _rows(facts, x, target, "scores")
    loss = TensorType(x.dtype, () if mean else rows)
    return loss, TensorType(wide(x.dtype), (x.shape[0], 1, *x.shape[2:]))


def _ce_reference(
    xp: Any, x: Any, target: Any, *, ignore_index: int, mean: bool
) -> tuple[Any, Any]:
    w = x.astype(accumulator(x.dtype), copy=False)
    attrs = {"classes": x.shape[1], "ignore_index": ignore_index}
    classes = _class_reference(xp, target, **attrs, dtype=int64, of="cross_entropy")
    m, rest = lse_reference_parts(xp, w, (1,))
    at = xp.expand_dims(xp.where(classes < 0, 0, classes), 1)
    chosen = take_along(xp, w, at, 1) if at.size else m
    loss = xp.where(classes < 0, w.dtype.type(0), (rest - (chosen - m))[:, 0])
    if mean:
        loss = loss.sum() / (classes >= 0).sum().astype(w.dtype)
    return loss.astype(x.dtype), rest + m


def class_hits(x: Any, target: Any, ignore_index: int | None, of: str) -> tuple[Any, Any]:
    """The classes that `check_classes` gives, and where each element of ``x`` is that of its
    class."""
    classes = check_classes(x, target, ignore_index, of)
    each = iota.beside(x, shape=x.shape, dim=1, dtype=classes.dtype)
    return classes, each == unsqueeze(classes, 1)


def _count_kept(classes: Any, w: Any) -> Any:
    """The number of classes that are not ignored, in the dtype of ``w``."""
    return sum_op(cast(classes >= 0, dtype=w.dtype), dims=tuple(range(classes.ndim)), keepdim=False)


def _ce_decompose(x: Any, target: Any, *, ignore_index: int, mean: bool) -> tuple[Any, Any]:
    w = widen(x)
    classes, hit = class_hits(x, target, ignore_index, "cross_entropy")
    m, rest = lse_parts(w, (1,))
    chosen = sum_chosen(hit, w - m, 1)
    loss = where(unsqueeze(classes, 1) < 0, 0.0, rest - chosen)
    loss = reshape(loss, target.shape)
    if mean:
        loss = sum_op(loss, dims=tuple(range(loss.ndim)), keepdim=False) / _count_kept(classes, w)
    return narrow_as(loss, x), rest + m


def _ce_vjp(
    needs: Sequence[bool],
    cts: Sequence[Any],
    out: Any,
    x: Any,
    target: Any,
    *,
    ignore_index: int,
    mean: bool,
) -> list[Any]:
    # d loss[i] / d x[i, c] = softmax(x[i])[c] - (c == target[i])
    w = widen(x)
    classes, hit = class_hits(x, target, ignore_index, "cross_entropy")
    softmax = exp(w - out[1])
    total = 0.0
    if cts[0] is not None:
        ct = widen(cts[0])
        ct = expand(ct / _count_kept(classes, w), target.shape) if mean else ct
        ct = where(unsqueeze(classes, 1) < 0, 0.0, unsqueeze(ct, 1))
        total = softmax * ct - where(hit, ct, 0.0)
    if cts[1] is not None:
        total = total + softmax * cts[1]
    return [narrow_as(total, x), None]


cross_entropy_op = Op(
    name="cross_entropy",
    doc="``logsumexp(x[i]) - x[i, target[i]]``, 0 where the target is ``ignore_index``, or "
    "their ``mean`` over the others; and the logsumexp, which the derivative reads.",
    infer=_ce_infer,
    reference=strict(_ce_infer, _ce_reference),
    vjp=_ce_vjp,
    decompose=_ce_decompose,
    grad_name="NllLossBackward0",
    numpy="slower",
)
