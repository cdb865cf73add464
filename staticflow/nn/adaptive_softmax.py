"""The softmax of many classes, of which few are frequent: a loss that computes what it needs."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.container import ModuleList, Sequential
from staticflow.nn.functional import cross_entropy
from staticflow.nn.linear import Linear
from staticflow.nn.module import Module
from staticflow.ops.along.extremes import argmax
from staticflow.ops.along.softmax import log_softmax
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.joining import cat
from staticflow.ops.declaring.required import require_true
from staticflow.ops.indexing.data_dependent import nonzero
from staticflow.ops.indexing.gather_ops import gather

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class AdaptiveSoftmaxLoss(NamedTuple):
    """The log-probability of the class of each row, ``output`` (N,), and the mean of their
    negatives, ``loss``."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log-probabilities of ``n_classes``, in which the first, up to ``cutoffs[0]``, have scores
    of their own in ``head``, and the others, between two cutoffs each, are a cluster: ``head`` has
    one score for it, and a part of ``tail`` the scores in it, by way of a hidden layer of
    ``in_features // div_value ** i`` for the i-th cluster. What is computed of a cluster is for the
    rows whose class lies in it, so classes should be in the order of how often they come.

    ``head_bias`` gives ``head`` a bias. Raises `ArgumentError` for ``cutoffs`` that do not rise
    from 1 to ``n_classes - 1``.

    Source: Grave, Joulin, Cissé, Grangier and Jégou, "Efficient softmax approximation for GPUs"
    (2017).

    >>> import staticflow as sf
    >>> layer = AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10], div_value=2.0)
    >>> found = layer(sf.ones(3, 8), sf.tensor([0, 7, 19]))
    >>> found.output.shape, found.loss.shape
    ((3,), ())
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        ends = [*_integers(cutoffs), n_classes]
        if len(ends) < 2 or ends[0] < 1 or any(a >= b for a, b in pairwise(ends)):
            raise ArgumentError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs are {cutoffs}; they must be integers that "
                f"rise from 1 to n_classes - 1, {n_classes - 1}, at {format_locs(here())}"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, ends
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = ends[0], len(ends) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        kind = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **kind)
        self.tail = ModuleList()
        for i, (first, end) in enumerate(pairwise(ends), start=1):
            hidden = int(in_features // div_value**i)
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **kind),
                    Linear(hidden, end - first, bias=False, **kind),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for layer in (self.head, *(part for cluster in self.tail for part in cluster)):
            layer.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> AdaptiveSoftmaxLoss:
        """The log-probabilities of the classes ``target_`` (N,) of the rows of ``input_`` (N,
        in_features), and the loss; or of one class () of a single row (in_features,).

        Raises `ArgumentError` for a class outside of [0, n_classes).
        """
        if target_.ndim > 1 or input_.ndim != target_.ndim + 1:
            raise ShapeError(
                "AdaptiveLogSoftmaxWithLoss: takes rows (N, in_features) and their classes (N,), "
                f"or one of each, not {list(input_.shape)} and {list(target_.shape)}, "
                f"at {format_locs(here())}"
            )
        if target_.ndim == 0:
            alone = self.forward(input_.unsqueeze(0), target_.unsqueeze(0))
            return AdaptiveSoftmaxLoss(alone.output.squeeze(0), alone.loss)
        target_ = require_true(
            target_.long(), ((target_ >= 0) & (target_ < self.n_classes)).all(),
            "AdaptiveLogSoftmaxWithLoss: a target is outside of the classes, which go from 0 to "
            f"{self.n_classes - 1}",
        )  # fmt: skip
        place = target_
        for i, first in enumerate(self.cutoffs[:-1]):
            place = where(target_ >= first, self.shortlist_size + i, place)
        output = gather(log_softmax(self.head(input_), 1), 1, place.unsqueeze(1)).squeeze(1)
        for cluster, (first, end) in zip(self.tail, pairwise(self.cutoffs), strict=True):
            rows = nonzero((target_ >= first) & (target_ < end)).squeeze(1)
            scores, classes = cluster(input_[rows]), target_[rows] - first
            output = output.index_add(0, rows, -cross_entropy(scores, classes, reduction="none"))
        return AdaptiveSoftmaxLoss(output, -output.mean())

    def log_prob(self, input: Any) -> Any:
        """The log-probabilities (N, n_classes) of all classes for the rows of ``input`` (N,
        in_features)."""
        head, few = log_softmax(self.head(input), -1), self.shortlist_size
        clusters = (
            head[..., few + i : few + i + 1] + log_softmax(cluster(input), -1)
            for i, cluster in enumerate(self.tail)
        )
        return cat([head[..., :few], *clusters], -1)

    def predict(self, input: Any) -> Any:
        """The likeliest class (N,) for each row of ``input`` (N, in_features)."""
        return argmax(self.log_prob(input), -1)

    def extra_repr(self) -> str:
        """The sizes, and where clusters begin."""
        return (
            f"in_features={self.in_features}, n_classes={self.n_classes}, "
            f"cutoffs={self.cutoffs[:-1]}, div_value={self.div_value}"
        )


def _integers(cutoffs: Sequence[int]) -> list[int]:
    """The cutoffs, or one below all for what is no list of integers."""
    try:
        return [operator.index(c) for c in cutoffs]
    except TypeError:
        return [0]
