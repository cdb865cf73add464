"""TreeEnsemble: sums of the leaves that rows of features reach in trees of decisions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.creation import full
from staticflow.eager.ranges import arange
from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.arrays import Array
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.values import Known, as_tensor
from staticflow.ops.along.softmax import softmax
from staticflow.ops.basics.arithmetic import eq, ge, gt, le, logical_and, logical_or, lt, mul, ne
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.reduce import any
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.elementwise.maths import isnan, sigmoid
from staticflow.ops.elementwise.special import erfinv
from staticflow.ops.elementwise.variants import div, sub
from staticflow.ops.indexing.data_dependent import where
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.indexing.scatter_ops import scatter_reduce
from staticflow.ops.loops.scan import scan
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["TREES"]

_COMPARE: tuple[Callable[[Any, Any], Any], ...] = (le, lt, ge, gt, eq, ne)
"""How a node compares a feature with its number, by its mode; mode 6 asks for members of a set."""

_MEMBER = 6
_some = builtins.any


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees as arrays: inner nodes first, then leaves, each of which leads to itself.

    ``depth`` is how many decisions the longest way has. ``members`` has a row for each node that
    asks for members of a set, filled with NaN, and ``sets`` says of a node which row is its own.
    """

    roots: Array
    yes: Array
    no: Array
    features: Array
    splits: Array
    modes: Array
    missing: Array
    depth: int
    members: Array
    sets: Array


def _wrong(text: str) -> ShapeError:
    return ShapeError(f"{text}, at {format_locs(here())}")


def _forest(
    roots: Sequence[int], features: Sequence[int], modes: Array, splits: Array, missing: Any,
    members: Array | None, ways: Sequence[tuple[Sequence[int], Sequence[int]]], leaves: int,
) -> Forest:  # fmt: skip
    inner = len(features)
    columns = [modes, splits, *(c for way in ways for c in way), missing or features]
    if _some(len(c) != inner for c in columns):
        raise _wrong(f"{inner} nodes have {[len(c) for c in columns]} modes, splits and branches")
    if _some(m > _MEMBER for m in modes):
        raise _wrong(f"the modes of nodes are 0 to {_MEMBER}, not {max(modes.tolist())}")
    found = []
    for nodes, are_leaves in ways:
        at = np.asarray(nodes, np.int64)
        is_leaf = np.asarray(are_leaves, np.int64) != 0
        if ((at < 0) | (at >= np.where(is_leaf, leaves, inner))).any():
            raise _wrong(f"a branch leads to none of {inner} nodes and {leaves} leaves")
        found.append(np.concatenate((at + inner * is_leaf, np.arange(inner, inner + leaves))))
    begin = np.asarray(roots, np.int64)
    if ((begin < 0) | (begin >= inner)).any():
        raise _wrong(f"a root is none of {inner} nodes")
    more = np.zeros(leaves, np.int64)
    asks = np.flatnonzero(modes == _MEMBER)
    sets = np.zeros(inner + leaves, np.int64)
    sets[asks] = np.arange(len(asks))
    yes, no = found
    return Forest(
        begin, yes, no, np.concatenate((features, more)), np.concatenate((splits, more)),
        np.concatenate((modes, more)), np.concatenate((missing or [0] * inner, more)),
        _depth(begin, found, inner), _sets(members, len(asks)), sets,
    )  # fmt: skip


def _depth(roots: Array, ways: Sequence[Array], inner: int) -> int:
    """After how many decisions all ways have come to leaves."""
    at = np.unique(roots)
    for depth in range(inner + 1):
        at = at[at < inner]
        if not len(at):
            return depth
        at = np.unique(np.concatenate([way[at] for way in ways]))
    raise _wrong("a branch leads back to where it came from")


def _sets(members: Array | None, count: int) -> Array:
    """The sets of numbers, each ended by NaN, as rows."""
    flat = [] if members is None else members.tolist()
    ends = [i for i, v in enumerate(flat) if math.isnan(v)]
    if len(ends) != count:
        raise _wrong(f"{count} nodes ask for members of a set, and {len(ends)} sets are given")
    starts = [0, *(e + 1 for e in ends)]
    each = [flat[a:b] for a, b in zip(starts, ends, strict=False)]
    width = max(map(len, each), default=1)
    rows = [[*row_, *[math.nan] * (width - len(row_))] for row_ in each]
    return np.asarray(rows or [[math.nan]], np.float64)


