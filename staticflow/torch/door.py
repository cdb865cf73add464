"""Modules of PyTorch taken over: the door, behind which the rest is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.locs import format_locs, here
from staticflow.torch.library import torch_library

__all__ = ["backend", "from_module"]

OPTIONS = ("numerics", "passes", "stabilize", "flush_subnormals")
"""What ``options`` of ``torch.compile`` may say, under the names that `compile` has."""


def backend(
    graph: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """What ``torch.compile(m, backend="staticflow")`` calls for each graph that it finds: a
    function of PyTorch's tensors, which come in and go out by DLPack without copies.

    PyTorch's AOT autograd writes the graph, and that of its derivative, in core ATen, without
    changes in place; each is one program here, open in the sizes that PyTorch leaves open.
    ``options``, as in ``torch.compile(..., options={"numerics": "fast"})``, are those of `compile`.
    Nothing falls back to PyTorch: raises `SymbolicError` that lists every operation without a
    meaning here with its line, `DeviceError` for tensors that are not on the CPU, and
    `ArgumentError` for other options and for a ``mode``, of which there is none; PyTorch hands
    these on as the cause of an error of its own.
    """
    library = torch_library("compile")
    from staticflow.torch.dynamo import compile_differentiated

    return compile_differentiated(library, graph, example_inputs, _options(mode, options))


def _options(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of `compile`, checked before anything is traced."""
    given = dict(options or {})
    unknown = [name for name in given if name not in OPTIONS]
    if mode is not None or unknown:
        wrong = f"the mode {mode!r}" if mode is not None else f"the option {unknown[0]!r}"
        raise ArgumentError(
            f"torch.compile: {wrong} is none of staticflow's; there is no mode, and options are "
            f'{", ".join(OPTIONS)}, as in options={{"numerics": "fast"}}, at {format_locs(here())}'
        )
    return given


def from_module(
    module: Any,
    example_args: Any = None,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    copy: bool = False,
) -> Any:
    """A module of ours that computes what ``module``, a ``torch.nn.Module``, does: eagerly, with
    the tape, and in graphs.

    PyTorch exports ``module`` on ``example_args``, one tensor or a tuple of arguments, and
    ``example_kwargs``, tensors of either library and trees of them, in the mode, training or
    evaluation, in which it is. ``dynamic_shapes`` names
    the sizes that are open, as ``torch.export.export`` takes them; all others are those of the
    examples. A ``torch.export.ExportedProgram`` stands for its module, and has its examples and its
    open sizes already. ``state_dict()`` has the names of ``module``, and its parameters and buffers
    are on the memory of PyTorch's, so that training one trains the other; with ``copy`` they are
    not.

    Raises `ImportError` where PyTorch is not installed, `DTypeError` for what is no module or a
    tensor of a dtype that is not here, `ArgumentError` for examples that the module cannot be
    exported on, and `SymbolicError` that lists every operation without a
    meaning here, each with the line of the module that asks for it.

    >>> import staticflow as sf
    >>> sf.torch.from_module(torch.nn.Linear(3, 2), torch.ones(4, 3))  # doctest: +SKIP
    Imported(of=Linear, training)
    """
    library = torch_library("from_module")
    from staticflow.torch.imported import import_module, import_program

    if isinstance(module, library.export.ExportedProgram):
        if not (example_args is None and example_kwargs is None and dynamic_shapes is None):
            raise ArgumentError(
                "from_module: an ExportedProgram has its examples and its open sizes; leave out "
                f"'example_args', 'example_kwargs' and 'dynamic_shapes', at {format_locs(here())}"
            )
        return import_program(library, module, copy)
    if isinstance(example_args, library.Tensor | Tensor):
        example_args = (example_args,)
        if isinstance(dynamic_shapes, Mapping) and all(isinstance(d, int) for d in dynamic_shapes):
            dynamic_shapes = (dynamic_shapes,)
    if not isinstance(example_args, Sequence):
        raise DTypeError(
            "from_module: 'example_args' must be a tensor, or a tuple of all arguments, not "
            f"{type(example_args).__name__}, at {format_locs(here())}"
        )
    return import_module(
        library, module, tuple(example_args), dict(example_kwargs or {}), dynamic_shapes, copy
    )
