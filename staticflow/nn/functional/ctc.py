"""Connectionist temporal classification: sequences against labels whose positions are unknown."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.losses import check_reduction
from staticflow.ops.basics.arithmetic import cast, clamp, where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.creation import full_like, iota
from staticflow.ops.basics.joining import cat, stack
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import reshape, squeeze, unsqueeze
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_shape, require_true
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.elementwise.pairs import logaddexp
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.loops.scan import scan
from staticflow.ops.symbols.real_sizes import number_of_size
from staticflow.ops.symbols.symbol import symbolic

__all__ = ["ctc_loss"]

_NEVER = -1e30
"""The logarithm of the probability of what cannot be: finite, so that gradients are, too."""


@by_autocast
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Minus the logarithm of the probability that ``log_probs`` (T, N, C), logarithms of the
    probabilities of C labels at T times, spell ``targets``, with ``blank`` and repeats left out
    (Graves et al. 2006, "Connectionist temporal classification").

    ``targets`` are (N, S), or one behind the other in a vector; ``input_lengths`` and
    ``target_lengths`` (N,) say how much of both counts. One sequence may come without N. "mean"
    divides each loss by the length of its target first. What cannot be spelt is infinite, or with
    ``zero_infinity`` 0. The gradient with respect to ``log_probs`` is that of this number, where
    PyTorch's is the one behind a ``log_softmax``; through one both are the same.

    >>> import staticflow as sf
    >>> even = sf.full((2, 1, 2), 0.5).log()
    >>> ctc_loss(even, sf.tensor([[1]]), [2], [1]).exp()
    tensor(1.3333)
    """
    check_reduction(reduction)
    alone = log_probs.ndim == 2
    x = unsqueeze(log_probs, 1) if alone else log_probs
    steps = _lengths("input_lengths", input_lengths, x)
    spoken = _lengths("target_lengths", target_lengths, x)
    labels = _rows(targets, spoken, alone)
    loss = _loss(x, labels, steps, spoken, blank, reduction, zero_infinity)
    for name, lengths, most in (
        ("input_lengths", steps, x.shape[0]),
        ("target_lengths", spoken, labels.shape[1]),
    ):
        end = most if isinstance(most, int) else number_of_size(most)
        fits = ((lengths >= 0) & (lengths <= end)).all()
        what = f"ctc_loss: {name} must be from 0 to {most}, of which there are so many, and are not"
        loss = require_true(loss, fits, what)
    return squeeze(loss, 0) if alone and reduction == "none" else loss


@fused("CtcLossBackward0")
def _loss(
    x: Any, labels: Any, steps: Any, spoken: Any, blank: int, reduction: str, zero_infinity: bool
) -> Any:
    n, count = x.shape[1], labels.shape[1]
    gaps = full_like(labels, blank)
    # blanks around and between the labels
    pairs = reshape(stack([gaps, labels], 2), (n, 2 * count))
    states = cat([pairs, gaps.new_full((n, 1), blank)], 1)
    width = 2 * count + 1
    position = iota.beside(x, shape=(1, width), dim=1, dtype=int64)

    def shift(rows: Any, by: int, edge: float) -> Any:
        """What is ``by`` states before."""
        return narrow(cat([rows.new_full((n, by), edge), rows], 1), 1, 0, width)

    skips = (states != blank) & (states != shift(states, 2, blank))

    def step(carry: Any, row: Any) -> Any:
        alpha, t = carry
        come = logaddexp(alpha, shift(alpha, 1, _NEVER))
        come = logaddexp(come, where(skips, shift(alpha, 2, _NEVER), _NEVER))
        new = clamp(come + gather(row, 1, states), min=_NEVER)
        return (where(unsqueeze(t < steps, 1), new, alpha), t + 1), None

    # before the first time only the state before the first blank can be
    begin = where(position + states * 0 == 0, 0.0, _NEVER).to(x.dtype)
    first = where(position <= 1, gather(x[0], 1, states), _NEVER) + begin * 0
    first = where(unsqueeze(steps > 0, 1), first, begin)
    (alpha, _), _ = scan(step, (first, steps * 0 + 1), x[1:])
    ends = [unsqueeze(clamp(2 * spoken - back, min=0), 1) for back in (0, 1)]
    last, other = (squeeze(gather(alpha, 1, at), 1) for at in ends)
    each = -where(spoken > 0, logaddexp(last, other), last)
    each = where(each > -_NEVER / 2, 0.0 if zero_infinity else float("inf"), each)
    if reduction == "mean":
        return (each / cast(clamp(spoken, min=1), dtype=each.dtype)).mean()
    return each.sum() if reduction == "sum" else each


def _lengths(name: str, given: Any, like: Any) -> Any:
    """Lengths, the argument ``name``, as a vector of int64 for the sequences of ``like`` (T, N, C),
    beside it: of the CPU, too, as in PyTorch."""
    if not hasattr(given, "__sf_mode__"):
        given = stack([like.new_full((), as_size(v), dtype=int64) for v in given])
    if given.dtype.kind not in "iu":
        raise DTypeError(
            f"ctc_loss: {name} are integers, not {given.dtype.name}, at {format_locs(here())}"
        )
    lengths = reshape(cast(given, dtype=int64), (-1,)).to(like.__sf_gpu__)
    return require_shape(lengths, (like.shape[1],), f"ctc_loss: {name}")


def _rows(targets: Any, lengths: Any, alone: bool) -> Any:
    """The labels (N, S)."""
    targets = cast(targets, dtype=int64)
    if alone or targets.ndim == 2:
        return unsqueeze(targets, 0) if targets.ndim == 1 else targets
    if symbolic(targets, lengths):
        raise ArgumentError(
            "ctc_loss: labels one behind the other are of lengths that a graph does not know; give "
            f"them as (N, S), at {format_locs(here())}"
        )
    total = int(lengths.sum())
    if total != targets.shape[0]:
        raise ArgumentError(
            f"ctc_loss: target_lengths add up to {total}, and targets, one behind the other, are "
            f"{targets.shape[0]} labels; both must be equal, at {format_locs(here())}"
        )
    longest = int(lengths.max()) if lengths.shape[0] else 0
    begin = unsqueeze(lengths.cumsum(0) - lengths, 1)
    at = begin + iota.beside(targets, shape=(1, longest), dim=1, dtype=int64)
    return targets[clamp(at, 0, max(targets.shape[0] - 1, 0))] if longest else at
