"""Derivatives of functions: products with the Jacobian from either side, the Jacobian, the Hessian.

Each takes a function and its inputs, eager tensors or symbols, and gives eager tensors or symbols
back. An eager ``jvp`` is taken by reverse mode twice: the vjp is linear in its cotangent, and the
transpose of that linear map is the jvp (J. Townsend, "A new trick for calculating Jacobian vector
products", 2017). A symbolic one walks forward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from typing import cast as cast_type

from staticflow.autograd.vmap import vmap
from staticflow.eager import tape
from staticflow.eager.grad_mode import enable_grad
from staticflow.eager.ranges import eye
from staticflow.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from staticflow.graph.dims import same_shape
from staticflow.graph.dtypes import DType
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import Shape
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.creation import new_zeros, ones_like, zeros_like
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.joining import stack
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.declaring.foreign import how_to_wrap, kind_of, refuses_foreign
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.loops.meets_symbol import in_graph, run_or_write
from staticflow.ops.loops.scan import scan
from staticflow.ops.symbols.gradient import pullback, pushforward
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]
D = TypeVar("D", bound=Function)


def run_or_trace(derivative: D) -> D:
    """The ``derivative(func, inputs, ...)`` as one that is part of a graph, and runs nothing, where
    an argument is a symbol or ``func`` meets one."""

    @functools.wraps(derivative)
    def call(func: Function, *args: Any, **named: Any) -> Any:
        return run_or_write(lambda: derivative(func, *args, **named), (args, named), func)

    return cast_type("D", refuses_foreign(call))


@run_or_trace
def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs of ``func(*inputs)``, and ``v`` times its Jacobian, in the structure of
    ``inputs``.

    ``v`` has the structure of the outputs; it may be left out for a single number. With
    ``create_graph`` the results are recorded. With ``strict`` an input that the outputs do not
    depend on is an `AutogradError` instead of zeros.

    >>> import staticflow as sf
    >>> vjp(lambda x: x * x, sf.tensor([1.0, 2.0]), sf.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    one, xs = _inputs(inputs, create_graph)
    with enable_grad():
        single, ys = _call(func, xs)
        cts = _directions("vjp", v, ys, "output")
        found = fill_missing(pull(ys, xs, cts, create_graph), xs, strict)
    return _as_given(ys, single, create_graph), _as_given(found, one, create_graph)


@run_or_trace
def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs of ``func(*inputs)``, and its Jacobian times ``v``, in the structure of the
    outputs.

    ``v`` has the structure of ``inputs``; it may be left out for a single number. The rest is as in
    `vjp`.

    >>> import staticflow as sf
    >>> jvp(lambda x: x * x, sf.tensor([1.0, 2.0]), sf.tensor([1.0, 0.0]))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    _, xs = _inputs(inputs, create_graph)
    with enable_grad():
        single, ys = _call(func, xs)
        moves = _directions("jvp", v, xs, "input")
        found = fill_missing(tangents_along(ys, xs)(moves, create_graph), ys, strict)
    return _as_given(ys, single, create_graph), _as_given(found, single, create_graph)


@run_or_trace
def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of every element of ``func(*inputs)`` by every element of the inputs: of
    shape output + input. With several outputs or inputs, a tuple of them (outputs outside).

    The ``strategy`` "reverse-mode" computes it row by row, "forward-mode" column by column. With
    ``vectorize`` a graph computes all of these at once by `vmap`, which is faster and takes memory
    for all; tensors are differentiated one row or column after the other in any case.

    >>> import staticflow as sf
    >>> jacobian(lambda x: x * x, sf.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    forward = _is_forward("jacobian", "strategy", strategy)
    chunk = None if as_bool("jacobian: 'vectorize'", vectorize) else 1
    one, xs = _inputs(inputs, create_graph)
    with enable_grad():
        single, ys = _call(func, xs)
        found = (
            columns_of(ys, xs, create_graph, strict, chunk) if forward
            else [rows_of(y, xs, create_graph, strict, chunk) for y in ys]
        )  # fmt: skip
        rows = tuple(_as_given(row, one, create_graph) for row in found)
    return rows[0] if single else rows


@run_or_trace
def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of ``func(*inputs)``, a single number: of shape input + input. With
    several inputs, a tuple of tuples.

    ``outer_jacobian_strategy`` and ``vectorize`` are the ``strategy`` and ``vectorize`` with which
    `jacobian` differentiates the gradient; of symbols it takes tangents in any case, which need
    less memory and time.

    >>> import staticflow as sf
    >>> hessian(lambda x: (x * x * x).sum(), sf.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    forward = _is_forward("hessian", "outer_jacobian_strategy", outer_jacobian_strategy)
    chunk = None if as_bool("hessian: 'vectorize'", vectorize) else 1
    gradient = _gradient("hessian", func, inputs)
    one, xs = _inputs(inputs, create_graph)
    with enable_grad():
        single, ys = _call(gradient, xs)
        if forward or any(isinstance(y, Symbol) for y in ys):
            found = columns_of(ys, xs, create_graph, strict, chunk)
        else:
            found = [rows_of(y, xs, create_graph, strict, chunk) for y in ys]
    rows = tuple(_as_given(row, one, create_graph) for row in found)
    return rows[0] if single else rows


def _is_forward(what: str, name: str, strategy: str) -> bool:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ArgumentError(
            f'{what}: {name} is {strategy!r}; it must be "forward-mode" or "reverse-mode", '
            f"at {format_locs(here())}"
        )
    return strategy == "forward-mode"


@run_or_trace
def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of ``func(*inputs)``, a single number, and its Hessian times ``v``, which has the
    structure of ``inputs``."""
    return func(*_tuple(inputs)), jvp(
        _gradient("hvp", func, inputs), inputs, v, create_graph, strict
    )[1]


