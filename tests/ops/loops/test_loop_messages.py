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


# of a vector x: what is wrong, and what is said of it in both modes
MISTAKES: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "a list is one argument": (
        lambda x: sf.while_loop(lambda i, c: i < 3, lambda i, c: (i + 1, c), [0, x]), DTypeError,
        "while_loop: cond_fn takes (i, c), and is called with 1 argument, the carry; it must take "
        "as many; a carry that is a list is one argument, begin with a tuple for one per element",
    ),
    "a list that comes back as a tuple": (
        lambda x: sf.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), [0, x]), ShapeError,
        "while_loop: the carry came in as [*, *] and went out as (*, *); every iteration must give it "
        "back in the structure in which it came in: return a list, or begin with a tuple",
    ),
    "a tuple that comes back as a list": (
        lambda x: sf.scan(lambda c, r: ([*c], r), (x[0], x[1]), x), ShapeError,
        "in the structure in which it came in: return a tuple, or begin with a list",
    ),
    "a key is missing": (
        lambda x: sf.scan(lambda c, r: ({"a": c["a"]}, r), {"a": x[0], "b": x[1]}, x), ShapeError,
        "scan: the carry came in as {'a': *, 'b': *} and went out as {'a': *}; every iteration must",
    ),
    "a condition of one": (
        lambda x: sf.while_loop(lambda i: i < 3, lambda i, c: (i + 1, c), (0, x)), DTypeError,
        "while_loop: cond_fn takes (i), and is called with 2 arguments; it must take as many",
    ),
    "a body of one": (
        lambda x: sf.while_loop(lambda i, c: i < 3, lambda c: c, (0, x)), DTypeError,
        "while_loop: body_fn takes (c), and is called with 2 arguments; it must take as many",
    ),
    "fori without i": (
        lambda x: sf.fori_loop(0, 3, lambda c: c, x), DTypeError,
        "fori_loop: body takes (c), and is called with 2 arguments, i and carry; it must take",
    ),
    "scan without x": (
        lambda x: sf.scan(lambda c: (c, c), x[0], x), DTypeError,
        "scan: fn takes (c), and is called with 2 arguments, carry and x; it must take as many",
    ),
    "scan without past": (
        lambda x: sf.scan(lambda c, r: (c, r), (), x, taps={"ys": (1,)}, ys_init=x[:1]), DTypeError,
        "scan: fn takes (c, r), and is called with 3 arguments, carry, x and the past ys; it must",
    ),
    "until without y": (
        lambda x: sf.scan(lambda c, r: (c, r), x[0], x, until=lambda c: c > 0), DTypeError,
        "scan: until takes (c), and is called with 2 arguments, carry and y; it must take as many",
    ),
    "map of two": (
        lambda x: sf.map(lambda a, b: a, (x, x)), DTypeError,
        "map: fn takes (a, b), and is called with 1 argument, a row of xs; it must take as many",
    ),
    "a branch of one": (
        lambda x: sf.cond(x.sum() > 0, lambda a: a, lambda: x), DTypeError,
        "cond: true_fn takes (a), and is called with 0 arguments; it must take as many",
    ),
    "the branch that is not taken": (
        lambda x: sf.cond(x.sum() > 0, lambda: x, lambda a: a), DTypeError,
        "cond: false_fn takes (a), and is called with 0 arguments; it must take as many",
    ),
    "combining one": (
        lambda x: sf.associative_scan(lambda a: a, x), DTypeError,
        "associative_scan: fn takes (a), and is called with 2 arguments; it must take as many",
    ),
    "no function": (
        lambda x: sf.scan(3, x[0], x), DTypeError, "scan: fn is of type int; it must be a function",
    ),
    "a pair as a list": (
        lambda x: sf.scan(lambda c, r: [c, r], x[0], x), ShapeError,
        "scan: fn gives a list of 2; it must give a tuple of two, (carry, y)",
    ),
    "three results": (
        lambda x: sf.scan(lambda c, r: (c, r, r), x[0], x), ShapeError,
        "scan: fn gives a tuple of 3; it must give a tuple of two, (carry, y)",
    ),
    "text": (
        lambda x: sf.scan(lambda c, r: (c, r), {"h": "a"}, x), DTypeError,
        "scan: init['h'] is of type str; it must be a tensor, an array or a number",
    ),
    "a y of text": (
        lambda x: sf.scan(lambda c, r: (c, {"y": "a"}), x[0], x), DTypeError,
        "scan: y['y'] is of type str; it must be a tensor, an array or a number",
    ),
    "branches of two structures": (
        lambda x: sf.cond(x.sum() > 0, lambda: x, lambda: (x,)), ShapeError,
        "cond: true_fn gives * and false_fn gives (*,); both must give the same structure",
    ),
    "branches of two shapes": (
        lambda x: sf.cond(x.sum() > 0, lambda: x, lambda: x[:2]), ShapeError,
        "cond: result is f32[3] from true_fn and f32[2] from false_fn; both must give the same",
    ),
    "branches of two dtypes": (
        lambda x: sf.cond(x.sum() > 0, lambda: (x, 1.5), lambda: (x, x.long().sum())), DTypeError,
        "cond: result[1] is f32[] from true_fn and i64[] from false_fn; both must give the same",
    ),
    "a float into an int": (
        lambda x: sf.scan(lambda c, r: (2.5, r), 1, x), DTypeError,
        "scan: carry came in as i64[] and went out as f32[]; every iteration must give it back as it",
    ),
    "rows of two lengths": (
        lambda x: sf.associative_scan(lambda a, b: a, (x, x[:2])), ShapeError,
        "associative_scan: xs[0] has 3, xs[1] has 2 rows; all must have the same number of rows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_alike_in_both_modes(mistake: str) -> None:
    run, kind, says = MISTAKES[mistake]
    with pytest.raises(kind) as eager:
        run(sf.ones(3))
    with pytest.raises(kind) as traced:
        run(sf.placeholder((3,), name="x"))
    assert str(eager.value) == str(traced.value)
    assert says in str(eager.value)
    assert "test_loop_messages" in str(eager.value)


def test_ys_of_two_kinds() -> None:
    kinds = iter((1.0, 2))
    with pytest.raises(
        DTypeError, match=r"y f32\[\] in the first iteration, and y i64\[\] in a later"
    ):
        sf.scan(lambda c, x: (c, next(kinds)), 0, sf.ones(2))


def test_the_users_own_type_error_stays() -> None:
    with pytest.raises(TypeError, match="has no len"):
        sf.scan(lambda c, x: (c, len(5)), 0, sf.ones(2))  # type: ignore[arg-type]
