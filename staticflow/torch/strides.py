"""``as_strided`` where it says how elements lie, and leaves none out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

__all__ = ["function_of_strides"]


def function_of_strides(node: Any) -> Callable[..., Any] | None:
    """The function of an ``as_strided``, or its scatter, of a graph, which takes all elements of
    its argument in another shape, as pooling of channels-last memory asks for; None for others."""
    name = str(node.target)
    scatters = name == "aten.as_strided_scatter.default"
    if not scatters and name != "aten.as_strided.default":
        return None
    given = [_value(a) for a in node.args]
    offset = given[3 + scatters] if len(given) > 3 + scatters else node.kwargs.get("storage_offset")
    base, size, stride = given[0], given[1 + scatters], given[2 + scatters]
    own, own_count = _dims_in_memory(base.shape, base.stride())
    new, new_count = _dims_in_memory(size, stride)
    starts_alike = offset is None or _is_true(_value(offset) == base.storage_offset())
    if own is None or new is None or not starts_alike or not _is_true(own_count == new_count):
        return None

    return partial(_put_all if scatters else _take_all, tuple(own), tuple(new))


def _take_all(
    own: tuple[int, ...], new: tuple[int, ...], x: Any, size: Sequence[Any], *_: Any, **__: Any
) -> Any:
    """The elements of ``x``, which lie in the order of its dims ``own``, in a tensor of ``size``
    that lies in the order of ``new``."""
    return _reorder(x, own, new, [size[d] for d in new])


def _put_all(
    own: tuple[int, ...], new: tuple[int, ...], x: Any, source: Any, *_: Any, **__: Any
) -> Any:
    """What `_take_all` takes of the result is ``source``; ``x`` says its shape."""
    return _reorder(source, new, own, [x.shape[d] for d in own])


def _reorder(x: Any, of: Sequence[int], to: Sequence[int], sizes: Sequence[Any]) -> Any:
    """The elements of ``x`` as they follow each other along its dims ``of``, along the dims ``to``
    of ``sizes``."""
    return (
        x.permute(tuple(of))
        .reshape(tuple(sizes))
        .permute(sorted(range(len(to)), key=to.__getitem__))
    )


def _dims_in_memory(
    sizes: Sequence[Any], strides: Sequence[Any]
) -> tuple[Sequence[int] | None, Any]:
    """The dims from that whose elements lie farthest apart on, and the number of elements; None for
    the dims where elements lie on each other, or apart from all."""
    order = sorted(range(len(sizes)), key=lambda d: (_hint(strides[d]), _hint(sizes[d])))[::-1]
    count: Any = 1
    for d in reversed(order):
        if not _is_true(sizes[d] == 1) and not _is_true(strides[d] == count):
            return None, count
        count = count * sizes[d]
    return order, count


def _value(argument: Any) -> Any:
    """What an argument of a node was as the graph was written."""
    if isinstance(argument, list | tuple):
        return [_value(a) for a in argument]
    return argument.meta["val"] if hasattr(argument, "meta") else argument


def _hint(size: Any) -> int:
    """A number, and of an open one that of the example."""
    return size if isinstance(size, int) else int(size.node.hint)


def _is_true(fact: Any) -> bool:
    """Whether a comparison holds for all open sizes."""
    shapes = import_module("torch.fx.experimental.symbolic_shapes")
    return bool(shapes.statically_known_true(fact))
