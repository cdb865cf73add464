"""Nothing that the signature of a function says it does not take is taken silently, though Python
would find a truth or a number in it; nor are values that no result could be right for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from public_calls import PUBLIC, Public
from wrong_arguments import CALLS, SYMBOLIC

import staticflow as sf

F = sf.nn.functional

WRONG: dict[str, tuple[Any, ...]] = {
    "bool": ("no", 2.5, [0], object()),
    "int": (1.5, "one", [1], object()),
    "float": ("one", {}, object()),
}
"""What no parameter of an annotation is."""

OTHERS = {"None": (), "Size": WRONG["int"]}


def _wrong(parameter: inspect.Parameter) -> Iterator[Any]:
    """What ``parameter`` must refuse, if it is a number or a switch alone."""
    words = str(parameter.annotation).split(" | ")
    given = [{**WRONG, **OTHERS}.get(word) for word in words]
    if (
        parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        or None in given
        or parameter.name[0] == "_"
    ):
        return
    for value in max((v for v in given if v is not None), key=len):
        if not (isinstance(value, float) and "float" in words):
            yield value


def _is_refused(call: Callable[[], Any]) -> bool:
    try:
        call()
    except (sf.StaticflowError, TypeError):
        return True
    return False


@pytest.mark.filterwarnings("ignore")
def test_every_function_and_method_refuses_what_is_no_number_or_switch() -> None:
    looked_at = 0
    for call in CALLS.values():
        for p in call.parameters:
            for value in _wrong(p):
                given = {**call.arguments(), p.name: value}
                assert _is_refused(lambda c=call, g=given: c.run(g)), f"{call}({p.name}={value!r})"
                looked_at += 1
    assert looked_at > 1000


@pytest.mark.filterwarnings("ignore")
def test_symbols_refuse_it_too() -> None:
    for call in SYMBOLIC:
        for p in call.parameters:
            for value in [*_wrong(p)][:1]:
                given = {**call.arguments(), p.name: value}
                assert _is_refused(lambda c=call, g=given: c.run(g)), f"{call}({p.name}={value!r})"


NAMED = [p for p in PUBLIC.values() if ".__" not in p.name]
"""Without the methods that Python calls, which give ``NotImplemented``."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("public", NAMED, ids=[p.name for p in NAMED])
def test_every_layer_and_other_callable_does(public: Public) -> None:
    fn, args, _ = public.make()
    try:
        parameters = [*inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):
        return
    for place, p in enumerate(parameters):
        for value in _wrong(p):
            fn, args, kwargs = public.make()
            if place < len(args):
                args[place] = value
            else:
                kwargs[p.name] = value
            assert _is_refused(lambda f=fn, a=args, k=kwargs: f(*a, **k)), f"{p.name}={value!r}"


X, ROWS, CLASSES = sf.ones(3, 3), sf.ones(4, 2), sf.tensor([0, 1, 2])
SPELT = F.log_softmax(sf.ones(6, 2, 5), -1)
ONE = sf.tensor([0.5])

SILENT: dict[str, tuple[Callable[[], Any], str]] = {
    "an offset beyond the input": (lambda: F.embedding_bag(CLASSES, ROWS, sf.tensor([0, 4])), "offsets must begin at 0"),
    "offsets that fall": (lambda: F.embedding_bag(CLASSES, ROWS, sf.tensor([0, 2, 1])), "offsets must begin at 0"),
    "a first offset of 1": (lambda: F.embedding_bag(CLASSES, ROWS, sf.tensor([1, 2])), "offsets must begin at 0"),
    "labels left over": (lambda: F.ctc_loss(SPELT, sf.tensor([1, 2, 3, 1, 1]), [6, 6], [2, 2]), "add up to 4"),
    "labels that lack": (lambda: F.ctc_loss(SPELT, CLASSES, [6, 6], [2, 2]), "add up to 4"),
    "a negative eps": (lambda: F.batch_norm(X, None, None, training=True, eps=-1), "eps is -1"),
    "a negative eps of layers": (lambda: sf.nn.LayerNorm(3, eps=-1e-3)(X), "layer_norm: eps is -0.001"),
    "a negative eps of groups": (lambda: F.group_norm(X, 3, eps=-1.0), "group_norm: eps is -1"),
    "a negative eps of instances": (lambda: F.instance_norm(sf.ones(2, 3, 4), eps=-1), "instance_norm: eps is -1"),
    "a negative eps of squares": (lambda: F.rms_norm(X, (3,), eps=-1), "rms_norm: eps is -1"),
    "a target without dims": (lambda: F.binary_cross_entropy(ONE, sf.tensor(1.0)), r"shape \[1\] and a target of shape \[\]"),
    "a target of logits": (lambda: F.binary_cross_entropy_with_logits(ONE, sf.tensor(1.0)), r"target of shape \[\]"),
    "a symbol of the class Tensor": (lambda: sf.Tensor.item(sf.placeholder((3,), name="x")), "call the method of the symbol"),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_what_could_not_be_right_is_refused(name: str) -> None:
    call, message = SILENT[name]
    with pytest.raises(sf.StaticflowError, match=rf"{message}.*, at \S*test_silent_uses\.py:\d+"):
        call()


@pytest.mark.parametrize("offsets", [[0, 4], [0, 2, 1], [1, 2]], ids=str)
def test_a_program_refuses_offsets_that_the_eager_call_refuses(offsets: list[int]) -> None:
    words, begin = (sf.placeholder((None,), "int64", name=name) for name in ("words", "begin"))
    bags = sf.compile([words, begin], F.embedding_bag(words, ROWS, begin))
    assert bags(CLASSES, sf.tensor([0, 0, 3])).shape == (3, 2)
    with pytest.raises(sf.ArgumentError, match="offsets must begin at 0"):
        bags(CLASSES, sf.tensor(offsets))


def test_pairs_of_an_exchange_may_be_an_array() -> None:
    def from_the_left() -> float:
        mesh = sf.distributed.mesh(data=-1)
        pairs = np.array([(i, i + 1) for i in range(mesh.size - 1)])
        return float(sf.distributed.exchange(sf.tensor(mesh.rank + 5.0), mesh, pairs))

    assert sf.distributed.simulate(from_the_left, 3) == [0.0, 5.0, 6.0]


def test_a_size_that_is_not_squeezed_is_named_without_its_square() -> None:
    x = sf.placeholder((None, None), name="x")
    program = sf.compile([x], x.reshape(-1, 1)[1:].squeeze(0))
    assert program(sf.ones(2, 2)).shape == (3, 1)
    with pytest.raises(sf.ShapeError, match="which stays, is 1") as error:
        program(sf.ones(1, 2))
    assert "x_0*x_0" not in str(error.value)
