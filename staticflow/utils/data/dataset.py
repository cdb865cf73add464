"""Datasets, which give a sample for a number: of tensors side by side, and parts of others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import floor
from operator import index as as_index
from typing import Any

from staticflow.errors import ArgumentError, IndexRangeError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.random.sampling import Source, randperm
from staticflow.utils.data.checks import check_has, sample_at

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset",
    "TensorDataset", "random_split",
]  # fmt: skip


class Dataset:
    """The base of datasets of one's own, which have ``__len__`` and ``__getitem__``; any other
    class that has both is a dataset, too."""

    def __getitem__(self, index: Any) -> Any:
        raise ArgumentError(
            f"{type(self).__name__} has no __getitem__(index), and a dataset must have one, at "
            f"{format_locs(here())}"
        )

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset:
    """The base of datasets of one's own that are streams, which have ``__iter__``; any other
    iterable without ``__getitem__`` is such a dataset, too."""

    def __iter__(self) -> Iterator[Any]:
        raise ArgumentError(
            f"{type(self).__name__} has no __iter__(), and a stream must have one, at "
            f"{format_locs(here())}"
        )

    def __add__(self, other: Any) -> ChainDataset:
        return ChainDataset([self, other])


class ChainDataset(IterableDataset):
    """The samples of several streams, one stream after the other; so is ``a + b`` of two.

    >>> list(ChainDataset([range(2), "ab"]))
    [0, 1, 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        check_has("ChainDataset", "datasets", datasets, "__iter__")
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for one in self.datasets:
            check_has("ChainDataset", "one of the datasets", one, "__iter__")
            yield from one

    def __len__(self) -> int:
        """The samples of all streams, where each knows how many it has."""
        return sum(len(one) for one in self.datasets)


class ConcatDataset(Dataset):
    """The samples of several ``datasets``, one behind the other; so is ``a + b`` of two.

    Raises `ArgumentError` for none.

    >>> import staticflow as sf
    >>> first, second = TensorDataset(sf.arange(2)), TensorDataset(sf.arange(10, 13))
    >>> both = ConcatDataset([first, second])
    >>> len(both), both[2], both[-1], len(first + second)
    (5, (tensor(10),), (tensor(12),), 5)
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        check_has("ConcatDataset", "datasets", datasets, "__iter__")
        self.datasets = list(datasets)
        for one in self.datasets:
            check_has("ConcatDataset", "one of the datasets", one, "__len__", "__getitem__")
        if not self.datasets:
            raise ArgumentError(f"ConcatDataset of no datasets, at {format_locs(here())}")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __getitem__(self, index: int) -> Any:
        count = len(self)
        try:
            index = as_index(index)
        except TypeError:
            raise IndexRangeError(
                f"ConcatDataset: {index!r} is no index; it must be an integer from {-count} to "
                f"{count - 1}, at {format_locs(here())}"
            ) from None
        if not -count <= index < count:
            raise IndexRangeError(
                f"ConcatDataset: the sample {index} lies outside of {count}; it must be from "
                f"{-count} to {count - 1}, at {format_locs(here())}"
            )
        at = index % count
        which = bisect_right(self.cumulative_sizes, at)
        return self.datasets[which][at - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class StackDataset(Dataset):
    """The samples of several datasets of one length side by side: sample ``i`` is the tuple of the
    i-th of each, or a dict of them where the datasets are given by name.

    Raises `ArgumentError` for no datasets, for some with and some without names, and for several
    lengths.

    >>> StackDataset([1, 2], "ab")[1], StackDataset(x=[1, 2], y="ab")[0]
    ((2, 'b'), {'x': 1, 'y': 'a'})
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        parts = args or tuple(kwargs.values())
        for one in parts:
            check_has("StackDataset", "one of the datasets", one, "__len__", "__getitem__")
        if not parts or (args and kwargs) or len({len(one) for one in parts}) > 1:
            raise ArgumentError(
                f"StackDataset: datasets of the lengths {[len(one) for one in parts]}, of which "
                f"{len(kwargs)} have names; give one or more of one length, all with names or "
                f"none, at {format_locs(here())}"
            )
        self.datasets: Any = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {k: sample_at("StackDataset", d, index) for k, d in self.datasets.items()}
        return tuple(sample_at("StackDataset", d, index) for d in self.datasets)

    def __len__(self) -> int:
        parts = self.datasets.values() if isinstance(self.datasets, dict) else self.datasets
        return len(next(iter(parts)))


class TensorDataset(Dataset):
    """The rows of tensors or arrays: sample ``i`` is the tuple of the i-th row of each.

    Raises `ShapeError` unless all have the same number of rows.

    >>> import staticflow as sf
    >>> data = TensorDataset(sf.tensor([[1.0], [2.0]]), sf.tensor([0, 1]))
    >>> len(data), data[1]
    (2, (tensor([2.]), tensor(1)))
    """

    def __init__(self, *tensors: Any) -> None:
        shapes = [tuple(getattr(t, "shape", ())) for t in tensors]
        if not tensors or any(not s or s[0] != shapes[0][0] for s in shapes):
            raise ShapeError(
                f"TensorDataset: the shapes are {[list(s) for s in shapes]}, and the first sizes "
                f"must be equal, at {format_locs(here())}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(sample_at("TensorDataset", t, index) for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class Subset(Dataset):
    """The samples of ``dataset`` at ``indices``: a list, an array or a tensor of integers."""

    def __init__(self, dataset: Any, indices: Any) -> None:
        check_has("Subset", "dataset", dataset, "__getitem__")
        check_has("Subset", "indices", indices, "__len__", "__getitem__")
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: int) -> Any:
        return sample_at("Subset", self.dataset, sample_at("Subset", self.indices, index))

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Source | None = None
) -> list[Subset]:
    """Parts of a dataset, chosen at random, of the given lengths, or fractions whose sum is 1.

    Raises `ArgumentError` where the lengths do not add up to that of the dataset.

    >>> [len(part) for part in random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    check_has("random_split", "dataset", dataset, "__len__", "__getitem__")
    check_has("random_split", "lengths", lengths, "__iter__")
    count = len(dataset)
    sizes = list(lengths)
    if any(not isinstance(n, int | float) or isinstance(n, bool) for n in sizes):
        raise ArgumentError(
            f"random_split: the lengths are {sizes}, and must be integers or fractions, at "
            f"{format_locs(here())}"
        )
    if any(isinstance(n, float) for n in sizes) and abs(sum(sizes) - 1) < 1e-6:
        sizes = [floor(count * n) for n in sizes]
        for i in range(count - int(sum(sizes))):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != count or any(not isinstance(n, int) or n < 0 for n in sizes):
        raise ArgumentError(
            f"random_split: the lengths {list(lengths)} must be integers whose sum is {count}, the "
            f"length of the dataset, or fractions whose sum is 1, at {format_locs(here())}"
        )
    order = randperm(count, generator=generator).tolist()
    parts, start = [], 0
    for n in sizes:
        parts.append(Subset(dataset, order[start : start + int(n)]))
        start += int(n)
    return parts
