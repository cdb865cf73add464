"""The base of layers and models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from staticflow.errors import DTypeError, SymbolicError
from staticflow.graph.articles import with_article
from staticflow.graph.device import target
from staticflow.graph.dtypes import bfloat16, float16, float32, float64
from staticflow.graph.locs import format_locs, here
from staticflow.nn.hooks import Hook, Hooks
from staticflow.nn.mode import asks, assigns
from staticflow.nn.parameter import Parameter, is_eager, is_uninitialized, refuse_symbol
from staticflow.nn.state import LoadResult, load_state, state_of
from staticflow.nn.tree import Tree
from staticflow.ops.declaring.foreign import foreign_errors, kind_of, refuse_foreign
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.tracing import depends_on, tracing_state
from staticflow.ops.loops.region import trace_at_once
from staticflow.ops.symbols.calls import note_calls
from staticflow.ops.symbols.captured import part_of
from staticflow.ops.symbols.dependents import (
    note_change,
    note_module,
    note_other,
    note_replaced,
    was_written,
)
from staticflow.ops.symbols.handle import Handle
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["Module", "bracket", "indent"]


class Module(Tree):
    """A layer or model: parameters, buffers, submodules and a ``forward``.

    Whatever is assigned to an attribute counts by its class: a `Parameter`, a `Module`, or what was
    named a buffer by `register_buffer`. Subclasses define ``forward``, and call the module itself.

    >>> import staticflow as sf
    >>> class Scale(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = Parameter([2.0])
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> model = Scale()
    >>> model(sf.ones(2)), [name for name, _ in model.named_parameters()]
    (tensor([2., 2.], grad_fn=<MulBackward0>), ['factor'])
    """

    training: bool = True
    _persistent: Mapping[str, bool] = MappingProxyType({})  # the buffers; is it in state_dict?
    _hooks: Hooks | None = None
    _is_list = False  # whether it holds modules for others to go through, and is called by nobody

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; each subclass says."""
        raise NotImplementedError(
            f"{type(self).__name__} does not define forward, at {format_locs(here())}"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward``: now on tensors, as part of a graph if any argument is a symbol. In that
        case what it computes of the parameters alone belongs to the graph too."""
        run: Callable[..., Any] = self.forward if self._hooks is None else self._call_with_hooks
        try:
            if tracing_state.active:
                depends_on(self, "training")
                depends_on(self, "_hooks_now")
                note_module(self)
                return note_calls(partial(run, *args, **kwargs), self)
            elif _any_symbol((*args, *kwargs.values())):
                note_module(self)
                return trace_at_once(partial(run, *args, **kwargs), self)
            return run(*args, **kwargs)
        except foreign_errors() as error:
            refuse_foreign(self.forward, type(self).__name__, error, args, kwargs)
            raise

    def _call_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        assert self._hooks is not None
        return self._hooks.call(self, args, kwargs)

    if TYPE_CHECKING:  # parameters, buffers and modules by name

        def __getattr__(self, name: str) -> Any: ...

    # -- registration -------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        before = vars(self).get(name)
        kind = type(self).__name__
        if name == "training":
            value = as_bool(f"{kind}.training", value)
        if isinstance(before, Parameter) and not (value is None or isinstance(value, Parameter)):
            raise DTypeError(
                f"{kind}.{name} is a parameter; {with_article(type(value))} in its "
                "place would not be trained: assign an nn.Parameter (or None), or change its "
                f"values with sf.no_grad() and copy_, at {format_locs(here())}"
            )
        if isinstance(before, Module) and not (value is None or isinstance(value, Module)):
            raise DTypeError(
                f"{kind}.{name} is a module; {with_article(type(value))} cannot take its place: "
                f"assign an nn.Module or None, at {format_locs(here())}"
            )
        if name in self._persistent and not (value is None or hasattr(value, "__sf_mode__")):
            raise DTypeError(
                f"{kind}.{name} is a buffer; {with_article(type(value))} cannot take its place: "
                f"assign a tensor or None, at {format_locs(here())}"
            )
        if isinstance(value, Symbol) and is_eager(before):
            raise SymbolicError(
                f"{kind}.{name} is a tensor; a symbol in its place, {kind_of(value)}, would be "
                "there before any call of the program, and no call would change it: give it back "
                f"and assign it after the call, or name {name} in updates= of sf.compile, "
                f"at {format_locs(here())}"
            )
        object.__setattr__(self, name, value)
        if name == "training":
            note_change(self)
        elif before is None:
            self._note_other(name, before)
        elif before is not value:
            self._note_replaced(name, before)
        if isinstance(value, Parameter):
            value.name = value.name or name
        elif isinstance(value, Module):
            for path, tensor in (*value.named_parameters(), *value.named_buffers()):
                tensor.name = f"{name}.{path}"

    def _lists(self) -> Iterator[Module]:
        """The lists and dicts of modules or parameters that it goes through, and those in them."""
        for held in vars(self).values():
            if isinstance(held, Module) and held._is_list:
                yield held
                yield from held._lists()

    def _note_replaced(self, name: str, before: Any) -> None:
        """Note that ``name`` is no longer ``before``, if graphs may have that."""
        if isinstance(before, Module):
            note_replaced(self, [name], before, before.modules())
        elif hasattr(before, "_vertex"):
            note_replaced(self, [name], before, (before,))
        else:
            self._note_other(name, before)

    def _note_other(self, name: str, before: Any) -> None:
        """Note that ``name``, which was no tensor and no module, is another thing now, if graphs
        may have been written by that."""
        if not was_written(self) or tracing_state.active:
            return
        if name == "forward" or (self._asks(name) and not assigns(type(self), name)):
            note_other(self, name, before)

    def __delattr__(self, name: str) -> None:
        before = vars(self).get(name)
        object.__delattr__(self, name)
        self._note_replaced(name, before)
        if name in self._persistent:
            self._persistent = {n: p for n, p in self._persistent.items() if n != name}

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Hold ``tensor`` (or None) as a buffer: state that is saved, unless not ``persistent``,
        and cast with the module, but not trained."""
        self._check_new(name, name in self._persistent)
        refuse_symbol("buffer", tensor)
        if tensor is not None and not hasattr(tensor, "__sf_mode__"):
            raise DTypeError(
                f"register_buffer: {name!r} is {with_article(type(tensor))}; wrap it in sf.tensor"
                f", at {format_locs(here())}"
            )
        self._persistent = {**self._persistent, name: persistent}
        setattr(self, name, tensor)
        if tensor is not None:
            tensor.name = tensor.name or name

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Hold ``param``, as assigning it to an attribute does."""
        self._check_new(name, isinstance(vars(self).get(name), Parameter))
        if param is not None and not isinstance(param, Parameter):
            raise DTypeError(
                f"register_parameter: {name!r} is {with_article(type(param))}; wrap it in "
                f"nn.Parameter, at {format_locs(here())}"
            )
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Hold ``module``, as assigning it to an attribute does."""
        self._check_new(name, isinstance(vars(self).get(name), Module))
        if module is not None and not isinstance(module, Module):
            raise DTypeError(
                f"add_module: {name!r} is {with_article(type(module))}, which is no module"
                f", at {format_locs(here())}"
            )
        setattr(self, name, module)

    register_module = add_module

    def _check_new(self, name: str, is_own: bool) -> None:
        if not name or "." in name:
            raise KeyError(
                f"{name!r} cannot be a name; it is empty or has a dot, at {format_locs(here())}"
            )
        if hasattr(self, name) and not is_own:
            raise KeyError(
                f"{type(self).__name__} has an attribute {name!r} already, at {format_locs(here())}"
            )

    # -- state --------------------------------------------------------------------------------

    def state_dict(
        self,
        *,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by path, on their own memory and without history
        (``keep_vars``: the tensors themselves). What is held under two names is there under both
        names."""
        state = {} if destination is None else destination
        for name, tensor in state_of(self):
            if is_uninitialized(tensor):
                state[prefix + name] = tensor
                continue
            part = part_of(tensor)
            whole = tensor if part is None or keep_vars else part.gather(tensor)
            state[prefix + name] = whole if keep_vars else whole.detach()
        return state

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> LoadResult:
        """Take the values of ``state_dict``, tensors or arrays by path, into the own memory, so
        that compiled programs and optimisers see them; dtypes are cast. With ``assign`` the tensors
        themselves take the place of the parameters and buffers, in the dtypes that they have.

        Raises `CheckpointError` that lists every missing and unexpected name (unless not
        ``strict``) and every wrong shape, before anything is changed.
        """
        return load_state(self, state_dict, strict, assign)

    # -- dtypes and devices -------------------------------------------------------------------

    def to(self, *args: Any, device: Any = None, dtype: Any = None, **named: Any) -> Self:
        """Move parameters, gradients and buffers to a device, cast the floating ones to a floating
        dtype, or both: ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(tensor)``.

        The parameters stay the same objects. Programs compiled before refuse a change of dtype;
        compile anew.
        """
        to_device, wanted = target(args, device=device, dtype=dtype, **named)
        if wanted is not None and not wanted.is_floating:
            raise DTypeError(
                f"to: a module is cast to a floating dtype, not to {wanted.name}"
                f", at {format_locs(here())}"
            )

        def move(tensor: Any) -> Any:
            to = tensor.dtype if wanted is None or not tensor.dtype.is_floating else wanted
            return tensor.to(to) if to_device is None else tensor.to(to_device, to)

        for tensor in (*self.parameters(), *self.buffers()):
            if is_uninitialized(tensor):
                tensor.move(to_device, wanted)
                continue
            tensor.data = move(tensor.detach())
            if tensor.grad is not None:
                tensor.grad = move(tensor.grad.detach())
        return self

    def type(self, dst_type: Any) -> Self:
        """Cast to a floating dtype."""
        return self.to(dtype=dst_type)

    def float(self) -> Self:
        """Cast to float32."""
        return self.to(float32)

    def double(self) -> Self:
        """Cast to float64."""
        return self.to(float64)

    def half(self) -> Self:
        """Cast to float16."""
        return self.to(float16)

    def bfloat16(self) -> Self:
        """Cast to bfloat16."""
        return self.to(bfloat16)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: int | None = None) -> Self:
        """Move to a GPU, by default the first."""
        return self.to("cuda" if device is None else f"cuda:{device}")

    # -- training -----------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Put this module and all below it into training mode, or out of it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Put this module and all below it out of training mode."""
        return self.train(False)

    def _asks_training(self) -> bool:
        """Whether its own forward computes otherwise in training than in evaluation."""
        return self._asks("training")

    def _asks(self, name: str) -> bool:
        """Whether code of its class, beside what makes it, names ``name``."""
        return asks(type(self), Module, name)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters; or fill them with zeros, in place."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad = parameter.grad.detach().zero_()

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Train all parameters from now on, or freeze them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    # -- hooks --------------------------------------------------------------------------------

    @property
    def _hooks_now(self) -> tuple[Any, ...]:
        """The hooks that there are now, which a trace depends on."""
        return () if self._hooks is None else self._hooks.all()

    def _own_hooks(self) -> Hooks:
        if self._hooks is None:
            self._hooks = Hooks()
        note_change(self)
        return self._hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call ``hook(module, args)`` before every forward; what it returns, if not None, takes the
        place of the arguments. With ``with_kwargs`` it takes ``kwargs`` too and returns both."""
        return Handle(self._own_hooks().before, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """Call ``hook(module, args, output)`` after every forward; what it returns, if not None,
        takes the place of the output. With ``with_kwargs`` it takes ``kwargs`` after ``args``. With
        ``always_call`` it is called where the forward raises, too, with None for the output."""
        return Handle(self._own_hooks().after, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call ``hook(module, grad_output)`` in every backward before the module's own; what it
        returns, if not None, takes the place of the gradients of the outputs."""
        return Handle(self._own_hooks().backward_before, Hook(hook), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call ``hook(module, grad_input, grad_output)`` in every backward once the gradients of
        the inputs are there; what it returns, if not None, takes their place.

        Gradients are tuples with an entry for each positional argument or output. In a graph the
        hook gets symbols, once, when the gradient is built."""
        return Handle(self._own_hooks().backward_after, Hook(hook), prepend)

    # -- printing -----------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What a subclass shows of itself between the brackets."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [
            f"({name}): " + indent(repr(child))
            for name, child in vars(self).items()
            if isinstance(child, Module)
        ]
        return bracket(type(self).__name__, extra.split("\n") if extra else [], children)


def bracket(name: str, extra: list[str], children: list[str]) -> str:
    """A module as PyTorch prints it: on one line if that is enough."""
    if not children and len(extra) <= 1:
        return f"{name}({''.join(extra)})"
    lines = "\n  ".join([*extra, *children])
    return f"{name}(\n  {lines}\n)"


def indent(text: str) -> str:
    """``text`` for a place between brackets."""
    return text.replace("\n", "\n  ")


def _any_symbol(values: Iterable[Any]) -> bool:
    for v in values:
        if isinstance(v, Symbol):
            return True
        if isinstance(v, dict):
            v = list(v.values())
        if isinstance(v, tuple | list) and _any_symbol(v):
            return True
    return False
