"""What a function of a loop gives back is held to what its user wrote: the error names the function
that was called, and the leaves as they were given, in both modes and in every form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import DTypeError, ShapeError


def truth(c: Any) -> Any:
    return {"h": c["h"] > 0}


def total(c: Any) -> Any:
    return {"h": c["h"].sum()}


def twice(c: Any) -> Any:
    return c, c


WRONG = [
    (truth, DTypeError, r"carry\['h'\] came in as f32\[.*\] and went out as bool\["),
    (total, ShapeError, r"carry\['h'\] came in as f32\[.*\] and went out as f32\[\]"),
    (twice, ShapeError, r"the carry came in as \{.*\} and went out as \("),
]

LENGTHS = sf.tensor([1, 2, 3])

LOOPS: dict[str, tuple[str, Callable[..., Any]]] = {
    "fori": ("fori_loop", lambda fn, n, c, xs: sf.fori_loop(0, n, lambda i, c: fn(c), c)),
    "fori of ints": ("fori_loop", lambda fn, n, c, xs: sf.fori_loop(0, 3, lambda i, c: fn(c), c)),
    "while": ("while_loop", lambda fn, n, c, xs: sf.while_loop(lambda c: c["h"].sum() < 9, fn, c)),
    "while in segments": (
        "while_loop",
        lambda fn, n, c, xs: sf.while_loop(lambda c: c["h"].sum() < 9, fn, c, checkpoint="sqrt"),
    ),
    "scan": ("scan", lambda fn, n, c, xs: sf.scan(lambda c, x: (fn(c), x), c, xs)),
    "scan in segments": (
        "scan",
        lambda fn, n, c, xs: sf.scan(
            lambda c, x: (fn(c), x), c, xs, checkpoint=2, until=lambda c, y: c["h"].sum() > 9
        ),
    ),
    "lags": (
        "scan",
        lambda fn, n, c, xs: sf.scan(
            lambda c, x, past: (fn(c), x), c, xs, taps={"ys": (1,)}, ys_init=xs[:1]
        ),
    ),
    "lengths": (
        "scan", lambda fn, n, c, xs: sf.scan(lambda c, x: (fn(c), x), c, xs, lengths=LENGTHS),
    ),
    "lengths and ends": (
        "scan",
        lambda fn, n, c, xs: sf.scan(
            lambda c, x: (fn(c), x), c, xs, lengths=LENGTHS, until=lambda c, y: y > 9
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("fn", "kind", "says"), WRONG, ids=["dtype", "shape", "structure"])
def test_a_carry_that_changes(loop: str, fn: Any, kind: type[Exception], says: str) -> None:
    name, call = LOOPS[loop]
    n, h = sf.placeholder((), "int64", name="n"), sf.placeholder((3,), name="h")
    xs = sf.placeholder((4, 3), name="xs")
    with pytest.raises(kind, match=rf"^{name}: {says}.*test_loop_messages"):
        call(fn, n, {"h": h}, xs)
    with pytest.raises(kind, match=rf"^{name}: {says}.*test_loop_messages"):
        call(fn, sf.tensor(3), {"h": sf.ones(3)}, sf.ones(4, 3))


@pytest.mark.parametrize("make", [lambda *s: sf.placeholder(s, name="x"), sf.ones], ids=["s", "t"])
def test_other_results(make: Any) -> None:
    x = make(4)
    with pytest.raises(DTypeError, match=r"^scan: y came in as f32\[\] and went out as bool\[\]"):
        sf.scan(lambda c, x, p: (c, p[0] > 0), (), x, taps={"ys": (1,)}, ys_init=x[:1])
    with pytest.raises(ShapeError, match=r"^associative_scan: xs came in as .* went out as f32"):
        sf.associative_scan(lambda a, b: (a + b).sum(), x)
    with pytest.raises(ShapeError, match=r"^associative_scan: the xs came in as \* and went out"):
        sf.associative_scan(lambda a, b: (a, b), x)
    with pytest.raises(ShapeError, match=r"^map: xs is 0-d"):
        sf.map(lambda r: r, x[0])
    with pytest.raises(ShapeError, match=r"^map: give xs, at"):
        sf.map(lambda r: r, ())


def test_bounds_that_are_no_integers() -> None:
    x = sf.placeholder((2,), name="x")
    for wrong in (x[0], x.to(sf.int64), sf.ones(2), 2.5):
        with pytest.raises(DTypeError, match=r"integer.*test_loop_messages"):
            sf.fori_loop(0, wrong, lambda i, c: c, x)


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint16, sf.tensor])
def test_any_integer_counts(kind: Any) -> None:
    def step(c: Any, _: Any) -> Any:
        return c + 1, c

    assert sf.scan(step, sf.tensor(0), length=kind(3))[1].tolist() == [0, 1, 2]
    assert sf.fori_loop(kind(1), kind(4), lambda i, c: c * i, sf.tensor(1)).item() == 6
    assert sf.fori_loop(kind(1), 4, lambda i, c: c * i, 1) == 6
    lagged = sf.scan(lambda c, x: (c, x[0]), (), sf.arange(5), taps={"xs": [kind(2)]})
    assert lagged[1].tolist() == [0, 1, 2]
    x = sf.placeholder((), "int64", name="x")
    last, ys = sf.scan(step, x, length=kind(3), checkpoint=np.int64(2))
    f = sf.compile([x], [last, ys, sf.fori_loop(kind(1), kind(4), lambda i, c: c * i, x)])
    assert [v.tolist() for v in f(2)] == [5, [2, 3, 4], 12]
