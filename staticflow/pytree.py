"""Trees of leaves, flattened and put together again: tuples, lists, dicts, named tuples, and
objects of classes that are registered, in each other."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from staticflow.errors import DTypeError, NestingError, ShapeError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here

__all__ = [
    "DEEPEST", "LEAF", "NONE", "TreeDef", "flatten", "is_registered", "map_tree", "paths",
    "register_dataclass", "register_pytree_node", "register_pytree_node_class", "unflatten",
]  # fmt: skip

C = TypeVar("C", bound=type)

DEEPEST = 100
"""So many containers may be in each other: fewer than Python, which compares, hashes and prints
them, lets functions call themselves."""


class KeyOrder(tuple[Any, ...]):
    """The keys of a dict as they were put in. All are equal, as dicts are in whichever order."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyOrder)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return 0


class TreeDef(NamedTuple):
    """The structure of a tree. ``kind`` is None for a leaf, else the container's type;
    ``keys`` are the names or positions of the ``children``, ``aux`` is what an object of a
    registered class has beside them, and ``order`` that of the keys of a dict, which two
    structures may have different and are equal."""

    kind: type | None
    keys: tuple[Any, ...]
    children: tuple[TreeDef, ...]
    aux: Hashable = None
    order: KeyOrder = KeyOrder()

    @property
    def orders(self) -> tuple[Any, ...]:
        """The keys of all its dicts as they were put in: what ``==`` does not compare."""
        own = (tuple(self.order),) if self.order else ()
        return (*own, *(o for c in self.children for o in c.orders))

    @property
    def leaf_count(self) -> int:
        """How many leaves a tree of this structure has."""
        return 1 if self.kind is None else sum(c.leaf_count for c in self.children)

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        if self.kind is type(None):
            return "None"
        names = _registered[self.kind].fields if self.kind in _registered else ()
        inner = [
            f"{k!r}: {c}" if self.kind in (dict, OrderedDict)
            else f"{names[k]}={c}" if names
            else str(c)
            for k, c in zip(self.keys, self.children, strict=True)
        ]  # fmt: skip
        if self.aux is not None:
            inner.append(f"aux={self.aux!r}")
        text = ", ".join(inner)
        if self.kind is tuple:
            return f"({text},)" if len(self.keys) == 1 else f"({text})"
        if self.kind in (dict, list):
            return ("{" + text + "}") if self.kind is dict else f"[{text}]"
        if self.kind is OrderedDict:
            return f"OrderedDict({{{text}}})"
        return f"{self.kind.__name__}({text})"


class _Registered(NamedTuple):
    """How objects of a class are taken apart and put together, and the names of its children where
    these are attributes."""

    flatten: Callable[[Any], tuple[Iterable[Any], Hashable]]
    unflatten: Callable[[Hashable, Sequence[Any]], Any]
    fields: tuple[str, ...] = ()


_registered: dict[type, _Registered] = {}


def register_pytree_node(
    cls: C,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Hashable]],
    unflatten_fn: Callable[[Any, Sequence[Any]], Any],
) -> C:
    """Make objects of ``cls`` trees: what loops carry, and functions take and give.

    ``flatten_fn(object)`` gives the children, which are trees, and whatever else the object has:
    None, or something hashable that is equal for objects of one structure.
    ``unflatten_fn(rest, children)`` makes such an object again; its children may be of any type, so
    it must not look at them. Subclasses are classes of their own. Gives ``cls`` back. Raises
    `DTypeError` for what is no class, or is a tree already.

    >>> from staticflow.pytree import map_tree
    >>> class Interval:
    ...     def __init__(self, low, high, unit):
    ...         self.low, self.high, self.unit = low, high, unit
    >>> _ = register_pytree_node(
    ...     Interval, lambda v: ((v.low, v.high), v.unit), lambda unit, ends: Interval(*ends, unit)
    ... )
    >>> map_tree(lambda x: 2 * x, Interval(1, 3, "m")).high
    6
    """
    for name, fn in (("flatten_fn", flatten_fn), ("unflatten_fn", unflatten_fn)):
        if not callable(fn):
            raise DTypeError(
                f"register_pytree_node: {name} must be a function, not {type(fn).__name__}, at "
                f"{format_locs(here())}"
            )
    return _register("register_pytree_node", cls, _Registered(flatten_fn, unflatten_fn))