@run_or_trace
def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of ``func(*inputs)``, a single number, and ``v`` times its Hessian, which costs
    less than `hvp` and is the same, the Hessian being symmetric."""
    return func(*_tuple(inputs)), vjp(
        _gradient("vhp", func, inputs), inputs, v, create_graph, strict
    )[1]


def _gradient(what: str, func: Function, inputs: Any) -> Function:
    def gradient(*xs: Any) -> Any:
        single, ys = _call(func, xs)
        if not single or ys[0].numel() != 1:
            shapes = ", ".join(str(list(y.shape)) for y in ys)
            raise ShapeError(
                f"{what}: the function must give a single number, it gave {shapes}; take the "
                f"jacobian instead, or reduce it, at {format_locs(here())}"
            )
        found = fill_missing(pull(ys, xs, [ones_like(ys[0])], create_graph=True), xs, strict=False)
        return tuple(found) if isinstance(inputs, tuple | list) else found[0]

    return gradient


# -- what goes in and out --------------------------------------------------------------------------


def _tuple(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)


def _inputs(inputs: Any, create_graph: bool) -> tuple[bool, list[Any]]:
    """Whether there is one input, and vertices of their own for the inputs: ``func`` may use the
    same tensors through a closure, which is no part of its derivative."""
    return not isinstance(inputs, tuple | list), [
        own_input(x, create_graph) for x in _tuple(inputs)
    ]


def own_input(x: Any, create_graph: bool) -> Any:
    """A vertex of its own for the input ``x``, which leads to it where that is recorded."""
    if not hasattr(x, "__sf_mode__"):
        raise DTypeError(
            f"the inputs must be tensors or symbols, not {kind_of(x)}; {how_to_wrap(x)}, "
            f"at {format_locs(here())}"
        )
    with for_itself():
        if in_graph(x):
            return cast(Symbol(to_node(x)), dtype=x.dtype)
        if create_graph and x.requires_grad:
            return x.clone()
    return x.detach().requires_grad_()


def _call(func: Function, xs: Sequence[Any]) -> tuple[bool, list[Any]]:
    """Whether ``func`` gives one output, and the outputs."""
    ys = func(*xs)
    single = not isinstance(ys, tuple | list)
    for y in [ys] if single else ys:
        if not hasattr(y, "__sf_mode__"):
            raise DTypeError(
                f"the function gave {type(y).__name__}; what is differentiated must be a tensor or "
                f"a tuple of tensors, at {format_locs(here())}"
            )
    return single, [ys] if single else list(ys)


def _directions(what: str, v: Any, like: Sequence[Any], of: str) -> list[Any]:
    """``v`` as a list that fits ``like``."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise ShapeError(
                f"{what}: v can be left out only where there is one {of} of one element, "
                f"at {format_locs(here())}"
            )
        return [ones_like(like[0])]
    given = _tuple(v)
    shapes, wanted = [g.shape for g in given], [x.shape for x in like]
    if not _fit(shapes, wanted):
        raise ShapeError(
            f"{what}: v has the shapes {list(map(list, shapes))}, and the {of}s "
            f"{list(map(list, wanted))}, at {format_locs(here())}"
        )
    # sizes that are not known yet become equal by assumption
    return [
        g if same_shape(s, w) else expand(g, w)
        for g, s, w in zip(given, shapes, wanted, strict=True)
    ]


