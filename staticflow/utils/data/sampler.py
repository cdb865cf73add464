"""Samplers, which say in what order a `DataLoader` reads a dataset: iterables of indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from itertools import islice
from typing import Any, TypeVar

from staticflow.eager.creation import tensor
from staticflow.eager.random import Generator
from staticflow.errors import ArgumentError
from staticflow.graph.dtypes import float64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.random.sampling import Source, multinomial, randint, randperm
from staticflow.utils.data.checks import check_count, check_has

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
    "WeightedRandomSampler", "batch_count", "in_batches",
]  # fmt: skip

T = TypeVar("T")


class Sampler:
    """The base of samplers of one's own, which have ``__iter__`` and, for the length of a loader,
    ``__len__``; any other iterable of indices is a sampler, too."""

    def __iter__(self) -> Iterator[Any]:
        raise ArgumentError(
            f"{type(self).__name__} has no __iter__(), and a sampler must have one, at "
            f"{format_locs(here())}"
        )


class SequentialSampler(Sampler):
    """The indices of ``data_source`` in their order.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        check_has("SequentialSampler", "data_source", data_source, "__len__")
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """The indices of ``data_source`` in a new random order each time; ``num_samples`` of them,
    as many as there are unless given. More than there are begin another order; with
    ``replacement`` each is drawn from all.

    Raises `ArgumentError` for a ``num_samples`` below 1, and where an empty source is drawn from.

    >>> sorted(RandomSampler("abc")), len(RandomSampler("abc", num_samples=7))
    ([0, 1, 2], 7)
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Source | None = None,
    ) -> None:
        check_has("RandomSampler", "data_source", data_source, "__len__")
        if num_samples is not None:
            check_count("RandomSampler", "num_samples", num_samples)
        self.data_source = data_source
        self.replacement = as_bool("RandomSampler: 'replacement'", replacement)
        self.count, self.generator = num_samples, generator

    @property
    def num_samples(self) -> int:
        """How many indices an iteration gives."""
        return len(self.data_source) if self.count is None else self.count

    def __iter__(self) -> Iterator[int]:
        if not len(self.data_source) and self.num_samples:
            raise ArgumentError(
                f"RandomSampler: {self.num_samples} samples are drawn from a source of none, at "
                f"{format_locs(here())}"
            )
        seed = randint(0, 2**62, (), generator=self.generator).item()
        return self._draws(Generator().manual_seed(int(seed)))

    def _draws(self, generator: Generator) -> Iterator[int]:
        """The indices, which may be drawn on a thread: by a generator of this iteration's own."""
        count, wanted = len(self.data_source), self.num_samples
        while wanted > 0:
            part = min(wanted, _DRAWN_AT_ONCE if self.replacement else count)
            if self.replacement:
                drawn = randint(0, count, (part,), generator=generator)
            else:
                drawn = randperm(count, generator=generator)[:part]
            yield from drawn.tolist()
            wanted -= part

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given ``indices`` in a new random order each time.

    >>> sorted(SubsetRandomSampler([4, 2]))
    [2, 4]
    """

    def __init__(self, indices: Sequence[int], generator: Source | None = None) -> None:
        check_has("SubsetRandomSampler", "indices", indices, "__len__", "__getitem__")
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = randperm(len(self.indices), generator=self.generator).tolist()
        return iter([self.indices[i] for i in order])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """``num_samples`` indices of ``weights``, numbers not below 0, each with a chance proportional
    to its weight, and only once unless ``replacement``.

    Raises `ArgumentError` for a ``num_samples`` below 1, weights that are no vector, and more
    samples than weights where none may come twice.

    >>> list(WeightedRandomSampler([0.0, 0.3], 3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: Source | None = None,
    ) -> None:
        check_count("WeightedRandomSampler", "num_samples", num_samples)
        check_has("WeightedRandomSampler", "weights", weights, "__iter__")
        given = weights.tolist() if hasattr(weights, "tolist") else list(weights)
        replacement = as_bool("WeightedRandomSampler: 'replacement'", replacement)
        self.weights = tensor(given, dtype=float64)
        if self.weights.ndim != 1:
            raise ArgumentError(
                f"WeightedRandomSampler: the weights have the shape {list(self.weights.shape)}, "
                f"and must be a vector, at {format_locs(here())}"
            )
        if not replacement and num_samples > len(self.weights):
            raise ArgumentError(
                f"WeightedRandomSampler: {num_samples} samples of {len(self.weights)} weights "
                f"without replacement; give replacement=True, at {format_locs(here())}"
            )
        self.num_samples, self.replacement = num_samples, replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of ``batch_size`` indices of another ``sampler``, for a loader's ``batch_sampler``;
    ``drop_last`` leaves out a last one of fewer.

    Raises `ArgumentError` for a ``batch_size`` below 1.

    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        check_has("BatchSampler", "sampler", sampler, "__iter__")
        check_count("BatchSampler", "batch_size", batch_size)
        self.sampler, self.batch_size = sampler, int(batch_size)
        self.drop_last = as_bool("BatchSampler: 'drop_last'", drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        return in_batches(iter(self.sampler), self.batch_size, self.drop_last)

    def __len__(self) -> int:
        return batch_count(len(self.sampler), self.batch_size, self.drop_last)


def in_batches(samples: Iterator[T], batch_size: int, drop_last: bool) -> Iterator[list[T]]:
    """Lists of so many samples; the last one may have fewer, and is left out by ``drop_last``."""
    while chosen := list(islice(samples, batch_size)):
        if len(chosen) == batch_size or not drop_last:
            yield chosen


def batch_count(samples: int, batch_size: int, drop_last: bool) -> int:
    """How many lists `in_batches` gives."""
    return samples // batch_size if drop_last else -(-samples // batch_size)


_DRAWN_AT_ONCE = 1024
"""Indices of a draw with replacement that are drawn together: a sampler of a thousand million
samples, as of a training without epochs, gives its first at once."""