def register_pytree_node_class(cls: C) -> C:
    """A decorator: `register_pytree_node` by two methods of the class ``cls``, of JAX's names.

    ``tree_flatten(self)`` gives the children and what else the object has, and the class method
    ``tree_unflatten(rest, children)`` makes such an object again. Raises `DTypeError` for a class
    without them.

    >>> from staticflow.pytree import map_tree
    >>> @register_pytree_node_class
    ... class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    ...     def tree_flatten(self):
    ...         return (self.x, self.y), None
    ...     @classmethod
    ...     def tree_unflatten(cls, rest, children):
    ...         return cls(*children)
    >>> map_tree(lambda v: 2 * v, Point(1, 3)).y
    6
    """
    names = "tree_flatten", "tree_unflatten"
    methods: list[Any] = [getattr(cls, name, None) for name in names]
    for name, method in zip(names, methods, strict=True):
        if not callable(method):
            raise DTypeError(
                f"register_pytree_node_class: {getattr(cls, '__name__', cls)!r} has no method "
                f"{name}; write it, or give functions to register_pytree_node, at "
                f"{format_locs(here())}"
            )
    return _register("register_pytree_node_class", cls, _Registered(*methods))


def register_dataclass(
    cls: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] = (),
) -> C:
    """Make objects of the dataclass ``cls`` trees, of the fields ``data_fields``; those in
    ``meta_fields`` are part of the structure, hashable and equal wherever objects meet.

    Without ``data_fields`` they are all fields that are not in ``meta_fields`` and not declared
    with ``field(metadata={"static": True})``, which are meta fields, too. It serves as a decorator.
    Objects are put together without ``__init__`` and ``__post_init__``. Raises `DTypeError` for
    what is no dataclass or is a tree already, and for fields that it has not or that are left out.

    >>> from dataclasses import dataclass
    >>> from staticflow.pytree import map_tree
    >>> @register_dataclass
    ... @dataclass
    ... class State:
    ...     position: float
    ...     velocity: float
    >>> map_tree(lambda x: 2 * x, State(1.0, 3.0))
    State(position=2.0, velocity=6.0)
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise DTypeError(
            f"register_dataclass: {getattr(cls, '__name__', cls)!r} is no dataclass; decorate it "
            f"with @dataclasses.dataclass first, at {format_locs(here())}"
        )
    known = dataclasses.fields(cls)
    static = [f.name for f in known if f.metadata.get("static") and f.name not in meta_fields]
    meta = (*meta_fields, *(static if data_fields is None else ()))
    rest = [f.name for f in known if f.name not in meta]
    data = tuple(rest if data_fields is None else data_fields)
    if sorted((*data, *meta)) != sorted(f.name for f in known):
        raise DTypeError(
            f"register_dataclass: {cls.__name__} has the fields {[f.name for f in known]}, given "
            f"are {[*data]} and, as meta fields, {[*meta]}; give each of them once, at "
            f"{format_locs(here())}"
        )

    def take_apart(value: Any) -> tuple[Iterable[Any], Hashable]:
        aux = tuple([getattr(value, name) for name in meta]) if meta else None
        return [getattr(value, name) for name in data], aux

    def put_together(aux: Any, children: Sequence[Any]) -> Any:
        made = object.__new__(cls)
        for name, value in (*zip(data, children, strict=True), *zip(meta, aux or (), strict=True)):
            object.__setattr__(made, name, value)  # frozen dataclasses, too
        return made

    return _register("register_dataclass", cls, _Registered(take_apart, put_together, data))


def _register(what: str, cls: C, how: _Registered) -> C:
    if not isinstance(cls, type):
        raise DTypeError(
            f"{what}: a class is registered, not {type(cls).__name__}, at {format_locs(here())}"
        )
    if cls in (dict, list, type(None), OrderedDict) or issubclass(cls, tuple):
        raise DTypeError(f"{what}: {cls.__name__} is a tree already, at {format_locs(here())}")
    if hasattr(cls, "__sf_mode__"):
        raise DTypeError(
            f"{what}: {cls.__name__} is a tensor, and so a leaf of trees, at {format_locs(here())}"
        )
    if cls in _registered:
        raise DTypeError(
            f"{what}: {cls.__name__} is registered already; a class is registered once, at "
            f"{format_locs(here())}"
        )
    _registered[cls] = how
    return cls


def is_registered(cls: type) -> bool:
    """Whether objects of ``cls`` are trees since it was registered."""
    return cls in _registered


_ANY_ORDER = KeyOrder()
LEAF = TreeDef(None, (), ())
NONE = TreeDef(type(None), (), ())


def flatten(tree: Any, _level: int = 0) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree in order (dicts by sorted key, but an `OrderedDict`, and a dict whose
    keys have no order, in its own), and its structure. None has no leaves. Raises `NestingError` if
    more than `DEEPEST` containers are in each other.

    >>> flatten((1, [2, {"b": 4, "a": 3}]))[0]
    [1, 2, 3, 4]
    """
    if tree is None:
        return [], NONE
    kind = type(tree)
    aux: Hashable = None
    order = _ANY_ORDER
    if kind is dict:
        order = KeyOrder(tree)
        keys = _sorted_keys(tree)
        parts: Any = [tree[k] for k in keys]
    elif kind is list or isinstance(tree, tuple):
        keys, parts = tuple(range(len(tree))), tree
        kind = kind if kind is list or hasattr(kind, "_fields") else tuple
    elif kind in _registered:
        parts, aux = _take_apart(kind, tree)
        keys = tuple(range(len(parts)))
    elif kind is OrderedDict:
        keys, parts = tuple(tree), tree.values()
    else:
        return [tree], LEAF
    if _level == DEEPEST:
        raise NestingError(
            f"{with_article(kind)} lies within {DEEPEST} others, and no more may be in each other, "
            f"at {format_locs(here())}; give its leaves in one list"
        )
    leaves: list[Any] = []
    children = []
    for part in parts:
        sub, definition = flatten(part, _level + 1)
        leaves += sub
        children.append(definition)
    return leaves, TreeDef(kind, keys, tuple(children), aux, order)


