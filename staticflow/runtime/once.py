"""The lock around what is compiled, and what is made once in a process."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

__all__ = ["Lock", "compiling", "once"]

P = ParamSpec("P")
T = TypeVar("T")


_RLock: Any = type(threading.RLock())  # the stub of which lacks what a fork needs


class Lock(_RLock):  # type: ignore[misc]  # of type Any: its way out must be that of C, see below
    """A lock that its holder may take again, since a finalizer or a handler of a signal may compute
    in the midst, and that nobody holds in a forked child.

    In CPython 3.14 a handler may raise between the call of ``__enter__`` and the block, so that an
    `RLock` stays held (https://github.com/python/cpython/issues/148874), but not as a function of
    Python returns. So ``__enter__`` is one, and ``__exit__``, as which begins it may, is none.
    """

    def __init__(self) -> None:
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._at_fork_reinit)

    if sys.version_info[:2] == (3, 14):

        def __enter__(self) -> None:
            held = self._recursion_count()
            try:
                self.acquire()
            except BaseException:
                if self._recursion_count() > held:
                    self.release()
                raise


compiling = Lock()
"""Held while native code is made, and while a program is looked for again, made and kept, so that
each is made once. There is no other lock around these: of two locks, two threads could each hold
one and wait for the other, as a finalizer may compile wherever it runs."""


def once(make: Callable[P, T]) -> Callable[P, T]:
    """``make``, called when its value of some arguments is first asked for and then no more, even
    if several threads ask at a time; `functools.cache` lets each of them make one, and drops all
    but one, to which others may point already.

    What is made while another is in the making, by a finalizer, is kept for the same reason.
    """
    made: dict[Any, list[T]] = {}

    @functools.cache
    @functools.wraps(make)
    def get(*args: P.args, **kwargs: P.kwargs) -> T:
        key = (args, *kwargs.items())
        with compiling:
            if key not in made:
                value = make(*args, **kwargs)
                # (in one step, since a handler of a signal may raise between two)
                made[key] = [*made.get(key, ()), value]
            return made[key][0]

    return cast(Callable[P, T], get)
