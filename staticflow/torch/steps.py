"""Graphs of PyTorch's ``fx`` as steps, each a function of the table on values of earlier ones."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from staticflow.data_classes import dataclass
from staticflow.eager.grad_mode import set_grad_enabled
from staticflow.errors import StaticflowError, SymbolicError
from staticflow.graph.dims import Dim
from staticflow.graph.locs import format_locs, here
from staticflow.ops.loops.cond import cond
from staticflow.ops.symbols.real_sizes import number_of_size
from staticflow.torch.exchange import dtype_from_torch, tensor_from_torch
from staticflow.torch.strides import function_of_strides
from staticflow.torch.table import BY_MEMORY, IGNORED, ROWS, why_refused

__all__ = ["Steps", "read_steps"]

_MEANINGLESS = frozenset(
    {
        "device", "layout", "pin_memory", "memory_format", "non_blocking", "implicit", "sparse",
        "sparse_grad",
    }
)  # fmt: skip
"""Arguments of ATen that say where and how elements lie, which is not said here."""

_SHOWN = 30
"""Up to how many operations without a meaning an error lists."""


class Ref(NamedTuple):
    """The value of an earlier step, by its name."""

    name: str


class Step(NamedTuple):
    """``name = fn(*args, **kwargs)``, asked for by ``line`` of the user's; after it the values
    ``last`` are read no more."""

    name: str
    fn: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    op: str
    line: str
    last: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        """A row of the table is pickled by the name of its operation."""
        fn = None if ROWS.get(self.op) is self.fn else self.fn
        return _step, (self.name, fn, *self[2:])


def _step(name: str, fn: Any, args: Any, kwargs: Any, op: str, *rest: Any) -> Step:
    return Step(name, ROWS[op] if fn is None else fn, args, kwargs, op, *rest)


@dataclass(frozen=True, slots=True)
class Steps:
    """A graph of ``fx``: its ``inputs`` by name, its steps, and its ``outputs``, refs and constants
    in the nesting that the graph gives."""

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    outputs: Any

    def run(self, *given: Any) -> Any:
        """The outputs of the inputs ``given``, tensors or symbols, sizes and numbers."""
        values = dict(zip(self.inputs, given, strict=True))
        for step in self.steps:
            try:
                args = _fill(step.args, values)
                kwargs = {k: _fill(v, values) for k, v in step.kwargs.items()}
                values[step.name] = step.fn(*args, **kwargs)
            except StaticflowError as error:
                raise type(error)(f"{error}; of {step.op}, {step.line}") from error
            for name in step.last:
                values.pop(name, None)
        return _fill(self.outputs, values)


def _fill(tree: Any, values: Mapping[str, Any]) -> Any:
    """``tree`` with values in the place of refs."""
    if type(tree) is Ref:
        value = values[tree.name]
        return value() if type(value) is partial else value
    if type(tree) in (tuple, list):
        return type(tree)(_fill(v, values) for v in tree)
    return (
        slice(*(_fill(v, values) for v in (tree.start, tree.stop, tree.step)))
        if (type(tree) is slice)
        else tree
    )


def read_steps(library: Any, module: Any, attributes: Mapping[str, Any], what: str) -> Steps:
    """The steps of ``module``, a ``GraphModule`` whose tensors are ``attributes`` by their names.

    Raises `SymbolicError`, in the name of ``what``, that lists every operation without a row, the
    lines that ask for it, and why there is none.
    """
    unknown = list(dict.fromkeys(_unknown_in(library, module)))
    if unknown:
        shown = "".join(f"\n  {op}, {line}: {why_refused(op)}" for op, line in unknown[:_SHOWN])
        more = f"\n  and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        raise SymbolicError(
            f"{what}: {len(unknown)} uses of operations that have no meaning here:{shown}{more}\n"
            "write these lines by other operations, or compute them outside of the module, "
            f"at {format_locs(here())}"
        )
    return _Reader(library, attributes).read(module)


def _unknown_in(library: Any, module: Any) -> Iterator[tuple[str, str]]:
    """The operations of a graph, and of those in it, that have no row, with their lines."""
    for node in module.graph.nodes:
        if node.op == "get_attr":
            inner = _attribute(module, node.target)
            if hasattr(inner, "graph"):
                yield from _unknown_in(library, inner)
        elif node.op == "call_function" and not _is_known(library, node):
            yield str(node.target), _line_of(node)


def _is_known(library: Any, node: Any) -> bool:
    target = node.target
    name = str(target)
    if name == "with_effects":
        return str(node.args[1]) in IGNORED
    if name in ROWS or name in IGNORED or _function_of(library, target) is not None:
        return True
    return function_of_strides(node) is not None


def _line_of(node: Any) -> str:
    """The last line outside of PyTorch that asked for a node, else the last of all."""
    trace = node.meta.get("stack_trace") or ""
    lines = [text.strip() for text in trace.splitlines() if text.strip().startswith("File ")]
    own = [text for text in lines if not _is_of_torch(text)] or lines
    if not own:
        return "by no line that is known"
    file, line = own[-1].split(", ")[:2]
    return f"asked for at {file.removeprefix('File ').strip(chr(34))}:{line.removeprefix('line ')}"


def _is_of_torch(text: str) -> bool:
    parts = Path(text.split('"')[1]).parts if '"' in text else ()
    return "torch" in parts


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _sym_sum(values: Sequence[Any]) -> Any:
    return sum(values)


def _sym_float(value: Any) -> Any:
    return number_of_size(value) if isinstance(value, Dim) else float(value)


def _sym_max(a: Any, b: Any) -> Any:
    return max(a, b)


def _sym_min(a: Any, b: Any) -> Any:
    return min(a, b)


_OF_SIZES = {
    "sym_sum": _sym_sum, "sym_float": _sym_float, "sym_max": _sym_max, "sym_min": _sym_min,
    "sym_not": operator.not_,
}  # fmt: skip
"""Functions of sizes that PyTorch has beside Python's operators."""


