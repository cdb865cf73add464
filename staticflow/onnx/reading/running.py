"""A plan run on tensors, now, or on symbols, which writes a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.grad_mode import no_grad
from staticflow.eager.tensor import Tensor
from staticflow.errors import ModelError, StaticflowError
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.plan import GraphPlan, NodePlan, Spec
from staticflow.onnx.reading.rows.random import RANDOM
from staticflow.onnx.reading.rows.row import Row
from staticflow.onnx.reading.table import ROWS
from staticflow.onnx.reading.unbound import bind
from staticflow.onnx.reading.values import Known, Value, as_tensor, as_tensors, read
from staticflow.ops.declaring.tracing import computing

__all__ = ["Body", "run_graph"]

Env = MutableMapping[str, Value]

_MOST_KNOWN = 4096
"""So many elements what is known before the run has at most; more are tensors."""

_STRANGE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError,
    ValueError, NotImplementedError,
)  # fmt: skip
"""What Python and NumPy raise where numbers of a file make no sense."""


@dataclass(frozen=True, slots=True)
class Body:
    """The graph of a loop or branch as a function of its inputs, with the values around it."""

    plan: GraphPlan
    env: Mapping[str, Value]
    symbolic: bool
    file: str

    def __call__(self, *values: Value) -> list[Value]:
        """The outputs, which may be known before the run."""
        return run_graph(self.plan, dict(self.env), values, self.symbolic, self.file)

    @property
    def inputs(self) -> tuple[Spec, ...]:
        """What it takes."""
        return self.plan.inputs

    def tensors(self, *values: Value) -> list[Any]:
        """The outputs as tensors or symbols."""
        return [as_tensors(v, self.symbolic) for v in self(*values)]


def run_graph(
    plan: GraphPlan, env: Env, values: Sequence[Value], symbolic: bool, file: str
) -> list[Value]:
    """The outputs of a graph whose inputs have these ``values``; ``env`` holds what else it sees,
    and is changed. Inputs beyond those that are given have values in ``env`` already, or none."""
    env.update((name, Known(array)) for name, array in plan.constants.items())
    for spec, value in zip(plan.inputs, values, strict=False):
        env[spec.name] = value
    for node in plan.nodes:
        try:
            results = _run_node(node, env, symbolic, file)
        except StaticflowError as error:
            _say_the_node(error, node, file)
            raise
        except _STRANGE as error:
            raise ModelError(
                f"{node.label} of {file} cannot be run: {type(error).__name__}: "
                f"{str(error)[:200]}, at {format_locs(here())}"
            ) from error
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                env[name] = value
        for name in node.over:
            env.pop(name, None)
    return [env.get(spec.name) for spec in plan.outputs]


def _say_the_node(error: StaticflowError, node: NodePlan, file: str) -> None:
    """Name the node in what an operation says is wrong, the innermost alone."""
    if getattr(error, "_node_of_a_model", None) is None and error.args:
        error.args = (f"{error.args[0]}; it is {node.label} of {file}", *error.args[1:])
        error._node_of_a_model = node.label  # type: ignore[attr-defined]


def _run_node(node: NodePlan, env: Env, symbolic: bool, file: str) -> Sequence[Value]:
    given = [None if n is None else env[n] for n in node.given]
    if node.row is None:
        body = node.body
        if body is None:
            assert node.unbound is not None
            body = bind(node.unbound, given, node.attrs)
        missing = len(body.inputs) - len(given)
        return run_graph(body, {}, [*given, *[None] * missing], symbolic, file)
    row = ROWS[node.row]
    named = {role: env[name] for role, name in node.named.items()}
    if row.known is not None:
        found = _compute_known(row.known, row, given, named, node.attrs)
        if found is not NotImplemented:
            return list(found)
    if symbolic and _is_known_now([*given, *named.values()], node):
        with computing(), no_grad():
            return [_as_known(v) for v in _apply(row, node, given, named, env, False, file)]
    return _apply(row, node, given, named, env, symbolic, file)


def _is_known_now(values: Sequence[Value], node: NodePlan) -> bool:
    """Whether a node of a graph that is written computes numbers of numbers, which it then does
    at once: shapes may depend on them."""
    arrays = [v.array for v in values if isinstance(v, Known)]
    return (
        0 < len(arrays) == sum(v is not None for v in values)
        and all(a.dtype != object for a in arrays)
        and sum(a.size for a in arrays) <= _MOST_KNOWN
        and not any(isinstance(v, GraphPlan) for v in node.attrs.values())
        and node.row not in RANDOM
    )


def _as_known(value: Value) -> Value:
    return Known(value.numpy()) if isinstance(value, Tensor) else value


def _apply(
    row: Row, node: NodePlan, given: Sequence[Value], named: Mapping[str, Value], env: Env,
    symbolic: bool, file: str,
) -> Sequence[Value]:  # fmt: skip
    """The results of a row."""
    if row.whole:
        named = {**node.attrs, **named}
        given = list(given)
    else:
        given = [as_tensor(v, symbolic) for v in given]
        read_ = row.static
        named = {k: read(v) if k in read_ else as_tensor(v, symbolic) for k, v in named.items()}
        named = {**node.attrs, **named}
    for role, value in node.attrs.items():
        if isinstance(value, GraphPlan):
            named[role] = Body(value, env, symbolic, file)
    result = row.run(*given, **named)
    return result if isinstance(result, tuple) else (result,)


def _compute_known(
    known: Callable[..., Any], row: Row, given: Sequence[Value], named: Mapping[str, Value],
    attrs: Mapping[str, Any],
) -> Any:  # fmt: skip
    """The results of an operator whose inputs are all known, or NotImplemented."""
    values = [v for v in (*given, *named.values()) if v is not None]
    if not values or not all(isinstance(v, Known) for v in values):
        return NotImplemented
    if sum(v.array.size for v in values) > _MOST_KNOWN:
        return NotImplemented
    arrays = [None if v is None else v.array for v in given]
    by_name = {
        k: read(v) if k in row.static else v.array for k, v in named.items() if v is not None
    }
    try:
        with np.errstate(all="ignore"):
            found = known(*arrays, **attrs, **by_name)
    except (StaticflowError, *_STRANGE):  # a question of sizes that only the run answers
        return NotImplemented
    if found is NotImplemented:
        return found
    several = found if isinstance(found, tuple | list) else (found,)
    if sum(a.size for a in several) > _MOST_KNOWN:
        return NotImplemented
    return [Known(a) for a in several]
