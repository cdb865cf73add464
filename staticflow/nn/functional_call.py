"""A module called with other tensors in the places of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with the tensors of a dict, or of several, in the places of the
    parameters and buffers whose paths are its keys; gradients go to these tensors, and buffers that
    a forward changes are theirs.

    What the module holds under two names is replaced under both, unless not ``tie_weights``.
    ``args`` may be one argument. Raises `ArgumentError` for a key that is no such path, for one
    that is given twice, and, if it is ``strict``, for a parameter or buffer that is not given.
    While the call lasts, other threads see the other tensors, too.

    >>> import staticflow as sf
    >>> layer = sf.nn.Linear(2, 1, bias=False)
    >>> w = sf.tensor([[1.0, 2.0]], requires_grad=True)
    >>> functional_call(layer, {"weight": w}, sf.ones(3, 2)).sum().backward()
    >>> w.grad, layer.weight.grad
    (tensor([[3., 3.]]), None)
    """
    several = parameter_and_buffer_dicts
    dicts: list[Any] = list(several) if isinstance(several, list | tuple) else [several]
    if not isinstance(module, Module) or not all(isinstance(one, Mapping) for one in dicts):
        kinds = ", ".join(type(one).__name__ for one in (module, *dicts))
        raise ArgumentError(
            f"functional_call of ({kinds}): it takes a module, and a dict of tensors or several of "
            f"them, at {format_locs(here())}"
        )
    given = {path: tensor for one in dicts for path, tensor in one.items()}
    held = list(_all_tensors(module))
    paths = {path for path, *_ in held}
    wrong = [f"{path} is not there" for path in given if path not in paths]
    if sum(map(len, dicts)) > len(given):
        wrong.append("a path is given twice")
    if strict:
        wrong += [f"{path} is missing" for path in paths - given.keys()]
    if wrong:
        raise ArgumentError(
            f"functional_call of {type(module).__name__}: {'; '.join(sorted(wrong))}"
            f", at {format_locs(here())}"
        )
    by_tensor = {id(own): given[path] for path, _, _, own in held if path in given}
    before = []
    try:
        for path, holder, name, own in held:
            new = given.get(path, by_tensor.get(id(own)) if tie_weights else None)
            if new is not None:
                before.append((vars(holder), name, own))
                vars(holder)[name] = new
        some = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*some, **(kwargs or {}))
    finally:
        for attributes, name, own in before:
            attributes[name] = own


def _all_tensors(module: Module) -> Iterator[tuple[str, Any, str, Any]]:
    """Path, holder, name and value of every parameter and buffer, under each name."""
    for path, holder in module.named_modules(remove_duplicate=False):
        for name, tensor in (*holder._own_parameters(), *holder._own_buffers()):
            yield (f"{path}.{name}" if path else name), holder, name, tensor
