"""Attributes as users give them: scalars and arrays of NumPy, fractions, numbers of classes of their
own, bools for integers and integers for bools. A node holds what its kind says, so that its graph
has a text that is read again; what has none is refused as the node is made."""

from __future__ import annotations

import io
from collections.abc import Iterator
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.modes import arrays_of, graph_of
from slices import daily

import staticflow as sf
from staticflow.graph.attr_kinds import kind_of_attr
from staticflow.graph.dims import Dim
from staticflow.graph.graph import attrs_key
from staticflow.graph.node import Node, constant, item, param
from staticflow.graph.open_size import OpenSize
from staticflow.nn import functional as F
from staticflow.ops import OPS
from staticflow.ops.symbols.symbol import STATIC, Symbol

RUN_A_DAY = 25


class Two(IntEnum):
    """A number of a class of its own."""

    TWO = 2


class Index:
    """What Python takes for an integer."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def forms_of(value: Any) -> Iterator[Any]:
    """Other objects that mean the same attribute."""
    if type(value) is bool:
        yield int(value)
    elif type(value) is int and abs(value) < 1 << 31:
        yield from (np.int64(value), np.int32(value), np.array(value), Index(value))
        if value in (0, 1):
            yield bool(value)
    elif type(value) is float:
        yield from (np.float64(value), np.longdouble(value), np.array(value))
        if np.isfinite(value) and (value or not np.signbit(value)):
            yield from (Fraction(value), Decimal(value))
        if float(np.float32(value)) == value:
            yield np.float32(value)
    elif type(value) is Dim:
        yield OpenSize(value)
    elif type(value) is tuple and value:
        yield list(value)
        ways = [list(forms_of(part)) or [part] for part in value]
        for i in range(max(map(len, ways))):
            yield tuple(way[i % len(way)] for way in ways)


def remade(node: Node, name: str, value: Any) -> Node:
    """The node as a user's call makes it that gives ``value`` for the attribute ``name``."""
    made = STATIC.make(node.op, [Symbol(a) for a in node.args], {**node.attrs, name: value})
    found: Node = (made[0] if isinstance(made, tuple) else made).node
    return found.args[0] if found.op is item else found


def nodes_with_attributes(name: str) -> Iterator[tuple[dict[Node, Any], Node]]:
    """The nodes of the op of this name in its samples, beside the arrays of the parameters."""
    info = ROWS[name]
    for sample in info.samples(info.dtypes[0], False):
        graph = graph_of(info, sample)
        for node in graph.nodes:
            if node.op.name == name and node.op not in (param, constant):
                yield dict(zip(graph.params, arrays_of(sample), strict=True)), node


@pytest.mark.parametrize("name", sorted(OPS))
def test_a_node_holds_what_its_kind_says(name: str) -> None:
    for _, node in list(nodes_with_attributes(name))[:4]:
        for attr, value in node.attrs.items():
            kind = kind_of_attr(node.op, attr)
            assert kind is not None and kind.is_one(value)
            for form in forms_of(value):
                if type(form) is bool and kind.is_one(form):
                    continue  # an element, of which true is another than 1
                made = remade(node, attr, form)
                assert attrs_key(made.attrs) == attrs_key(node.attrs), (attr, form)


@pytest.mark.parametrize("name", daily(sorted(OPS), RUN_A_DAY, "attribute forms"))
def test_a_program_of_it_is_read_again(name: str) -> None:
    done = 0
    for given, node in nodes_with_attributes(name):
        for attr, value in node.attrs.items():
            form = next((f for f in forms_of(value) if type(f) is not bool), None)
            if form is None or done == 2:
                continue
            done += 1
            params = [a for a in node.args if a.op is param]
            if len(params) < len(node.args) or len({*params}) < len(params):
                continue
            made = STATIC.make(node.op, [Symbol(a) for a in node.args], {**node.attrs, attr: form})
            step = sf.compile([Symbol(p) for p in params], made)
            file = io.BytesIO()
            step.save(file)
            file.seek(0)
            arrays = [np.asarray(given[a]) for a in params]
            first, second = (p(*arrays) for p in (step, sf.load_program(file)))
            assert bits(first) == bits(second)


