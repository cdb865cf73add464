"""Sums of products over named dims: the notation of `einsum`, the order in which it contracts, and
the contraction of two."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import ShapeError
from staticflow.graph.dim_queries import substitute_dim, symbols_of
from staticflow.graph.dims import Size, same, same_shape
from staticflow.graph.dims import prod as size_of
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import mul
from staticflow.ops.basics.axes import permute
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.reduce import sum_op
from staticflow.ops.basics.view import is_one_at_most, reshape, stretchable
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.triangle import diagonal

__all__ = ["Labelled", "contract_all", "einsum"]

_UNKNOWN = 64
"""What an unknown size counts for when orders of contraction are compared."""

_MOST_COMPARED = 8
"""Operands of which every order is compared; of more, the cheapest pairs are taken first."""

_MOST_PAIRED = 64
"""Operands of which every pair is; of more, the first ones are taken from left to right."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A tensor whose dims have names."""

    tensor: Any
    labels: tuple[str, ...]

    def over(self, kept: Collection[str]) -> Labelled:
        """Summed over all dims but ``kept``."""
        gone = tuple(i for i, name in enumerate(self.labels) if name not in kept)
        if not gone:
            return self
        total = sum_op(self.tensor, dims=gone, keepdim=False)
        return Labelled(total, tuple(name for name in self.labels if name in kept))

    def permute_to(self, labels: Sequence[str]) -> Any:
        """The tensor with its dims in this order."""
        return permute(self.tensor, [self.labels.index(name) for name in labels])

    def sizes(self, labels: Sequence[str]) -> list[Size]:
        """The sizes of these dims."""
        return [self.tensor.shape[self.labels.index(name)] for name in labels]


