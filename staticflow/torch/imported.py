"""A module of PyTorch, exported, as a module of ours."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import deepcopy
from importlib import import_module as load_module
from typing import Any, NamedTuple, Self

from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.nn.module import Module
from staticflow.nn.parameter import Parameter
from staticflow.ops.symbols.effect import effect, read
from staticflow.ops.symbols.symbol import Symbol
from staticflow.torch.exchange import dtype_from_torch, tensor_from_torch, tensor_to_torch
from staticflow.torch.exporting import decompose, export_program
from staticflow.torch.inputs import Input, check_input, open_size
from staticflow.torch.steps import Steps, read_steps

__all__ = ["Imported", "import_module", "import_program"]


class Part(Module):
    """A module inside of one that was imported: what it holds, under PyTorch's names."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: what a part computes is known of the whole alone."""
        raise ArgumentError(
            "a part of an imported module cannot be called: PyTorch exports the whole; import the "
            f"part by itself with sf.torch.from_module, at {format_locs(here())}"
        )


class Signature(NamedTuple):
    """How an exported program is called: how arguments and results are nested, as trees of PyTorch,
    and what they are; the names of the arguments of the example; the bounds of open sizes."""

    arguments: Any
    results: Any
    inputs: tuple[Input, ...]
    positional: int
    named: tuple[str, ...]
    call: inspect.Signature
    bounds: Mapping[str, tuple[int, float]]

    def __deepcopy__(self, memo: Any) -> Signature:
        """Itself, which nothing changes."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Nestings are pickled as trees of numbers, since PyTorch warns as it unpickles its own."""
        trees = (_trees().tree_unflatten(range(t.num_leaves), t) for t in self[:2])
        return _signature, (*trees, *self[2:])


def _signature(arguments: Any, results: Any, *rest: Any) -> Signature:
    return Signature(*(_trees().tree_flatten(t)[1] for t in (arguments, results)), *rest)


