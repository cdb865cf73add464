"""Batches of datasets: order, collation, and the thread that makes them ahead."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)


def _threads() -> int:
    return sum(t.name == "DataLoader" for t in threading.enumerate())


@pytest.mark.parametrize("prefetch", [0, 1, 2, 9])
def test_batches_in_order(prefetch: int) -> None:
    x, y = sf.arange(10).reshape(5, 2), np.arange(5)
    loader = DataLoader(TensorDataset(x, y), batch_size=2, prefetch=prefetch)
    assert len(loader) == 3
    for _ in range(2):
        batches = list(loader)
        assert [a.tolist() for a, _ in batches] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9]]]
        assert [b.tolist() for _, b in batches] == [[0, 1], [2, 3], [4]]
        assert isinstance(batches[0][1], sf.Tensor)
    short = DataLoader(TensorDataset(x, y), 2, drop_last=True, prefetch=prefetch)
    assert len(short) == len(list(short)) == 2
    assert list(DataLoader([], 2, prefetch=prefetch)) == []
    assert _threads() == 0


@pytest.mark.parametrize("prefetch", [0, 2])
def test_one_seed_gives_one_order(prefetch: int) -> None:
    data = TensorDataset(sf.arange(20))

    def epochs() -> list[list[int]]:
        generator = sf.Generator().manual_seed(3)
        loader = DataLoader(data, 4, shuffle=True, generator=generator, prefetch=prefetch)
        return [[i for (x,) in loader for i in x.tolist()] for _ in range(2)]

    first, second = epochs()
    assert epochs() == [first, second]
    assert first != second and sorted(first) == sorted(second) == list(range(20))
    sf.manual_seed(3)
    assert [i for (x,) in DataLoader(data, 4, shuffle=True) for i in x.tolist()] == first


def test_datasets_of_other_kinds() -> None:
    class Squares(Dataset):
        def __len__(self) -> int:
            return 5

        def __getitem__(self, i: int) -> dict[str, Any]:
            return {"x": np.full(2, i * i, np.float32), "name": str(i)}

    batches = list(DataLoader(Squares(), 3))
    assert batches[1]["x"].tolist() == [[9, 9], [16, 16]] and batches[1]["name"] == ["3", "4"]
    assert [b.tolist() for b in DataLoader(iter([1, 2, 3]), 2)] == [[1, 2], [3]]
    assert [b.tolist() for b in DataLoader(range(9), 2, sampler=[8, 1, 3])] == [[8, 1], [3]]
    assert list(DataLoader(Subset("abc", [2, 0]), 2, collate_fn="".join)) == ["ca"]
    parts = random_split(range(10), [6, 4], sf.Generator().manual_seed(0))
    assert sorted([*parts[0], *parts[1]]) == list(range(10))
    assert [len(p) for p in random_split(range(7), [0.5, 0.5])] == [4, 3]


def test_collation() -> None:
    Pair = namedtuple("Pair", "a b")
    pair = default_collate([Pair(1, 2.0), Pair(3, 4.0)])
    assert isinstance(pair, Pair) and pair.a.tolist() == [1, 3] and pair.b.dtype is sf.float64
    assert default_collate([True, False]).dtype is sf.bool
    assert default_collate([sf.ones(2), sf.zeros(2)]).shape == (2, 2)
    assert default_collate([np.float32(1), np.float32(2)]).dtype is sf.float32
    with pytest.raises(sf.ArgumentError, match="a sample has an object"):
        default_collate([object()])
    with pytest.raises(sf.ArgumentError, match=r"samples have \[1, 2\] parts"):
        default_collate([(1,), (1, 2)])


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([], "a batch of no samples"),
        ([np.ones(2), np.ones(3)], r"arrays of the shapes \[2\], \[3\], which must be equal"),
        ([sf.ones(2), sf.ones(3)], r"arrays of the shapes \[2\], \[3\], which must be equal"),
        ([sf.ones(2), 3], r"arrays of the shapes \[2\], \[\], which must be equal"),
        ([{"a": 1}, {"b": 1}], r"a sample lacks some of the keys \['a'\] of the first"),
        ([{"a": 1, "b": 2}, {"a": 1}], r"a sample lacks some of the keys \['a', 'b'\]"),
        ([{"a": 1}, 3], "a sample lacks some of the keys"),
        ([(1, 2), 3], r"samples have \[1, 2\] parts"),
        ([{"x": (np.ones(2), 0)}, {"x": (np.ones(1), 0)}], r"shapes \[1\], \[2\]"),
    ],
    ids=str,
)
def test_samples_that_are_no_batch_say_so(batch: Any, message: str) -> None:
    with pytest.raises(
        sf.StaticflowError, match=f"^default_collate: .*{message}.*, at .*test_data"
    ):
        default_collate(batch)


def test_an_error_comes_out_of_the_loop_with_its_traceback() -> None:
    class Broken:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> int:
            if i == 2:
                raise KeyError("no such row")
            return i

    for prefetch in (0, 2):
        seen = []
        with pytest.raises(KeyError, match="no such row") as caught:
            for batch in DataLoader(Broken(), 1, prefetch=prefetch):
                seen.append(batch.item())
        assert seen == [0, 1]
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[0] == "test_an_error_comes_out_of_the_loop_with_its_traceback"
        assert names[-1] == "__getitem__"
    assert _threads() == 0


def test_a_loop_that_is_left_leaves_no_thread() -> None:
    for _ in DataLoader(range(1000), 1):
        break
    assert _threads() == 0
    with pytest.raises(KeyboardInterrupt):
        for _ in DataLoader(range(1000), 1):
            raise KeyboardInterrupt
    iterator = iter(DataLoader(range(1000), 1))
    next(iterator)
    assert _threads() == 1
    del iterator
    assert _threads() == 0


def test_batches_are_made_ahead_and_no_further() -> None:
    made = []

    class Counted:
        def __len__(self) -> int:
            return 100

        def __getitem__(self, i: int) -> int:
            made.append(i)
            return i

    iterator = iter(DataLoader(Counted(), 1, prefetch=3))
    next(iterator)
    until = time.monotonic() + 5
    while len(made) < 5 and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(0.02)
    assert made == [0, 1, 2, 3, 4]  # one is out, three wait, one has no room yet
    del iterator


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_loop_does_not_go_on_in_a_child() -> None:
    iterator = iter(DataLoader(range(100), 1))
    next(iterator)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            next(iterator)
        except sf.ArgumentError:
            fresh = [b.item() for b in DataLoader(range(3), 1)]
            status = 0 if fresh == [0, 1, 2] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert next(iterator).item() == 1


def test_a_compiled_step_takes_batches() -> None:
    x = sf.placeholder((None, 3), name="x")
    total = sf.compile([x], x.sum())
    data = TensorDataset(sf.ones(7, 3))
    assert [total(b).item() for (b,) in DataLoader(data, 4)] == [12, 9]


WRONG = {
    "batch_size is 0": lambda: DataLoader(range(3), 0),
    "prefetch is -1": lambda: DataLoader(range(3), 1, prefetch=-1),
    "the dataset is an int": lambda: DataLoader(3),
    "shuffle=True and a sampler": lambda: DataLoader(range(3), shuffle=True, sampler=[0]),
    "shuffle=True and a dataset without": lambda: DataLoader(iter([1]), shuffle=True),
    "the first sizes must be equal": lambda: TensorDataset(sf.ones(2), sf.ones(3)),
    "whose sum is 4": lambda: random_split(range(4), [1, 2]),
    "no __getitem__": lambda: Dataset()[0],
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message: str) -> None:
    with pytest.raises(sf.StaticflowError, match=message):
        WRONG[message]()


@pytest.mark.parametrize(
    ("args", "named"), [((), {}), (([1],), {"x": [1]}), (([1], [1, 2]), {}), ((3,), {})], ids=str
)
def test_datasets_that_do_not_stand_side_by_side(args: Any, named: dict[str, Any]) -> None:
    with pytest.raises(sf.ArgumentError, match=r"^StackDataset: .*, at .*test_data_loader"):
        StackDataset(*args, **named)


def test_streams_follow_each_other() -> None:
    class Two(IterableDataset):
        def __iter__(self) -> Any:
            return iter([1, 2])

    assert [x.tolist() for x in DataLoader(Two() + Two(), 3)] == [[1, 2, 1], [2]]
    assert len(ChainDataset([range(2), "abc"])) == 5
    with pytest.raises(sf.ArgumentError, match="one of the datasets is an int, and must have"):
        list(ChainDataset([3]))


def test_datasets_stand_one_behind_the_other() -> None:
    class Squares(Dataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> int:
            return index * index

    both = Squares() + range(7, 9)
    assert isinstance(both, ConcatDataset)
    both = ConcatDataset([both, [], range(20, 22)])
    assert both.cumulative_sizes == [5, 5, 7]
    assert [both[i] for i in range(7)] == [0, 1, 4, 7, 8, 20, 21]
    assert [both[i] for i in range(-7, 0)] == [0, 1, 4, 7, 8, 20, 21]
    for index in (7, -8):
        with pytest.raises(
            IndexError, match=rf"the sample {index} lies outside of 7.*from -7 to 6"
        ):
            both[index]
    with pytest.raises(sf.ArgumentError, match="ConcatDataset of no datasets"):
        ConcatDataset([])
    batches = list(DataLoader(ConcatDataset([TensorDataset(sf.arange(3))] * 2), batch_size=4))
    assert [b.tolist() for (b,) in batches] == [[0, 1, 2, 0], [1, 2]]


SAMPLERS = {
    "all": lambda g: RandomSampler(range(7), generator=g),
    "some": lambda g: RandomSampler(range(7), num_samples=3, generator=g),
    "more": lambda g: RandomSampler(range(3), num_samples=7, generator=g),
    "again": lambda g: RandomSampler(range(3), True, 2000, generator=g),
    "part": lambda g: SubsetRandomSampler([5, 1, 4, 8, 6, 2], generator=g),
    "weighted": lambda g: WeightedRandomSampler([0.1, 0.0, 3.0, 2.0], 50, generator=g),
    "once": lambda g: WeightedRandomSampler(sf.tensor([1.0, 2.0, 3.0, 4.0]), 3, False, g),
    "batches": lambda g: BatchSampler(RandomSampler(range(7), generator=g), 3, False),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_draw_by_their_generator(name: str) -> None:
    def drawn(generator: Any) -> list[Any]:
        sampler = SAMPLERS[name](generator)
        turns = [list(sampler) for _ in range(4)]
        assert all(len(turn) == len(sampler) for turn in turns)
        return turns

    first = drawn(sf.Generator().manual_seed(5))
    assert drawn(sf.Generator().manual_seed(5)) == first
    assert any(turn != first[0] for turn in first)
    sf.manual_seed(5)
    assert drawn(None) == drawn(sf.default_generator.manual_seed(5))


def test_what_samplers_give() -> None:
    assert list(SequentialSampler(sf.ones(3, 2))) == [0, 1, 2]
    assert sorted(RandomSampler(range(5))) == list(range(5))
    assert sorted(RandomSampler(range(3), num_samples=6)) == [0, 0, 1, 1, 2, 2]
    assert len(set(RandomSampler(range(9), num_samples=4))) == 4
    assert set(RandomSampler(range(3), True, 2000)) == {0, 1, 2}
    assert sorted(SubsetRandomSampler([8, 5, 6])) == [5, 6, 8]
    assert set(WeightedRandomSampler([0.0, 1.0, 0.0, 2.0], 200)) == {1, 3}
    assert sorted(WeightedRandomSampler(np.ones(4), 4, replacement=False)) == [0, 1, 2, 3]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert [len(BatchSampler(range(5), 2, last)) for last in (True, False)] == [2, 3]
    assert list(RandomSampler([])) == [] and next(iter(RandomSampler("a", True, 10**12))) == 0


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_loader_goes_by_its_sampler(prefetch: int) -> None:
    data = TensorDataset(sf.arange(20) * 10)

    def batches(**options: Any) -> list[list[int]]:
        return [x.tolist() for (x,) in DataLoader(data, prefetch=prefetch, **options)]

    assert batches(batch_sampler=[[3, 1], [2]]) == [[30, 10], [20]]
    assert len(DataLoader(data, batch_sampler=BatchSampler(range(5), 2, False))) == 3
    sampler = RandomSampler(data, generator=sf.Generator().manual_seed(1))
    whole = [i for batch in batches(batch_size=6, sampler=sampler) for i in batch]
    assert sorted(whole) == [10 * i for i in range(20)] != whole
    draws = []
    for _ in range(2):  # those of the loop lie behind the one of the order, thread or none
        sf.manual_seed(4)
        order = iter(DataLoader(data, 6, sampler=RandomSampler(data), prefetch=prefetch))
        draws.append([sf.rand(()).item(), *(x.tolist() for (x,) in order)])
    assert draws[0] == draws[1]


def test_a_stream_is_iterated_over() -> None:
    class Squares(IterableDataset):
        def __iter__(self) -> Any:
            return (i * i for i in range(5))

    assert [x.tolist() for x in DataLoader(Squares(), 2)] == [[0, 1], [4, 9], [16]]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: RandomSampler("ab", num_samples=0), "num_samples is 0, and must be an integer of"),
        (lambda: list(RandomSampler("", num_samples=2)), "2 samples are drawn from a source of no"),
        (lambda: WeightedRandomSampler([1.0], 2, False), "2 samples of 1 weights without replace"),
        (lambda: WeightedRandomSampler([[1.0]], 2), r"the shape \[1, 1\], and must be a vector"),
        (lambda: BatchSampler([1], True, False), "batch_size is True, and must be an integer of 1"),
        (lambda: RandomSampler(3), "data_source is an int, and must have __len__"),
        (lambda: SequentialSampler(None), "data_source is a NoneType, and must have"),
        (lambda: SubsetRandomSampler({1}), "indices is a set, and must have __len__ and __getitem"),
        (lambda: WeightedRandomSampler(0.5, 1), "weights is a float, and must have __iter__"),
        (lambda: BatchSampler(5, 2, False), "sampler is an int, and must have __iter__"),
        (lambda: ConcatDataset(3), "datasets is an int, and must have __iter__"),
        (lambda: ConcatDataset([3]), "one of the datasets is an int, and must have __len__ and"),
        (lambda: Subset(3, [0]), "dataset is an int, and must have __getitem__"),
        (lambda: random_split(3, [1]), "dataset is an int, and must have __len__ and __getitem__"),
        (lambda: random_split([1], 1), "lengths is an int, and must have __iter__"),
        (lambda: random_split([1], ["1"]), r"the lengths are \['1'\], and must be integers or"),
        (lambda: DataLoader([1], sampler=1), "sampler is an int, and must have __iter__"),
        (lambda: DataLoader([1], batch_sampler=1), "batch_sampler is an int, and must have __iter"),
        (lambda: list(DataLoader([1], batch_sampler=[0])), "a batch of batch_sampler is an int"),
        (lambda: DataLoader([1], collate_fn=1), "collate_fn is an int, and must be a function"),
        (lambda: list(Sampler()), r"Sampler has no __iter__\(\), and a sampler must have one"),
        (lambda: list(IterableDataset()), r"IterableDataset has no __iter__\(\), and a stream mu"),
        (lambda: DataLoader([1], 2**70), f"batch_size is {2**70}, and must be {2**63 - 1} at most"),
        (lambda: BatchSampler([1], 2**70, False), f"batch_size is {2**70}, and must be"),
        (lambda: DataLoader([1], num_workers=np.ones(2)), "num_workers is array.*of 0 or more"),
        (lambda: DataLoader([1], timeout=-1), "timeout is -1; it must be 0 or more seconds"),
        (lambda: DataLoader([1], num_workers=-1), "num_workers is -1, and must be an integer of 0"),
        (lambda: DataLoader([1], batch_size=2, batch_sampler=[[0]]), "must not be given beside it"),
        (lambda: DataLoader(iter([1]), batch_sampler=[[0]]), "of a dataset that has __len__"),
    ],
)
def test_wrong_samplers_are_named(make: Any, says: str) -> None:
    with pytest.raises(sf.ArgumentError, match=says):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: DataLoader([1], shuffle=x), "DataLoader: 'shuffle' must be bool, not"),
        (lambda x: DataLoader([1], drop_last=x), "DataLoader: 'drop_last' must be bool, not"),
        (lambda x: DataLoader([1], pin_memory=x), "DataLoader: 'pin_memory' must be bool, not"),
        (lambda x: BatchSampler([1], 1, x), "BatchSampler: 'drop_last' must be bool, not"),
        (lambda x: RandomSampler([1], x), "RandomSampler: 'replacement' must be bool, not"),
        (lambda x: WeightedRandomSampler([1.0], 1, x), "Sampler: 'replacement' must be bool, not"),
    ],
)
def test_a_switch_is_no_array(make: Any, says: str) -> None:
    for given in (np.ones(2), sf.ones(2), "yes"):
        with pytest.raises(sf.DTypeError, match=f"{says}.* at .*test_data_loader.py"):
            make(given)


SOURCES = {
    "a list": [1, 2, 3],
    "a range": range(3),
    "an ndarray": np.arange(3),
    "a Tensor": sf.arange(3),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("index", [3, -4, "a", 0.5])
def test_a_wrong_index_is_named_with_the_line_of_the_loop(kind: str, index: Any) -> None:
    source = SOURCES[kind]
    says = (
        f"{index!r} is no index of {kind} of 3; indices are integers from -3 to 2, at .*loader.py"
    )
    for prefetch in (0, 2):
        with pytest.raises(sf.IndexRangeError, match=f"^DataLoader: {says}"):
            list(DataLoader(source, 2, sampler=[0, index], prefetch=prefetch))
        with pytest.raises(sf.IndexRangeError, match=f"^Subset: {says}"):
            list(DataLoader(Subset(source, [index]), prefetch=prefetch))
    with pytest.raises(sf.IndexRangeError, match=f"^Subset: {says}"):
        Subset(range(9), source)[index]
    if hasattr(source, "shape"):
        with pytest.raises(sf.IndexRangeError, match=f"^TensorDataset: {says}"):
            list(DataLoader(TensorDataset(source), 2, sampler=[0, index]))
    else:
        with pytest.raises(sf.IndexRangeError, match=r"^ConcatDataset: .* -3 to 2, at .*loader"):
            ConcatDataset([source])[index]


def test_what_a_dataset_raises_is_its_own() -> None:
    class Words(Dataset):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: Any) -> Any:
            return {"a": 1}[index]

    with pytest.raises(KeyError, match="b"):
        list(DataLoader(Words(), sampler=["a", "b"]))
