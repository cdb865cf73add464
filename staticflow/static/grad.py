"""``grad``: gradients of symbols or of eager tensors, by the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.eager import tape
from staticflow.eager.tensor import Tensor
from staticflow.errors import AutogradError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import stop_gradient
from staticflow.ops.basics.creation import ones_like
from staticflow.ops.basics.expand import expand
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import stabilizing, thread
from staticflow.ops.symbols.gradient import pullback
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.ops.symbols.watching import run_leaf_hooks

__all__ = ["grad"]


def grad(
    outputs: Any,
    wrt: Any,
    cotangents: Any = None,
    allow_unused: bool = False,
    create_graph: bool | None = None,
    retain_graph: bool | None = None,
    stabilize: bool | None = None,
) -> Any:
    """The gradients of ``outputs`` with respect to ``wrt``.

    Either may be one value or a list; the result has the structure of ``wrt``. For symbolic outputs
    the result is symbolic, a `Parameter` in ``wrt`` means the variable that it is captured as, and
    nobody's ``.grad`` is touched. ``cotangents`` (ones for a single number) has one entry for each
    output. What is not reached is an error, or None with ``allow_unused``. ``create_graph`` says
    whether the gradients may be differentiated in turn: by default those of symbols may, and those
    of eager tensors, which are recorded for that, may not. Of eager tensors the saved values are
    freed unless ``retain_graph`` (by default ``create_graph``). Of symbols, what overflows on its
    way is differentiated in a form that does not, unless ``stabilize`` is False (by default as the
    `jit` around it says).

    >>> import staticflow as sf
    >>> x = sf.placeholder((), name="x")
    >>> f = sf.compile([x], sf.grad(sf.grad(x ** 3, x), x))
    >>> f(sf.tensor(2.0)).item()
    12.0
    """
    outs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    targets = list(wrt) if isinstance(wrt, list | tuple) else [wrt]
    create_graph = None if create_graph is None else as_bool("grad: create_graph", create_graph)
    cts = _cotangents(outs, cotangents)
    if any(isinstance(o, Symbol) for o in outs):
        handles = [Symbol(to_node(w)) for w in targets]
        seeds = [_seed(o, ct) for o, ct in zip(outs, cts, strict=True)]
        with stabilizing(thread.state.stable if stabilize is None else stabilize):
            pulled = pullback([Symbol(to_node(o)) for o in outs], seeds, handles)
        found = [
            g if g is None or isinstance(w, Symbol) else run_leaf_hooks(w, g)
            for w, g in zip(targets, pulled, strict=True)
        ]
        if create_graph is False:
            found = [None if g is None else stop_gradient(g) for g in found]
    else:
        found = tape.grad(outs, targets, cts, bool(create_graph), retain_graph)
    for position, (g, w) in enumerate(zip(found, targets, strict=True)):
        if g is None and not allow_unused:
            if not w.dtype.is_floating:
                raise AutogradError(
                    f"grad: entry {position} of wrt ({_describe(w)}) is of {w.dtype.name}; only "
                    f"floating tensors have gradients, at {format_locs(here())}"
                )
            raise AutogradError(
                f"grad: the outputs do not depend on entry {position} of wrt "
                f"({_describe(w)}); leave it out, or pass allow_unused=True to get None, "
                f"at {format_locs(here())}"
            )
    if isinstance(wrt, list | tuple):
        return type(wrt)(found)
    return found[0]


def _cotangents(outs: Sequence[Any], given: Any) -> list[Any]:
    if given is None:
        return [None] * len(outs)
    cts = list(given) if isinstance(given, list | tuple) else [given]
    if len(cts) != len(outs):
        raise ShapeError(
            f"grad: {len(cts)} cotangents for {len(outs)} outputs, at {format_locs(here())}"
        )
    return cts


def _seed(out: Symbol, ct: Any) -> Any:
    if ct is None:
        if out.shape != ():
            raise AutogradError(
                f"grad: an output of shape {list(out.shape)} needs a cotangent; reduce it to a "
                f"number, as in loss.sum(), or give cotangents=, at {format_locs(here())}"
            )
        return ones_like(out)
    ct = Symbol(to_node(ct, out.dtype))
    if ct.dtype is not out.dtype or ct.ndim != out.ndim:
        raise ShapeError(
            f"grad: the cotangent {ct.node.type} of an output {out.node.type} must be of its type, "
            f"at {format_locs(here())}"
        )
    return expand(ct, out.shape)  # unknown sizes that must agree become an assumption of the graph


def _describe(w: Any) -> str:
    if isinstance(w, Tensor):
        return f"a tensor of shape {list(w.shape)}" + (f" named {w.name!r}" if w.name else "")
    return repr(w)