@by_shape
def einsum(equation: str, *operands: Any) -> Any:
    """The sum of products that ``equation`` writes in Einstein's notation.

    It names the dims of each operand by letters, ``...`` standing for any number of dims, which
    broadcast, and after ``->`` those of the result. Without ``->`` the result has the dims of
    ``...`` and the letters that occur once, in alphabetical order. A letter that an operand has
    twice takes its diagonal. Three operands and more are contracted two at a time, in the order
    that takes the fewest multiplications, but for those before the last 64, from left to right.

    Raises `ShapeError` where the equation does not fit the operands.

    >>> import staticflow as sf
    >>> sf.einsum("bij,bjk->bik", sf.ones(2, 3, 4), sf.ones(2, 4, 5)).shape
    (2, 3, 5)
    >>> sf.einsum("ii", sf.eye(3))
    tensor(3.)
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    inputs, out = _parse(equation, operands)
    sizes = _sizes(equation, operands, inputs)
    stretched = [
        stretchable(x, tuple(sizes[name] for name in labels))
        for x, labels in zip(operands, inputs, strict=True)
    ]
    terms = [
        _without_ones(_diagonal(x, labels), sizes)
        for x, labels in zip(stretched, inputs, strict=True)
    ]
    return contract_all(terms, out)


# -- the equation ---------------------------------------------------------------------------------


def _refuse(equation: str, what: str) -> ShapeError:
    return ShapeError(f"einsum({equation!r}): {what}, at {format_locs(here())}")


def _parse(equation: str, operands: Sequence[Any]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The labels of each operand and of the result; the dims of ``...`` are labelled by their
    position from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise _refuse(equation, f"names {len(terms)} operands, {len(operands)} are given")
    inputs = []
    for i, (term, x) in enumerate(zip(terms, operands, strict=True)):
        free = x.ndim - len(term.replace("...", ""))
        if free < 0 or (free and "..." not in term):
            raise _refuse(equation, f"{term!r} does not fit operand {i}, of shape {list(x.shape)}")
        inputs.append(_labels(equation, term, free))
    dots = max((_dots(labels) for labels in inputs), key=len)
    if arrow:
        out = _labels(equation, right, len(dots))
    else:
        counts = Counter(name for labels in inputs for name in labels if name not in dots)
        out = (*dots, *sorted(name for name, count in counts.items() if count == 1))
    known = {name for labels in inputs for name in labels}
    for name, count in Counter(out).items():
        if count > 1 or name not in known:
            wrong = "names it twice" if count > 1 else "no operand has it"
            raise _refuse(equation, f"the result cannot have the dim {name!r}: {wrong}")
    return inputs, out


def _labels(equation: str, term: str, dots: int) -> tuple[str, ...]:
    before, found, after = term.partition("...")
    for letter in before + after:
        if letter not in string.ascii_letters:
            raise _refuse(equation, f"{letter!r} is no letter")
    middle = [f".{i}" for i in reversed(range(dots))] if found else []
    return (*before, *middle, *after)


def _dots(labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in labels if name.startswith("."))


def _sizes(
    equation: str, operands: Sequence[Any], inputs: Sequence[tuple[str, ...]]
) -> dict[str, Size]:
    """The size of each label; a 1 stretches, and so does a size that is 1 at most."""
    sizes: dict[str, Size] = {}
    for x, labels in zip(operands, inputs, strict=True):
        for size, name in zip(x.shape, labels, strict=True):
            known = sizes.get(name, 1)
            if is_one_at_most(known):
                sizes[name] = size if same(known, 1) or not same(size, 1) else known
            elif isinstance(known, int) and isinstance(size, int) and size not in (1, known):
                raise _refuse(equation, f"the dim {name!r} has the sizes {known} and {size}")
    return sizes


def _diagonal(x: Any, labels: tuple[str, ...]) -> Labelled:
    """The tensor with every label once: a diagonal where there were two."""
    while len(set(labels)) < len(labels):
        name = next(name for name, count in Counter(labels).items() if count > 1)
        first = labels.index(name)
        second = labels.index(name, first + 1)
        x = diagonal(x, 0, first, second)
        labels = (*(n for i, n in enumerate(labels) if i not in (first, second)), name)
    return Labelled(x, labels)


def _without_ones(term: Labelled, sizes: Mapping[str, Size]) -> Labelled:
    """Without the dims that stretch, which broadcasting puts back. Sizes that are not known are
    those of the label, so that they are the same size in every operand."""
    kept = [
        i
        for i, name in enumerate(term.labels)
        if not same(term.tensor.shape[i], 1) or same(sizes[name], 1)
    ]
    labels = tuple(term.labels[i] for i in kept)
    tensor = reshape(term.tensor, tuple(term.tensor.shape[i] for i in kept))
    shape = tuple(sizes[name] for name in labels)
    return Labelled(tensor if same_shape(tensor.shape, shape) else expand(tensor, shape), labels)


# -- contraction ----------------------------------------------------------------------------------


def contract_all(terms: Sequence[Labelled], out: Sequence[str]) -> Any:
    """The sum of the products of ``terms`` over all labels but ``out``, with dims in that order."""
    terms = _from_left(terms, out)
    while len(terms) > _MOST_COMPARED:
        pairs = [(i, j) for j in range(len(terms)) for i in range(j)]
        i, j = min(pairs, key=lambda pair: _cost(terms[pair[0]], terms[pair[1]]))
        rest = [t for at, t in enumerate(terms) if at not in (i, j)]
        needed = {*out, *(name for t in rest for name in t.labels)}
        terms = [*rest, _contract(terms[i], terms[j], needed)]
    return _in_order(terms, out).over(out).permute_to(out)


def _from_left(terms: Sequence[Labelled], out: Sequence[str]) -> list[Labelled]:
    """The terms, of which the first ones are contracted if there are many."""
    many = max(len(terms) - _MOST_PAIRED, 0)
    later = Counter(name for t in terms for name in t.labels)
    wanted = frozenset(out)
    first = terms[0]
    later.subtract(first.labels)
    for term in terms[1 : 1 + many]:
        later.subtract(term.labels)
        both = {*first.labels, *term.labels}
        first = _contract(first, term, {n for n in both if n in wanted or later[n]})
    return [first, *terms[1 + many :]]


def _estimate(size: Size) -> int:
    known = substitute_dim(size, dict.fromkeys(symbols_of(size), _UNKNOWN))
    assert isinstance(known, int)
    return known


def _cost(x: Labelled, y: Labelled) -> int:
    """The multiplications that their product takes."""
    sizes = dict(zip((*x.labels, *y.labels), (*x.tensor.shape, *y.tensor.shape), strict=True))
    return prod(map(_estimate, sizes.values()))


def _in_order(terms: Sequence[Labelled], out: Sequence[str]) -> Labelled:
    """All terms contracted in the cheapest order, by dynamic programming over the subsets."""
    sizes = {
        name: _estimate(size)
        for t in terms
        for name, size in zip(t.labels, t.tensor.shape, strict=True)
    }
    every = (1 << len(terms)) - 1
    members = {m: [t for i, t in enumerate(terms) if m >> i & 1] for m in range(1, every + 1)}

    needed = {  # the labels that something outside of a subset needs
        m: {*out, *(name for t in members.get(every ^ m, []) for name in t.labels)} for m in members
    }
    kept = {m: {name for t in members[m] for name in t.labels} & needed[m] for m in members}
    best: dict[int, tuple[int, int]] = {}  # the cost and one half of the best split
    for subset in members:
        halves = [h for h in range(1, subset) if h & subset == h and h < subset ^ h]
        best[subset] = min(
            (
                best[h][0] + best[subset ^ h][0]
                + prod(sizes[name] for name in kept[h] | kept[subset ^ h]),
                h,
            )
            for h in halves
        ) if halves else (0, 0)  # fmt: skip

    wanted = [every]
    for subset in wanted:  # which grows: each after what it is a half of
        half = best[subset][1]
        wanted += [half, subset ^ half] if half else []
    done: dict[int, Labelled] = {}
    for subset in reversed(wanted):
        half = best[subset][1]
        done[subset] = (
            _contract(done[half], done[subset ^ half], needed[subset])
            if half
            else members[subset][0].over(needed[subset])
        )
    return done[every]


def _contract(x: Labelled, y: Labelled, needed: Collection[str]) -> Labelled:
    """The product of two, summed over the labels of both that are not ``needed``."""
    x, y = x.over({*needed, *y.labels}), y.over({*needed, *x.labels})
    batch = [name for name in x.labels if name in y.labels and name in needed]
    summed = [name for name in x.labels if name in y.labels and name not in needed]
    left = [name for name in x.labels if name not in y.labels]
    right = [name for name in y.labels if name not in x.labels]
    shared, rows, cols = x.sizes(batch), x.sizes(left), y.sizes(right)
    a, b = x.permute_to([*batch, *left, *summed]), y.permute_to([*batch, *summed, *right])
    if summed:
        inner = size_of(x.sizes(summed))
        a = reshape(a, (*shared, size_of(rows), inner))
        b = reshape(b, (*y.sizes(batch), size_of(y.sizes(summed)), size_of(cols)))
        product = reshape(matmul(a, b), (*shared, *rows, *cols))
    else:
        a = reshape(a, (*shared, *rows, *[1] * len(cols)))
        product = mul(a, reshape(b, (*y.sizes(batch), *[1] * len(rows), *cols)))
    return Labelled(product, (*batch, *left, *right))