def _tree_ensemble(
    x: Any, *, tree_roots: Sequence[int], nodes_featureids: Sequence[int], nodes_modes: Array,
    nodes_splits: Array, nodes_truenodeids: Sequence[int], nodes_trueleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int], nodes_falseleafs: Sequence[int],
    leaf_targetids: Sequence[int], leaf_weights: Array, n_targets: int,
    nodes_missing_value_tracks_true: Sequence[int] | None = None,
    membership_values: Array | None = None, aggregate_function: int = 1, post_transform: int = 0,
) -> Any:  # fmt: skip
    if x.ndim != 2 or len(leaf_targetids) != len(leaf_weights):
        raise _wrong(
            f"rows are (number, features), not {list(x.shape)}, and {len(leaf_weights)} leaves "
            f"have {len(leaf_targetids)} targets"
        )
    if _some(not 0 <= t < n_targets for t in leaf_targetids):
        raise _wrong(f"a leaf is of none of {n_targets} targets")
    if not 0 <= aggregate_function < len(_COMBINE) or not 0 <= post_transform < len(_TRANSFORM):
        raise _wrong(
            f"aggregate_function is 0 to 3 and post_transform 0 to 4, not {aggregate_function} "
            f"and {post_transform}"
        )
    forest = _forest(
        tree_roots, nodes_featureids, nodes_modes, nodes_splits, nodes_missing_value_tracks_true,
        membership_values,
        ((nodes_truenodeids, nodes_trueleafs), (nodes_falsenodeids, nodes_falseleafs)),
        len(leaf_weights),
    )  # fmt: skip

    def tensor(values: Any, dtype: Any = np.int64) -> Any:
        return as_tensor(Known(np.asarray(values, dtype)), isinstance(x, Symbol))

    at = mul(unsqueeze(arange(x.shape[0]), 1), 0) + tensor(forest.roots)
    branch = _branch(forest, x, tensor)
    at, _ = scan(lambda at, _: (branch(at), ()), at, arange(forest.depth))
    leaf = sub(at, len(nodes_featureids))
    weights = tensor(leaf_weights, x.dtype.numpy)[leaf]
    how, begin = _COMBINE[aggregate_function]
    if aggregate_function == 0:
        weights = div(weights, len(tree_roots))
    none = full((x.shape[0], n_targets), begin(x.dtype), dtype=x.dtype)
    found = scatter_reduce(none, 1, tensor(leaf_targetids)[leaf], weights, how)
    return cast(_TRANSFORM[post_transform](found), x.dtype)


def _branch(forest: Forest, x: Any, tensor: Callable[..., Any]) -> Callable[[Any], Any]:
    """From where rows are in each tree to where they are after one decision more."""
    dtype = x.dtype.numpy
    yes, no, features = (tensor(v) for v in (forest.yes, forest.no, forest.features))
    splits, modes = tensor(forest.splits, dtype), tensor(forest.modes)
    missing, sets = tensor(forest.missing), tensor(forest.sets)
    members = tensor(forest.members, dtype)
    used = sorted(set(forest.modes.tolist()))

    def branch(at: Any) -> Any:
        value = gather(x, 1, features[at])
        true: Any = None
        for mode in used:
            hit = (
                any(eq(unsqueeze(value, -1), members[sets[at]]), -1) if mode == _MEMBER
                else _COMPARE[mode](value, splits[at])
            )  # fmt: skip
            true = hit if true is None else where(eq(modes[at], mode), hit, true)
        if forest.missing.any():
            true = logical_or(true, logical_and(isnan(value), ne(missing[at], 0)))
        return where(true, yes[at], no[at])

    return branch


def _softmax_of_what_is_there(x: Any) -> Any:
    """Softmax of what is not zero, which stays zero."""
    there = ne(x, 0)
    found = where(there, softmax(where(there, x, -math.inf), 1), 0)
    return where(any(there, 1, True), found, 0)


_COMBINE: tuple[tuple[str, Callable[[Any], float]], ...] = (
    ("sum", lambda dtype: 0), ("sum", lambda dtype: 0),
    ("amin", lambda dtype: float(np.finfo(dtype.numpy).max)),
    ("amax", lambda dtype: float(np.finfo(dtype.numpy).min)),
)  # fmt: skip
"""How the leaves of a target are combined, and with what it begins: mean, sum, least, largest."""

_TRANSFORM: tuple[Callable[[Any], Any], ...] = (
    lambda x: x,
    lambda x: softmax(x, 1),
    sigmoid,
    _softmax_of_what_is_there,
    lambda x: mul(erfinv(sub(mul(x, 2), 1)), math.sqrt(2)),
)
"""What a TreeEnsemble makes of what its leaves come to (n, targets), by the number that is its
``post_transform``: nothing, softmax, sigmoid, softmax of what is not 0, probit."""

TREES: Mapping[str, Row] = {
    "ai.onnx.ml.TreeEnsemble": row(_tree_ensemble, ignored="nodes_hitrates"),
}
"""The row of each of these, by its name."""
