"""Small objects whose memory is used again for others of their class.

CPython's collector of garbage walks the young objects whenever 700 more of those that it knows were
allocated than freed (2,000 from CPython 3.13 on), and now and then all there are, which takes as
long as 100,000 operations. It does not count what is taken from a list of free objects, as tuples
are, of which 2,000 wait there at most. So here: what is recorded again and again, and freed, costs
no pass; a tape that is longer than those before it, or that a reference cycle keeps, is counted.
The collector finds these objects as it finds others.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any, final

from staticflow.native.layout import Layout, structure
from staticflow.runtime.free_objects import Pool, class_functions, drop_elements, row
from staticflow.runtime.host import python_symbols
from staticflow.runtime.native import NativeModule, compile_native, native_text
from staticflow.runtime.object_layout import ALLOC, ARRAYS, DEALLOC, FREE
from staticflow.runtime.once import once

__all__ = ["Row", "recycle"]

_KEPT: list[tuple[NativeModule, Any]] = []  # as long as the process lives


@final
class Row(tuple[Any, ...]):
    """A tuple that native code makes by ``row``. It is not to be hashed."""

    __slots__ = ()


@once  # made anew, it would take up what the code that is made already does not give
def recycle(classes: tuple[type, ...], hidden: tuple[type, ...]) -> dict[str, int]:
    """Let the memory of instances of these classes (not of derived ones), and of rows, be used
    again, for as long as the process lives. The classes have slots, and no finalizers; what the
    ``hidden`` ones hold leads back to nothing, so that the collector need not know of them.

    Gives the address of ``row``, a function of native code, by its name.
    `has_known_layout` says whether there can be any.
    """
    every = (*classes, *hidden)
    functions = class_functions([*(True for _ in classes), *(False for _ in hidden)])
    pools = (structure(Pool) * len(every))()
    native: list[Callable[..., Any]] = [row, drop_elements, *itertools.chain(*functions)]
    names = [fn.__name__ for fn in native]
    text = native_text(native, Layout(ARRAYS))
    symbols = {"row_type": id(Row), "class_pools": ctypes.addressof(pools)}
    module = compile_native(text, names, {**symbols, **python_symbols(text)})
    _KEPT.append((module, pools))
    _set(Row, DEALLOC, module.address("drop_elements"))
    for cls, (alloc, free) in zip(every, functions, strict=True):
        _set(cls, ALLOC, module.address(alloc.__name__))
        _set(cls, FREE, module.address(free.__name__))
    return {"row": module.address("row")}


def _set(cls: type, offset: int, address: int) -> None:
    ctypes.c_void_p.from_address(id(cls) + offset).value = address
