"""Printing while a program runs.

A print is an effect on a count that one eager tensor holds: that gives it its position in the
program, carries it through loops and branches, and keeps every pass from dropping, doubling or
moving it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.lowering import Host
from staticflow.ops.declaring.thread import thread
from staticflow.ops.loops.meets_symbol import in_graph
from staticflow.ops.symbols.effect import effect, read
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["print", "print_op", "quiet", "say"]


def say(template: str, names: Sequence[str], arrays: Sequence[Any]) -> None:
    """Print ``template`` with tensors put in; the last of them have ``names``."""
    if not thread.state.quiet:
        first = len(arrays) - len(names)
        tensors = [eager.wrap(a) for a in arrays]
        named = dict(zip(names, tensors[first:], strict=True))
        builtins.print(template.format(*tensors[:first], **named))


@contextmanager
def quiet() -> Iterator[None]:
    """A block in which this thread runs programs again without printing."""
    state = thread.state
    before = state.quiet
    try:
        state.quiet = True
        yield
    finally:
        state.quiet = before


def _infer(
    facts: Facts, count: TensorType, *values: TensorType, template: str, names: tuple[str, ...]
) -> TensorType:
    if count != TensorType(int64, ()):
        raise DTypeError(f"the count is {count}; it must be an i64 of no dims")
    if not isinstance(template, str) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"print: {template!r} is no text, or one of {names!r} no name")
    _check(template, values[: len(values) - len(names)], dict.fromkeys(names))
    return count


def _reference(xp: Any, count: Any, *values: Any, template: str, names: tuple[str, ...]) -> Any:
    say(template, names, [xp.array(v) for v in values])
    return count + 1


print_op = Op(
    name="print",
    doc="``count`` + 1, and ``template`` is printed with the values put in, as `str.format` does; "
    "the last of them have ``names``.",
    infer=_infer,
    reference=_reference,
    vjp=None,
    lowering=Host(),
)


def print(template: str, /, *values: Any, **named: Any) -> None:
    """Print ``template.format(*values, **named)`` when the values are there.

    On tensors that is now. In a graph it is whenever the program gets here: in a loop on every
    iteration, in a branch if that is taken, once also where the graph is differentiated. Nothing
    that is computed changes. Values are tensors, symbols, arrays and numbers; those of no dims are
    formatted as numbers, so ``{loss:.3f}`` works. What the output stream raises ends the program,
    with nothing updated.

    Inside a trace (a body of a loop, a branch, a jitted function) every print counts. Elsewhere a
    symbol that was printed is one whose use prints: a program that computes nothing from it, or
    from the handle as it was before, does not.

    >>> import staticflow as sf
    >>> def halve(x):
    ...     sf.print("x is {x}, {:.2f} off", x - 1, x=x)
    ...     return x / 2
    >>> f = sf.jit(lambda x: sf.while_loop(lambda x: x > 1, halve, x))
    >>> f(sf.tensor(3.0))
    x is 3.0, 2.00 off
    x is 1.5, 0.50 off
    tensor(0.7500)
    """
    given = [*values, *named.values()]
    _check(template, values, named)
    state = thread.state
    if not in_graph(*given):
        builtins.print(
            template.format(*map(_bare, values), **{n: _bare(v) for n, v in named.items()})
        )
    elif not state.types_only:
        symbols = [Symbol(to_node(v)) for v in given]
        count = read(eager.prints, *symbols)
        new = print_op(count, *symbols, template=template, names=tuple(named))
        if state.regions:
            effect(new, eager.prints, new)
            return
        for v in given:
            if isinstance(v, Symbol):
                v.node = effect(v, eager.prints, new).node


def _bare(value: Any) -> Any:
    """A tensor without its history, which a program does not know."""
    return value.detach() if hasattr(value, "__sf_mode__") else value


class _Anything:
    """Takes any format."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, index: Any) -> _Anything:
        return self


def _check(template: str, values: Sequence[Any], named: dict[str, Any]) -> None:
    """Whether there is a value for all that ``template`` names."""
    try:
        template.format(*(_Anything() for _ in values), **dict.fromkeys(named, _Anything()))
    except (IndexError, KeyError, ValueError) as error:
        raise ArgumentError(
            f"print: {template!r} cannot be filled with {len(values)} values and "
            f"{', '.join(named) or 'no names'} ({type(error).__name__}: {error}), at "
            f"{format_locs(here())}"
        ) from None