def bits(result: Any) -> list[bytes]:
    several = result if isinstance(result, tuple | list) else (result,)
    return [t.numpy().tobytes() for t in several]


CALLS = {
    "a scalar of NumPy": lambda x: F.group_norm(x, np.int64(2)),
    "a number of an enumeration": lambda x: F.group_norm(x, Two.TWO),
    "a bool for an integer": lambda x: F.group_norm(x, True),
    "a float of NumPy": lambda x: F.celu(x, np.float32(0.3)),
    "an array of no dims": lambda x: F.celu(x, np.array(0.3)),
    "a fraction": lambda x: F.celu(x, Fraction(1, 4)),
    "a number for a switch": lambda x: x.sum(dim=0, keepdim=1),
    "a bool of NumPy for an element": lambda x: x.masked_fill(x > 2, np.bool_(True)),
    "a quotient of sizes": lambda x: F.layer_norm(x, (4,), eps=1 / x.shape[0]),
    "a quotient of sizes in two places": lambda x: F.batch_norm(
        x, None, None, training=True, eps=1 / x.shape[0]
    ),
    "a class that is a size": lambda x: F.cross_entropy(
        x, x.argmax(dim=1) + 1, ignore_index=x.shape[0] + 1
    ),
    "a class of each that is a size": lambda x: F.nll_loss(
        x, x.argmax(dim=1) + 1, ignore_index=x.shape[0] + 1, reduction="none"
    ),
}


@pytest.mark.parametrize("what", CALLS)
def test_both_modes_and_files_take_it(what: str) -> None:
    x = sf.placeholder((None, 4), name="x")
    y = CALLS[what](x)
    step = sf.compile([x], [y, sf.grad((y * y).sum(), x)])
    file = io.BytesIO()
    step.save(file)
    file.seek(0)
    a = np.array([[1, 2, 0, 3], [0, 1, -1, -2], [4, 2, 3, 5]], "f")
    given = sf.tensor(a, requires_grad=True)
    wanted = CALLS[what](given)
    (wanted * wanted).sum().backward()
    for program in (step, sf.load_program(file)):
        value, gradient = program(a)
        np.testing.assert_allclose(value.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gradient.numpy(), given.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_gradient_reaches_an_attribute_that_the_run_computes() -> None:
    x, e = sf.placeholder((3, 4), name="x"), sf.placeholder((), name="e")
    y = F.layer_norm(x, (4,), eps=e * 2).exp().sum()
    step = sf.compile([x, e], [y, sf.grad(y, e)])
    a = np.arange(12, dtype="f").reshape(3, 4) ** 1.5
    low, high = (step(a, np.float32(at))[0].item() for at in (0.49, 0.51))
    assert step(a, np.float32(0.5))[1].item() == pytest.approx((high - low) / 0.02, rel=1e-2)


def test_what_no_graph_can_hold_is_refused_at_its_line() -> None:
    x = sf.placeholder((None, 4), name="x")
    group_norm = OPS["group_norm"]
    with pytest.raises(sf.DTypeError, match=r"groups is of the class object, .*integer.*, at "):
        group_norm(x, groups=object(), eps=1e-5)
    for given in (x, sf.ones(3, 4)):
        with pytest.raises(
            sf.DTypeError, match=r"keepdim is of the class numpy.bool.*true or false"
        ):
            OPS["sum"](given, dims=(0,), keepdim=np.bool_(True))
        with pytest.raises(sf.DTypeError, match="sum"):
            given.sum(dim=0, keepdim=np.bool_(True))
    with pytest.raises(sf.SymbolicError, match=r"elu: low is .*known only when the program runs"):
        OPS["elu"](x, low=x.sum(), scale=1.0, input_scale=1.0)
