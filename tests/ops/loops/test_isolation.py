"""What loops and branches give is apart from what they got, and iterations are from each other: in
both modes a change in place of one reaches no other."""

import numpy as np
import pytest

import staticflow as sf
from staticflow import pytree

XS = sf.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def scanned(body):
    return lambda z: sf.scan(body, z, XS)


def scanned_pair(body):
    return lambda z: sf.scan(body, (z, z + 1), XS)


def while_below(limit, body):
    return lambda z: sf.while_loop(lambda a, b: a.sum() < limit, body, (z, z + 1))


def y_is_the_carry(c, x):
    c += x
    return c, c


def y_is_a_view_of_the_carry(c, x):
    y = c[:1]
    c += x
    return c, y


def y_is_made_in_place(c, x):
    y = sf.zeros(2)
    y[0] = c.sum()
    return c + x, y


def swapped(carry, x):
    a, b = carry
    a += x
    return (b, a), b


def twice_the_same(carry, x):
    a, b = carry
    a += x
    return (a, a), b * 1


def a_part_of_another(carry, x):
    a, b = carry
    a += x
    return (a, a[:]), (a, b)


def a_row(c, x):
    c *= 2
    return x, c


LOOPS = {
    **{
        f.__name__: scanned(f)
        for f in (y_is_the_carry, y_is_a_view_of_the_carry, y_is_made_in_place, a_row)
    },
    **{f.__name__: scanned_pair(f) for f in (swapped, twice_the_same, a_part_of_another)},
    "while, swapped": while_below(20.0, lambda a, b: (b, a.add_(3))),
    "while, twice the same": while_below(20.0, lambda a, b: (a.add_(3), a)),
    "until": lambda z: sf.scan(y_is_the_carry, z, XS, until=lambda c, y: c.sum() > 9),
    "fori": lambda z: sf.fori_loop(0, 3, lambda i, c: swapped(c, i)[0], (z, z + 1)),
    "taps": lambda z: sf.scan(
        lambda c, x, past: (c.add_(x), past[0].add_(c)), z, XS, taps={"ys": (1,)}, ys_init=XS[:1]
    ),
    "lengths": lambda z: sf.scan(
        lambda c, x: (c.add_(x), c), z, XS, lengths=sf.tensor([3, 2])
    ),
}  # fmt: skip


def values(tree):
    return [leaf.detach().numpy() for leaf in pytree.flatten(tree)[0]]


@pytest.mark.parametrize("name", LOOPS)
def test_in_place_changes_reach_one_iteration(name):
    loop, start = LOOPS[name], sf.zeros(2)
    expected = values(sf.jit(loop)(sf.zeros(2)))
    for have, want in zip(values(loop(start)), expected, strict=True):
        np.testing.assert_allclose(have, want)
    assert start.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", LOOPS)
def test_their_gradients(name):
    def slope(f):
        z = sf.zeros(2, requires_grad=True)
        sum(leaf.sum() for leaf in pytree.flatten(f(z))[0]).backward()
        return z.grad.numpy()

    np.testing.assert_allclose(slope(LOOPS[name]), slope(sf.jit(LOOPS[name])))


def test_a_captured_tensor_that_becomes_the_carry_stays():
    w = sf.ones(2)

    def body(c, x):
        c += x
        return w, None

    last, _ = sf.scan(body, sf.zeros(2), XS)
    assert w.tolist() == [1.0, 1.0]
    assert sf.jit(lambda z: sf.scan(body, z, XS)[0])(sf.zeros(2)).tolist() == last.tolist()


def test_a_change_that_begins_late_is_refused():
    def body(c, x):
        if float(x.sum()) > 4:
            c.add_(x)
        return c, c

    with pytest.raises(
        sf.SymbolicError, match=r"changes its carry in place in a later iteration.*test_"
    ):
        sf.scan(body, sf.zeros(2), XS)


@pytest.mark.parametrize(
    "loop",
    [
        lambda: sf.while_loop(lambda c: c.add_(1).sum() < 9, lambda c: c + 1, sf.zeros(2)),
        lambda: sf.scan(y_is_the_carry, sf.zeros(2), XS, until=lambda c, y: c.add_(1).sum() > 9),
    ],
)
def test_what_is_only_asked_changes_nothing(loop):
    with pytest.raises(sf.SymbolicError, match=r"changes the carry in place.*test_"):
        loop()


HANDED_ON = {
    "cond": lambda a, p: sf.cond(p, lambda: a, lambda: a * 2),
    "cond, a view": lambda a, p: sf.cond(p, lambda: a[:1], lambda: a[1:]),
    "cond, operands": lambda a, p: sf.cond(p, lambda x: (x, x), lambda x: (x, x + 1), a)[1],
    "cond, detached": lambda a, p: sf.cond(p, lambda: a.detach(), lambda: a),
    "cond, a number beside it": lambda a, p: sf.cond(p, lambda: (a, 1), lambda: (a, 2))[0],
    "scan": lambda a, p: sf.scan(lambda c, x: (a, None), a * 0, XS)[0],
    "scan, a row": lambda a, p: sf.scan(lambda c, x: (x, None), a * 0, a[None])[0],
    "scan, its init": lambda a, p: sf.scan(lambda c, x: (c, None), a, XS)[0],
    "scan, no iteration": lambda a, p: sf.scan(lambda c, x: (c, x), a, XS[:0])[0],
    "while_loop": lambda a, p: sf.while_loop(lambda c: c.sum() < 1, lambda c: a, a * 0),
    "while_loop, no iteration": lambda a, p: sf.while_loop(lambda c: c.sum() < 0, lambda c: c, a),
    "map": lambda a, p: sf.map(lambda row: a, XS)[0],
}


@pytest.mark.parametrize("name", HANDED_ON)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("change", ["what it gives", "what it hands on"])
def test_what_is_handed_on_is_a_copy(name, first, change):
    def program(a, p):
        a = a * 1
        given = HANDED_ON[name](a, p)
        (given if change == "what it gives" else a).add_(1)
        return given, a

    args = sf.tensor([3.0, 4.0]), sf.tensor(first)
    for have, want in zip(values(program(*args)), values(sf.jit(program)(*args)), strict=True):
        np.testing.assert_array_equal(have, want)


class Proxy:
    """An object of slots that has an answer to every name."""

    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 2.0

    def __getattr__(self, name: str) -> object:
        return print


def test_an_object_that_answers_every_name_can_be_used_by_a_body() -> None:
    proxy, x = Proxy(), sf.placeholder((3,), name="x")
    last = sf.fori_loop(0, 3, lambda i, c: c * proxy.scale, x)
    assert sf.compile([x], last)(sf.ones(3)).tolist() == [8.0] * 3
