"""Modules hold modules: going through them and what they hold, by paths such as ``"0.weight"``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeGuard, cast

from staticflow.graph.locs import format_locs, here
from staticflow.nn.parameter import Parameter
from staticflow.nn.parts import Parts

if TYPE_CHECKING:
    from staticflow.nn.module import Module

__all__ = ["Named", "Tree"]

Named = Iterator[tuple[str, Any]]


class Tree:
    """What a `Module` is as the root of a tree of modules, each an attribute of the one above."""

    _persistent: Mapping[str, bool]

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that this one holds itself, each once."""
        return _once(self._own_modules())

    def children(self) -> Iterator[Module]:
        """The modules that this one holds itself, each once."""
        return (module for _, module in self.named_children())

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it with their paths, a parent before its children. What is held
        under several names comes once, or with ``remove_duplicate=False`` under each name.

        ``memo`` holds the ids of what has come already."""
        seen = set() if memo is None else memo
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, cast("Module", self)
        for name, child in vars(self).items():
            if _is_module(child):
                yield from child.named_modules(seen, _join(prefix, name), remove_duplicate)
        if not remove_duplicate:
            seen.discard(id(self))  # only a module inside itself is left out

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once, or with ``remove_duplicate=False`` under each
        name."""
        named = self.named_modules(remove_duplicate=remove_duplicate)
        return (module for _, module in named)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters of this module and (with ``recurse``) of all below it, with their paths;
        each once, or with ``remove_duplicate=False`` under each name."""
        return self._walk_named(lambda m: m._own_parameters(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and (with ``recurse``) of all below it, each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Named:
        """The buffers of this module and (with ``recurse``) of all below it, with their paths; each
        once, or with ``remove_duplicate=False`` under each name."""
        return self._walk_named(lambda m: m._own_buffers(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """The buffers of this module and (with ``recurse``) of all below it, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _own_modules(self) -> Iterator[tuple[str, Module]]:
        return ((n, v) for n, v in vars(self).items() if _is_module(v))

    def _own_parameters(self) -> Iterator[tuple[str, Parameter]]:
        return ((n, v) for n, v in vars(self).items() if isinstance(v, Parameter))

    def _own_buffers(self) -> Named:
        named = ((n, getattr(self, n)) for n in self._persistent)
        return ((n, v) for n, v in named if v is not None)

    @property
    def _parameters(self) -> Parts:
        """The parameters that this module holds itself; what is put there is registered."""
        return Parts(self, self._own_parameters, cast("Module", self).register_parameter)

    @property
    def _buffers(self) -> Parts:
        """The buffers that this module holds itself; what is put there is registered."""
        return Parts(self, self._own_buffers, cast("Module", self).register_buffer)

    @property
    def _modules(self) -> Parts:
        """The modules that this one holds itself; what is put there is registered."""
        return Parts(self, self._own_modules, cast("Module", self).add_module)

    def _walk_named(
        self, own: Callable[[Module], Named], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Named:
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, cast("Module", self))]
        )
        found = ((_join(path, name), v) for path, module in modules for name, v in own(module))
        return _once(found) if remove_duplicate else found

    def get_submodule(self, target: str) -> Module:
        """The module at the path ``target``; this one for "". Raises `AttributeError`."""
        module = cast("Module", self)
        for name in target.split(".") if target else ():
            found = vars(module).get(name)
            if not _is_module(found):
                raise AttributeError(
                    f"{type(self).__name__} has no module {target!r}: "
                    f"{type(module).__name__} holds no {name!r}, at {format_locs(here())}"
                )
            module = found
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the path ``target``. Raises `AttributeError`."""
        path, _, name = target.rpartition(".")
        found: Parameter = self._look_up(
            dict(self.get_submodule(path)._own_parameters()), name, target
        )
        return found

    def get_buffer(self, target: str) -> Any:
        """The buffer at the path ``target``. Raises `AttributeError`."""
        path, _, name = target.rpartition(".")
        return self._look_up(dict(self.get_submodule(path)._own_buffers()), name, target)

    def _look_up(self, own: Mapping[str, Any], name: str, path: str) -> Any:
        if name not in own:
            raise AttributeError(
                f"{type(self).__name__} has no {path!r}; what is there: {', '.join(own) or 'none'}"
                f", at {format_locs(here())}"
            )
        return own[name]

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn`` on every module below this one, and then on this one."""
        for child in self.children():
            child.apply(fn)
        fn(cast("Module", self))
        return self


def _is_module(value: Any) -> TypeGuard[Module]:
    return isinstance(value, Tree)


def _once(named: Named) -> Named:
    seen: set[int] = set()
    for name, value in named:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
