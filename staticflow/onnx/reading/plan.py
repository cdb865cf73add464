"""What a file says, checked and ready to run: graphs of nodes whose rows are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType
from staticflow.onnx.reading.arrays import Array

__all__ = ["GraphPlan", "NodePlan", "Spec"]


@dataclass(frozen=True, slots=True)
class Spec:
    """An input or output as a file declares it: its name; its dtype, None where that is not said;
    and its shape, a number, name or None for each dim, or None where that is not said."""

    name: str
    dtype: DType | None
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        if self.dtype is None:
            return self.name
        sizes = (
            "..."
            if self.shape is None
            else ", ".join("?" if d is None else str(d) for d in self.shape)
        )
        return f"{self.name}: {self.dtype}[{sizes}]"


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: the row that says it, and the names of values that are the row's arguments.

    ``row`` is the key of the row, None for a function, which is its ``body``, or the ``unbound``
    node whose body depends on the types of its inputs. ``given`` are positional arguments and
    ``named`` those by name, None for an input that is left out; ``attrs`` are values. After the
    node nobody reads the values ``over``.
    """

    label: str
    row: str | None
    given: tuple[str | None, ...]
    named: Mapping[str, str]
    attrs: Mapping[str, Any]
    outputs: tuple[str, ...]
    body: GraphPlan | None = None
    unbound: bytes | None = None
    over: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of all values that are arguments."""
        return (*(n for n in self.given if n is not None), *self.named.values())


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """A graph: the names of its inputs and outputs, its nodes in an order in which they run, the
    values that it holds itself, the names that it takes of the graphs around it, and how many nodes
    there are in all, those of functions and inner graphs included."""

    name: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    nodes: tuple[NodePlan, ...]
    constants: Mapping[str, Array] = field(default_factory=dict)
    captured: frozenset[str] = frozenset()
    weight: int = 0
