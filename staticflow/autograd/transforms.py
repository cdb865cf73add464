"""Transforms of functions, by the names of ``torch.func``: each takes a function and gives one that
computes derivatives of it.

A call has inputs of its own, so that what the function captures is no part of the derivative, and
transforms may stand inside each other. Results are recorded where an argument, or what the
function captures, requires a gradient; nobody's ``.grad`` is touched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from staticflow.autograd.function import LinearMap
from staticflow.autograd.functional import (
    columns_of,
    fill_missing,
    own_input,
    pull,
    rows_of,
    run_or_trace,
    tangents_along,
)
from staticflow.eager.expression import is_current
from staticflow.eager.grad_mode import enable_grad
from staticflow.errors import ArgumentError, DTypeError, ShapeError, SymbolicError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.creation import ones_like
from staticflow.ops.basics.view import of_size
from staticflow.ops.declaring.foreign import how_to_wrap, kind_of
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import thread
from staticflow.ops.loops.meets_symbol import run_or_write
from staticflow.ops.loops.region import trace_at_once
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.pytree import TreeDef, flatten, paths, unflatten

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]

Function = Callable[..., Any]

_left: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""The inputs of calls whose function has run, by their ids: no derivative by one of them is to be
part of another."""


class _Point:
    """Where a function is differentiated: its arguments, of which those that ``argnums`` names are
    inputs of this call's own; after `call`, the outputs there."""

    def __init__(self, args: Sequence[Any], argnums: int | tuple[int, ...]) -> None:
        numbers = argnums if isinstance(argnums, tuple | list) else (argnums,)
        if not all(isinstance(n, int) for n in numbers):
            raise DTypeError(
                f"argnums must be the number of an argument, or a tuple of them, not {argnums!r}, "
                f"at {format_locs(here())}"
            )
        if not all(-len(args) <= n < len(args) for n in numbers):
            raise ArgumentError(
                f"argnums={argnums} names none of {len(args)} arguments, at {format_locs(here())}"
            )
        chosen = args[argnums] if isinstance(argnums, int) else tuple(args[n] for n in numbers)
        given, self.structure = flatten(chosen)
        self.inputs = [own_input(x, thread.state.recording) for x in given]
        self.recorded = _is_recorded(given)
        own = unflatten(self.structure, self.inputs)
        self.args = list(args)
        for n, x in zip(numbers, (own,) if isinstance(argnums, int) else own, strict=True):
            self.args[n] = x

    def call(self, func: Function, kwargs: Any, has_aux: bool = False) -> tuple[Any, Any]:
        """The outputs of ``func`` here, as a tree, and the rest that it gives."""
        if not callable(func):
            raise DTypeError(
                f"what is differentiated must be a function, not {type(func).__name__}, "
                f"at {format_locs(here())}"
            )
        has_aux = as_bool("has_aux", has_aux)
        with enable_grad():
            out = func(*self.args, **kwargs)
        _left.update((id(x), x) for x in self.inputs if not isinstance(x, Symbol))
        out, aux = out if has_aux else (out, None)
        self.outputs, self.out_structure = flatten(out)
        for y in self.outputs:
            if not hasattr(y, "__sf_mode__"):
                raise DTypeError(
                    f"the function must give a tensor, or a tree of tensors, not {kind_of(y)}; "
                    f"{how_to_wrap(y)}, at {format_locs(here())}"
                )
        self.recorded = self.recorded or (
            thread.state.recording and _reach_others(self.outputs, self.inputs)
        )
        beside, structure = flatten(aux)
        settled = unflatten(self.out_structure, self.cut_history(self.outputs, self.recorded))
        return settled, unflatten(structure, self.cut_history(beside, self.recorded))

    def pull(self, cts: Sequence[Any]) -> Any:
        """The cotangents of the inputs, in their structure."""
        return unflatten(self.structure, self._cotangents(cts))

    def push(self, moves: Sequence[Any], strict: bool = False) -> Any:
        """The tangents of the outputs, in their structure; with ``strict`` each must have one."""
        return unflatten(self.out_structure, self._tangents(moves, strict))

    def _cotangents(self, cts: Sequence[Any]) -> list[Any]:
        if self._is_map_of(cts):
            return list(LinearMap.apply(self._cotangents, self._tangents, *cts))
        recorded = self.recorded or _is_recorded(cts)
        with enable_grad():
            found = pull(self.outputs, self.inputs, cts, recorded)
        return self.cut_history(fill_missing(found, self.inputs, strict=False), recorded)

    def _tangents(self, moves: Sequence[Any], strict: bool = False) -> list[Any]:
        if self._is_map_of(moves):
            return list(LinearMap.apply(self._tangents, self._cotangents, *moves))
        recorded = self.recorded or _is_recorded(moves)
        with enable_grad():
            found = self._along(moves, recorded)
        return self.cut_history(fill_missing(found, self.outputs, strict), recorded)

    def _is_map_of(self, given: Sequence[Any]) -> bool:
        """Whether only the tensors ``given``, in which a product is linear, have a history. That of
        the function is then no part of the product's: a backward would free what it has saved."""
        symbolic = thread.state.tracing or any(isinstance(x, Symbol) for x in given)
        return not (self.recorded or symbolic) and _is_recorded(given)

    @functools.cached_property
    def _along(self) -> Callable[[Sequence[Any], bool], list[Any]]:
        """What gives the tangents of the outputs: it keeps what all of them share."""
        return tangents_along(self.outputs, self.inputs)

    def jacobian(self, forward: bool, chunk_size: int | None) -> Any:
        """The Jacobian of each output by each input, in the structure of the outputs: by columns if
        ``forward``, else by rows."""
        how = (self.recorded, False, chunk_size)
        with enable_grad():
            each = (
                columns_of(self.outputs, self.inputs, *how) if forward
                else [rows_of(y, self.inputs, *how) for y in self.outputs]
            )  # fmt: skip
        rows = [unflatten(self.structure, self.cut_history(r, self.recorded)) for r in each]
        return unflatten(self.out_structure, rows)

    def cut_history(self, results: Sequence[Any], recorded: bool) -> list[Any]:
        """The results, where they are not ``recorded`` without a history: it would lead to this
        call's own inputs alone."""
        return list(results) if recorded else [self._apart(r) for r in results]

    @staticmethod
    def _apart(result: Any) -> Any:
        if isinstance(result, Symbol):
            return result if thread.state.recording else result.detach()
        return result.detach() if getattr(result, "requires_grad", False) else result


