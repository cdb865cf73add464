"""Batches of a dataset for a loop of training, made ahead on a thread.

A batch is made of the samples at a few indices, which a generator of random numbers shuffles: the
same seed gives the same batches. That is drawn as the loop begins, in its own thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

import numpy as np

from staticflow.eager.creation import as_tensor, tensor
from staticflow.eager.device import is_available
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.articles import is_of_library, with_article
from staticflow.graph.dtypes import float64
from staticflow.graph.locs import Locs, format_locs, here, stand_for
from staticflow.ops.basics.joining import stack
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.random.sampling import Source, randperm
from staticflow.pytree import map_tree
from staticflow.utils.data.checks import (
    check_callable,
    check_count,
    check_has,
    has_indices,
    sample_at,
)
from staticflow.utils.data.dataset import TensorDataset
from staticflow.utils.data.sampler import batch_count, in_batches

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


def get_worker_info() -> None:
    """None, which is PyTorch's answer outside of a process of workers: a stream that asks gives all
    its samples, as one thread makes all batches here.

    >>> get_worker_info()
    """


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples: tensors and arrays, another library's too, stacked along a new first dim,
    numbers as a tensor (float64 of floats), and so inside dicts, tuples and lists; words and bytes
    stay a list.

    Raises `ArgumentError` for samples of another kind, and `ShapeError` for arrays of several
    shapes.

    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    if not len(batch):
        raise ArgumentError(
            f"default_collate: a batch of no samples; give one at least, at {format_locs(here())}"
        )
    first = batch[0]
    if isinstance(first, np.ndarray | np.generic):
        _check_shapes(batch)
        return as_tensor(np.stack([np.asarray(x) for x in batch]))
    if hasattr(first, "__sf_mode__") or is_of_library(first):
        _check_shapes(batch)
        return stack([as_tensor(x) for x in batch])
    if isinstance(first, float):
        return tensor(list(batch), dtype=float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        if any(not isinstance(x, Mapping) or not x.keys() >= first.keys() for x in batch):
            raise ArgumentError(
                f"default_collate: a sample lacks some of the keys {list(first)} of the first; "
                f"give a collate_fn, at {format_locs(here())}"
            )
        return {key: default_collate([x[key] for x in batch]) for key in first}
    if isinstance(first, tuple | list):
        if any(not isinstance(x, tuple | list) or len(x) != len(first) for x in batch):
            lengths = sorted({len(x) if isinstance(x, tuple | list) else 1 for x in batch})
            raise ArgumentError(
                f"default_collate: samples have {lengths} parts, and must have equally many; give "
                f"a collate_fn, at {format_locs(here())}"
            )
        columns = zip(*batch, strict=True)
        parts = [c if isinstance(c[0], str | bytes) else default_collate(c) for c in columns]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    raise ArgumentError(
        f"default_collate: a sample has {with_article(type(first))}, and must have tensors, "
        f"arrays, numbers, words, or dicts, tuples and lists of these; give a collate_fn, at "
        f"{format_locs(here())}"
    )


def _check_shapes(batch: Sequence[Any]) -> None:
    shapes = {str(list(getattr(x, "shape", ()))) for x in batch}
    if len(shapes) > 1:
        raise ShapeError(
            f"default_collate: samples have arrays of the shapes {', '.join(sorted(shapes))}, "
            f"which must be equal; give a collate_fn that pads them, at {format_locs(here())}"
        )


def default_convert(data: Any) -> Any:
    """A sample with tensors for its arrays, another library's on their memory, also inside dicts,
    tuples, which become lists, and lists; everything else stays.

    >>> default_convert({"x": np.ones(2), "name": "a"})
    {'x': tensor([1., 1.], dtype=staticflow.float64), 'name': 'a'}
    """
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "OSU" else as_tensor(np.asarray(data))
    if is_of_library(data):
        return as_tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        parts = [default_convert(part) for part in data]
        return type(data)(*parts) if hasattr(data, "_fields") else parts
    return data


class DataLoader:
    """The batches of a dataset, each time it is iterated over.

    ``shuffle`` draws a new order each time, of ``generator`` (the default one unless given);
    ``sampler``, an iterable of indices, says the order itself, and ``batch_sampler``, an iterable
    of lists of indices, the batches. ``drop_last`` leaves out a last batch of fewer than
    ``batch_size`` samples. ``collate_fn`` makes a batch of a list of samples, `default_collate`
    unless given. With a ``batch_size`` of None there are no batches: samples come one by one, as
    ``collate_fn`` or `default_convert` gives them. A dataset without ``__getitem__`` is iterated
    over, and so is a stream of PyTorch's, an ``IterableDataset``, which has one that raises.

    Up to ``prefetch`` batches are made ahead on a thread, which ends with the loop, also where
    that is left early; what it raises comes out of the loop. With 0, or ``num_workers=0``, there
    is no thread; another ``num_workers`` is one thread all the same, on which ``prefetch_factor``
    batches for each of them are made ahead, and ``worker_init_fn(0)`` is called as a loop begins.
    With ``pin_memory`` the tensors of batches are in pinned memory (`Tensor.pin_memory`), where
    there is a GPU. What only processes need, ``timeout``, ``multiprocessing_context``,
    ``persistent_workers`` and ``pin_memory_device``, is taken and changes nothing; batches come
    ``in_order`` always. Draws that a dataset makes of the default generator come in no fixed order
    beside those of the loop unless there is no thread.

    Raises `ArgumentError` for a wrong size, and where ``shuffle`` and an order are both given;
    `DTypeError` for a switch that is no bool; and in the loop `IndexRangeError` for an index that a
    list, an array or a tensor lacks.

    >>> import staticflow as sf
    >>> from staticflow.utils.data import DataLoader, TensorDataset
    >>> [x.tolist() for (x,) in DataLoader(TensorDataset(sf.arange(5)), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Any = None,
        *,
        batch_sampler: Any = None,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        generator: Source | None = None,
        prefetch: int = 2,
        num_workers: int | None = None,
        pin_memory: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if batch_size is not None:
            check_count("DataLoader", "batch_size", batch_size)
            batch_size = int(batch_size)
        check_count("DataLoader", "prefetch", prefetch, 0)
        if num_workers is not None:
            check_count("DataLoader", "num_workers", num_workers, 0)
        if prefetch_factor is not None:
            check_count("DataLoader", "prefetch_factor", prefetch_factor)
            if not num_workers:
                raise ArgumentError(
                    f"DataLoader: prefetch_factor={prefetch_factor} is for each of num_workers, "
                    f"and num_workers is {num_workers}; give it 1 or more, or prefetch=, the "
                    f"number of batches made ahead, at {format_locs(here())}"
                )
            prefetch = prefetch_factor * num_workers
        if timeout < 0:
            raise ArgumentError(
                f"DataLoader: timeout is {timeout}; it must be 0 or more seconds, "
                f"at {format_locs(here())}"
            )
        check_callable("DataLoader", "worker_init_fn", worker_init_fn)
        shuffle = shuffle is not None and as_bool("DataLoader: 'shuffle'", shuffle)
        drop_last = as_bool("DataLoader: 'drop_last'", drop_last)
        pin_memory = as_bool("DataLoader: 'pin_memory'", pin_memory)
        check_callable("DataLoader", "collate_fn", collate_fn)
        for name, given in (("sampler", sampler), ("batch_sampler", batch_sampler)):
            if given is not None:
                check_has("DataLoader", name, given, "__iter__")
        by_index = has_indices(dataset)
        if not by_index and not hasattr(dataset, "__iter__"):
            raise ArgumentError(
                f"DataLoader: the dataset is {with_article(type(dataset))}, and must have __len__ "
                f"and __getitem__, or __iter__, at {format_locs(here())}"
            )
        if batch_sampler is not None and (
            batch_size != 1 or shuffle or sampler is not None or drop_last or not by_index
        ):
            raise ArgumentError(
                "DataLoader: a batch_sampler says batches by indices of a dataset that has __len__ "
                "and __getitem__; batch_size, shuffle, sampler and drop_last must not be given "
                f"beside it, at {format_locs(here())}"
            )
        if batch_size is None and drop_last:
            raise ArgumentError(
                "DataLoader: with batch_size=None there are no batches, and no last one; "
                f"drop_last=True must not be given beside it, at {format_locs(here())}"
            )
        if shuffle and (sampler is not None or not by_index):
            other = "a sampler" if by_index else "a dataset without __getitem__"
            raise ArgumentError(
                f"DataLoader: shuffle=True and {other} were given, which both say the order; give "
                f"one of them, at {format_locs(here())}"
            )
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.collate_fn, self.generator, self.sampler = collate_fn, generator, sampler
        self.batch_sampler = batch_sampler
        self.shuffle, self.prefetch = shuffle, 0 if num_workers == 0 else prefetch
        self._by_index, self.pin_memory = by_index, pin_memory
        self.worker_init_fn = worker_init_fn

    def __len__(self) -> int:
        """The number of batches."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        count = len(self.dataset if self.sampler is None else self.sampler)
        if self.batch_size is None:
            return count
        return batch_count(count, self.batch_size, self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        order = self._order()
        batches = self._batches(None if order is None else iter(order))  # draws in this thread
        return run_ahead(self._start_worker(batches), self.prefetch) if self.prefetch else batches

    def _start_worker(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches, before which the function of workers is called."""
        if self.worker_init_fn is not None:
            self.worker_init_fn(0)
        yield from batches

    def _order(self) -> Any:
        given = self.sampler if self.batch_sampler is None else self.batch_sampler
        if given is not None:
            return given
        if not self._by_index:
            return None
        count = len(self.dataset)
        if self.shuffle:
            return randperm(count, generator=self.generator).tolist()
        return range(count)

    def _batches(self, order: Any) -> Iterator[Any]:
        pins = self.pin_memory and is_available()
        for chosen in self._choices(order):
            batch = (
                self._sample(chosen[0], order is not None)
                if self.batch_size is None and self.batch_sampler is None
                else chosen_batch(self.dataset, chosen, self.collate_fn, order is not None)
            )
            yield map_tree(_pin_leaf, batch) if pins else batch

    def _sample(self, chosen: Any, by_index: bool) -> Any:
        """A sample, or that of an index, without a batch."""
        sample = sample_at("DataLoader", self.dataset, chosen) if by_index else chosen
        return (default_convert if self.collate_fn is None else self.collate_fn)(sample)

    def _choices(self, order: Any) -> Iterator[list[Any]]:
        """The indices of each batch; the samples themselves of a dataset that is iterated over."""
        if self.batch_sampler is not None:
            for batch in order:
                check_has("DataLoader", "a batch of batch_sampler", batch, "__iter__")
                yield list(batch)
            return
        samples = iter(self.dataset) if order is None else order
        yield from in_batches(samples, self.batch_size or 1, self.drop_last)


def _pin_leaf(leaf: Any) -> Any:
    return leaf.pin_memory() if isinstance(leaf, Tensor) and leaf.is_cpu else leaf


def chosen_batch(
    dataset: Any, chosen: list[Any], collate: Callable[[list[Any]], Any] | None, by_index: bool
) -> Any:
    """The batch of samples, or of the samples of these indices."""
    if by_index and collate is None and type(dataset) is TensorDataset:
        with suppress(IndexError, TypeError, ValueError):  # which the one at fault is named for
            rows = np.asarray(chosen)  # one read for all rows
            return [as_tensor(t[rows]) for t in dataset.tensors]
    samples = [sample_at("DataLoader", dataset, i) for i in chosen] if by_index else chosen
    return (default_collate if collate is None else collate)(samples)


def run_ahead(items: Iterator[Any], count: int) -> Iterator[Any]:
    """The items, of which a thread makes up to ``count`` before they are asked for.

    An error of theirs is raised where the item would have come, with its own traceback. The thread
    ends when this iterator is closed. In a child process, which has no such thread, asking for an
    item raises `ArgumentError`.
    """
    ready: Queue[tuple[str, Any]] = Queue(count)
    ended = Event()
    process = os.getpid()
    worker = Thread(
        target=_fill, args=(items, ready, ended, here()), name="DataLoader", daemon=True
    )
    worker.start()
    try:
        while True:
            if os.getpid() != process:
                raise ArgumentError(
                    "DataLoader: this loop was begun before the process was forked, and its thread "
                    f"is in the parent; begin a loop in the child, at {format_locs(here())}"
                )
            kind, value = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        if os.getpid() == process:
            ended.set()
            _empty(ready)  # so that a thread that waits for room goes on, and sees that it ends
            worker.join()


def _fill(items: Iterator[Any], ready: Queue[tuple[str, Any]], ended: Event, locs: Locs) -> None:
    stand_for(locs)
    try:
        for item in items:
            ready.put(("item", item))
            if ended.is_set():
                return
        ready.put(("end", None))
    except BaseException as error:  # whatever it is, the loop gets it
        ready.put(("error", error))


def _empty(ready: Queue[tuple[str, Any]]) -> None:
    while True:
        try:
            ready.get_nowait()
        except Empty:
            return
