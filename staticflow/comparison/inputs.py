"""What a model is given: inputs written as ``x: f32[batch=32, 784]``, and arrays that fit them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError
from staticflow.graph.dtypes import DTYPES, DType, dtype_of

__all__ = ["Batch", "Input", "inputs_of_batches", "parse_inputs"]

Array = np.ndarray[Any, Any]
Batch = tuple[Array, ...]

_DTYPES = {name: d for d in DTYPES for name in (d.short, d.name)}
_INPUT = re.compile(r"\s*(?:([A-Za-z_]\w*)\s*:)?\s*(\w+)\s*\[([^\]]*)\]\s*(?:(<=?)\s*(\w+)\s*)?")
_OPEN = re.compile(r"([A-Za-z_]\w*)(?:\s*=\s*(\d+))?")
_FORM = 'such as "f32[batch=32, 784]", "labels: i64[batch] < 10", "lengths: i64[N] <= T" or "f32[]"'


@dataclass(frozen=True, slots=True)
class Input:
    """An argument of a step. A size is a number, or the name of one that is left open. Elements
    are at least 0 and less than ``below``, a number or an open size, or with ``counts`` at least 1
    and at most that; where it is None, integers are 0 or 1 and floating numbers anything."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...]
    below: int | str | None = None
    counts: bool = False

    def __str__(self) -> str:
        return self.describe({})

    def describe(self, sizes: Mapping[str, int]) -> str:
        """The input as it is written, with an example of each open size in ``sizes``."""
        written = ", ".join(
            f"{s}={sizes[s]}" if isinstance(s, str) and s in sizes else str(s) for s in self.shape
        )
        limit = "" if self.below is None else f" <{'=' * self.counts} {self.below}"
        return f"{self.name}: {self.dtype.short}[{written}]{limit}"

    def draw(self, random: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        """Random elements: uniform ones below the bound, normal ones of floating dtype without."""
        shape = tuple(sizes[s] if isinstance(s, str) else s for s in self.shape)
        below = sizes[self.below] if isinstance(self.below, str) else self.below
        if self.dtype.is_floating:
            free = random.standard_normal(shape) if below is None else random.random(shape)
            return np.asarray(free * (below or 1)).astype(self.dtype.numpy)
        found = random.integers(0, below or 2, shape) + self.counts
        return np.asarray(found).astype(self.dtype.numpy)

    def convert(self, array: Any) -> Array:
        """An array as this input takes it, in its dtype."""
        return np.ascontiguousarray(array, self.dtype.numpy).reshape(np.shape(array))


def parse_inputs(
    texts: Sequence[str], dtype: DType | None = None
) -> tuple[list[Input], dict[str, int]]:
    """Inputs and an example of each open size. Names that are left out stay empty. ``dtype``
    takes the place of the floating ones.

    Raises `ArgumentError` for what is not an input, and for an open size without an example.

    >>> inputs, sizes = parse_inputs(["x: f32[N=8, 3]", "i64[N] < 10"])
    >>> [str(x) for x in inputs], sizes
    (['x: f32[N, 3]', ': i64[N] < 10'], {'N': 8})
    """
    sizes: dict[str, int] = {}
    inputs = [_parse_input(text, sizes, dtype) for text in texts]
    for each, text in zip(inputs, texts, strict=True):
        for size in (*each.shape, each.below):
            if isinstance(size, str) and size not in sizes:
                raise ArgumentError(
                    f"the input {text!r} has the open size {size}, for which there must be an "
                    f"example: write {size}=32 once"
                )
    return inputs, sizes


def _parse_input(text: str, sizes: dict[str, int], dtype: DType | None) -> Input:
    match = _INPUT.fullmatch(text)
    if match is None:
        raise ArgumentError(f"{text!r} is not an input; write a dtype and the sizes, {_FORM}")
    name, word, dims, order, limit = match.groups()
    if word not in _DTYPES:
        raise ArgumentError(
            f"the input {text!r} has the dtype {word!r}; the dtypes are "
            f"{', '.join(d.short for d in DTYPES)}"
        )
    kind = _DTYPES[word]
    below = int(limit) if limit is not None and limit.isdecimal() else limit
    if below == 0 or (isinstance(below, str) and not below.isidentifier()):
        raise ArgumentError(
            f"the input {text!r}: the bound must be a number of at least 1, or an open size, not "
            f"{limit}"
        )
    shape = tuple(_parse_size(d.strip(), text, sizes) for d in dims.split(",") if dims.strip())
    return Input(
        name or "",
        dtype if dtype is not None and kind.is_floating else kind,
        shape,
        below,
        order == "<=",
    )


def _parse_size(word: str, text: str, sizes: dict[str, int]) -> int | str:
    if word.isdecimal():
        return int(word)
    match = _OPEN.fullmatch(word)
    if match is None:
        raise ArgumentError(
            f"the input {text!r} has the size {word!r}; a size is a number, or the name of an open "
            f"one with an example, {_FORM}"
        )
    name, example = match.groups()
    if example is not None and sizes.setdefault(name, int(example)) != int(example):
        raise ArgumentError(
            f"the open size {name} is {sizes[name]} in one place and {example} in another; it "
            "must be one number"
        )
    return name


def inputs_of_batches(
    batches: Sequence[Batch], dtype: DType | None = None
) -> tuple[list[Input], dict[str, int]]:
    """The inputs that arrays stand for. Sizes that differ from batch to batch are open, and those
    that are always equal to each other are one. Names are left empty.

    >>> few, many = (np.zeros((n, 3), np.float32) for n in (2, 5))
    >>> inputs, sizes = inputs_of_batches([(few, few[:, 0]), (many, many[:, 0])])
    >>> [str(x) for x in inputs], sizes
    ([': f32[size0, 3]', ': f32[size0]'], {'size0': 2})

    Integers are bounded by the largest that there is, or by an open size that their largest
    follows.
    """
    names: dict[tuple[int, ...], str] = {}

    def size(values: tuple[int, ...]) -> int | str:
        if len(set(values)) == 1:
            return values[0]
        return names.setdefault(values, f"size{len(names)}")

    inputs = []
    for column in zip(*batches, strict=True):
        shapes = zip(*(array.shape for array in column), strict=True)
        kind = dtype_of(column[0].dtype)
        inputs.append(
            Input(
                "",
                dtype if dtype is not None and kind.is_floating else kind,
                tuple(size(values) for values in shapes),
            )
        )
    bounded = [
        x if x.dtype.is_floating else replace(x, **_find_bound(column, names))
        for x, column in zip(inputs, zip(*batches, strict=True), strict=True)
    ]
    return bounded, {name: values[0] for values, name in names.items()}


def _find_bound(column: Sequence[Array], names: Mapping[tuple[int, ...], str]) -> dict[str, Any]:
    """``below`` and ``counts`` of integers: an open size that their largest follows from batch to
    batch, as lengths and positions do, or else the largest of all."""
    largest = tuple(int(a.max(initial=0)) for a in column)
    if largest in names and all(a.min(initial=1) >= 1 for a in column):
        return {"below": names[largest], "counts": True}
    if (above := tuple(n + 1 for n in largest)) in names:
        return {"below": names[above]}
    return {"below": max(above)}
