"""The base of layers and models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from staticflow.errors import ShapeError
from staticflow.graph.dtypes import dtype_of
from staticflow.nn.init import Parameter
from staticflow.ops.symbol import Symbol, tracing

__all__ = ["LoadResult", "Module"]


class LoadResult(NamedTuple):
    """The names that a state had too few and too many."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """A layer or model: parameters, buffers, submodules and a ``forward``.

    Whatever is assigned to an attribute counts by its class: a `Parameter`, a `Module`, or what was
    named a buffer by `register_buffer`. Subclasses define ``forward``, and call the module itself.

    >>> import staticflow as sf
    >>> class Scale(Module):
    ...     def __init__(self):
    ...         self.factor = Parameter([2.0])
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> model = Scale()
    >>> model(sf.ones(2)), [name for name, _ in model.named_parameters()]
    (tensor([2., 2.], grad_fn=<MulBackward0>), ['factor'])
    """

    training: bool = True
    _buffers: Mapping[str, bool] = MappingProxyType({})  # name -> whether state_dict has it

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; each subclass says."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward``: now on tensors, as part of a graph if any argument is a symbol. In that
        case what it computes of the parameters alone belongs to the graph too."""
        if _any_symbol((*args, *kwargs.values())):
            with tracing():
                return self.forward(*args, **kwargs)
        return self.forward(*args, **kwargs)

    # -- registration -------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        before = vars(self).get(name)
        if isinstance(before, Parameter) and not (value is None or isinstance(value, Parameter)):
            raise TypeError(
                f"{type(self).__name__}.{name} is a parameter; a {type(value).__name__} in its "
                "place would not be trained: assign an nn.Parameter (or None), or change its "
                "values with sf.no_grad() and copy_"
            )
        object.__setattr__(self, name, value)
        if isinstance(value, Parameter):
            value.name = value.name or name
        elif isinstance(value, Module):
            for path, tensor in (*value.named_parameters(), *value.named_buffers()):
                tensor.name = f"{name}.{path}"

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Hold ``tensor`` (or None) as a buffer: state that is saved, unless not ``persistent``,
        and cast with the module, but not trained."""
        self._buffers = {**self._buffers, name: persistent}
        setattr(self, name, tensor)
        if tensor is not None:
            tensor.name = tensor.name or name

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Hold ``parameter``, as assigning it to an attribute does."""
        setattr(self, name, parameter)

    def add_module(self, name: str, module: Module | None) -> None:
        """Hold ``module``, as assigning it to an attribute does."""
        setattr(self, name, module)

    # -- going through them -------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that this one holds itself."""
        return ((name, v) for name, v in vars(self).items() if isinstance(v, Module))

    def children(self) -> Iterator[Module]:
        """The modules that this one holds itself."""
        return (module for _, module in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with its path; a parent before its children."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            below = [(_join(path, name), child) for name, child in module.named_children()]
            stack.extend(reversed(below))

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """The parameters of this module and of all below it, each once, with their paths."""
        seen: set[int] = set()
        for path, module in self.named_modules(prefix):
            for name, value in vars(module).items():
                if isinstance(value, Parameter) and id(value) not in seen:
                    seen.add(id(value))
                    yield _join(path, name), value

    def parameters(self) -> Iterator[Parameter]:
        """The parameters of this module and of all below it, each once."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """The buffers of this module and of all below it, with their paths."""
        for path, module in self.named_modules(prefix):
            for name in module._buffers:
                if getattr(module, name) is not None:
                    yield _join(path, name), getattr(module, name)

    def buffers(self) -> Iterator[Any]:
        """The buffers of this module and of all below it."""
        return (buffer for _, buffer in self.named_buffers())

    # -- state --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Parameters and persistent buffers by path, on their own memory and without history. A
        parameter that is held in two places is there under both names."""
        state: dict[str, Any] = {}
        for path, module in self.named_modules():
            for name, value in vars(module).items():
                if value is not None and (
                    isinstance(value, Parameter) or module._buffers.get(name, False)
                ):
                    state[_join(path, name)] = value.detach()
        return state

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> LoadResult:
        """Take the values of ``state``, tensors or arrays by path, into the own memory, so that
        compiled programs and optimisers see them.

        Raises `ShapeError` that lists every missing and unexpected name (unless not ``strict``) and
        every wrong shape, before anything is changed. Dtypes are cast.
        """
        own = self.state_dict()
        result = LoadResult([n for n in own if n not in state], [n for n in state if n not in own])
        common = [n for n in own if n in state]
        faults = [
            f"{name} has shape {list(state[name].shape)}, and {list(own[name].shape)} is needed"
            for name in common
            if tuple(state[name].shape) != own[name].shape
        ]
        if strict:
            faults += [f"{name} is missing" for name in result.missing_keys]
            faults += [f"{name} is not known" for name in result.unexpected_keys]
        if faults:
            raise ShapeError(
                f"load_state_dict of {type(self).__name__}: {'; '.join(faults)}; pass strict=False "
                "to load only what both have"
            )
        for name in common:
            value = state[name]
            own[name][...] = value.detach() if hasattr(value, "detach") else value
        return result

    def to(self, dtype: Any) -> Self:
        """Cast the floating parameters, their gradients and the floating buffers to a floating
        ``dtype``. Programs compiled before refuse the change; compile anew."""
        wanted = dtype_of(dtype)
        if not wanted.is_floating:
            raise TypeError(f"to: a module is cast to a floating dtype, not to {wanted.name}")
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.dtype.is_floating:
                tensor.data = tensor.detach().to(wanted)
                if tensor.grad is not None:
                    tensor.grad = tensor.grad.detach().to(wanted)
        return self

    # -- training -----------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Put this module and all below it into training mode, or out of it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Put this module and all below it out of training mode."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Train all parameters from now on, or freeze them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    # -- printing -----------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What a subclass shows of itself between the brackets."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [
            f"({name}): " + repr(child).replace("\n", "\n  ")
            for name, child in self.named_children()
        ]
        if not children:
            return f"{type(self).__name__}({extra})"
        lines = "\n  ".join([extra, *children] if extra else children)
        return f"{type(self).__name__}(\n  {lines}\n)"


def _any_symbol(values: Iterable[Any]) -> bool:
    return any(
        isinstance(v, Symbol)
        or (isinstance(v, tuple | list) and _any_symbol(v))
        or (isinstance(v, dict) and _any_symbol(v.values()))
        for v in values
    )


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
