"""Helpers with which the ops are declared: the type rules that many share, and vjps by argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Dim, Size
from staticflow.graph.dtypes import DType, dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.lowering import Elementwise

__all__ = [
    "elementwise", "normalize_dim", "normalize_dims", "per_arg", "same_size", "strict", "sum_to",
]  # fmt: skip

Partial = Callable[..., Any] | None


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
    return a == b or (a != 1 and b != 1 and (isinstance(a, Dim) or isinstance(b, Dim)))


def normalize_dim(dim: int, ndim: int, what: str) -> int:
    """``dim`` counted from the front; a 0-d tensor takes 0 and -1, as in PyTorch."""
    limit = max(ndim, 1)
    if not -limit <= dim < limit:
        raise ShapeError(
            f"{what}: dim {dim} is out of range for a tensor of {ndim} dims; "
            f"it must be from {-limit} to {limit - 1}, at {format_locs(here())}"
        )
    return dim % limit


def normalize_dims(dim: int | Sequence[int] | None, ndim: int, what: str) -> tuple[int, ...]:
    """The dims that ``dim`` names, counted from the front and sorted; None names all."""
    if dim is None:
        return tuple(range(ndim))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    dims = sorted(normalize_dim(d, ndim, what) for d in given)
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{what}: a dim appears twice in {given}, at {format_locs(here())}")
    return tuple(dims) if ndim else ()


def strict(infer: Callable[..., TensorType], reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that holds its arguments to the type rule, where NumPy would take more."""

    def checked(xp: Any, *arrays: Any, **attrs: Any) -> Any:
        infer(Facts(), *(TensorType(dtype_of(a.dtype), a.shape) for a in arrays), **attrs)
        return reference(xp, *arrays, **attrs)

    return checked


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
    reference: Callable[..., Any],
    emit: Callable[..., Any],
    vjp: Sequence[Partial] | None = None,
    *,
    saves: tuple[int, ...] = (),
    kinds: str = "biuf",
    result: DType | None = None,
    promote: str = "common",
    grad_name: str = "",
    infer: Callable[..., TensorType] | None = None,
) -> Op:
    """An op that works element by element, with broadcasting.

    ``vjp`` has one partial for each argument, in the shape of the result; they are summed down to
    the argument's shape here. ``kinds`` are the operand kinds that it is defined for, ``result``
    the dtype it gives if that is not the operands' own.
    """
    return Op(
        name=name,
        doc=doc,
        infer=infer or _broadcast_rule(result, kinds),
        reference=reference,
        vjp=None if vjp is None else _unbroadcast(tuple(vjp)),
        lowering=Elementwise(emit),
        saves=saves,
        promote=promote,
        kinds="biuf" if promote == "float" else kinds,
        grad_name=grad_name or f"{name.title().replace('_', '')}Backward0",
    )


def _unbroadcast(partials: tuple[Partial, ...]) -> Callable[..., Sequence[Any]]:
    def vjp(needs: Sequence[bool], ct: Any, out: Any, *args: Any, **attrs: Any) -> list[Any]:
        return [
            sum_to(p(ct, out, *args, **attrs), arg.shape) if need and p is not None else None
            for need, p, arg in zip(needs, partials, args, strict=True)
        ]

    return vjp


def sum_to(ct: Any, shape: Shape) -> Any:
    """``ct`` summed over the dims that broadcasting from ``shape`` had stretched."""
    if ct.shape == shape:
        return ct
    extra = len(ct.shape) - len(shape)
    stretched = [extra + i for i, d in enumerate(shape) if not same_size(d, ct.shape[extra + i])]
    if stretched:
        ct = ct.sum(tuple(stretched), keepdim=True)
    return ct.sum(tuple(range(extra))) if extra else ct
