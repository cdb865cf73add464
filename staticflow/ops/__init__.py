"""Every operation, declared once: documentation, type rule, reference, derivative and lowering."""

from __future__ import annotations

import copyreg
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from importlib import import_module
from typing import Any

from staticflow.graph.node import constant, item, param
from staticflow.graph.op import Op
from staticflow.graph.reals import Real
from staticflow.ops.symbols import real_sizes

__all__ = ["OPS"]


def _modules(folder: str, package: str) -> Iterator[str]:
    """The modules of a package, in a tenth of the time that ``pkgutil.walk_packages`` takes."""
    for file in sorted(os.listdir(folder)):
        name, _, suffix = file.partition(".")
        if suffix == "py" and name != "__init__":
            yield f"{package}.{name}"
        elif not suffix and not name.startswith("__"):
            yield f"{package}.{name}"
            yield from _modules(os.path.join(folder, name), f"{package}.{name}")


def _all_ops() -> Iterator[Op]:
    """The ops that the modules of this package have, some of them several times."""
    for name in _modules(__path__[0], __name__):
        for value in vars(import_module(name)).values():
            if isinstance(value, Op):
                yield value


def by_name(ops: Iterable[Op]) -> dict[str, Op]:
    """The ops by their names. Raises `ValueError` where two have one name."""
    found: dict[str, Op] = {}
    for op in ops:
        if found.setdefault(op.name, op) is not op:
            raise ValueError(f"two ops are named {op.name!r}; a name stands for one in texts")
    return found


_APART = frozenset((
    "param", "constant", "item",  # which the text writes in a way of their own
    "read", "effect", "watch",  # marks in a trace, which no closed graph has
    "nonzero", "masked_select", "unique", "bincount",  # whose results have no type before they run
))  # fmt: skip

_ALL = by_name((param, constant, item, *_all_ops()))

OPS = {name: op for name, op in _ALL.items() if name not in _APART}
"""Every op that stands in programs, by name: what the parser of the text and the tests go
through."""


def op_named(name: str) -> Op:
    """The op of that name: what a copy of it is, and what a pickled one is read as."""
    return _ALL[name]


def _reduce(op: Op) -> tuple[Callable[..., Op], tuple[Any, ...]]:
    if _ALL.get(op.name) is op:
        return op_named, (op.name,)
    return Op, tuple(getattr(op, f.name) for f in fields(Op))  # which a user has made


copyreg.pickle(Op, _reduce)
Real.number, Real.ufunc = real_sizes.number_of_size, real_sizes.ufunc_of_sizes
