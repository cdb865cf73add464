"""Helpers with which the ops are declared: the type rules that many share, and vjps by argument."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from functools import lru_cache, wraps
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import DimRangeError, DTypeError, ShapeError
from staticflow.graph.dims import Dim, Size, same
from staticflow.graph.dtypes import DType, dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Numbers, NumPy, Op, Promotion
from staticflow.graph.types import Facts, Shape, TensorType, Type
from staticflow.ops.declaring.lowering import Elementwise

__all__ = [
    "PerElement", "compose", "elementwise", "normalize_dim", "normalize_dims", "per_arg",
    "real_function", "same_size", "strict", "sum_to",
]  # fmt: skip

Partial = Callable[..., Any] | None

_EXACT = frozenset((
    "absolute", "add", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "ceil",
    "copysign", "divide", "equal", "floor", "gcd", "greater", "greater_equal", "isfinite", "isinf",
    "isnan", "lcm", "left_shift", "less", "less_equal", "logical_and", "logical_not", "logical_or",
    "logical_xor", "multiply", "negative", "not_equal", "reciprocal",
    "right_shift", "rint", "sign", "sqrt", "subtract", "trunc",
))  # fmt: skip
"""Ufuncs that give the same bits whoever computes them, so that results do not depend on the number
of threads."""

_COMMUTE = frozenset((
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "logical_and", "logical_or",
    "logical_xor", "multiply", "not_equal",
))  # fmt: skip
"""Ufuncs that give the same bits with their arguments exchanged. Of two zeros a maximum gives one
by its place."""


def per_arg(*partials: Partial) -> Callable[..., Sequence[Any]]:
    """A vjp from one function ``(ct, out, *args, **attrs)`` for each argument; None for an argument
    without a derivative. Only what is needed is computed."""

    def vjp(needs: Sequence[bool], ct: Any, out: Any, *args: Any, **attrs: Any) -> list[Any]:
        return [
            p(ct, out, *args, **attrs) if need and p is not None else None
            for need, p in zip(needs, partials, strict=True)
        ]

    return vjp


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes are the same as far as broadcasting goes: only a literal 1 stretches, so
    two unknown sizes that met in an op are equal by assumption."""
    if isinstance(a, Dim) or isinstance(b, Dim):
        return not same(a, 1) and not same(b, 1)
    return a == b


def normalize_dim(dim: int, ndim: int, what: str) -> int:
    """``dim`` counted from the front; a 0-d tensor takes 0 and -1, as in PyTorch."""
    limit = max(ndim, 1)
    dim = dim if type(dim) is int else operator.index(dim)
    if not -limit <= dim < limit:
        raise DimRangeError(
            f"{what}: dim {dim} is out of range for a tensor of {ndim} dims; "
            f"it must be from {-limit} to {limit - 1}, at {format_locs(here())}"
        )
    return dim % limit


def normalize_dims(dim: int | Sequence[int] | None, ndim: int, what: str) -> tuple[int, ...]:
    """The dims that ``dim`` names, counted from the front and sorted; None names all."""
    if dim is None:
        return tuple(range(ndim))
    given = tuple(dim) if isinstance(dim, list | tuple | range) else (dim,)
    dims = sorted(normalize_dim(d, ndim, what) for d in given)
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{what}: a dim appears twice in {given}, at {format_locs(here())}")
    return tuple(dims) if ndim else ()


