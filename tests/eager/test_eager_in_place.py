"""In-place methods that are native code do what the general way does, and note it."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import in_place
from staticflow.eager.bind import inherited_members
from staticflow.eager.costs import SPREAD
from staticflow.eager.fast.in_place_forms import InPlaceMethod, in_place_methods
from staticflow.errors import AutogradError, DTypeError, ShapeError, StaticflowError
from staticflow.graph.dtypes import DTYPES

METHODS = in_place_methods(inherited_members())
sf.ones(1).neg()  # from then on they are native


def sample(dtype: sf.DType, *shape: int) -> sf.Tensor:
    values = np.resize(np.array([1, 0, 2, 3, 1]), shape)
    return sf.tensor((values * 0.5 + 0.25 if dtype.is_floating else values).astype(dtype.numpy))


def outcome(change: Callable[..., Any], x: sf.Tensor, args: Any, kwargs: Any) -> Any:
    sf.manual_seed(0)
    try:
        out = change(x, *args, **kwargs)
    except (StaticflowError, TypeError) as error:
        return type(error), x.numpy().tobytes()
    return out is x, x.dtype, x.shape, x.numpy().tobytes(), x._version


@pytest.mark.parametrize("name", sorted(METHODS))
def test_natively_as_the_general_way(name: str) -> None:
    method = METHODS[name]
    for dtype in DTYPES:
        others = [2, 0.5, -0.0, True, "a", sample(dtype, 2, 3), sample(dtype, 3), sample(dtype)]
        others += [sample(sf.int64, 2, 3), sample(sf.float32, 2, 3), sample(dtype, 2, 2, 3)]
        given: list[tuple[Any, Any]] = [((o,), {}) for o in others] if method.count else [((), {})]
        given += [((sample(dtype, 2, 3),), {"alpha": a}) for a in (2, 0.5)]
        given += [((), {}), ((1, 2), {})]
        for args, kwargs in given:
            for turned in (False, True):
                pair = [sample(dtype, 3, 2).t() if turned else sample(dtype, 2, 3) for _ in "ab"]
                natively = outcome(getattr(sf.Tensor, name), pair[0], args, kwargs)
                assert natively == outcome(method.general, pair[1], args, kwargs), (dtype, args)


def test_the_methods_are_native() -> None:
    assert {"zero_", "fill_", "copy_", "add_", "__iadd__", "sqrt_"} <= METHODS.keys()
    for name, method in METHODS.items():
        assert type(vars(sf.Tensor)[name]).__name__ == "method_descriptor"
        assert isinstance(method, InPlaceMethod)
    x = sf.ones(3)
    x.add_(1).zero_().fill_(2).copy_(sf.ones(3))
    assert x.tolist() == [1, 1, 1] and x._version == 4


def test_the_line_of_a_change_is_the_users() -> None:
    x, w = sf.ones(2, requires_grad=True), sf.ones(2)
    y = (x * w).sum()
    w.copy_(sf.zeros(2))
    line = test_the_line_of_a_change_is_the_users.__code__.co_firstlineno + 3
    with pytest.raises(AutogradError, match=rf"changed at \S*test_eager_in_place\.py:{line}"):
        y.backward()


def test_what_is_recorded_goes_the_general_way() -> None:
    x = sf.ones(3, requires_grad=True)
    y = x * 2
    y[:2].zero_()
    y.add_(x, alpha=0.5).mul_(2.0)
    z = sf.zeros(3)
    z.copy_(y)
    assert sf.grad(z.sum(), x).tolist() == [1, 1, 5]
    with pytest.raises(AutogradError, match="leaf"):
        x.fill_(1)
    with sf.no_grad():
        assert x.fill_(2).tolist() == x.detach().tolist() == [2, 2, 2]


def test_what_is_not_to_be_written() -> None:
    fixed = np.ones(3, np.float32)
    fixed.flags.writeable = False
    for change in (sf.Tensor.zero_, lambda t: t.add_(1), lambda t: t.copy_(sf.zeros(3))):
        with pytest.raises(AutogradError, match="read-only"):
            change(sf.from_numpy(fixed))
    with pytest.raises(AutogradError, match="expanded"):
        sf.ones(1).expand(3).copy_(sf.zeros(3))
    with pytest.raises(ShapeError):
        sf.ones(3).copy_(sf.ones(2))
    with pytest.raises(DTypeError):
        sf.ones(3, dtype=sf.int64).add_(0.5)
    assert fixed.tolist() == [1, 1, 1]


def test_large_ones_are_not_changed_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    x = sf.zeros(SPREAD)
    seen: list[Any] = []
    monkeypatch.setattr(
        in_place, "overwrite", lambda fn, *_: seen.append(getattr(fn, "__name__", fn)) or False
    )
    x.add_(x)
    assert len(seen) == 1


def test_nothing_is_held_or_dropped_too_often() -> None:
    x, y, number = sf.ones(4, 5), sf.ones(4, 5), 0.4375
    objects = (x, y, x._data, y._data, number, x._memory, sf.Tensor, None)

    def run() -> None:
        x.zero_().add_(y).add_(y, alpha=number).mul_(number).copy_(y).fill_(number).sqrt_()
        x[1].zero_()
        for wrong in ("a", sf.ones(3), sf.ones(4, 5, dtype=sf.float64), None):
            with contextlib.suppress(StaticflowError, TypeError):
                x.add_(wrong)

    run()
    gc.collect()  # what tests before left would else go meanwhile, with what it holds
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(100):
        run()
    after = [sys.getrefcount(o) for o in objects]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True)), (before, after)
