"""Parameters that are functions of others: what a layer reads as its weight is computed, anew at
each reading, from what is trained. It is so in both modes.

>>> import staticflow as sf
>>> class Symmetric(sf.nn.Module):
...     def forward(self, x):
...         return x.triu() + x.triu(1).mT
>>> layer = register_parametrization(sf.nn.Linear(3, 3), "weight", Symmetric())
>>> sf.allclose(layer.weight, layer.weight.mT), [name for name, _ in layer.named_parameters()]
(True, ['bias', 'parametrizations.weight.original'])
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.container import ModuleDict, ModuleList
from staticflow.nn.module import Module
from staticflow.nn.parameter import Parameter, is_eager, is_grad_enabled
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.declaring.switch import as_bool

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations",
]  # fmt: skip


class ParametrizationList(ModuleList):
    """The modules that make a tensor of a layer, one after the other, from ``original``, or from
    ``original0``, ``original1`` and so on where the first takes several. Called, it gives the
    tensor."""

    def __init__(self, modules: Iterable[Module], original: Any) -> None:
        super().__init__(modules)
        parts = _made_from([*self], original)
        self.several = isinstance(parts, tuple)
        for i, part in enumerate(_as_tuple(parts)):
            name = f"original{i}" if self.several else "original"
            if not isinstance(original, Parameter):
                self.register_buffer(name, _own(part))
            elif self.several or part.shape != original.shape:
                self.register_parameter(name, Parameter(_own(part), original.requires_grad))
            else:  # the very one, which an optimiser may have already
                original.detach().copy_(part)
                self.register_parameter(name, original)

    def forward(self) -> Any:
        """The tensor."""
        first, *rest = self
        value = first(*self.originals())
        for module in rest:
            value = module(value)
        return value

    def older_names(self, path: str) -> dict[str, str]:
        """The names that PyTorch's older functions, hooks of a layer, give in a state to what the
        first module has, with those of now, where this list is at ``path``."""
        holder, _, name = path.rpartition("parametrizations.")
        endings: dict[str, str] = getattr(self[0], "older_endings", {})
        return {f"{holder}{name}{old}": f"{path}.{new}" for new, old in endings.items()}

    def originals(self) -> tuple[Any, ...]:
        """What the tensor is made from."""
        return tuple([v for name, v in vars(self).items() if name.startswith("original")])

    def right_inverse(self, value: Any) -> None:
        """Give the originals values of which ``value`` is made, in place; raises `ArgumentError`
        where a module has no ``right_inverse``."""
        without = next((m for m in self if not hasattr(m, "right_inverse")), None)
        if without is not None:
            raise ArgumentError(
                f"{type(without).__name__} has no right_inverse, so that nobody knows of what the "
                f"value that is assigned is made; write one, at {format_locs(here())}"
            )
        parts = _as_tuple(_made_from([*self], value))
        for original, part in zip(self.originals(), parts, strict=True):
            original.detach().copy_(part.detach())


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, unsafe: bool = False
) -> Module:
    """``module``, whose parameter or buffer ``tensor_name`` is from now on what ``parametrization``
    gives of it, behind those that were registered before. Its class is a new one.

    The parametrization may have a ``right_inverse``: a function of a value of the tensor that gives
    what the parametrization makes it from, one tensor or several. What it gives for the value of
    now is what is trained, as ``parametrizations.NAME.original`` of the module; and it is asked
    when a value is assigned to the tensor.

    Raises `ArgumentError` if there is no such tensor, or if the parametrization changes its shape
    or dtype, unless ``unsafe``.
    """
    unsafe = as_bool("unsafe", unsafe)
    value: Any = getattr(module, tensor_name, None)
    if not is_eager(value):
        raise ArgumentError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer "
            f"{tensor_name!r}, at {format_locs(here())}"
        )
    if not unsafe:
        new = parametrization(*_as_tuple(_made_from([parametrization], value)))
        if (new.shape, new.dtype) != (value.shape, value.dtype):
            raise ArgumentError(
                f"register_parametrization: {type(parametrization).__name__} makes "
                f"{new.dtype}{list(new.shape)} of {tensor_name}, which is {value.dtype}"
                f"{list(value.shape)}; keep both, or say unsafe=True, at {format_locs(here())}"
            )
    if is_parametrized(module, tensor_name):
        module.parametrizations[tensor_name].append(parametrization)
        return module
    made = ParametrizationList([parametrization], value)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
        module.__class__ = _class_of_its_own(type(module))
    module.parametrizations[tensor_name] = made
    setattr(type(module), tensor_name, _property_of(tensor_name))
    return module


def _class_of_its_own(own: type[Module], names: Iterable[str] = ()) -> type[Module]:
    """A class for one module, below ``own``, of which the tensors ``names`` are computed."""
    properties = {name: _property_of(name) for name in names}
    members = {"__reduce_ex__": _reduce, "__doc__": own.__doc__, **properties}
    return type(f"Parametrized{own.__name__}", (own,), members)


def _reduce(self: Module, protocol: int) -> tuple[Any, ...]:
    """What a copy and a pickle are made of: a class of the copy's own is made anew."""
    own = type(self).__mro__[1]
    return _bare, (own, tuple(self.parametrizations.keys())), self.__getstate__()


