"""Objects of registered classes, dataclasses, named tuples and ordered dicts, wherever trees go:
loops, branches, jit, gradients, vmap, the inputs and outputs of programs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

import staticflow as sf
from staticflow import pytree


@sf.register_dataclass
@dataclass
class State:
    h: Any
    n: Any
    name: str = field(default="", metadata={"static": True})


@sf.register_dataclass
@dataclass(frozen=True)
class Frozen:
    h: Any
    n: Any


class Pair(NamedTuple):
    h: Any
    n: Any


class Own:
    """Neither a dataclass nor a container, with a part that is no tensor."""

    def __init__(self, h: Any, n: Any, unit: str = "m") -> None:
        self.h, self.n, self.unit = h, n, unit


sf.register_pytree_node(
    Own, lambda o: ((o.h, o.n), o.unit), lambda unit, parts: Own(*parts, unit)
)  # fmt: skip


class Ordered(OrderedDict[str, Any]):
    """An ordered dict with the parts as attributes, registered like any class."""

    h = property(lambda self: self["h"])
    n = property(lambda self: self["n"])


sf.register_pytree_node(
    Ordered, lambda o: (o.values(), tuple(o)), lambda keys, v: Ordered(zip(keys, v, strict=True))
)


def ordered(h: Any, n: Any) -> Ordered:
    return Ordered([("n", n), ("h", h)])


MAKE: dict[str, Callable[[Any, Any], Any]] = {
    "dataclass": lambda h, n: State(h, n, "run"), "frozen": Frozen, "named tuple": Pair,
    "own": Own, "subclass": ordered,
}  # fmt: skip


@pytest.fixture(params=MAKE)
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[Any, Any], Any]]:
    yield MAKE[request.param]


def advance(make: Any, s: Any, x: Any) -> Any:
    return make((s.h * x).sin(), s.n + 1)


def scanned(make: Any, xs: Any, start: Any) -> Any:
    def step(s: Any, x: Any) -> Any:
        after = advance(make, s, x)
        return after, make(after.h * 2, x)

    return sf.scan(step, make(start, 0), xs)


def test_loops(make: Any) -> None:
    xs, start = sf.tensor([0.5, 1.5, 2.5]), sf.tensor(0.7, requires_grad=True)
    last, ys = scanned(make, xs, start)
    assert type(last) is type(ys) is type(make(1, 2)) and last.n.item() == 3
    last.h.backward()
    x, s = sf.placeholder((None,), name="x"), sf.placeholder((), name="s")
    end, rows = scanned(make, x, s)
    program = sf.compile([x, s], {"end": end, "rows": rows, "slope": sf.grad(end.h, s)})
    got = program(xs, 0.7)
    assert type(got["end"]) is type(last)
    assert sf.allclose(got["end"].h, last.h.detach()) and sf.allclose(got["rows"].h, ys.h.detach())
    assert sf.allclose(got["slope"], start.grad)
    looped = sf.while_loop(
        lambda c: c.n < 4, lambda c: advance(make, c, 1.5), make(start.detach(), 0)
    )
    counted = sf.fori_loop(
        0, 4, lambda i, c: advance(make, c, 1.5), make(start.detach(), 0), unroll=2
    )
    assert sf.equal(looped.h, counted.h) and looped.n.item() == 4


def test_branches(make: Any) -> None:
    p, x = sf.placeholder((), "bool", name="p"), sf.placeholder((), name="x")
    fns = (lambda s: make(s.h + 1, s.n), lambda s: make(s.h * 3, s.n))
    program = sf.compile([p, x], sf.cond(p, *fns, make(x, 1)))
    for flag in (True, False):
        eager = sf.cond(sf.tensor(flag), *fns, make(sf.tensor(2.0), 1))
        assert type(program(flag, 2.0)) is type(eager) is type(make(1, 2))
        assert program(flag, 2.0).h.item() == eager.h.item() == (3.0 if flag else 6.0)
    assert sf.switch(sf.tensor(1), fns, make(sf.tensor(2.0), 1)).h.item() == 6.0


def test_transforms(make: Any) -> None:
    value = make(sf.tensor([1.0, 2.0]), sf.tensor([3.0, 4.0]))

    def product(v: Any) -> Any:
        return (v.h * v.h * v.n).sum()

    gradient = sf.func.grad(product)(value)
    assert type(gradient) is type(value)
    assert gradient.h.tolist() == [6.0, 16.0] and gradient.n.tolist() == [1.0, 4.0]
    doubled = sf.jit(lambda v: make(v.h * 2, v.n))(value)
    assert type(doubled) is type(value) and doubled.h.tolist() == [2.0, 4.0]
    rows = sf.vmap(lambda v: make(v.h * v.n, v.h))(value)
    assert type(rows) is type(value) and rows.h.tolist() == [3.0, 8.0]


def test_ordered_dicts_keep_their_order() -> None:
    given = OrderedDict([("b", sf.tensor(1.0)), ("a", sf.tensor(2.0))])
    assert [leaf.item() for leaf in pytree.flatten(given)[0]] == [1.0, 2.0]
    found = sf.jit(lambda d: d)(given)
    assert type(found) is OrderedDict and list(found) == ["b", "a"]
    x = sf.placeholder((), name="x")
    assert str(pytree.flatten(given)[1]) == "OrderedDict({'b': *, 'a': *})"
    again = sf.compile([x], OrderedDict(b=x, a=x + 1))(1.0)
    assert list(again.items()) == [("b", 1.0), ("a", 2.0)]


def test_saved_programs(tmp_path: Any) -> None:
    x = sf.placeholder((), name="x")
    path = tmp_path / "p"
    sf.compile([x], OrderedDict(b=x, a=x + 1)).save(path)
    assert list(sf.load_program(path)(1.0)) == ["b", "a"]
    with pytest.raises(sf.CheckpointError, match="class Frozen, which a file cannot name"):
        sf.compile([x], Frozen(x, x)).save(path)


def test_meta_fields_are_structure() -> None:
    with pytest.raises(sf.ShapeError) as error:
        sf.scan(lambda s, x: (State(s.h, s.n, "other"), None), State(0.0, 1, "one"), sf.ones(2))
    assert "State(h=*, n=*, aux=('one',)) and went out as State(h=*, n=*, aux=('other',))" in str(
        error.value
    )
    traced = []
    f = sf.jit(lambda s: (traced.append(s.name), s.h + 1)[1])
    for name in ("a", "b", "a"):
        f(State(sf.tensor(1.0), sf.tensor(1), name))
    assert traced.count("a") == traced.count("b") == 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: sf.scan(lambda c, x: (State(c.h + 0.5, c.n), x), State(0, 1), sf.ones(2)),
         "carry.h came in as i64[] and went out as f32[]"),
        (lambda: sf.scan(lambda c, x: ({"s": Pair(c["s"].h, "a")}, x), {"s": Pair(0, 1)}, sf.ones(2)),
         "carry['s'].n is of type str"),
        (lambda: sf.scan(lambda c, x: (Own(c.h, 1.5), x), Own(0, 1), sf.ones(2)),
         "carry[1] came in as i64[]"),
        (lambda: sf.cond(sf.tensor(True), lambda: Frozen(1, 2), lambda: Frozen(1, sf.ones(2))),
         "result.n is"),
    ],
)  # fmt: skip
def test_errors_name_the_path(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(sf.StaticflowError) as error:
        call()
    assert says in str(error.value)


@dataclass
class Unknown:
    a: Any


class Plain:
    pass


def test_what_is_not_registered_says_how() -> None:
    with pytest.raises(sf.DTypeError, match=r"init is of type Unknown; .* sf.register_dataclass"):
        sf.scan(lambda c, x: (c, x), Unknown(1), sf.ones(2))
    with pytest.raises(sf.DTypeError, match=r"init is of type Plain; .* sf.register_pytree_node"):
        sf.while_loop(lambda c: c, lambda c: c, Plain())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: sf.register_dataclass(Plain), "'Plain' is no dataclass"),
        (lambda: sf.register_dataclass(State), "State is registered already"),
        (lambda: sf.register_dataclass(Unknown, ["b"]), "has the fields ['a'], given are ['b']"),
        (lambda: sf.register_pytree_node(dict, len, len), "dict is a tree already"),
        (lambda: sf.register_pytree_node(Pair, len, len), "Pair is a tree already"),
        (lambda: sf.register_pytree_node(sf.Tensor, len, len), "Tensor is a tensor"),
        (lambda: sf.register_pytree_node(Plain, 1, len), "flatten_fn must be a function, not int"),
        (lambda: sf.register_pytree_node(3, len, len), "a class is registered, not int"),
        (lambda: sf.register_pytree_node_class(Plain), "'Plain' has no method tree_flatten"),
        (lambda: sf.register_pytree_node_class(3), "3 has no method tree_flatten"),
    ],
)
def test_what_cannot_be_registered(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(sf.DTypeError) as error:
        call()
    assert says in str(error.value) and not pytree.is_registered(Unknown)


def test_a_class_with_the_methods_of_jax() -> None:
    """In both modes, in a loop and as what a function is differentiated by."""

    @sf.register_pytree_node_class
    class Decay:
        def __init__(self, value: Any, rate: Any) -> None:
            self.value, self.rate = value, rate

        def tree_flatten(self) -> tuple[Any, None]:
            return (self.value, self.rate), None

        @classmethod
        def tree_unflatten(cls, rest: None, children: Any) -> Decay:
            return cls(*children)

    def run(start: Any, xs: Any) -> Any:
        step = lambda d, x: (Decay(d.value * d.rate + x, d.rate), None)  # noqa: E731
        return sf.scan(step, start, xs)[0].value

    start = Decay(sf.tensor(2.0), sf.tensor(0.5))
    assert run(start, sf.ones(3)).item() == 2.0
    assert sf.func.grad(lambda d: run(d, sf.ones(3)))(start).value.item() == 0.125
    p = sf.placeholder((None,), name="xs")
    assert sf.compile([p], run(start, p))(sf.ones(3)).item() == 2.0
    with pytest.raises(sf.DTypeError, match="Decay is registered already"):
        sf.register_pytree_node_class(Decay)


def test_functions_that_take_apart_wrongly() -> None:
    class Odd:
        pass

    class Listed:
        pass

    sf.register_pytree_node(Odd, lambda o: [1, 2, 3], lambda aux, c: Odd())
    sf.register_pytree_node(Listed, lambda o: ((), [1]), lambda aux, c: Listed())
    with pytest.raises(sf.DTypeError, match="Odd: the function that takes it apart gives list"):
        pytree.flatten(Odd())
    with pytest.raises(sf.DTypeError, match=r"Listed: .* \[1\], is part of the structure"):
        pytree.flatten(Listed())


def test_inputs_are_leaves() -> None:
    x, n = sf.placeholder((None,), name="x"), sf.placeholder((), name="n")
    state = State(x, n)
    with pytest.raises(sf.SymbolicError, match="an input is one placeholder, and no tree of them"):
        sf.compile([state], state.h * state.n)
    leaves = pytree.flatten(state)[0]
    assert sf.compile(leaves, state.h * state.n)(sf.ones(2), 3.0).tolist() == [3.0, 3.0]
