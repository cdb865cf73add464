"""What a module holds itself, as PyTorch's dictionaries show it: `_parameters` and two more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

from staticflow.graph.locs import format_locs, here

__all__ = ["Parts"]


class Parts(MutableMapping[str, Any]):
    """The parts of one kind of a module by their names. It is a view: the parts are attributes of
    the module, and what is put into it or deleted is put there, by ``register``, or deleted there.

    >>> import staticflow as sf
    >>> layer = sf.nn.Linear(2, 3)
    >>> list(layer._parameters)
    ['weight', 'bias']
    """

    def __init__(
        self,
        module: Any,
        own: Callable[[], Iterable[tuple[str, Any]]],
        register: Callable[[str, Any], None],
    ) -> None:
        self._module, self._own, self._register = module, own, register

    def __getitem__(self, name: str) -> Any:
        return dict(self._own())[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in self:
            setattr(self._module, name, value)
        else:
            self._register(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(
                f"{type(self._module).__name__} has no {name!r} among {', '.join(self) or 'none'}, "
                f"at {format_locs(here())}"
            )
        delattr(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._own())

    def __len__(self) -> int:
        return sum(1 for _ in self._own())

    def __repr__(self) -> str:
        return repr(dict(self._own()))
