"""Dicts that come out have their keys in the order in which they went in, or were written, wherever
trees go, as in PyTorch: ``zip(parameters.values(), gradients.values())`` pairs what belongs
together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import staticflow as sf

KEYS = ("weight", "bias", "a")


def _made(order: tuple[str, ...] = KEYS) -> dict[str, Any]:
    return {k: sf.ones(2) * float(len(k)) for k in order}


def _total(tree: dict[str, Any]) -> Any:
    return sum(v.sum() * v.sum() for v in tree.values())


def _same(*tree: Any) -> Any:
    return dict(tree[-1])


WAYS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "grad": sf.func.grad(_total),
    "grad_and_value": lambda t: sf.func.grad_and_value(_total)(t)[0],
    "vjp": lambda t: sf.func.vjp(_total, t)[1](sf.tensor(1.0))[0],
    "vjp, value": lambda t: sf.func.vjp(_same, t)[0],
    "jvp": lambda t: sf.func.jvp(_same, (t,), (t,))[1],
    "linearize": lambda t: sf.func.linearize(_same, t)[1](t),
    "jacrev": sf.func.jacrev(_total),
    "jacrev of a dict": lambda t: sf.func.jacrev(_same)(t)["bias"],
    "jacrev, value": sf.func.jacrev(_same),
    "jacfwd": lambda t: sf.func.jacfwd(_same)(t)["a"],
    "hessian": lambda t: sf.func.hessian(_total)(t)["weight"],
    "vmap": sf.vmap(_same),
    "vmap of grad": sf.vmap(sf.func.grad(_total)),
    "jit": sf.jit(_same),
    "jit of grad": sf.jit(sf.func.grad(_total)),
    "scan": lambda t: sf.scan(lambda c, x: (_same(c), None), t, sf.ones(3))[0],
    "scan, results": lambda t: sf.scan(lambda c, x: (c, _same(t)), 0.0, sf.ones(3))[1],
    "while_loop": lambda t: sf.while_loop(lambda i, c: i < 2, lambda i, c: (i + 1, c), (0, t))[1],
    "fori_loop": lambda t: sf.fori_loop(0, 2, _same, t),
    "map": lambda t: sf.map(_same, t),
    "cond": lambda t: sf.cond(sf.tensor(True), _same, _same, t),
    "switch": lambda t: sf.switch(sf.tensor(1), [_same, _same], t),
    "associative_scan": lambda t: sf.associative_scan(_same, t),
    "checkpoint": lambda t: sf.utils.checkpoint.checkpoint(_same, t, use_reentrant=False),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", [KEYS, KEYS[::-1], ("bias", "weight", "a")])
def test_the_order_of_keys_stays(way: str, order: tuple[str, ...]) -> None:
    given = _made(order)
    assert tuple(WAYS[way](given)) == order, "eagerly"
    traced = sf.jit(lambda *values: WAYS[way](dict(zip(order, values, strict=True))))
    assert tuple(traced(*given.values())) == order, "traced"


def test_a_dict_written_anew_has_the_order_in_which_it_is_written() -> None:
    def turned(t: dict[str, Any]) -> dict[str, Any]:
        return {k: t[k] for k in KEYS[::-1]}

    for way in (turned, sf.jit(turned), sf.vmap(turned), lambda t: sf.func.vjp(turned, t)[0]):
        assert tuple(way(_made())) == KEYS[::-1]


def test_jit_traces_anew_for_another_order() -> None:
    """What a function computes may depend on the order: one trace for both would be wrong."""
    first = sf.jit(lambda t: next(iter(t.values())) * 1)
    assert first(_made()).tolist() == [6.0, 6.0]
    assert first(_made(KEYS[::-1])).tolist() == [1.0, 1.0]
    assert first(_made()).tolist() == [6.0, 6.0]
    assert first.trace_count == 2


def test_outputs_of_a_program_and_of_its_file(tmp_path: Path) -> None:
    x = sf.placeholder((None,), name="x")
    step = sf.compile([x], {"z": x + 1, "inner": {"b": x, "a": x * 2}, "c": x * 3})
    step.save(tmp_path / "step")
    for program in (step, sf.load_program(tmp_path / "step")):
        out = program(sf.ones(2))
        assert tuple(out) == ("z", "inner", "c") and tuple(out["inner"]) == ("b", "a")
        assert out["inner"]["a"].tolist() == [2.0, 2.0] and out["z"].tolist() == [2.0, 2.0]


def test_a_loop_takes_a_carry_in_another_order() -> None:
    def body(c: dict[str, Any], x: Any) -> tuple[dict[str, Any], None]:
        return {k: c[k] + x for k in KEYS[::-1]}, None

    last, _ = sf.scan(body, _made(), sf.ones(3))
    assert {k: v[0].item() for k, v in last.items()} == {k: len(k) + 3.0 for k in KEYS}


def test_keys_that_have_no_order() -> None:
    given = {"a": sf.ones(2), 1: sf.ones(2), (2, "b"): sf.ones(2)}
    assert list(sf.func.grad(_total)(given)) == list(given)
    tensors = {sf.ones(2): sf.ones(2), sf.zeros(2): sf.ones(2)}
    assert list(map(id, sf.vmap(_same)(tensors))) == list(map(id, tensors))
