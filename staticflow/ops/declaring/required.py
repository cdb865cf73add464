"""What a function needs of sizes and of values: it is refused at once where this is known not to
hold, and where only a call can tell, by the program that is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.errors import ArgumentError, DTypeError, ShapeError, SymbolicError
from staticflow.graph.dims import Dim, Size, closed_size, dim_max, same_shape
from staticflow.graph.dtypes import bool_
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.declaring.declare import per_arg, strict
from staticflow.ops.declaring.lowering import Checked, View

__all__ = [
    "asserted_op", "require_at_least", "require_equal", "require_other", "require_shape",
    "require_true", "required_op",
]  # fmt: skip


def _infer(
    facts: Facts, x: TensorType, *, pairs: tuple[tuple[Size, Size], ...], what: str
) -> TensorType:
    for a, b in pairs:
        facts.equal(a, b, what)
    return x


def _reference(xp: Any, x: Any, *, pairs: tuple[tuple[Size, Size], ...], what: str) -> Any:
    if any(isinstance(size, Dim) for pair in pairs for size in pair):  # a tensor beside a symbol
        raise SymbolicError(f"{what}: only the program that is called can tell")
    return x


required_op: Op = Op(
    name="required",
    doc="``x``, where the two sizes in each of ``pairs`` are equal; an error calls them ``what``.",
    infer=_infer,
    reference=_reference,
    vjp=per_arg(lambda ct, out, x, **_: ct),
    lowering=View(lambda index, src, dst, **_: index),
    grad_name="AliasBackward0",
)


def _assert_infer(facts: Facts, x: TensorType, ok: TensorType, *, what: str) -> TensorType:
    if ok.dtype is not bool_ or ok.ndim:
        raise DTypeError(f"{ok} is no bool")
    return x


def _assert_reference(xp: Any, x: Any, ok: Any, *, what: str) -> Any:
    if not ok:
        raise ArgumentError(what)
    return x


asserted_op: Op = Op(
    name="asserted",
    doc="``x``, where the bool ``ok`` is true; else an error says ``what``.",
    infer=_assert_infer,
    reference=strict(_assert_infer, _assert_reference),
    vjp=per_arg(lambda ct, out, x, ok, *, what: asserted_op(ct, ok, what=what), None),
    lowering=Checked(lambda k, x, ok, *, what: x, lambda k, x, ok, *, what: ok, "values"),
    grad_name="AliasBackward0",
)


def require_true(x: Any, ok: Any, what: str) -> Any:
    """``x``, of a function that takes values for which the bool ``ok``, a tensor, is true.

    >>> import staticflow as sf
    >>> x = sf.placeholder((3,), name="x")
    >>> root = require_true(x.sqrt(), (x >= 0).all(), "root: of a negative number")
    >>> sf.compile([x], root)(sf.tensor([0.0, 1.0, 4.0]))
    tensor([0., 1., 2.])

    Raises `ArgumentError` if it is false; in a graph the program that is called does, whether it
    computes ``x`` or gradients that come by it.
    """
    if ok.__sf_mode__.rank > 0:
        return asserted_op(x, ok, what=what)
    if not ok:
        raise ArgumentError(f"{what}, at {format_locs(here())}")
    return x


def require_equal(x: Any, a: Size, b: Size, what: str) -> Any:
    """``x``, of a function that takes it where the sizes ``a`` and ``b``, of ``what``, are equal.

    >>> import staticflow as sf
    >>> rows = sf.placeholder((None, 2), name="rows")
    >>> pair = require_equal(rows, rows.shape[0], 2, "the rows of a pair")
    >>> sf.compile([rows], pair)(sf.ones(2, 2)).shape
    (2, 2)

    Raises `ShapeError` if they differ; where only a call can tell, the program does.
    """
    return _behind(x, what, lambda facts: facts.equal(closed_size(a), closed_size(b), what))


def require_shape(x: Any, wanted: Shape, what: str) -> Any:
    """``x``, of a function that takes it where its shape is ``wanted``; it is called ``what``.

    Raises `ShapeError` if it is another; where only a call can tell, the program does.
    """
    if same_shape(x.shape, wanted):
        return x
    sizes = f"{what} has shape {list(x.shape)}, and {list(wanted)} is needed"
    pairs = list(zip(x.shape, wanted, strict=False))
    if len(x.shape) != len(wanted) or any(isinstance(a - b, int) and a != b for a, b in pairs):
        raise ShapeError(f"{sizes}, at {format_locs(here())}")
    for a, b in pairs:
        x = require_equal(x, a, b, sizes)
    return x


def require_at_least(x: Any, size: Size, least: Size, what: str) -> Any:
    """``x``, of a function that takes it where the ``size``, of ``what``, is ``least`` or more.

    Raises `ShapeError` if it is less; where only a call can tell, the program does.
    """
    return _behind(
        x, what, lambda facts: facts.at_least(closed_size(size), closed_size(least), what)
    )


def require_other(x: Any, size: Size, number: int, what: str) -> Any:
    """``x``, of a function that takes it where the ``size``, of ``what``, is not ``number``.

    Raises `ShapeError` if it is; where only a call can tell, the program does.
    """
    off, is_so = closed_size(size) - number, f"{what} is {number}"
    if isinstance(off, int) and off == 0:
        raise ShapeError(f"{is_so}, at {format_locs(here())}")
    return _behind(x, is_so, lambda facts: facts.at_least(dim_max(off, -off), 1, is_so))


def _behind(x: Any, what: str, state: Callable[[Facts], object]) -> Any:
    """``x``, behind what the function ``state`` tells facts."""
    facts = Facts()
    try:
        state(facts)
    except ShapeError as error:
        raise ShapeError(f"{error}, at {format_locs(here())}") from None
    if not facts.assumptions:
        return x
    return required_op(x, pairs=tuple((fact.a, fact.b) for fact in facts.assumptions), what=what)
