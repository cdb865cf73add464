"""``gradcheck``: derivatives, back and forward, against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from staticflow.autograd.jacobian_arrays import (
    as_tuple,
    by_backward,
    by_differences,
    by_tangents,
    difference_along,
    gradient_of,
    pull,
    real_outputs,
    tensor_like,
    values,
)
from staticflow.autograd.transforms import linearize, vjp
from staticflow.autograd.vmap import vmap
from staticflow.data_classes import dataclass
from staticflow.eager.creation import from_numpy
from staticflow.eager.grad_mode import enable_grad
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, AutogradError, StaticflowError
from staticflow.graph.dtypes import float64
from staticflow.graph.locs import format_locs, here, warn
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.joining import stack

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


class GradcheckError(AutogradError):
    """A derivative that differs from finite differences."""


@dataclass(frozen=True, slots=True)
class _Checks:
    """The arguments of `gradcheck` that say what is compared, and to which tolerances."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    undefined: bool
    dtypes: bool
    batched: bool
    batched_forward: bool
    forward: bool
    backward: bool
    fast: bool


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
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the derivatives of ``func(*inputs)`` by the inputs that require a gradient agree with
    central differences of step ``eps``, to ``atol + rtol * abs(difference)``: those that backward
    gives (``check_backward_ad``), and those of `func.linearize` (``check_forward_ad``).

    Also: that backward twice gives the same to ``nondet_tol``, that it does without a gradient for
    some of the outputs (``check_undefined_grad``), that gradients have the dtype of their inputs
    (``check_grad_dtypes``), and that `vmap` of either derivative gives what separate calls give
    (``check_batched_grad``, ``check_batched_forward_grad``). ``fast_mode`` compares one number for
    each output and input, the derivative along directions that are drawn, instead of all of the
    Jacobian. ``masked`` is for sparse tensors, which there are none of, and changes nothing. Inputs
    should be float64; any layout will do but memory that overlaps itself.

    Raises `GradcheckError` where something is wrong, or returns False if not ``raise_exception``;
    `ArgumentError` where neither derivative is to be checked, or a batched one that is not.

    >>> import staticflow as sf
    >>> gradcheck(sf.sin, sf.tensor([0.5, 1.0], dtype="float64", requires_grad=True))
    True
    """
    checks = _Checks(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
        check_batched_forward_grad, check_forward_ad, check_backward_ad, fast_mode,
    )  # fmt: skip
    _refuse_nothing(checks)
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    xs = _check_inputs(args)
    try:
        for complaint in _complaints(func, args, xs, checks):
            raise GradcheckError(f"{complaint}, at {format_locs(here())}")
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _refuse_nothing(checks: _Checks) -> None:
    """Raise `ArgumentError` for checks of what is not to be computed."""
    wrong = (
        "check_forward_ad and check_backward_ad are both False; one at least must be True"
        if not (checks.forward or checks.backward)
        else "check_batched_grad=True asks for batches of backward; it needs check_backward_ad=True"
        if checks.batched and not checks.backward
        else "check_batched_forward_grad=True asks for batches of tangents; it needs "
        "check_forward_ad=True"
        if checks.batched_forward and not checks.forward
        else None
    )
    if wrong:
        raise ArgumentError(f"gradcheck: {wrong}, at {format_locs(here())}")


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
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradients of ``func(*inputs)``, by the inputs and by ``grad_outputs``:
    drawn at random unless given, as columns of wider arrays with ``gen_non_contig_grad_outputs``.
    ``check_rev_over_rev`` and ``check_fwd_over_rev`` are its ``check_backward_ad`` and
    ``check_forward_ad``.
    """
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    outs = real_outputs(func(*args))
    if grad_outputs is None:
        draw = np.random.default_rng(0)
        seeds = tuple(_seed_like(y, draw, gen_non_contig_grad_outputs) for y in outs)
    else:
        seeds = as_tuple(grad_outputs)
    wanted = [i for i, x in enumerate(args) if _is_wanted(x)]

    def gradients(*both: Any) -> tuple[Any, ...]:
        xs, cts = both[: len(args)], both[len(args) :]
        found = pull(real_outputs(func(*xs)), [xs[i] for i in wanted], cts, create_graph=True)
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
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


def _is_wanted(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


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
    func: Function, args: Sequence[Any], xs: Sequence[Tensor], checks: _Checks
) -> Iterator[str]:
    positions = [i for i, x in enumerate(args) if _is_wanted(x)]
    with enable_grad():
        outs = real_outputs(func(*args))
    if checks.backward and checks.undefined:
        yield from _try_undefined(outs, xs)
    recorded = any(y.requires_grad for y in outs)
    own = _of_inputs(func, args, positions)
    along = linearize(own, *xs)[1] if checks.forward else None
    compare = _compare_directions if checks.fast else _compare_elements
    for k, y in enumerate(outs):
        if recorded and not y.requires_grad:
            continue  # meant to have no gradient; where none has one, they must be constant
        for j, i in enumerate(positions):
            where = f"for output {k} with respect to input {i}"
            yield from compare(func, args, outs, xs, (k, j), where, along, checks)
    if checks.backward and checks.dtypes:
        yield from _wrong_dtypes(outs, xs)
    if checks.batched:
        yield from _compare_batches(vjp(own, *xs)[1], own(*xs), "gradients", one=True)
    if along is not None and checks.batched_forward:
        yield from _compare_batches(along, xs, "tangents", one=False)


def _of_inputs(func: Function, args: Sequence[Any], positions: Sequence[int]) -> Function:
    """``func`` of the arguments at ``positions`` alone, which gives its floating outputs."""

    def of(*xs: Any) -> tuple[Any, ...]:
        given = list(args)
        for i, x in zip(positions, xs, strict=True):
            given[i] = x
        return tuple(real_outputs(func(*given)))

    return of