def _fit(shapes: Sequence[Shape], wanted: Sequence[Shape]) -> bool:
    return list(map(len, shapes)) == list(map(len, wanted)) and all(
        all(map(same_size, s, w)) for s, w in zip(shapes, wanted, strict=True)
    )


def fill_missing(found: Sequence[Any], like: Sequence[Any], strict: bool) -> list[Any]:
    """What was found, with zeros for what is None."""
    missing = [i for i, g in enumerate(found) if g is None]
    if strict and missing:
        raise AutogradError(
            f"the outputs do not depend on the inputs (entry {missing[0]} of the result), which "
            f"strict=True forbids, at {format_locs(here())}"
        )
    return [zeros_like(x) if g is None else g for g, x in zip(found, like, strict=True)]


def _as_given(results: Sequence[Any], single: bool, create_graph: bool) -> Any:
    """The results in the structure of what they belong to, without a history that nobody asked
    for."""
    out = tuple(r if create_graph or isinstance(r, Symbol) else r.detach() for r in results)
    return out[0] if single else out


# -- the walks -------------------------------------------------------------------------------------


def pull(ys: Sequence[Any], xs: Sequence[Any], cts: Sequence[Any], create_graph: bool) -> list[Any]:
    """The cotangents of ``xs``; None where they are not reached."""
    if any(isinstance(y, Symbol) for y in ys):
        return pullback(_symbols(ys), _symbols(cts), _symbols(xs))
    roots = [(y, ct) for y, ct in zip(ys, cts, strict=True) if y.requires_grad]
    if not roots:
        return [None] * len(xs)
    outs, seeds = zip(*roots, strict=True)
    return tape.grad(outs, xs, seeds, create_graph, retain_graph=True)


def tangents_along(
    ys: Sequence[Any], xs: Sequence[Any]
) -> Callable[[Sequence[Any], bool], list[Any]]:
    """The function from moves of ``xs``, and whether the result is recorded, to the tangents of
    ``ys``; None where they do not depend on ``xs``.

    Of tensors the vjp is recorded once, and each call walks back over that."""
    if any(isinstance(y, Symbol) for y in ys):
        return lambda moves, _: pushforward(_symbols(ys), _symbols(xs), _symbols(moves))
    real = [i for i, y in enumerate(ys) if y.dtype.is_floating]
    seeds = [zeros_like(ys[i]).requires_grad_() for i in real]
    pulled = pull([ys[i] for i in real], xs, seeds, create_graph=True)

    def push(moves: Sequence[Any], create_graph: bool) -> list[Any]:
        found: list[Any] = [None] * len(ys)
        reached = [(ct, m) for ct, m in zip(pulled, moves, strict=True) if ct is not None]
        if reached:
            cts, given = zip(*reached, strict=True)
            for i, moved in zip(real, pull(cts, seeds, given, create_graph), strict=True):
                found[i] = moved
        return found

    return push


