"""An eager step on a large parameter: the whole update rule as one op, run as one native kernel.

In ops of their own, each a pass over the memory, a step of Adam costs some twenty times as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from staticflow import pytree
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType, Type

__all__ = ["LARGE", "at_once"]

LARGE = 1 << 16
"""Elements from which on a kernel, which takes some 100 ms to make, is worth it."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which rule it is, and what its operands after the parameter and the gradient are called:
    the state, and then the hyperparameters that are numbers."""

    optimizer: Any
    state: tuple[str, ...]
    hyper: pytree.TreeDef
    bools: tuple[str, ...]


def at_once(
    optimizer: type,
    param: Any,
    grad: Any,
    state: Mapping[str, Any],
    hyper: Mapping[str, Any],
    bools: tuple[str, ...],
) -> tuple[Any, dict[str, Any]]:
    """The new parameter and the new state, by the rule of a subclass of `Optimizer`. ``hyper`` are
    the variables, so that other values compile nothing."""
    variables, structure = pytree.flatten(dict(hyper))
    rule = _Rule(optimizer, tuple(state), structure, bools)
    results = _step(param, grad, *state.values(), *variables, rule=rule)
    if not state:
        return results, {}
    value, *after = results
    return value, dict(zip(state, after, strict=True))


def _infer(
    facts: Facts, param: TensorType, grad: TensorType, *rest: TensorType, rule: _Rule
) -> Type:
    for a, b in zip(param.shape, grad.shape, strict=True):
        facts.equal(a, b, f"the gradient {grad} is of the shape of {param}")
    return (param, *rest[: len(rule.state)]) if rule.state else param


def _decompose(param: Any, grad: Any, *rest: Any, rule: _Rule) -> Any:
    count = len(rule.state)
    state = dict(zip(rule.state, rest, strict=False))
    hyper = pytree.unflatten(rule.hyper, rest[count:]) | dict.fromkeys(rule.bools, True)
    value, after = rule.optimizer.on_symbols(param, grad, state, hyper)
    return (value, *(after.get(n, state[n]) for n in rule.state)) if rule.state else value


def _unused(*_: Any, **__: Any) -> Any:
    raise AssertionError("a step is computed by its kernel")


_step = Op(
    name="optimizer_step",
    doc="A step of an optimiser: the new parameter, and the new state.",
    infer=_infer,
    reference=_unused,
    vjp=None,
    decompose=_decompose,
    eager="native",
)
