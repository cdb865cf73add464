"""PyTorch's datasets, samplers, loaders and collations: its tensors come out of our loader as ours."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import staticflow as sf
from staticflow.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    StackDataset,
    Subset,
    TensorDataset,
    default_collate,
    default_convert,
    get_worker_info,
)

torch = pytest.importorskip("torch", reason="whose data these are")
theirs = torch.utils.data

X = torch.arange(30.0).reshape(10, 3)
Y = torch.arange(10)


class Rows(theirs.Dataset):  # type: ignore[misc, name-defined]
    def __len__(self) -> int:
        return 10

    def __getitem__(self, i: int) -> Any:
        return X[i], {"y": Y[i], "name": str(i)}


class Stream(theirs.IterableDataset):  # type: ignore[misc, name-defined]
    def __iter__(self) -> Any:
        return zip(X, Y, strict=True)


class Known(Stream):
    def __len__(self) -> int:
        return 10


DATASETS: dict[str, Callable[[], Any]] = {
    "rows": Rows,
    "tensors": lambda: theirs.TensorDataset(X, Y),
    "a subset": lambda: theirs.Subset(Rows(), [3, 1, 4, 1, 5]),
    "datasets behind each other": lambda: theirs.ConcatDataset([Rows(), Rows()]),
    "a part": lambda: theirs.random_split(Rows(), [7, 3])[0],
    "our subset of theirs": lambda: Subset(Rows(), torch.tensor([3, 1, 4, 1, 5])),
    "ours and theirs": lambda: ConcatDataset([Rows(), theirs.Subset(Rows(), [2])]),
    "ours of their tensors": lambda: TensorDataset(X, Y),
    "a stream": Stream,
    "a stream of known length": Known,
    "streams behind each other": lambda: theirs.ChainDataset([Stream(), Stream()]),
    "our chain of theirs": lambda: ChainDataset([Stream(), Stream()]),
    "side by side": lambda: theirs.StackDataset(x=Rows(), y=theirs.TensorDataset(Y)),
    "ours side by side": lambda: StackDataset(x=Rows(), y=theirs.TensorDataset(Y)),
    "ours side by side without names": lambda: StackDataset(Rows(), Rows()),
    "a list": lambda: list(zip(X, Y, strict=True)),
}


def same(ours: Any, wanted: Any) -> None:
    """A batch of ours is PyTorch's, with our tensors for its own."""
    if isinstance(wanted, torch.Tensor):
        assert isinstance(ours, sf.Tensor)
        assert str(wanted.dtype) == f"torch.{ours.dtype.name}"
        assert ours.tolist() == wanted.tolist()
    elif isinstance(wanted, dict):
        assert ours.keys() == wanted.keys()
        for key in wanted:
            same(ours[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        assert len(ours) == len(wanted)
        for a, b in zip(ours, wanted, strict=True):
            same(a, b)
    else:
        assert ours == wanted


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 4, None])
@pytest.mark.parametrize("name", DATASETS)
def test_their_datasets_give_batches_of_ours(
    name: str, batch_size: int | None, prefetch: int
) -> None:
    data = DATASETS[name]()
    if isinstance(data, OURS):
        wanted = [*data] if isinstance(data, ChainDataset) else [data[i] for i in range(len(data))]
        batches = [
            wanted[i] if batch_size is None else theirs.default_collate(wanted[i : i + batch_size])
            for i in range(0, len(wanted), batch_size or 1)
        ]
    else:
        batches = list(theirs.DataLoader(data, batch_size))
    found = list(DataLoader(data, batch_size, prefetch=prefetch))
    assert len(found) == len(batches)
    for a, b in zip(found, batches, strict=True):
        same(a, b)


OURS = ChainDataset | ConcatDataset | StackDataset | Subset | TensorDataset
"""Which PyTorch's loader does not know."""

SAMPLERS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": lambda: {"sampler": theirs.SequentialSampler(Rows())},
    "by chance": lambda: {"sampler": theirs.RandomSampler(Rows())},
    "by weight": lambda: {"sampler": theirs.WeightedRandomSampler([1.0] * 10, 10)},
    "of indices": lambda: {"sampler": theirs.SubsetRandomSampler([1, 2, 3])},
    "in batches": lambda: {"batch_sampler": theirs.BatchSampler(range(10), 3, False)},
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_their_samplers_say_the_order(name: str) -> None:
    """Their draws are of PyTorch's generator, so the same seed is the same order."""
    torch.manual_seed(1)
    (sampler,) = SAMPLERS[name]().values()
    order = [i if isinstance(i, list) else [int(i)] for i in sampler]
    wanted = [theirs.default_collate([Rows()[i] for i in chosen]) for chosen in order]
    torch.manual_seed(1)
    for a, b in zip(DataLoader(Rows(), **SAMPLERS[name]()), wanted, strict=True):
        same(a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64", "bool"])
def test_samples_of_each_dtype(dtype: str) -> None:
    """Strided ones, too, and those of no dims."""
    rows = torch.ones(4, 6).to(getattr(torch, dtype))[:, ::2]
    same(default_collate(list(rows)), theirs.default_collate(list(rows)))
    same(default_collate(list(rows[0])), theirs.default_collate(list(rows[0])))
    assert default_convert(rows).data_ptr() == rows.data_ptr()


def test_tensors_of_several_libraries_are_one_batch() -> None:
    kinds = [torch.ones(2), sf.ones(2), torch.ones(2).numpy()]
    for batch in itertools.permutations(kinds):
        assert default_collate(list(batch)).tolist() == [[1, 1]] * 3


def test_their_loader_feeds_a_compiled_step() -> None:
    x, y = sf.placeholder((None, 3), name="x"), sf.placeholder((None,), "int64", name="y")
    program = sf.compile([x, y], [x.sum(1), y])
    for a, b in theirs.DataLoader(theirs.TensorDataset(X, Y), batch_size=4):
        same(program(a, b), [a.sum(1), b])


def test_a_stream_of_pytorch_that_asks_for_its_worker_gives_all() -> None:
    assert get_worker_info() is None is theirs.get_worker_info()


def test_what_cannot_be_taken_over_says_so() -> None:
    for wrong, message in (
        (torch.ones(2, requires_grad=True), r"give its \.detach\(\)"),
        (torch.ones(2, dtype=torch.complex64), "is complex"),
        (torch.eye(2).to_sparse(), "cannot be taken over"),
    ):
        with pytest.raises(sf.StaticflowError, match=f"{message}.*, at .*test_data_of_pytorch"):
            next(iter(DataLoader([wrong])))