def _compare_elements(
    func: Function, args: Sequence[Any], outs: Sequence[Tensor], xs: Sequence[Tensor],
    pair: tuple[int, int], where: str, along: Function | None, checks: _Checks,
) -> Iterator[str]:  # fmt: skip
    """The faults, in words, of the Jacobian of one output by one input, whose numbers are the
    ``pair``: by backward and forward mode beside finite differences, element by element."""
    (k, j), tolerances = pair, (checks.rtol, checks.atol)
    y, x = outs[k], xs[j]
    numerical = by_differences(func, args, x, k, checks.eps).reshape(x.numel(), y.numel())
    if checks.backward:
        analytical, again = by_backward(y, x), by_backward(y, x)
        if not np.allclose(analytical, numerical, *tolerances, equal_nan=True):
            what = (
                f"Jacobian mismatch {where}"
                if y.requires_grad
                else f"Numerical gradient {where} expected to be zero, no gradient is recorded"
            )
            yield f"{what},\nnumerical:{numerical}\nanalytical:{analytical}\n"
        if np.abs(analytical - again).max(initial=0) > checks.nondet_tol:
            yield _not_reentrant(checks.nondet_tol, where)
    if along is not None:
        tangents = by_tangents(along, xs, pair).reshape(x.numel(), y.numel())
        if not np.allclose(tangents, numerical, *tolerances, equal_nan=True):
            yield (
                f"Jacobian computed with forward mode mismatch {where},\nnumerical:{numerical}\n"
                f"analytical:{tangents}\n"
            )


def _not_reentrant(nondet_tol: float, where: str) -> str:
    return (
        "Backward is not reentrant, i.e., running backward with same input and grad_output "
        "multiple times gives different values, although analytical gradient matches numerical "
        f"gradient. The tolerance for nondeterminism was {nondet_tol}, {where}"
    )


def _compare_directions(
    func: Function, args: Sequence[Any], outs: Sequence[Tensor], xs: Sequence[Tensor],
    pair: tuple[int, int], where: str, along: Function | None, checks: _Checks,
) -> Iterator[str]:  # fmt: skip
    """The faults, in words, of ``u @ J @ v`` beside finite differences: J is the Jacobian of one
    output by one input, whose numbers are the ``pair``, and the directions u and v are drawn. These
    are not negative, so errors of elements do not cancel, and their sums scale the tolerance."""
    k, j = pair
    y, x = outs[k], xs[j]
    draw = np.random.default_rng(pair)
    u, v = (np.asarray(draw.uniform(size=t.shape)) for t in (y, x))
    u, v = (d / max(float(np.linalg.norm(d)), 1e-30) for d in (u, v))
    numerical = float((difference_along(func, args, x, k, v, checks.eps) * u).sum())
    atol = checks.atol * float(u.sum()) * float(v.sum())
    found = {}
    if checks.backward:
        found["backward"], again = (float((gradient_of(y, x, u) * v).sum()) for _ in range(2))
        if abs(again - found["backward"]) > checks.nondet_tol:
            yield _not_reentrant(checks.nondet_tol, where)
    if along is not None:
        moves = [zeros_like(t).detach() for t in xs]
        moves[j] = tensor_like(v, x)
        found["forward"] = float((values(along(*moves)[k]) * u).sum())
    for mode, analytical in found.items():
        if not np.isclose(analytical, numerical, checks.rtol, atol, equal_nan=True):
            yield (
                f"Jacobian mismatch {where} in fast mode, along directions that were drawn:\n"
                f"numerical:{numerical}\nanalytical, by {mode}:{analytical}\n"
                "fast_mode=False compares all elements"
            )


def _compare_batches(
    derivative: Function, like: Sequence[Tensor], what: str, one: bool
) -> Iterator[str]:
    """The faults, in words, of `vmap` of a linear ``derivative`` beside a call for each row. It
    takes tensors ``like`` these, as ``one`` tuple or as several arguments."""
    draw = np.random.default_rng(0)
    pairs = [[tensor_like(draw.standard_normal(t.shape), t) for _ in range(2)] for t in like]

    def call(given: Any) -> Any:
        return derivative(given) if one else derivative(*given)

    expected = [call(tuple(row)) for row in zip(*pairs, strict=True)]
    try:
        found = vmap(call)(tuple(stack(pair) for pair in pairs))
    except StaticflowError as error:
        why, _, _ = str(error).rpartition(", at ")
        yield f"While computing batched {what}, got: {why or error}"
        return
    for k, (result, *rows) in enumerate(zip(found, *expected, strict=True)):
        wanted = [values(row) for row in rows]
        if not np.allclose(values(result), np.stack(wanted), equal_nan=True):
            yield (
                f"batched {what} differ from those of separate calls, entry {k} of the result:\n"
                f"batched:{values(result)}\nseparate:{np.stack(wanted)}\n"
            )


def _try_undefined(outs: Sequence[Tensor], xs: Sequence[Tensor]) -> Iterator[str]:
    """Backward with a gradient for one output alone, zero ones for it."""
    for k, y in enumerate(outs):
        cts = [zeros_like(o).detach() if o is y else None for o in outs]
        try:
            found = pull(outs, xs, cts)
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
    for g, x in zip(pull(outs, xs, [zeros_like(y).detach() for y in outs]), xs, strict=True):
        if g is not None and g.dtype is not x.dtype:
            yield f"the gradient is {g.dtype.name}, the input {x.dtype.name}"
