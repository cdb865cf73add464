"""Arguments by NumPy's names, which PyTorch takes, too: ``x.sum(axis=1, keepdims=True)``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from staticflow.graph.out import into
from staticflow.ops.declaring.foreign import foreign_errors, refuse_foreign
from staticflow.ops.declaring.other_names import NUMPY_NAMES, refuse_twice

__all__ = ["numpy_names"]

F = TypeVar("F", bound=Callable[..., Any])


def numpy_names(fn: F) -> F:
    """Let ``fn`` take ``axis`` for ``dim`` and ``keepdims`` for ``keepdim``, without looking for
    the names only where it fails: it is called so often.

    ``dtype=None`` says nothing: ``np.mean(x)`` gives it to the method of ``x``.
    """

    @wraps(fn)
    def call(*args: Any, **given: Any) -> Any:
        own = given
        try:
            if not given:
                return fn(*args)
            if "out" in given:
                return into(fn.__name__, call, args, given)
            own = {NUMPY_NAMES.get(name, name): value for name, value in given.items()}
            if len(own) < len(given):
                refuse_twice(fn, given)
            if own.get("dtype", own) is None:
                del own["dtype"]
            return fn(*args, **own)
        except foreign_errors() as error:
            refuse_foreign(fn, fn.__name__, error, args, own)
            raise

    return cast("F", call)
