"""Nested tuples, lists, dicts and named tuples of leaves, flattened and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from staticflow.errors import DTypeError, NestingError, ShapeError
from staticflow.graph.locs import format_locs, here

__all__ = ["DEEPEST", "LEAF", "NONE", "TreeDef", "flatten", "map_tree", "paths", "unflatten"]

DEEPEST = 100
"""So many containers may be in each other: fewer than Python, which compares, hashes and prints
them, lets functions call themselves."""


class TreeDef(NamedTuple):
    """The structure of a tree. ``kind`` is None for a leaf, else the container's type;
    ``keys`` are the names or positions of the ``children``."""

    kind: type | None
    keys: tuple[Any, ...]
    children: tuple[TreeDef, ...]

    @property
    def leaf_count(self) -> int:
        """How many leaves a tree of this structure has."""
        return 1 if self.kind is None else sum(c.leaf_count for c in self.children)

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        if self.kind is type(None):
            return "None"
        inner = (
            f"{k!r}: {c}" if self.kind is dict else str(c)
            for k, c in zip(self.keys, self.children, strict=True)
        )
        text = ", ".join(inner)
        if self.kind is tuple:
            return f"({text},)" if len(self.keys) == 1 else f"({text})"
        if self.kind in (dict, list):
            return ("{" + text + "}") if self.kind is dict else f"[{text}]"
        return f"{self.kind.__name__}({text})"


LEAF = TreeDef(None, (), ())
NONE = TreeDef(type(None), (), ())


def flatten(tree: Any, _level: int = 0) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree in order (dicts by sorted key), and its structure. None has no leaves.
    Raises `NestingError` if more than `DEEPEST` containers are in each other.

    >>> flatten((1, [2, {"b": 4, "a": 3}]))[0]
    [1, 2, 3, 4]
    """
    if tree is None:
        return [], NONE
    kind = type(tree)
    if kind is dict:
        keys: tuple[Any, ...] = tuple(sorted(tree))
        parts: Iterable[Any] = (tree[k] for k in keys)
    elif kind is list or isinstance(tree, tuple):
        keys, parts = tuple(range(len(tree))), tree
        kind = kind if kind is list or hasattr(kind, "_fields") else tuple
    else:
        return [tree], LEAF
    if _level == DEEPEST:
        raise NestingError(
            f"a {kind.__name__} lies within {DEEPEST} others, and no more may be in each other, "
            f"at {format_locs(here())}; give its leaves in one list"
        )
    leaves: list[Any] = []
    children = []
    for part in parts:
        sub, definition = flatten(part, _level + 1)
        leaves += sub
        children.append(definition)
    return leaves, TreeDef(kind, keys, tuple(children))


def unflatten(definition: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of that structure with these leaves. Raises `ShapeError` if there are fewer than the
    tree has, and `DTypeError` for what is no structure.

    >>> leaves, definition = flatten({"a": (1, 2)})
    >>> unflatten(definition, [5, 6])
    {'a': (5, 6)}
    """
    try:
        return _build(definition, iter(leaves))
    except StopIteration:
        needed = len(paths(definition))
        raise ShapeError(
            f"unflatten: {needed} leaves are needed, fewer were given, at {format_locs(here())}"
        ) from None
    except (AttributeError, TypeError):
        _check_structure("unflatten", definition)
        if not isinstance(leaves, Iterable):
            raise DTypeError(
                f"unflatten: the leaves are several, as in a list, and no "
                f"{type(leaves).__name__}, at {format_locs(here())}"
            ) from None
        raise


def _check_structure(what: str, definition: Any) -> None:
    if not isinstance(definition, TreeDef):
        raise DTypeError(
            f"{what}: the structure is a TreeDef, as flatten gives it, not "
            f"{type(definition).__name__}, at {format_locs(here())}"
        ) from None


def _build(d: TreeDef, rest: Iterator[Any]) -> Any:
    # no function inside of `unflatten`: one that calls itself is a cycle, which held the leaves
    if d.kind is None:
        return next(rest)
    if d.kind is type(None):
        return None
    parts = [_build(c, rest) for c in d.children]
    if d.kind is dict:
        return dict(zip(d.keys, parts, strict=True))
    return d.kind(*parts) if hasattr(d.kind, "_fields") else d.kind(parts)


def paths(definition: TreeDef, name: str = "") -> list[str]:
    """How each leaf is written below ``name``: ``carry['h'][0]``. Raises `DTypeError` for what is
    no structure."""
    _check_structure("paths", definition)
    if definition.kind is None:
        return [name]
    return [
        p
        for key, child in zip(definition.keys, definition.children, strict=True)
        for p in paths(child, f"{name}[{key!r}]")
    ]


def map_tree(fn: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """``fn`` on each leaf (and on the matching leaves of ``others``, of the same structure). Raises
    `ShapeError` where the structures differ, and `DTypeError` for an ``fn`` that is no function."""
    if not callable(fn):
        raise DTypeError(
            f"map_tree: fn must be a function, not {type(fn).__name__}, at {format_locs(here())}"
        )
    leaves, definition = flatten(tree)
    columns = [leaves]
    for other in others:
        more, found = flatten(other)
        if found != definition:
            raise ShapeError(
                f"map_tree: the trees differ in structure: {definition} and {found}; give trees of "
                f"one structure, at {format_locs(here())}"
            )
        columns.append(more)
    return unflatten(definition, [fn(*row) for row in zip(*columns, strict=True)])
