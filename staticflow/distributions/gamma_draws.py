"""Draws of gamma distributions as logarithms, with their derivative by the concentration.

The draws are by G. Marsaglia and W. W. Tsang, *A simple method for generating gamma variables*
(2000), which rejects at most 4.9 % of its attempts.
"""

from __future__ import annotations

from typing import Any

from staticflow.autograd.function import Function, FunctionCtx
from staticflow.distributions.gamma_integral import log_gamma_slope
from staticflow.ops.basics.arithmetic import cast, clamp, logical_and, logical_or, where
from staticflow.ops.elementwise.maths import log, log1p, sqrt
from staticflow.ops.loops.while_loop import fori_loop
from staticflow.ops.random.draws import real_dtype
from staticflow.ops.random.sampling import Source, draw_exponential, randn_like

__all__ = ["draw_log_gamma"]

_ATTEMPTS = 10
"""Each element takes the first of its attempts that is not rejected, and the last of as many; all
are rejected in 8 of 1e14 elements at most. A number that is fixed lets rows of `vmap` draw their
own, and both modes leave the generator at one place."""


def draw_log_gamma(concentration: Any, generator: Source | None) -> Any:
    """Logarithms of draws of the gamma distributions of rate 1, in the shape and dtype of
    ``concentration``, which is above 0, with their derivative by it to any order.

    The logarithm is finite for every concentration; the draw itself underflows below about 0.01.
    """
    wide = cast(concentration, dtype=real_dtype(concentration.dtype))
    is_small = wide < 1
    # of 1 and more; a draw for a + 1 times u**(1 / a) is one for a
    raised = where(is_small, wide + 1, wide)
    drawn = _OfDraw.apply(raised, _first_accepted(raised.detach(), generator))
    waiting = draw_exponential(wide.detach(), generator)
    return (drawn - where(is_small, waiting / wide, 0.0)).to(concentration.dtype)


def _first_accepted(a: Any, generator: Source | None) -> Any:
    """The logarithm of a draw for each element of ``a``, which is 1 or more."""
    d = a - 1 / 3
    step = 1 / sqrt(d * 9)

    def attempt() -> tuple[Any, Any]:
        z = randn_like(a, generator=generator)
        waiting = draw_exponential(a, generator)
        s = clamp(z * step, min=-0.999999)
        cube = log1p(s) * 3
        # d (1 - v + log v) of v = (1 + s)**3, without its cancellation where s is small
        falls = d * (cube - s * (s * (s + 3) + 3))
        is_taken = logical_and(-waiting < z * z * 0.5 + falls, z * step > -0.999999)
        return cube, is_taken

    def again(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        found, done = carry
        cube, is_taken = attempt()
        return where(done, found, cube), logical_or(done, is_taken)

    found, _ = fori_loop(1, _ATTEMPTS, again, attempt())
    return log(d) + found


class _OfDraw(Function):
    """The logarithm of a draw, as a function of the concentration."""

    @staticmethod
    def forward(ctx: FunctionCtx, a: Any, log_draw: Any) -> Any:
        given = log_draw.clone()
        ctx.save_for_backward(a, given)
        return given

    @staticmethod
    def backward(ctx: FunctionCtx, ct: Any) -> Any:
        a, log_draw = ctx.saved_tensors
        return ct * log_gamma_slope(a, log_draw), None