def _symbols(values: Sequence[Any]) -> list[Symbol]:
    """What stands for tensors in a graph; symbols stand for themselves."""
    return [Symbol(to_node(x)) for x in values]


def rows_of(
    y: Any, xs: Sequence[Any], create_graph: bool, strict: bool, chunk_size: int | None = 1
) -> list[Any]:
    """The Jacobians of one output, by walks back: in a graph ``chunk_size`` rows at a time, all of
    them for None; of tensors one row after the other."""

    def row(ct: Any) -> list[Any]:
        return fill_missing(pull([y], xs, [ct], create_graph), xs, strict)

    stacked = _stack_each(row, y, [x.shape for x in xs], [x.dtype for x in xs], chunk_size)
    return [s.reshape((*y.shape, *x.shape)) for s, x in zip(stacked, xs, strict=True)]


def columns_of(
    ys: Sequence[Any],
    xs: Sequence[Any],
    create_graph: bool,
    strict: bool,
    chunk_size: int | None = 1,
) -> list[list[Any]]:
    """For each output its Jacobians, by walks forward: in a graph ``chunk_size`` columns at a time,
    all of them for None; of tensors one column after the other."""
    by_input = [_columns(ys, x, create_graph, strict, chunk_size) for x in xs]
    return [list(of_y) for of_y in zip(*by_input, strict=True)]


def _columns(
    ys: Sequence[Any], x: Any, create_graph: bool, strict: bool, chunk_size: int | None
) -> list[Any]:
    """The Jacobians of the outputs by one input."""
    along = tangents_along(ys, [x])

    def column(move: Any) -> list[Any]:
        return fill_missing(along([move], create_graph), ys, strict)

    at = x if any(isinstance(y, Symbol) for y in ys) is isinstance(x, Symbol) else _symbols([x])[0]
    stacked = _stack_each(column, at, [y.shape for y in ys], [y.dtype for y in ys], chunk_size)
    return [
        movedim(s, 0, -1).reshape((*y.shape, *x.shape)) for s, y in zip(stacked, ys, strict=True)
    ]


def _stack_each(
    one: Callable[[Any], list[Any]],
    like: Any,
    shapes: Sequence[Shape],
    dtypes: Sequence[DType],
    chunk_size: int | None,
) -> Sequence[Any]:
    """What ``one`` gives for each tensor that has a one in the place of an element of ``like`` and
    zeros elsewhere, of these shapes and dtypes, stacked: in a graph so many at a time, or one,
    where only a call can tell how many there are."""
    basis = _basis(like)
    if not isinstance(like, Symbol):
        found = zip(*map(one, basis), strict=True)
        empty = [new_zeros(like, 0, *s, dtype=d) for s, d in zip(shapes, dtypes, strict=True)]
        return [stack(c) for c in found] or empty
    if chunk_size == 1 or not (chunk_size is None or isinstance(basis.__sf_shape__[0], int)):
        rows: Sequence[Any] = scan(lambda carry, row: (carry, tuple(one(row))), (), basis)[1]
        return rows
    mapped: Sequence[Any] = vmap(lambda row: tuple(one(row)), chunk_size=chunk_size)(basis)
    return mapped


def _basis(x: Any) -> Any:
    """For each element of ``x`` the tensor that has a one there and zeros elsewhere."""
    count = x.numel()
    found = eye(count, dtype=x.dtype, device=getattr(x, "device", None))
    return found.reshape(count, *x.shape)
