"""Arguments by other names: each function and method that PyTorch lets take ``axis`` or ``keepdims``, by
its declarations, takes them here, and each loss what it took before there was ``reduction``."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import staticflow as sf

torch = pytest.importorskip("torch", reason="which arguments there are is said by PyTorch")

ROOMS = (
    ("torch", "", torch, sf),
    ("Tensor", "", torch.Tensor, sf.Tensor),
    ("linalg", "linalg_", torch.linalg, sf.linalg),
    ("special", "special_", torch.special, sf.special),
    ("functional", "", torch.nn.functional, sf.nn.functional),
)
"""Their functions, and what their declarations' names begin with."""

OF_C = ("builtin_function_or_method", "method_descriptor")
"""The kinds of functions whose arguments PyTorch reads by its declarations, and NumPy's names."""

OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def functions() -> Iterator[Any]:
    for room, begin, theirs, ours in ROOMS:
        for name in sorted(set(dir(theirs)) & set(dir(ours))):
            declared = getattr(torch.ops.aten, begin + name, None)
            if name.startswith("_") or declared is None or not callable(getattr(ours, name)):
                continue
            if type(getattr(theirs, name)).__name__ in OF_C:
                taken = {
                    a.name
                    for o in declared.overloads()
                    for a in getattr(declared, o)._schema.arguments
                }
                for other, own in OTHER_NAMES.items():
                    if own in taken:
                        yield pytest.param(
                            getattr(ours, name), other, own, id=f"{room}.{name}-{other}"
                        )


CASES = [*functions()]


def test_there_are_many() -> None:
    assert len(CASES) > 200


@pytest.mark.parametrize(("fn", "other", "own"), CASES)
def test_an_argument_may_have_its_name_of_numpy(fn: Any, other: str, own: str) -> None:
    """With too few arguments, or wrong ones, both calls fail, each by the same error."""

    def call(**named: Any) -> str:
        try:
            found = fn(sf.ones(3, 3), **named)
        except Exception as error:
            return f"{type(error).__name__}: {error}".split(", at ")[0]
        return repr(found)

    assert call(**{other: 1}) == call(**{own: 1})


def test_an_argument_by_both_names_is_refused() -> None:
    x = sf.ones(4, 3)
    for fn in (sf.sum, sf.chunk, sf.Tensor.sum, sf.Tensor.chunk, sf.linalg.vector_norm):
        with pytest.raises(
            TypeError, match=r"\w+\(\) got multiple values for argument 'dim', at .*other_names"
        ):
            fn(x, axis=1, dim=0)
        with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
            fn(x, axes=0)


def test_values_by_names_of_numpy() -> None:
    theirs, ours = torch.arange(12.0).reshape(3, 4), sf.arange(12.0).reshape(3, 4)
    at = [[0, 1, 2, 0], [2, 1, 0, 2]]
    pairs = [
        (theirs.chunk(2, axis=1)[1], ours.chunk(2, axis=1)[1]),
        (torch.gather(theirs, axis=0, index=torch.tensor(at)), sf.gather(ours, axis=0, index=sf.tensor(at))),
        (theirs.index_select(axis=1, index=torch.tensor([3, 0])), ours.index_select(axis=1, index=sf.tensor([3, 0]))),
        (torch.linalg.norm(theirs, axis=1, keepdims=True), sf.linalg.norm(ours, axis=1, keepdims=True)),
        (theirs.clone().renorm_(2, axis=0, maxnorm=1.0), ours.clone().renorm_(2, axis=0, maxnorm=1.0)),
    ]  # fmt: skip
    for a, b in pairs:
        torch.testing.assert_close(torch.tensor(b.tolist()), a)
    x = sf.placeholder((3, None), "float32", name="x")
    assert sf.compile([x], x.chunk(2, axis=0)[0])(ours).tolist() == ours[:2].tolist()


def takes_what_is_left(loss: Any) -> bool:
    """Whether it is a loss, by its arguments."""
    try:
        return "size_average" in inspect.signature(loss).parameters
    except (TypeError, ValueError):  # no function, or one of C
        return False


LOSSES = [
    (room, name)
    for room in ("nn", "nn.functional")
    for name, loss in vars(importlib.import_module(f"torch.{room}")).items()
    if not name.startswith("_") and takes_what_is_left(loss)
]


def test_there_are_losses() -> None:
    assert len(LOSSES) > 30


@pytest.mark.parametrize(
    "given",
    [
        {"size_average": False},
        {"reduce": False},
        {"size_average": True, "reduce": True},
        {"size_average": False, "reduce": False},
        {"size_average": None, "reduce": True},
    ],
    ids=str,
)
@pytest.mark.parametrize(("room", "name"), LOSSES)
def test_losses_take_what_pytorch_has_left(room: str, name: str, given: dict[str, Any]) -> None:
    """What they are called without fails alike, with ``reduction`` and with what says the same."""
    fn = getattr(importlib.import_module(f"staticflow.{room}"), name)
    wanted = torch.nn._reduction.legacy_get_string(
        given.get("size_average"), given.get("reduce"), False
    )
    with pytest.warns(UserWarning, match=rf"use reduction='{wanted}'") as caught:
        found = outcome(fn, **given)
    assert found == outcome(fn, reduction=wanted)
    assert {w.filename for w in caught} == {__file__}


@pytest.mark.parametrize(("room", "name"), LOSSES)
def test_what_pytorch_has_left_says_nothing_if_it_is_none(room: str, name: str) -> None:
    """As code gives it that names all arguments: the sum was taken for a mean, with a warning."""
    fn = getattr(importlib.import_module(f"staticflow.{room}"), name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = outcome(fn, size_average=None, reduce=None, reduction="sum")
    assert found == outcome(fn, reduction="sum")


def outcome(fn: Any, **named: Any) -> str:
    try:
        found = fn(**named)
    except TypeError as error:
        return f"{error}".split(", at ")[0]
    return f"{found} {found.reduction}"


def test_a_loss_by_what_pytorch_has_left() -> None:
    x, target = [[0.5, -1.0, 2.0], [1.0, 0.0, -1.0]], [2, 0]
    for options in ({"size_average": False}, {"reduce": False}, {}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = torch.nn.functional.nll_loss(torch.tensor(x), torch.tensor(target), **options)
            ours = sf.nn.functional.nll_loss(sf.tensor(x), sf.tensor(target), **options)
            layer = sf.nn.NLLLoss(**options)(sf.tensor(x), sf.tensor(target))
        assert theirs.tolist() == ours.tolist() == layer.tolist()
    for fn in (sf.softmax, sf.nn.Linear):
        with pytest.raises(
            TypeError, match=r"\w+\(\) got an unexpected keyword argument 'size_average', at"
        ):
            fn(sf.ones(2), size_average=False)


@pytest.mark.parametrize(("fn", "other", "own"), CASES)
def test_an_argument_may_have_its_name_of_numpy_beside_out(fn: Any, other: str, own: str) -> None:
    """As without, and an error has the user's line."""

    def call(**named: Any) -> str:
        out = sf.zeros(0)
        try:
            fn(sf.ones(3, 3), out=out, **named)
        except Exception as error:
            assert re.search(r", at .*other_names.*:\d+", f"{error}"), error
            return f"{type(error).__name__}: {error}".split(", at ")[0]
        return repr(out)

    assert call(**{other: 1}) == call(**{own: 1})