class Imported(Module):
    """A module that was PyTorch's; `from_module` makes it.

    It is as PyTorch exported it, in training or in evaluation, and stays so: `train` refuses the
    other mode.
    """

    def __init__(
        self, kind: str, steps: Steps, signature: Signature, sources: Sequence[Any],
        changes: Sequence[str | None], training: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self._kind, self._steps, self._signature = kind, steps, signature
        self._sources, self._changes = tuple(sources), tuple(changes)
        self.training = training

    def train(self, mode: bool = True) -> Self:
        """Itself, if that is the mode in which it was exported; raises `ArgumentError` for the
        other."""
        if bool(mode) != self.training:
            word = "training" if self.training else "evaluation"
            other = "train" if mode else "eval"
            raise ArgumentError(
                f"{self._kind} was exported in {word}, and an exported program has one mode; call "
                f"{other}() of the module of PyTorch and import it anew, at {format_locs(here())}"
            )
        return self

    def extra_repr(self) -> str:
        """The class that it was, and the mode."""
        return f"of={self._kind}, {'training' if self.training else 'evaluation'}"

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module of PyTorch computes, in the nesting that it gives."""
        given = self._arguments_of_call(args, kwargs)
        beside = next((v for v in given if isinstance(v, Symbol)), None)
        beside = beside if beside is not None else next((v for v in given if _is_ours(v)), None)
        rest = iter(given)
        values = [
            next(rest)
            if path is None
            else path
            if _is_value(path)
            else self._tensor_now(path, beside)
            for path in self._sources
        ]
        outputs = list(self._steps.run(*values))
        changed, results = outputs[: len(self._changes)], outputs[len(self._changes) :]
        for path, new in zip(self._changes, changed, strict=True):
            if path is None:
                continue
            at = next((i for i, r in enumerate(results) if _is_ours(r)), None)
            if at is not None:
                results[at] = effect(results[at], self._tensor(path), new.detach())
        return _trees().tree_unflatten(results, self._signature.results)

    def _tensor(self, path: str) -> Any:
        holder: Any = self
        for name in path.split("."):
            holder = getattr(holder, name)
        return holder

    def _tensor_now(self, path: str, beside: Any) -> Any:
        tensor = self._tensor(path)
        return read(tensor, beside) if path in self._changes and beside is not None else tensor

    def _arguments_of_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments, checked."""
        s = self._signature
        if len(args) != s.positional or kwargs.keys() != set(s.named):
            args, kwargs = self._as_example(args, kwargs)
        leaves, tree = _trees().tree_flatten((args, {n: kwargs[n] for n in s.named}))
        if tree != s.arguments or len(leaves) != len(s.inputs):
            raise ArgumentError(
                f"{self._kind} takes arguments nested as those of the example, {s.arguments}, "
                f"not {tree}, at {format_locs(here())}"
            )
        sizes: dict[str, Any] = {}
        return [
            check_input(self._kind, v, i, sizes, s.bounds)
            for v, i in zip(leaves, s.inputs, strict=True)
        ]

    def _as_example(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the example had them, by position and by name."""
        s, names = self._signature, list(self._signature.call.parameters)
        try:
            bound = s.call.bind(*args, **kwargs).arguments
            return tuple(bound[n] for n in names[: s.positional]), {n: bound[n] for n in s.named}
        except (KeyError, TypeError) as error:
            wanted = ", ".join([*names[: s.positional], *(f"{n}=" for n in s.named)])
            raise ArgumentError(
                f"{self._kind} is called as the example was, with ({wanted}): {error}, "
                f"at {format_locs(here())}"
            ) from None


def _trees() -> Any:
    """PyTorch's functions of nested values."""
    return load_module("torch.utils._pytree")


def _without_annotations(signature: inspect.Signature) -> inspect.Signature:
    """``signature`` without types, which may be of classes that no pickle can name."""
    empty = inspect.Parameter.empty
    plain = [p.replace(annotation=empty) for p in signature.parameters.values()]
    return signature.replace(parameters=plain, return_annotation=empty)


def _is_ours(value: Any) -> bool:
    return hasattr(value, "__sf_mode__")


def _is_value(source: Any) -> bool:
    """Whether a source is what is given itself: a constant of the program, or a token."""
    return not isinstance(source, str)


_GUARDS = "_guards_fn"
"""The part of the module of an exported program that checks arguments, and holds nothing."""

_TOKEN = ()
"""The value of a token. An exported program takes and gives tokens, values without content, by
which PyTorch keeps its checks in order."""


def import_module(
    library: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any,
    copy: bool,
) -> Imported:  # fmt: skip
    """What `from_module` gives."""
    if not isinstance(module, library.nn.Module):
        raise DTypeError(
            "from_module: 'module' must be a torch.nn.Module, or a torch.export.ExportedProgram, "
            f"not {type(module).__name__}, at {format_locs(here())}"
        )
    args, kwargs = _trees().tree_map(
        lambda v: tensor_to_torch(library, v.detach()) if _is_ours(v) else v, (args, kwargs)
    )
    program = export_program(library, module, args, kwargs, dynamic_shapes)
    return _module_of(library, type(module).__name__, module, program, module.training, copy)


def import_program(library: Any, program: Any, copy: bool) -> Imported:
    """What `from_module` gives of an ``ExportedProgram``, which stays as it is."""
    training = _is_of_training(library, program.graph_module)
    decomposed = decompose(library, deepcopy(program))
    module = program.module()
    return _module_of(library, type(program).__name__, module, decomposed, training, copy)


def _is_of_training(library: Any, graph_module: Any) -> bool:
    """Whether an operation of an exported program was told that it is in training."""
    for node in graph_module.graph.nodes:
        if isinstance(node.target, library._ops.OpOverload):
            names = [a.name for a in node.target._schema.arguments]
            given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
            if given.get("train") is True or given.get("training") is True:
                return True
    return False


def _module_of(
    library: Any, kind: str, module: Any, program: Any, training: bool, copy: bool
) -> Imported:
    """A module of the exported ``program``, with the names and the tensors of ``module``."""
    held = _held_tensors(library, module, copy)
    steps = read_steps(library, program.graph_module, {}, f"from_module of {kind}")
    sources, inputs = _sources_of(library, program, held)
    positional, named = program.call_spec.in_spec.children()
    signature = Signature(
        program.call_spec.in_spec, program.call_spec.out_spec, inputs, positional.num_children,
        tuple(named.context), _without_annotations(inspect.signature(module.forward)),
        _bounds_of(program),
    )  # fmt: skip
    out = Imported(kind, steps, signature, sources, _changes_of(program), training)
    _fill_names(out, module, held)
    return out


def _held_tensors(library: Any, module: Any, copy: bool) -> dict[str, Any]:
    """Parameters and buffers of ours by all paths that PyTorch knows them by."""
    found: dict[str, Any] = {}
    by_id: dict[int, Any] = {}
    parameters = module.named_parameters(remove_duplicate=False)
    for path, tensor in (*parameters, *module.named_buffers(remove_duplicate=False)):
        if id(tensor) not in by_id:
            own = tensor_from_torch(tensor)
            own = own.clone() if copy else own
            is_parameter = isinstance(tensor, library.nn.Parameter)
            by_id[id(tensor)] = Parameter(own, tensor.requires_grad) if is_parameter else own
        found[path] = by_id[id(tensor)]
    return found


def _sources_of(
    library: Any, program: Any, held: Mapping[str, Any]
) -> tuple[list[Any], tuple[Input, ...]]:
    """What the graph's placeholders are given: None for an argument, a path, a constant, or a
    token; and the arguments."""
    nodes = {n.name: n for n in program.graph_module.graph.nodes if n.op == "placeholder"}
    sources: list[Any] = []
    inputs: list[Input] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            sources.append(None)
            inputs.append(_input_of(library, spec.arg, nodes.get(spec.arg.name)))
        elif spec.kind.name == "TOKEN":
            sources.append(_TOKEN)
        elif spec.target in held:
            sources.append(spec.target)
        elif spec.target in program.constants:
            sources.append(tensor_from_torch(program.constants[spec.target]).clone())
        else:
            raise ArgumentError(
                f"from_module: the exported program takes {spec.target!r}, "
                f"{with_article(spec.kind.name.lower())}, which has no meaning here, "
                f"at {format_locs(here())}"
            )
    return sources, tuple(inputs)


def _input_of(library: Any, argument: Any, node: Any) -> Input:
    value = node.meta.get("val") if node is not None else None
    if isinstance(value, library.Tensor):
        shape = tuple(n if isinstance(n, int) else open_size(n) for n in value.shape)
        return Input(argument.name, dtype_from_torch(value.dtype), shape, None)
    if isinstance(value, library.SymInt | library.SymFloat):
        raise ArgumentError(
            f"from_module: the argument {argument.name} is a number that is open, and programs "
            f"here take tensors; give a 0-d tensor, at {format_locs(here())}"
        )
    return Input(argument.name, None, None, getattr(argument, "value", value))


def _bounds_of(program: Any) -> dict[str, tuple[int, float]]:
    """What open sizes must be at least, and at most. The 2 that PyTorch assumes of each stands for
    nothing, as no operation here does otherwise for 0 or 1."""
    found: dict[str, tuple[int, float]] = {}
    for symbol, bound in program.range_constraints.items():
        low = int(bound.lower)
        high = int(bound.upper) if _is_finite(bound.upper) else float("inf")
        if low > 2 or high != float("inf"):
            found[str(symbol)] = (low if low > 2 else 0, high)
    return found


def _is_finite(bound: Any) -> bool:
    """Whether an upper bound is a number, and not the largest that PyTorch has."""
    return bool(bound.is_Integer) and int(bound) < (1 << 62)


def _changes_of(program: Any) -> list[str | None]:
    """The buffers whose new values are the first outputs, and None for each token among these.
    Raises `ArgumentError` for a program that changes its arguments."""
    found: list[str | None] = []
    for spec in program.graph_signature.output_specs:
        kind = spec.kind.name
        if kind == "BUFFER_MUTATION":
            found.append(spec.target)
        elif kind == "TOKEN":
            found.append(None)
        elif kind != "USER_OUTPUT":
            what = "parameter" if kind == "PARAMETER_MUTATION" else "argument"
            advice = (
                "an exported program keeps no gradient of it, and torch.compile(..., "
                'backend="staticflow") does'
                if what == "parameter"
                else "let it give back the new value"
            )
            raise ArgumentError(
                f"from_module: the module changes its {what} {spec.target!r} in place; {advice}, "
                f"at {format_locs(here())}"
            )
    return found


def _fill_names(out: Imported, module: Any, held: Mapping[str, Any]) -> None:
    """Hold what ``module`` holds, under its names."""
    for path, _ in module.named_modules(remove_duplicate=False):
        if path and path != _GUARDS:
            holder, _, name = path.rpartition(".")
            part = Part()
            part.training = out.training
            _at(out, holder).add_module(name, part)
    for path, inner in module.named_modules(remove_duplicate=False):
        if path == _GUARDS:
            continue
        own = _at(out, path)
        for name in (*inner._parameters, *inner._buffers):
            tensor = held.get(f"{path}.{name}" if path else name)
            if tensor is None:
                continue
            if isinstance(tensor, Parameter):
                own.register_parameter(name, tensor)
            else:
                own.register_buffer(name, tensor, name not in inner._non_persistent_buffers_set)


def _at(module: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        module = getattr(module, name)
    return module
