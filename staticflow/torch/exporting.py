"""Programs that PyTorch exports of a module, in core ATen, with what has no gradient marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from staticflow.errors import ArgumentError, SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.torch.table import KEPT

__all__ = ["decompose", "export_program"]


def export_program(
    library: Any, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> Any:
    """The exported program of ``module`` in core ATen, in which what PyTorch detaches, or computes
    under ``torch.no_grad()``, goes through ``aten.detach``.

    Raises `ArgumentError` for a lazy module without shapes and for examples on which PyTorch
    exports nothing, and `SymbolicError` for one that
    applies a ``torch.autograd.Function``, whose derivative no exported program keeps.
    """
    _check_filled(library, module)
    with _custom_functions(library) as applied:
        try:
            program = library.export.export(
                module, args, dict(kwargs), dynamic_shapes=dynamic_shapes
            )
        except Exception as error:  # PyTorch has many classes for it
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ArgumentError(
                f"from_module: PyTorch cannot export {type(module).__name__} on these examples: "
                f"{reason} (they are one tensor, or a tuple of all arguments), at "
                f"{format_locs(here())}"
            ) from error
    if applied:
        raise SymbolicError(
            f"from_module: {type(module).__name__} applies {', '.join(applied)}, and an exported "
            "program does not keep the derivative of a torch.autograd.Function; "
            'torch.compile(module, backend="staticflow") does, or write it by operations of '
            "PyTorch; torch.utils.checkpoint has use_reentrant=False for it, "
            f"at {format_locs(here())}"
        )
    return decompose(library, program)


def decompose(library: Any, program: Any) -> Any:
    """An exported ``program``, which may be changed, in core ATen, with ``aten.detach`` behind what
    it computes under ``torch.no_grad()``."""
    decompositions = library.export.default_decompositions()
    for name in KEPT:
        decompositions.pop(getattr(library.ops.aten, name).default, None)
    _detach_untracked(library, program.graph_module)
    return program.run_decompositions(decompositions)


def _check_filled(library: Any, module: Any) -> None:
    """Raise `ArgumentError` for a lazy module that has not been called yet."""
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if library.nn.parameter.is_lazy(tensor):
            raise ArgumentError(
                f"from_module: the shape of {name!r} is not known yet; call the module once, "
                f"in PyTorch, at {format_locs(here())}"
            )


@contextmanager
def _custom_functions(library: Any) -> Iterator[list[str]]:
    """The classes of ``torch.autograd.Function`` that are applied meanwhile, by name."""
    found: list[str] = []
    function = library.autograd.Function
    apply = vars(function)["apply"]

    def noting(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls.__name__ not in found:
            found.append(cls.__name__)
        return apply.__func__(cls, *args, **kwargs)

    try:
        function.apply = classmethod(noting)
        yield found
    finally:
        function.apply = apply


def _detach_untracked(library: Any, graph_module: Any) -> None:
    """Put ``detach`` behind what is computed under ``torch.no_grad()``, a graph of its own, as
    decomposition makes both graphs one. Raises `SymbolicError` where gradients are on again inside.
    """
    graph = graph_module.graph
    regions = [n for n in graph.nodes if str(n.target) == "wrap_with_set_grad_enabled"]
    for node in regions:
        inner = getattr(graph_module, node.args[1].target)
        if node.args[0]:
            _detach_untracked(library, inner)
            continue
        if any(str(n.target) == "wrap_with_set_grad_enabled" for n in inner.graph.nodes):
            raise SymbolicError(
                "from_module: torch.enable_grad() inside of torch.no_grad() has no meaning here; "
                f"leave out either, at {format_locs(here())}"
            )
        for result in list(node.users):
            with graph.inserting_after(result):
                detached = graph.call_function(library.ops.aten.detach.default, (result,))
            detached.meta = dict(result.meta)
            result.replace_all_uses_with(detached, delete_user_cb=lambda n, d=detached: n is not d)
    if regions:
        graph_module.recompile()
