"""Names of a package that are imported when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from staticflow.graph.absent import refuse

__all__ = ["names_of_later"]


def names_of_later(
    names: dict[str, Any], **rooms: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of the package whose ``globals()`` are ``names``. It
    has each name of ``rooms`` from the module of the package that is given: the module itself where
    that is called so, as ``nn="nn"``, else what has that name there. Each is imported once, and
    stands among the ``names`` from then on. Type checkers, which see no such function, are told by
    imports below ``if TYPE_CHECKING``."""
    package = names["__name__"]

    def find(name: str) -> Any:
        if name not in rooms:
            refuse(package, name)
        module = import_module(f"{package}.{rooms[name]}")
        return names.setdefault(name, module if rooms[name] == name else getattr(module, name))

    def list_names() -> list[str]:
        return sorted(names.keys() | rooms.keys())

    return find, list_names