def _is_recorded(values: Sequence[Any]) -> bool:
    """Whether what is computed of ``values``, tensors or symbols, has a history now."""
    return thread.state.recording and any(isinstance(x, Symbol) or x.requires_grad for x in values)


def _transform(func: Function, derivative: Function) -> Function:
    """``derivative``, of the arguments of ``func``, as one that is part of a graph, and runs
    nothing, where an argument is a symbol or ``func`` meets one."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return run_or_write(lambda: derivative(*args, **kwargs), (args, kwargs), func)

    return call


def _reach_others(outputs: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Whether the history of ``outputs`` leads to leaves that are not among ``inputs``, and not
    among those of a call that was left."""
    own = set(map(id, inputs))
    stack = [y._current_vertex() for y in outputs if not isinstance(y, Symbol)]
    seen: set[int] = set()
    while stack:
        vertex = stack.pop()
        if vertex is None or id(vertex) in seen or id(vertex) in own:
            continue
        if not vertex.serial:
            if id(vertex) in _left:
                continue
            return True
        seen.add(id(vertex))
        stack.extend(vertex.edges)
    return False


def grad_and_value(
    func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Function:
    """A function of the same arguments that gives the gradient of ``func``, and its value.

    ``func`` gives a tensor of no dims, or with ``has_aux`` that and anything else, which comes
    beside the value. The gradient is by the argument ``argnums``, a tensor or a tree of tensors, or
    by several. Raises `ShapeError` for another value.

    >>> import staticflow as sf
    >>> grad_and_value(lambda x: (x * x).sum())(sf.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """

    @functools.partial(_transform, func)
    def both(*args: Any, **kwargs: Any) -> Any:
        point = _Point(args, argnums)
        value, aux = point.call(func, kwargs, has_aux)
        if getattr(value, "shape", None) != ():
            what = f"shape {list(value.shape)}" if hasattr(value, "shape") else type(value).__name__
            raise ShapeError(
                f"grad: the function must give a tensor of no dims, not {what}; reduce it, or take "
                f"jacrev, at {format_locs(here())}"
            )
        found = point.pull([ones_like(value)])
        return found, ((value, aux) if has_aux else value)

    return both


def grad(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of ``func``, which gives a number; with ``has_aux`` also
    what ``func`` gives beside its value.

    >>> import staticflow as sf
    >>> grad(grad(sf.sin))(sf.tensor(0.0)), grad(sf.cos)(sf.tensor(0.0))
    (tensor(-0.), tensor(-0.))
    """
    both = grad_and_value(func, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, out = both(*args, **kwargs)
        return (found, out[1]) if has_aux else found

    return gradient


@run_or_trace
def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """``func(*primals)``, and a function from cotangents in the structure of that to those of the
    primals, a tuple; with ``has_aux`` what ``func`` gives beside its outputs, too.

    Of tensors ``func`` runs at once. Cotangents that are symbols, as in `vmap` of the second
    function, have it traced anew, which is refused if it draws, or changes what is not its own, and
    if what it was computed from has changed since.

    >>> import staticflow as sf
    >>> out, pullback = vjp(lambda x: x * x, sf.tensor([1.0, 2.0]))
    >>> pullback(sf.ones(2))
    (tensor([2., 4.]),)
    """
    point = _Point(primals, tuple(range(len(primals))))
    out, aux = point.call(func, {}, has_aux)

    def pullback(cotangents: Any) -> Any:
        def of(point: _Point) -> Any:
            return point.pull(_like("vjp", cotangents, point.outputs, point.out_structure))

        if _runs_into_graph(cotangents, point):
            return trace_at_once(lambda: of(_trace_anew("vjp", func, primals, has_aux, point)))
        return of(point)

    pullback.__qualname__ = "pullback"  # as Python names it where it is called wrongly
    return (out, pullback, aux) if has_aux else (out, pullback)


def _runs_into_graph(given: Any, point: _Point) -> bool:
    """Whether a symbol meets what a function gave of tensors."""
    return any(isinstance(x, Symbol) for x in flatten(given)[0]) and not any(
        isinstance(y, Symbol) for y in point.outputs
    )


def _trace_anew(
    what: str, func: Function, primals: Sequence[Any], has_aux: bool, ran: _Point
) -> _Point:
    """Where ``func`` ``ran`` on tensors, as a part of the graph that is being written."""
    point = _Point(primals, tuple(range(len(primals))))
    left = thread.state.left
    before = len(left)
    point.call(func, {}, has_aux)
    given = f"{what}: a symbol is given, and the function ran on tensors"
    if len(left) > before:
        del left[before:]
        raise SymbolicError(
            f"{given}; it draws, or changes what is not its own, which would happen again: call "
            f"{what} where its arguments are symbols too, as in a function for sf.jit, "
            f"at {format_locs(here())}"
        )
    pairs = zip(point.outputs, ran.outputs, strict=True)
    if not all(is_current(Symbol(to_node(y)), was) for y, was in pairs):
        raise SymbolicError(
            f"{given}; what it was computed from was changed in place since: call {what} again, "
            f"or call it where its arguments are symbols too, at {format_locs(here())}"
        )
    return point


@run_or_trace
def jvp(
    func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """``func(*primals)``, and how it moves where the primals move by ``tangents``, a tuple as they
    are. With ``strict`` an output that does not depend on the primals is an `AutogradError` instead
    of zeros.

    >>> import staticflow as sf
    >>> jvp(lambda x: x * x, (sf.tensor([1.0, 2.0]),), (sf.tensor([1.0, 0.0]),))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    if not isinstance(primals, tuple | list):
        raise DTypeError(
            f"jvp: the primals are {with_article(type(primals))}; they must be a tuple of the "
            f"arguments of the function, at {format_locs(here())}"
        )
    point = _Point(primals, tuple(range(len(primals))))
    out, aux = point.call(func, {}, has_aux)
    moved = point.push(_like("jvp", tangents, point.inputs, point.structure), strict)
    return (out, moved, aux) if has_aux else (out, moved)


@run_or_trace
def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """``func(*primals)``, and a function from tangents of the primals to those of that, in its
    structure: the linear map of which `jvp` gives one value.

    ``func`` runs once, and what its derivative needs is kept as long as the second function is
    there, so that each call of that costs the tangents alone; in a graph, too, all calls share the
    values of ``func``. Tangents that are symbols, as in `vmap` of the second function, are as in
    `vjp`. Raises `ShapeError` for tangents of other shapes than the primals.

    >>> import staticflow as sf
    >>> out, along = linearize(lambda x: x * x, sf.tensor([1.0, 2.0]))
    >>> out, along(sf.tensor([1.0, 0.0])), along(sf.tensor([0.0, 1.0]))
    (tensor([1., 4.]), tensor([2., 0.]), tensor([0., 4.]))
    """
    point = _Point(primals, tuple(range(len(primals))))
    out, _ = point.call(func, {})

    def along(*tangents: Any) -> Any:
        def of(point: _Point) -> Any:
            return point.push(_like("linearize", tangents, point.inputs, point.structure))

        if _runs_into_graph(tangents, point):
            return trace_at_once(lambda: of(_trace_anew("linearize", func, primals, False, point)))
        return of(point)

    along.__qualname__ = "along"
    return out, along


def jacrev(
    func: Function,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
) -> Function:
    """A function that gives the Jacobian of ``func`` by the argument ``argnums``: of shape output +
    input, for each output and each input of several, by rows, which is cheap where there are few
    outputs.

    In a graph ``chunk_size`` rows are computed at a time by `vmap`, all of them for None, and one
    where their number is open; of tensors one row after the other.

    >>> import staticflow as sf
    >>> jacrev(sf.exp)(sf.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if isinstance(chunk_size, bool | float) or (chunk_size is not None and chunk_size < 1):
        raise ArgumentError(
            f"jacrev: chunk_size is {chunk_size}; it must be an integer of 1 or more, or None, "
            f"at {format_locs(here())}"
        )
    return _jacobian(func, argnums, has_aux, False, chunk_size)


def jacfwd(
    func: Function,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Function:
    """A function that gives the Jacobian of ``func`` by the argument ``argnums``: of shape output +
    input, for each output and each input of several, by columns, which is cheap where there are few
    inputs. In a graph all of them are computed at once by `vmap`, of tensors one after the other.

    ``func`` is called once, so all columns have the same draws, whatever ``randomness`` ("error",
    "same" or "different") says.

    >>> import staticflow as sf
    >>> jacfwd(sf.exp)(sf.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if randomness not in ("error", "different", "same"):
        raise ArgumentError(
            f'jacfwd: randomness is {randomness!r}; it must be "error", "different" or "same", '
            f"at {format_locs(here())}"
        )
    return _jacobian(func, argnums, has_aux, True, None)


def _jacobian(
    func: Function,
    argnums: int | tuple[int, ...],
    has_aux: bool,
    forward: bool,
    chunk_size: int | None,
) -> Function:
    @functools.partial(_transform, func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        point = _Point(args, argnums)
        _, aux = point.call(func, kwargs, has_aux)
        found = point.jacobian(forward, chunk_size)
        return (found, aux) if has_aux else found

    return jacobian


def hessian(func: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """A function that gives the second derivatives of ``func``: of shape output + input + input.

    >>> import staticflow as sf
    >>> hessian(lambda x: (x * x * x).sum())(sf.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)


def _places(structure: TreeDef) -> list[tuple[Any, ...]]:
    """The keys that lead to each leaf."""
    if structure.kind is None:
        return [()]
    return [
        (key, *place)
        for key, child in zip(structure.keys, structure.children, strict=True)
        for place in _places(child)
    ]


def _of_shape(x: Any, shape: Sequence[Any], given: str) -> Any:
    """``x``, of the ``shape``: asked by the program that is called where only that can tell."""
    for dim, size in enumerate(shape):
        x = of_size(require_equal(x, x.shape[dim], size, given), dim, size)
    return x


def _like(what: str, given: Any, wanted: Sequence[Any], structure: TreeDef) -> list[Any]:
    """The leaves of ``given``, which have the shapes of ``wanted`` and are where these are in a
    tree of that ``structure``; a list is as good as a tuple, or a named one."""
    leaves, own = flatten(given)
    for leaf in leaves:
        if not hasattr(leaf, "__sf_mode__"):
            raise DTypeError(
                f"{what}: tensors are needed, not {kind_of(leaf)}; {how_to_wrap(leaf)}, "
                f"at {format_locs(here())}"
            )
    shapes, needed = [list(x.shape) for x in leaves], [list(x.shape) for x in wanted]
    given = f"{what}: tensors of shapes {shapes} are given, and {needed} are needed"
    if list(map(len, shapes)) != list(map(len, needed)):
        raise ShapeError(f"{given}, at {format_locs(here())}")
    if _places(own) != _places(structure):
        raise ArgumentError(
            f"{what}: tensors at {', '.join(paths(own, 'tree'))} are given, and those at "
            f"{', '.join(paths(structure, 'tree'))} are needed; give a tree of the same "
            f"structure, at {format_locs(here())}"
        )
    leaves = [_of_shape(x, shape, given) for x, shape in zip(leaves, needed, strict=True)]
    at_hand = max((y.__sf_mode__.rank for y in wanted), default=0)
    if any(x.__sf_mode__.rank > at_hand for x in leaves):
        raise SymbolicError(
            f"{what}: a symbol is given, and the function ran on tensors; call {what} where its "
            f"arguments are symbols too, as in a function for sf.jit, at {format_locs(here())}"
        )
    return leaves