def _with_grad_enabled(enabled: bool, inner: Steps, *args: Any) -> Any:
    with set_grad_enabled(enabled):
        return inner.run(*args)


def _cond(predicate: Any, yes: Steps, no: Steps, operands: Sequence[Any] = ()) -> Any:
    return cond(predicate, yes.run, no.run, *operands)


def _with_effects(token: Any, target: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """A check, which is ignored, in the order that the token keeps."""
    return (token,)


_HIGHER = {
    "with_effects": _with_effects,
    "wrap_with_set_grad_enabled": _with_grad_enabled,
    "cond": _cond,
}
"""What takes graphs."""


def _function_of(library: Any, target: Any) -> Any:
    """The function of a target that has no row: of sizes, or one that takes graphs; else None."""
    if str(target) in _HIGHER:
        return _HIGHER[str(target)]
    module = getattr(target, "__module__", "")
    name = getattr(target, "__name__", "")
    if module in ("_operator", "math"):
        return target
    if getattr(library, name, None) is target or module == "torch.fx.experimental.sym_node":
        return _OF_SIZES.get(name)
    return None


class _Reader:
    """Reads graphs whose tensors are ``attributes``."""

    def __init__(self, library: Any, attributes: Mapping[str, Any]) -> None:
        self._library = library
        self._attributes = attributes
        self._held: dict[str, Any] = {}

    def read(self, module: Any) -> Steps:
        """The steps of a graph; what no output needs, as checks of sizes are, is left out."""
        nodes = list(module.graph.nodes)
        needed = self._nodes_for_outputs(nodes)
        last_use: dict[str, str] = {}
        for node in nodes:
            if node in needed and node.op == "call_function":
                last_use |= {n.name: node.name for n in node.all_input_nodes}
        kept = {n.name for node in nodes if node.op == "output" for n in node.all_input_nodes}
        self._held = {}
        inputs, steps, outputs = [], [], None
        for node in nodes:
            if node.op == "placeholder":
                inputs.append(node.name)
            elif node.op == "get_attr":
                self._held[node.name] = self._attribute(module, node.target)
            elif node.op == "output":
                outputs = self._template(node.args[0])
            elif node in needed:
                ended = [n for n, by in last_use.items() if by == node.name and n not in kept]
                steps.append(self._step(node, tuple(ended)))
        return Steps(tuple(inputs), tuple(steps), outputs)

    @staticmethod
    def _nodes_for_outputs(nodes: Sequence[Any]) -> set[Any]:
        waiting = [n for n in nodes if n.op == "output"]
        found = set(waiting)
        while waiting:
            fresh = [n for n in waiting.pop().all_input_nodes if n not in found]
            found.update(fresh)
            waiting.extend(fresh)
        return found

    def _attribute(self, module: Any, path: str) -> Any:
        if path in self._attributes:
            return self._attributes[path]
        inner = _attribute(module, path)
        if hasattr(inner, "graph"):
            return _Reader(self._library, self._attributes).read(inner)
        modes = import_module("torch.utils._python_dispatch")
        with modes._disable_current_modes():  # AOT autograd's, in which no tensor has values
            return tensor_from_torch(inner).clone()

    def _step(self, node: Any, last: tuple[str, ...]) -> Step:
        name = str(node.target)
        fn = ROWS.get(name) or _function_of(self._library, node.target) or function_of_strides(node)
        args, kwargs = node.args, node.kwargs
        if name in ROWS and hasattr(node.target, "_schema"):
            schema = [a.name for a in node.target._schema.arguments]
            args = tuple(
                a for a, said in zip(args, schema, strict=False) if said not in _MEANINGLESS
            )
        template = tuple(self._template(a) for a in args)
        named = {k: self._template(v) for k, v in kwargs.items() if k not in _MEANINGLESS}
        if name in BY_MEMORY:
            named["contiguous"] = args[0].meta["val"].is_contiguous()
        return Step(node.name, fn, template, named, name, _line_of(node), last)

    def _template(self, value: Any) -> Any:
        """An argument, in which refs stand for nodes and dtypes of ours for PyTorch's."""
        if hasattr(value, "op") and hasattr(value, "all_input_nodes"):
            return self._held[value.name] if value.name in self._held else Ref(value.name)
        if isinstance(value, list | tuple):
            return (tuple if type(value) is tuple else list)(map(self._template, value))
        if isinstance(value, slice):
            return slice(*map(self._template, (value.start, value.stop, value.step)))
        if isinstance(value, self._library.dtype):
            return dtype_from_torch(value)
        return value