def _sorted_keys(tree: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(tree))
    except (TypeError, RuntimeError):  # a name and a number; tensors
        return tuple(tree)


def _take_apart(kind: type, value: Any) -> tuple[tuple[Any, ...], Hashable]:
    """The children of an object of a registered class, and what else it has."""
    found = _registered[kind].flatten(value)
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Iterable)):
        raise DTypeError(
            f"{kind.__name__}: the function that takes it apart gives {type(found).__name__}; it "
            f"must give a pair, the children and the rest, at {format_locs(here())}"
        )
    try:
        hash(found[1])
    except TypeError:
        raise DTypeError(
            f"{kind.__name__}: what it has beside its children, {found[1]!r}, is part of the "
            "structure and must be hashable: make it a tuple, or one of the children if it is a "
            f"tensor, at {format_locs(here())}"
        ) from None
    return tuple(found[0]), found[1]


def unflatten(definition: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of that structure with these leaves, a dict in the order of the one that was
    flattened. Raises `ShapeError` if there are fewer than the
    tree has, and `DTypeError` for what is no structure.

    >>> leaves, definition = flatten({"a": (1, 2)})
    >>> unflatten(definition, [5, 6])
    {'a': (5, 6)}
    >>> leaves, definition = flatten({"w": 1, "b": 2})
    >>> leaves, unflatten(definition, leaves)
    ([2, 1], {'w': 1, 'b': 2})
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
    if d.kind is dict or d.kind is OrderedDict:
        made = d.kind(zip(d.keys, parts, strict=True))
        return made if not d.order or tuple(d.order) == d.keys else {k: made[k] for k in d.order}
    if d.kind in _registered:
        return _registered[d.kind].unflatten(d.aux, parts)
    return d.kind(*parts) if hasattr(d.kind, "_fields") else d.kind(parts)


def paths(definition: TreeDef, name: str = "") -> list[str]:
    """How each leaf is written below ``name``: ``carry['h'][0].mean``. Raises `DTypeError` for what
    is no structure, and for a name that is no text."""
    _check_structure("paths", definition)
    if not isinstance(name, str):
        raise DTypeError(
            f"paths: 'name' must be str, not {type(name).__name__}, at {format_locs(here())}"
        )
    if definition.kind is None:
        return [name]
    return [
        p
        for key, child in zip(definition.keys, definition.children, strict=True)
        for p in paths(child, name + _step(definition.kind, key))
    ]


def _step(kind: type, key: Any) -> str:
    """How a child is written behind the container."""
    names = _registered[kind].fields if kind in _registered else getattr(kind, "_fields", ())
    return f".{names[key]}" if names else f"[{key!r}]"


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
