"""Arguments by NumPy's names, which PyTorch takes, too: ``x.sum(axis=1, keepdims=True)``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from staticflow.graph.out import into
from staticflow.ops.declaring.foreign import foreign_errors, refuse_foreign

__all__ = ["numpy_names"]

F = TypeVar("F", bound=Callable[..., Any])

_NAMES = {"axis": "dim", "keepdims": "keepdim", "ddof": "correction"}


def numpy_names(fn: F) -> F:
    """Let ``fn`` take ``axis`` for ``dim`` and ``keepdims`` for ``keepdim``.

    ``dtype=None`` says nothing: ``np.mean(x)`` gives it to the method of ``x``.
    """

    @wraps(fn)
    def call(*args: Any, **given: Any) -> Any:
        try:
            if not given:
                return fn(*args)
            if "out" in given:
                return into(fn.__name__, call, args, given)
            return fn(
                *args,
                **{
                    _NAMES.get(name, name): value
                    for name, value in given.items()
                    if value is not None or name != "dtype"
                },
            )
        except foreign_errors() as error:
            renamed = {_NAMES.get(name, name): value for name, value in given.items()}
            refuse_foreign(fn, fn.__name__, error, args, renamed)
            raise

    return cast("F", call)