def strict(infer: Callable[..., Type], reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that holds its arguments to the type rule, where NumPy would take more."""

    @lru_cache(1024)
    def check(types: tuple[Any, ...], attrs: tuple[tuple[str, Any], ...]) -> None:
        infer(
            Facts(), *(TensorType(dtype_of(dtype), shape) for dtype, shape in types), **dict(attrs)
        )

    def check_and_run(xp: Any, *arrays: Any, **attrs: Any) -> Any:
        check(tuple([(a.dtype, a.shape) for a in arrays]), tuple(attrs.items()))
        return reference(xp, *arrays, **attrs)

    return check_and_run


def _dtypes(types: Sequence[TensorType]) -> DType:
    first = types[0].dtype
    for t in types[1:]:
        if t.dtype is not first:
            raise DTypeError(f"the operands are of different dtypes, {first} and {t.dtype}")
    return first


def _broadcast_rule(result: DType | None, kinds: str) -> Callable[..., TensorType]:
    def infer(facts: Facts, *types: TensorType, **attrs: Any) -> TensorType:
        dtype = _dtypes(types)
        if dtype.kind not in kinds:
            raise DTypeError(f"not defined for {dtype.name}")
        shape: Shape = facts.broadcast([t.shape for t in types])
        return TensorType(result or dtype, shape)

    return infer


def elementwise(
    name: str,
    doc: str,
    reference: Callable[..., Any] | str,
    emit: Callable[..., Any],
    vjp: Sequence[Partial] | None = None,
    *,
    kinds: str = "biuf",
    result: DType | None = None,
    promote: Promotion = "common",
    grad_name: str = "",
    infer: Callable[..., TensorType] | None = None,
    numpy: NumPy | None = None,
    exact: bool = False,
    names: tuple[str, ...] = ("input", "other"),
    numbers: Numbers = "fit",
    piecewise_linear: bool = False,
    flows: Callable[..., Sequence[Collection[int]]] | None = None,
) -> Op:
    """An op that works element by element, with broadcasting.

    ``vjp`` has one partial for each argument, in the shape of the result; they are summed down to
    the argument's shape here. A name as ``reference`` is that of the NumPy ufunc. ``kinds`` are the
    operand kinds that it is defined for, ``result`` the dtype it gives if that is not the operands'
    own.
    """
    return Op(
        name=name,
        doc=doc,
        infer=infer or _broadcast_rule(result, kinds),
        reference=_ufunc_reference(reference) if isinstance(reference, str) else reference,
        ufunc=reference if isinstance(reference, str) else None,
        vjp=None if vjp is None else PerElement(tuple(vjp)),
        lowering=Elementwise(emit),
        promote=promote,
        kinds="biuf" if promote == "float" else kinds,
        numpy=numpy or ("alone" if reference in _EXACT else "small"),
        exact=exact or (numpy is None and reference in _EXACT),
        grad_name=grad_name or f"{name.title().replace('_', '')}Backward0",
        names=names,
        numbers=numbers,
        piecewise_linear=piecewise_linear,
        flows=flows,
        commutes=reference in _COMMUTE,
    )


def real_function(
    name: str,
    doc: str,
    reference: Callable[..., Any] | str,
    partial: Callable[..., Any],
    numpy: NumPy | None = None,
    exact: bool = False,
) -> Op:
    """A function of one real number, lowered to the builder's method of its name. Integers become
    the default float."""
    return elementwise(
        name, doc, reference,
        lambda k, x: getattr(k, name)(x),
        (partial,),
        kinds="f", promote="float", numpy=numpy, exact=exact,
    )  # fmt: skip


def compose(
    name: str,
    doc: str,
    reference: Callable[..., Any],
    emit: Callable[..., Any],
    vjp: Sequence[Partial],
    **options: Any,
) -> Op:
    """An elementwise op of several steps. Floats of 16 bits are computed in float32 and rounded
    once."""

    @wraps(reference)
    def wide(xp: Any, *args: Any, **attrs: Any) -> Any:
        dtype = next(a.dtype for a in args if hasattr(a, "dtype"))
        is_narrow = dtype.itemsize == 2 and dtype.kind not in "iu"
        wide_dtype = xp.float32 if is_narrow else dtype
        widened = (xp.asarray(a, wide_dtype) for a in args)
        return reference(xp, *widened, **attrs).astype(dtype, copy=False)

    def emit_wide(k: Any, *args: Any, **attrs: Any) -> Any:
        return k.real(lambda k, *xs: emit(k, *xs, **attrs), *args)

    return elementwise(name, doc, wide, emit_wide, vjp, **{"kinds": "f", **options})


def _ufunc_reference(name: str) -> Callable[..., Any]:
    if getattr(np, name).nin == 1:
        return lambda xp, x: getattr(xp, name)(x)
    return lambda xp, x, y: getattr(xp, name)(x, y)


@dataclass(frozen=True, slots=True)
class PerElement:
    """The vjp of an elementwise op: one partial for each argument, in the shape of the result, and
    summed down to the argument's.

    It is ``self_contained`` if the partials name nothing but their arguments: they are then made of
    Python's operators alone, which mean the same on arrays.
    """

    partials: tuple[Partial, ...]
    self_contained: bool = field(init=False)

    def __post_init__(self) -> None:
        codes = [p.__code__ for p in self.partials if p is not None]
        alone = not any(c.co_names or c.co_freevars for c in codes)
        object.__setattr__(self, "self_contained", alone)

    def __call__(
        self, needs: Sequence[bool], ct: Any, out: Any, *args: Any, **attrs: Any
    ) -> list[Any]:
        """The cotangents of the arguments, of their shapes."""
        return [
            sum_to(p(ct, out, *args, **attrs), arg.__sf_shape__) if need and p is not None else None
            for need, p, arg in zip(needs, self.partials, args, strict=True)
        ]


def sum_to(ct: Any, shape: Shape) -> Any:
    """``ct`` summed over the dims that broadcasting from ``shape`` had stretched."""
    if ct.__sf_shape__ == shape:
        return ct
    extra = len(ct.shape) - len(shape)
    stretched = [extra + i for i, d in enumerate(shape) if not same_size(d, ct.shape[extra + i])]
    if stretched:
        ct = ct.sum(tuple(stretched), keepdim=True)
    return ct.sum(tuple(range(extra))) if extra else ct
