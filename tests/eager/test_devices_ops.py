"""Every op of the table on a GPU gives what it gives on the CPU: values, gradients, in every dtype,
in place, through views, and the same refusals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from gpus import assert_agree, outcome, there
from opinfo import ROWS
from opinfo.core import Sample
from slices import daily

import staticflow as sf
from staticflow.autograd import backward
from staticflow.ops.declaring.lowering import View
from staticflow.pytree import flatten

FEW = 2


def samples_of(name: str, gpu: str) -> Iterator[Sample]:
    """The first samples of an op, of several ranks and layouts: in each dtype on a GPU, on the
    stand-in in the first and in one of the others, each day another."""
    info = ROWS[name]
    first, *others = info.dtypes
    yield from islice(info.samples(first, info.grad), FEW)
    for dtype in others if gpu == "cupy" else daily(others, 1, name):
        yield from islice(info.samples(dtype, info.grad), 1)


def tensors_in(tree: Any) -> list[sf.Tensor]:
    return [t for t in flatten(tree)[0] if isinstance(t, sf.Tensor)]


def run(info: Any, sample: Sample, device: str) -> tuple[list[Any], list[Any]]:
    """The results and gradients of a sample on a device."""
    args, kwargs = there((sample.args, dict(sample.kwargs)), device, info.grad)
    outs = tensors_in(info.call(*args, **kwargs))
    real = [t.sum() for t in outs if t.requires_grad]
    if real:
        backward(real)
    return outs, [t.grad for t in tensors_in(args) if t.grad is not None]


@pytest.mark.parametrize("name", list(ROWS))
def test_an_op_gives_the_same_there(name: str, gpu: str) -> None:
    info = ROWS[name]
    for sample in samples_of(name, gpu):
        assert_agree(run(info, sample, "cuda"), run(info, sample, "cpu"), f"{name}({sample})")


@pytest.mark.parametrize("name", [n for n, info in ROWS.items() if info.failures])
def test_what_is_refused_is_refused_there(name: str, gpu: str) -> None:
    info = ROWS[name]
    for failure in info.failures:
        args, kwargs = there((failure.sample.args, dict(failure.sample.kwargs)))
        with pytest.raises(failure.error) as caught:
            info.call(*args, **kwargs)
        assert failure.says in str(caught.value)


def in_place_form(info: Any) -> str:
    """The name of the method that does the same in place, if there is one."""
    return f"{getattr(info.call, '__name__', info.op.name)}_"


def change(info: Any, sample: Sample, device: str) -> Any:
    """A tensor changed in place by a sample."""
    (x, *rest), kwargs = there((sample.args, dict(sample.kwargs)), device)
    return getattr(x, in_place_form(info))(*rest, **kwargs)


IN_PLACE = [n for n, info in ROWS.items() if hasattr(sf.Tensor, in_place_form(info))]


@pytest.mark.parametrize("name", IN_PLACE)
def test_it_changes_a_tensor_in_place_there(name: str, gpu: str) -> None:
    info = ROWS[name]
    for sample in samples_of(name, gpu):
        ours = outcome(lambda s=sample: change(info, s, "cpu"))
        theirs = outcome(lambda s=sample: change(info, s, "cuda"))
        if isinstance(ours, type):
            assert theirs is ours
        else:
            assert_agree(theirs, ours, f"{name}_({sample})")


def write_through(info: Any, sample: Sample, device: str) -> list[Any]:
    """A view and its base, after the view was changed in place."""
    args, kwargs = there((sample.args, dict(sample.kwargs)), device)
    views = tensors_in(info.call(*args, **kwargs))
    for view in views:
        view.zero_()
    return [*views, *tensors_in(args)]


VIEWS = [n for n, info in ROWS.items() if type(info.op.lowering) is View]


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_one_there(name: str, gpu: str) -> None:
    info = ROWS[name]
    for sample in samples_of(name, gpu):
        ours = outcome(lambda s=sample: write_through(info, s, "cpu"))
        theirs = outcome(lambda s=sample: write_through(info, s, "cuda"))
        if isinstance(ours, type):
            assert theirs is ours
        else:
            assert_agree(theirs, ours, f"{name}({sample})")


def test_the_lists_are_not_empty() -> None:
    assert len(IN_PLACE) > 40 and len(VIEWS) > 10
