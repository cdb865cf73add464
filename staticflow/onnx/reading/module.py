"""A model of ONNX as a module: its initializers parameters and buffers, its nodes the forward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from staticflow.eager.creation import from_numpy
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, DTypeError, ModelError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.module import Module
from staticflow.nn.parameter import Parameter
from staticflow.onnx.reading.arrays import Array
from staticflow.onnx.reading.plan import GraphPlan, Spec
from staticflow.onnx.reading.roles import names_read, roles_of
from staticflow.onnx.reading.running import run_graph
from staticflow.onnx.reading.values import Known, as_tensors
from staticflow.ops.symbols.symbol import Symbol
from staticflow.static.inputs import placeholder

__all__ = ["Model"]


class Model(Module):
    """A model of ONNX that `load` has read.

    Its forward takes a tensor or symbol for each input of the file, in their order or by name, and
    gives the one output, or a tuple of all. Inputs for which the file has a value may be left out.
    Initializers of a floating dtype are parameters, others buffers, under the names of the file;
    what a batch norm keeps of its rows, numbers of no dims and what a ``Constant`` node holds are
    buffers, and numbers that shapes are made of are constants.
    """

    def __init__(self, plan: GraphPlan, file: str, kinds: Mapping[str, str]) -> None:
        super().__init__()
        self._plan, self._file = plan, file
        roles = roles_of(plan, kinds)
        self._constants = {n: a for n, a in plan.constants.items() if roles[n] == "constant"}
        self._places: dict[str, tuple[Module, str]] = {}
        for name, array in plan.constants.items():
            if roles[name] != "constant":
                self._hold(name, array, roles[name] == "parameter")
        self._taken = tuple(s for s in plan.inputs if s.name not in plan.constants)

    def _hold(self, name: str, array: Array, trained: bool) -> None:
        """Hold an initializer where its name says, dots leading to modules inside."""
        module: Module = self
        *path, last = _steps(self, name)
        for step in path:
            inner = vars(module).get(step)
            if inner is None:
                inner = Part()
                module.add_module(step, inner)
            module = inner
        while hasattr(module, last):
            last += "_"
        if trained:
            module.register_parameter(last, Parameter(from_numpy(array)))
        else:
            module.register_buffer(last, from_numpy(array))
        self._places[name] = module, last

    # -- what it takes -----------------------------------------------------------------------------

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs that must be given."""
        return tuple(s.name for s in self._taken)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(s.name for s in self._plan.outputs)

    @property
    def number_names(self) -> tuple[str, ...]:
        """The names of the inputs that nodes read as numbers, as axes and shapes are. A graph is
        written of numbers that are known: called with symbols, give these as tensors. Those that
        are sizes may be symbols, too."""
        read = names_read(self._plan)
        return tuple(s.name for s in self._taken if s.name in read)

    def placeholders(self) -> tuple[Symbol, ...]:
        """A placeholder for each input that must be given, of the dtype and shape that the file
        says: a size that has a name there is one unknown size wherever the name stands.

        Raises `ModelError` where the file does not say the dtype or the number of dims.
        """
        names: dict[str, str] = {}
        taken: set[str] = set()
        found = []
        for spec in self._taken:
            if spec.dtype is None or spec.shape is None:
                raise ModelError(
                    f"onnx.load: {self._file} does not say the type of its input {spec.name!r}; "
                    f"make a placeholder of your own, at {format_locs(here())}"
                )
            shape = tuple(_identifier(d, names) if isinstance(d, str) else d for d in spec.shape)
            name = _fresh(spec.name, taken)
            taken.add(name)
            found.append(placeholder(shape, spec.dtype, name=name))
        return tuple(found)

    # -- what it computes --------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs for these inputs."""
        values = self._inputs_of(args, kwargs)
        symbolic = any(isinstance(v, Symbol) for v in values.values())
        env: dict[str, Any] = {n: Known(a) for n, a in self._constants.items()}
        for name, (module, attribute) in self._places.items():
            env[name] = getattr(module, attribute)
        env.update(values)
        plan = self._plan
        inner = GraphPlan(plan.name, (), plan.outputs, plan.nodes)
        found = [as_tensors(v, symbolic) for v in run_graph(inner, env, (), symbolic, self._file)]
        return found[0] if len(found) == 1 else tuple(found)

    def _inputs_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by name, held to what the file says of them."""
        values = dict(zip((s.name for s in self._taken), args, strict=False))
        known = {s.name for s in self._plan.inputs}
        names = ", ".join(self.input_names) or "no input"
        if len(args) > len(self._taken):
            raise ArgumentError(
                f"{self._title()}: takes {names}, and was given {len(args)} tensors, at "
                f"{format_locs(here())}"
            )
        for name, value in kwargs.items():
            if name not in known or name in values:
                why = "is given twice" if name in values else "is no input of the file"
                raise ArgumentError(
                    f"{self._title()}: {name!r} {why}; it takes {names}, at {format_locs(here())}"
                )
            values[name] = value
        missing = [s.name for s in self._taken if s.name not in values]
        if missing:
            raise ArgumentError(
                f"{self._title()}: lacks {', '.join(missing)}; it takes {names}, at "
                f"{format_locs(here())}"
            )
        by_name = {s.name: s for s in self._plan.inputs}
        return {n: self._check_input(by_name[n], v) for n, v in values.items()}

    def _check_input(self, spec: Spec, value: Any) -> Any:
        if value is None and spec.dtype is None:
            return None
        if isinstance(value, list):
            return [self._check_input(Spec(spec.name, None, None), v) for v in value]
        if isinstance(value, np.ndarray | np.generic):
            value = from_numpy(np.array(value))
        if not isinstance(value, Tensor | Symbol):
            raise DTypeError(
                f"{self._title()}: the input {spec.name!r} is {type(value).__name__}; give a "
                f"tensor, an array or a symbol, at {format_locs(here())}"
            )
        if spec.dtype is not None and value.dtype is not spec.dtype:
            raise DTypeError(
                f"{self._title()}: the input {spec.name!r} is {value.dtype}; the file takes "
                f"{spec.dtype}: convert it, as in x.to(sf.{spec.dtype.name}), at "
                f"{format_locs(here())}"
            )
        if spec.shape is not None and not _fits(value.shape, spec.shape):
            raise ShapeError(
                f"{self._title()}: the input {spec.name!r} has the shape {list(value.shape)}; the "
                f"file takes {spec}, at {format_locs(here())}"
            )
        return value

    def _title(self) -> str:
        return f"Model of {self._file}"

    def extra_repr(self) -> str:
        """The file, what it takes and gives, and how many nodes it has."""
        lines = [f"{self._file}, {self._plan.weight} nodes"]
        lines.append("takes " + (", ".join(map(str, self._taken)) or "nothing"))
        lines.append("gives " + ", ".join(map(str, self._plan.outputs)))
        return "\n".join(lines)


class Part(Module):
    """What stands under one part of the names of a file."""


def _steps(root: Module, name: str) -> list[str]:
    """The path that a name is; one step where dots do not lead to modules."""
    steps = name.split(".")
    if len(steps) > 32 or not all(steps):
        return [name.replace(".", "_")]
    module: Any = root
    for step in steps[:-1]:
        inner = vars(module).get(step) if module is not None else None
        if module is not None and inner is None and hasattr(module, step):
            return [name.replace(".", "_")]
        if inner is not None and not isinstance(inner, Part):
            return [name.replace(".", "_")]
        module = inner
    return steps


def _fits(shape: Iterable[Any], declared: tuple[int | str | None, ...]) -> bool:
    """Whether sizes may be those that are declared: unknown ones are looked at as they meet."""
    sizes = list(shape)
    if len(sizes) != len(declared):
        return False
    return all(
        not (type(n) is int and isinstance(d, int)) or n == d
        for n, d in zip(sizes, declared, strict=True)
    )


def _identifier(name: str, names: dict[str, str]) -> str:
    """The name of an unknown size as Python takes it, no two of them one."""
    if name not in names:
        names[name] = _fresh(name, set(names.values()))
    return names[name]


def _fresh(name: str, taken: set[str]) -> str:
    text = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)[:60]
    text = text if text and not text[0].isdigit() else f"_{text}"
    found, count = text, 2
    while found in taken:
        found, count = f"{text}_{count}", count + 1
    return found
