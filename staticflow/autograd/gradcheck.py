"""``gradcheck``: the derivatives that backward gives against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from staticflow.eager import tape
from staticflow.eager.creation import from_numpy
from staticflow.eager.device import move
from staticflow.eager.grad_mode import enable_grad
from staticflow.eager.tensor import Tensor
from staticflow.errors import AutogradError
from staticflow.graph.dtypes import float64
from staticflow.graph.locs import format_locs, here, warn
from staticflow.ops.basics.creation import zeros_like

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


class GradcheckError(AutogradError):
    """A derivative that differs from finite differences."""


def gradcheck(
    func: Function,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
) -> bool:
    """Whether the derivatives of ``func(*inputs)`` by the inputs that require a gradient agree with
    central differences of step ``eps``, to ``atol + rtol * abs(difference)``.

    Also: that backward twice gives the same to ``nondet_tol``, that it does without a gradient for
    some of the outputs (``check_undefined_grad``), and that gradients have the dtype of their
    inputs (``check_grad_dtypes``). Inputs should be float64; any layout will do but memory that
    overlaps itself.

    Raises `GradcheckError` where something is wrong, or returns False if not ``raise_exception``.

    >>> import staticflow as sf
    >>> gradcheck(sf.sin, sf.tensor([0.5, 1.0], dtype="float64", requires_grad=True))
    True
    """
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    xs = _check_inputs(args)
    try:
        for complaint in _complaints(
            func, args, xs, eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes
        ):
            raise GradcheckError(f"{complaint}, at {format_locs(here())}")
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
) -> bool:
    """`gradcheck` of the gradients of ``func(*inputs)``, by the inputs and by ``grad_outputs``:
    drawn at random unless given, as columns of wider arrays with ``gen_non_contig_grad_outputs``.
    """
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    outs = _real_outputs(func(*args))
    if grad_outputs is None:
        draw = np.random.default_rng(0)
        seeds = tuple(_seed_like(y, draw, gen_non_contig_grad_outputs) for y in outs)
    else:
        seeds = _tuple(grad_outputs)

    def gradients(*both: Any) -> tuple[Any, ...]:
        xs, cts = both[: len(args)], both[len(args) :]
        wanted = [x for x in xs if _is_wanted(x)]
        found = _pull(_real_outputs(func(*xs)), wanted, cts, create_graph=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*args, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
    )


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def _is_wanted(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _real_outputs(outs: Any) -> list[Tensor]:
    return [y for y in _tuple(outs) if isinstance(y, Tensor) and y.dtype.is_floating]


def _seed_like(y: Tensor, draw: np.random.Generator, apart: bool) -> Tensor:
    shape = (*y.shape, 2) if apart else y.shape
    wide = np.asarray(draw.standard_normal(shape)).astype(y.dtype.numpy)
    return from_numpy(wide[..., 0] if apart else wide).requires_grad_()


def _check_inputs(args: Sequence[Any]) -> list[Tensor]:
    """The inputs that gradients are wanted of."""
    xs = []
    for i, x in enumerate(args):
        if not _is_wanted(x):
            continue
        if x.dtype is not float64:
            warn(f"gradcheck: input {i} is {x.dtype.name}; finite differences need float64")
        if x.numel() and any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)):
            raise AutogradError(
                f"gradcheck: input {i} overlaps itself in memory, so that its elements cannot "
                f"differ; give its .clone(), at {format_locs(here())}"
            )
        xs.append(x)
    if not xs:
        raise AutogradError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            f"has requires_grad=True, at {format_locs(here())}"
        )
    return xs


def _complaints(
    func: Function,
    args: Sequence[Any],
    xs: Sequence[Tensor],
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
    check_undefined_grad: bool,
    check_grad_dtypes: bool,
) -> Iterator[str]:
    positions = [i for i, x in enumerate(args) if _is_wanted(x)]
    with enable_grad():
        outs = _real_outputs(func(*args))
    if check_undefined_grad:
        yield from _try_undefined(outs, xs)
    recorded = any(y.requires_grad for y in outs)
    for k, y in enumerate(outs):
        if recorded and not y.requires_grad:
            continue  # meant to have no gradient; where none has one, they must be constant
        for x, i in zip(xs, positions, strict=True):
            numerical = _differences(func, args, x, k, eps).reshape(x.numel(), y.numel())
            analytical, again = _backward(y, x), _backward(y, x)
            where = f"for output {k} with respect to input {i}"
            if not np.allclose(analytical, numerical, rtol, atol, equal_nan=True):
                what = (
                    f"Jacobian mismatch {where}"
                    if y.requires_grad
                    else (
                        f"Numerical gradient {where} expected to be zero, no gradient is recorded"
                    )
                )
                yield f"{what},\nnumerical:{numerical}\nanalytical:{analytical}\n"
            if np.abs(analytical - again).max(initial=0) > nondet_tol:
                yield (
                    "Backward is not reentrant, i.e., running backward with same input and "
                    "grad_output multiple times gives different values, although analytical "
                    f"gradient matches numerical gradient. The tolerance for nondeterminism was "
                    f"{nondet_tol}, {where}"
                )
    if check_grad_dtypes:
        yield from _wrong_dtypes(outs, xs)


def _differences(func: Function, args: Sequence[Any], x: Tensor, k: int, eps: float) -> Array:
    """The Jacobian of output ``k`` by ``x``, a row for each element of ``x``, by differences."""
    memory = x.detach().cpu().numpy()  # that of ``x``, but for one on a GPU
    rows = []

    def put(i: int, value: Any) -> None:
        memory.flat[i] = value
        if x.is_cuda:
            x._data[...] = move(memory, x.device)

    for i in range(memory.size):
        before = memory.flat[i]
        sides = []
        for step in (eps, -eps):
            put(i, before + step)
            out = _real_outputs(func(*args))[k]
            sides.append(out.detach().cpu().numpy().astype(np.float64).ravel())
        put(i, before)
        rows.append((sides[0] - sides[1]) / (2 * eps))
    return np.array(rows)


def _backward(y: Tensor, x: Tensor) -> Array:
    """The Jacobian by backward: a column for each element of ``y``."""
    columns = []
    for i in range(y.numel()):
        ct = np.zeros(y.shape, y.dtype.numpy)
        ct.flat[i] = 1
        (g,) = _pull([y], [x], [from_numpy(ct).to(y.device)])
        columns.append(np.zeros(x.numel()) if g is None else g.detach().cpu().numpy().ravel())
    return np.array(columns, np.float64).reshape(y.numel(), x.numel()).T


def _pull(
    outs: Sequence[Any], xs: Sequence[Any], cts: Sequence[Any], create_graph: bool = False
) -> list[Any]:
    roots = [(y, ct) for y, ct in zip(outs, cts, strict=True) if y.requires_grad and ct is not None]
    if not roots:
        return [None] * len(xs)
    ys, seeds = zip(*roots, strict=True)
    return tape.grad(ys, xs, seeds, create_graph, retain_graph=True)


def _try_undefined(outs: Sequence[Tensor], xs: Sequence[Tensor]) -> Iterator[str]:
    """Backward with a gradient for one output alone, zero ones for it."""
    for k, y in enumerate(outs):
        cts = [zeros_like(o).detach() if o is y else None for o in outs]
        try:
            found = _pull(outs, xs, cts)
        except Exception as error:
            yield (
                "Expected backward function to handle undefined output grads: with a gradient for "
                f"output {k} alone it raised {type(error).__name__}: {error}"
            )
            continue
        if any(g is not None and np.any(g.detach().cpu().numpy() != 0) for g in found):
            yield (
                "Expected all input grads to be undefined or zero when all output grads are "
                f"undefined or zero, for output {k}"
            )


def _wrong_dtypes(outs: Sequence[Tensor], xs: Sequence[Tensor]) -> Iterator[str]:
    for g, x in zip(_pull(outs, xs, [zeros_like(y).detach() for y in outs]), xs, strict=True):
        if g is not None and g.dtype is not x.dtype:
            yield f"the gradient is {g.dtype.name}, the input {x.dtype.name}"