def _bare(own: type[Module], names: tuple[str, ...]) -> Module:
    module: Module = object.__new__(_class_of_its_own(own, names))
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the tensor of that name is made by parametrizations, or any is.

    >>> import staticflow as sf
    >>> is_parametrized(sf.nn.Linear(2, 2))
    False
    """
    found = vars(module).get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """``module``, whose ``tensor_name`` is a parameter or buffer again: of the value that it has,
    or without ``leave_parametrized`` of the original.

    Raises `ArgumentError` if it is not parametrized, and without ``leave_parametrized`` if it is
    made from several originals.
    """
    leave_parametrized = as_bool("leave_parametrized", leave_parametrized)
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(
            f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} has none, "
            f"at {format_locs(here())}"
        )
    made = module.parametrizations[tensor_name]
    first, *others = made.originals()
    if not leave_parametrized and others:
        raise ArgumentError(
            f"remove_parametrizations: {tensor_name} is made from {1 + len(others)} tensors, none "
            f"of which is the original; leave it parametrized, at {format_locs(here())}"
        )
    value = getattr(module, tensor_name).detach() if leave_parametrized else first.detach()
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(first, Parameter):
        if not others and first.shape == value.shape:
            first.detach().copy_(value)
        else:
            first = Parameter(_own(value), first.requires_grad)
        module.register_parameter(tensor_name, first)
    else:
        module.register_buffer(tensor_name, _own(value))
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__mro__[1]  # the one that it had before
    return module


_COMPUTED: ContextVar[dict[Any, tuple[Any, ...]] | None] = ContextVar("computed", default=None)
"""What parametrizations gave in a block of `cached`, behind them and what they made it from."""


@contextmanager
def cached() -> Iterator[None]:
    """A block in which a parametrization is computed where its tensor is first read, and again only
    when what it makes that from was changed. It is of eager tensors: in a graph equal values are
    one anyhow.

    >>> import staticflow as sf
    >>> layer = sf.nn.utils.parametrizations.weight_norm(sf.nn.Linear(3, 2))
    >>> with cached():
    ...     layer.weight is layer.weight
    True
    """
    computed = _COMPUTED.get()
    token = _COMPUTED.set({} if computed is None else computed)
    try:
        yield
    finally:
        _COMPUTED.reset(token)


def _value_of(made: ParametrizationList) -> Any:
    """The tensor, perhaps as it was computed before in a block of `cached`."""
    computed = _COMPUTED.get()
    if computed is None:
        return made()
    originals = made.originals()
    versions = [x._version for x in originals] if all(map(is_eager, originals)) else None
    key = id(made), is_grad_enabled(), made.training
    found = computed.get(key)
    if found is not None and found[1] == versions and all(map(operator.is_, found[2], originals)):
        return found[3]
    value = made()
    if versions is not None and is_eager(value):
        computed[key] = made, versions, originals, value
    return value


def _property_of(name: str) -> property:
    def get(self: Module) -> Any:
        return _value_of(self.parametrizations[name])

    def put(self: Module, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def _made_from(modules: Sequence[Module], value: Any) -> Any:
    """What ``modules``, one after the other, make ``value`` from, as far as they say: a tensor, or
    a tuple of several."""
    value = value.detach()
    for module in reversed(modules):
        inverse = getattr(module, "right_inverse", None)
        value = value if inverse is None else inverse(value)
    return tuple(value) if isinstance(value, list | tuple) else value


def _own(value: Any) -> Any:
    """The value in memory that nobody else has."""
    return value.detach().clone()


def _as_tuple(parts: Any) -> tuple[Any, ...]:
    return parts if isinstance(parts, tuple) else (parts,)


refuses_foreign_in(globals())
