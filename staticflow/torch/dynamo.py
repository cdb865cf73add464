"""Graphs that ``torch.compile`` finds, as programs of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from staticflow.eager.creation import full
from staticflow.eager.tensor import Tensor
from staticflow.errors import DeviceError
from staticflow.graph.dims import Dim
from staticflow.graph.locs import format_locs, here
from staticflow.nn.module import Module
from staticflow.ops.basics.arithmetic import clone
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.order import check_numerics, choose_passes
from staticflow.static.compile import compile
from staticflow.static.inputs import placeholder
from staticflow.torch.exchange import ArraysFromTorch, dtype_from_torch, tensor_to_torch
from staticflow.torch.steps import Ref, Steps, read_steps

__all__ = ["compile_differentiated"]


def compile_differentiated(
    library: Any, graph: Any, example_inputs: Sequence[Any], options: Mapping[str, Any]
) -> Callable[..., Any]:
    """What `backend` gives, compiled with the ``options`` of `compile`."""
    check_numerics(options.get("numerics", "strict"))
    choose_passes(options.get("passes"))
    aot = import_module("torch._dynamo.backends.common").aot_autograd
    attention = import_module("torch.nn.attention")
    decompositions = import_module("torch._decomp").core_aten_decompositions()

    def compile_graph(inner: Any, inputs: Sequence[Any]) -> Any:
        call = _Graph(library, inner, options)
        return import_module("torch._functorch.aot_autograd").make_boxed_func(call)

    with attention.sdpa_kernel(attention.SDPBackend.MATH):  # which is written in core ATen
        made: Callable[..., Any] = aot(
            fw_compiler=compile_graph, bw_compiler=compile_graph, decompositions=decompositions
        )(graph, example_inputs)
    return made


class _Traced(Module):
    """The steps as a module, so that what they draw belongs to the program."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps

    def forward(self, *values: Any) -> Any:
        """The outputs of the steps."""
        return self._steps.run(*values)


class _Graph:
    """A graph of AOT autograd: for each set of numbers among its inputs that are no size of a
    tensor, a program, compiled as it is first called."""

    def __init__(self, library: Any, graph: Any, options: Mapping[str, Any]) -> None:
        self._library, self._options = library, options
        self._steps = read_steps(library, graph, {}, "torch.compile")
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        self._inputs: list[Any] = [None if _is_token(n) else n.meta["val"] for n in placeholders]
        self._programs: dict[tuple[Any, ...], Callable[..., list[Any]]] = {}
        for value in self._inputs:
            if isinstance(value, library.Tensor):
                dtype_from_torch(value.dtype)
                if value.device.type != "cpu":
                    raise DeviceError(
                        f"torch.compile: the tensors are on {value.device}, and this backend "
                        f"takes those on the CPU; call .cpu() first, at {format_locs(here())}"
                    )
        tensors = (v for v in self._inputs if isinstance(v, library.Tensor))
        self._sizes = {_name_of(n) for v in tensors for n in v.shape} - {None}
        self._numbers = [
            i for i, v in enumerate(self._inputs) if not self._is_tensor(v) and not self._is_size(v)
        ]

    def __call__(self, *args: Any) -> Any:
        key = tuple(args[i] for i in self._numbers)
        if key not in self._programs:
            self._programs[key] = self._compile(args)
        return self._programs[key](args)

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._library.Tensor)

    def _is_size(self, value: Any) -> bool:
        """Whether a number is the size of a tensor that is an input, too."""
        return _name_of(value) in self._sizes

    def _compile(self, args: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
        """What gives the outputs; numbers that are no sizes are those of ``args``."""
        symbols: list[Symbol] = []
        sizes: dict[Any, Any] = {}
        for value in self._inputs:
            if self._is_tensor(value):
                names = [n if isinstance(n, int) else _name_of(n) for n in value.shape]
                name = f"x{len(symbols)}"
                symbols.append(placeholder(names, dtype_from_torch(value.dtype), name))
                sizes |= dict(zip(names, symbols[-1].shape, strict=True))
        rest = iter(symbols)
        values = [
            next(rest) if self._is_tensor(v) else sizes[_name_of(v)] if self._is_size(v) else a
            for v, a in zip(self._inputs, args, strict=True)
        ]
        if not symbols:
            return self._eager
        found = _Traced(self._steps)(*values)
        return self._caller(symbols, list(found))

    def _eager(self, args: Sequence[Any]) -> list[Any]:
        """The outputs of a graph that takes no tensors."""
        found = self._steps.run(*args)
        return [tensor_to_torch(self._library, v) if isinstance(v, Tensor) else v for v in found]

    def _caller(
        self, symbols: Sequence[Symbol], found: Sequence[Any]
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """A program that gives what of ``found`` is computed; what is an input is handed on."""
        places = {name: i for i, name in enumerate(self._steps.inputs)}
        handed = {
            i: places[ref.name]
            for i, ref in enumerate(self._steps.outputs)
            if type(ref) is Ref and ref.name in places
        }
        computed = {
            i: full((), v) if isinstance(v, Dim) else clone(v) if isinstance(v, Tensor) else v
            for i, v in enumerate(found)
            if i not in handed and isinstance(v, Symbol | Tensor | Dim)
        }
        numbers = {i for i in computed if isinstance(found[i], Dim)}
        outputs = list(computed.values())
        program = compile(list(symbols), outputs, **self._options) if computed else None
        tensors = [i for i, v in enumerate(self._inputs) if self._is_tensor(v)]
        library, arrays_of = self._library, ArraysFromTorch(self._library, len(tensors))

        def call(args: Sequence[Any]) -> list[Any]:
            out = list(found)
            if program is not None:
                arrays = arrays_of([args[i] for i in tensors])
                for i, value in zip(computed, program(*arrays), strict=True):
                    out[i] = value.item() if i in numbers else tensor_to_torch(library, value)
            for i, place in handed.items():
                out[i] = args[place]
            return out

        return call


def _is_token(placeholder: Any) -> bool:
    """Whether an input is what keeps checks in order: None, when the graph is called."""
    users = list(placeholder.users)
    ordered = (str(n.target) == "with_effects" and n.args[0] is placeholder for n in users)
    return bool(users) and all(ordered)


def _name_of(size: Any) -> str | None:
    """The name of an open size of PyTorch that is a single symbol; None for what is computed."""
    expression = getattr(getattr(size, "node", None), "expr", None)
    return str(expression) if expression is not None and expression.is_Symbol else None
