"""Arguments of a wrong kind: one error that names the function, the argument and the user's line.

What is annotated as a number or a switch is looked at before a function runs, once for each
combination of classes of arguments. Where a function fails with an error of Python's or NumPy's
own, the argument that is to blame is looked for: by the kinds that the signature names, and, of
tensors, by what the value has not.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, wraps
from types import FunctionType, TracebackType
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from staticflow.errors import (
    ArgumentError,
    DTypeError,
    IndexRangeError,
    ShapeError,
    StaticflowError,
)
from staticflow.graph.articles import class_in_words, is_of_library
from staticflow.graph.called import name_the_function
from staticflow.graph.dtypes import DType
from staticflow.graph.locs import format_locs, here, is_inside
from staticflow.graph.out import into
from staticflow.ops.declaring.argument_kinds import (
    kind_of_parameter,
    takes,
    takes_numbers,
    wrong_number,
)
from staticflow.ops.declaring.other_names import with_own_names

__all__ = [
    "UNWORDED", "NumbersChecked", "foreign_errors", "how_to_wrap", "is_of_library", "kind_of",
    "own_method", "refuse_foreign", "refuses_data", "refuses_foreign", "refuses_foreign_in",
    "refuses_foreign_in_classes", "refuses_foreign_of", "refuses_foreign_to_make",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

_FOREIGN = (
    AttributeError, TypeError, ValueError, LookupError, OverflowError, ZeroDivisionError,
    AssertionError, UnboundLocalError, SystemError, MemoryError,
)  # fmt: skip


def foreign_errors() -> tuple[type[Exception], ...]:
    """What a value of a wrong kind may lead to. Nobody has a masked array who has not imported
    what they are made of."""
    masked = sys.modules.get("numpy.ma")
    return (*_FOREIGN, masked.MAError) if masked else _FOREIGN


_QUALIFIED = re.compile(r"^[\w.<>]+\(\)")
"""The function that Python names where arguments are missing, perhaps another one's: what a class
inherits is its base's there."""

_OF_CALL = re.compile(_QUALIFIED.pattern + " (missing|takes|got an unexpected)")
"""What Python says of a function that is called with too few arguments, or with too many."""

_NO_ARRAY = (
    r"array is too big|iterator is too large|Maximum allowed (dimension|size) exceeded"
    r"|maximum supported dimension|ndmin must be|int too (large|big) to convert"
)
"""What NumPy and Python say of sizes that no array can have, whatever memory there is."""

_ELSEWHERE: Mapping[str, tuple[Collection[str], str]] = {
    "compile": (
        ("backend", "disable", "dynamic", "fullgraph", "mode", "model", "options"),
        "; what torch.compile does with a function or a module, sf.jit(f) does",
    ),
}
"""Functions that PyTorch has under the same name for something else: arguments of theirs, and what
to say of them."""

_DATA = (list, tuple, np.ndarray)
_OF_NO_TENSOR = (AttributeError, TypeError)
"""What comes of it that a value is no tensor; other errors tell of something else."""

_NO_OPERANDS = (*_DATA, str)
"""What is no tensor, nor a number, which may stand in the place of many."""

_SHOWN = 6
"""Up to how many values of a list an error shows."""


def refuse_foreign(
    fn: Any, name: str, error: Exception, args: Any, kwargs: Any, takes_tensors: bool = True
) -> None:
    """Raise what ``error`` means, an error of a call of ``fn``, known as ``name``; return if it is
    worded already, which then names ``fn``, or comes of a function of the user's that was called
    on the way."""
    wanted = getattr(error, "wanted", "")
    at = f"at {format_locs(here())}"
    is_ours = isinstance(error, StaticflowError)
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    is_worded = text.endswith(at) or (is_ours and ", at " in str(error))
    if _is_of_user(error.__traceback__):
        return
    if is_worded and not wanted:
        if isinstance(error, StaticflowError):
            name_the_function(error, name, fn)
        return
    try:
        call = inspect.signature(fn).bind(*args, **kwargs)
    except ValueError:  # of an op, which has said it
        return
    except TypeError:  # too few or too many
        if type(error) is not TypeError:
            return
        words = _QUALIFIED.sub(f"{name}()", str(error))
        taken_there, hint = _ELSEWHERE.get(name, ((), ""))
        raise TypeError(f"{words}{hint if {*kwargs} & {*taken_there} else ''}, {at}") from None
    parameters, given = call.signature.parameters, call.arguments
    said = {k: v for k, v in given.items() if v is not parameters[k].default}
    if re.search(_NO_ARRAY, str(error)):
        raise ShapeError(
            f"{name}({_in_short(said)}): an array has at most 64 dims and {sys.maxsize} bytes "
            f"({error}), {at}"
        ) from None
    for argument, value in given.items():
        kind = _other_kind(parameters[argument], value)
        if kind:
            _refuse(name, argument, value, kind, at)
    if wanted:
        blamed = getattr(error, "value", None)
        found = [
            k
            for k, v in _within(given)
            if v is blamed and (wanted != "a tensor" or _may_be_tensor(parameters[_first(k)]))
        ]
        found.sort(key=lambda k: _first(k) not in wanted)  # such as dtype
        found.sort(key=lambda k: takes(parameters[_first(k)], blamed))
        if found:
            _refuse(name, found[0], blamed, wanted, at)
        for argument, value in _within(given):
            if is_of_library(value) and getattr(value, "dtype", None) is blamed:
                _refuse(name, argument, value, "a tensor", at)
        return  # a value that the function has made itself
    takes_tensors = takes_tensors and isinstance(error, _OF_NO_TENSOR) and not is_ours
    takes_tensors = takes_tensors and not _OF_CALL.match(text)  # of a function of the user's
    of_any = {k: v for k, v in given.items() if takes_tensors and _is_of_any(parameters[k])}
    for argument, value in _within(of_any):
        if _lacks(value, error):
            _refuse(name, argument, value, "a tensor", at)
        if not isinstance(error, AttributeError):
            break  # only the first must be a tensor for sure
    if "input" in of_any and not any(hasattr(v, "__sf_mode__") for _, v in _within(given)):
        _refuse(name, "input", given["input"], "a tensor", at)
    reason = str(error) or type(error).__name__  # Python's MemoryError says nothing
    raise _class_of(error)(f"{name}({_in_short(said)}): {reason}, {at}") from error


def _refuse(name: str, argument: str, value: Any, wanted: str, at: str) -> NoReturn:
    help = ""
    if wanted == "a tensor":
        can_wrap = isinstance(value, _DATA) or is_of_library(value)
        help = f"; {how_to_wrap(value) if can_wrap else 'give a tensor'}"
    message = f"{name}: {argument!r} must be {wanted}, not {kind_of(value)}{help}, {at}"
    raise DTypeError(message, value, wanted) from None


def _is_of_user(trace: TracebackType | None) -> bool:
    """Whether an error passed through code that is neither ours nor NumPy's, nor Python's own."""
    while trace is not None:
        if not is_inside(trace.tb_frame.f_code.co_filename):
            return True
        trace = trace.tb_next
    return False


def _other_kind(parameter: inspect.Parameter, value: Any) -> str:
    """What a parameter must be, in words, if ``value`` is not; a tensor may be of one element."""
    if hasattr(value, "__sf_mode__") and str(parameter.annotation) != "str":
        return ""
    return kind_of_parameter(parameter, value)


def _first(path: str) -> str:
    """The argument that ``x[0][1]`` is a part of."""
    return path.partition("[")[0]


def _may_be_tensor(parameter: inspect.Parameter) -> bool:
    return _is_of_any(parameter) or parameter.annotation is parameter.empty


def _is_of_any(parameter: inspect.Parameter) -> bool:
    words = str(parameter.annotation)
    return "Any" in words and not words.startswith("Callable")


def _lacks(value: Any, error: Exception) -> bool:
    """Whether ``error`` came of it that ``value`` has not what a tensor has."""
    if not isinstance(error, AttributeError):
        return isinstance(value, _NO_OPERANDS)
    alike = isinstance(value, np.ndarray) and type(error.obj) is type(value)
    is_own = hasattr(value, "__sf_mode__")
    by_dtype = not is_own and getattr(value, "dtype", error) is error.obj
    return value is error.obj or alike or by_dtype


def _within(given: Mapping[str, Any], levels: int = 8) -> Iterator[tuple[str, Any]]:
    """The arguments of a call by name, and what is in those that are several, some ``levels`` down:
    a list may be in itself."""
    for name, value in given.items():
        yield name, value
        if levels and isinstance(value, list | tuple):
            yield from _within({f"{name}[{i}]": v for i, v in enumerate(value)}, levels - 1)


def how_to_wrap(value: Any) -> str:
    """What makes a tensor of ``value``."""
    if is_of_library(value):
        return "take over another library's with sf.from_dlpack(...)"
    return "wrap data with sf.tensor(...) or sf.from_numpy(...)"


def kind_of(value: Any) -> str:
    """What ``value`` is, in a word: its dtype and shape, or its class."""
    if hasattr(value, "__sf_mode__"):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return repr(value) if isinstance(value, str) else class_in_words(value)


def _in_short(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={_describe(v)}" for k, v in arguments.items())


def _describe(value: Any) -> str:
    if isinstance(value, list | tuple) and len(value) <= _SHOWN:
        inside = ", ".join(map(_describe, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    plain = value is None or isinstance(value, bool | int | float)
    return repr(value) if plain else str(value) if isinstance(value, DType) else kind_of(value)


def _class_of(error: Exception) -> type[Exception]:
    if isinstance(error, StaticflowError):
        return type(error)
    if isinstance(error, MemoryError):
        return MemoryError
    if isinstance(error, TypeError | AttributeError):
        return DTypeError
    return IndexRangeError if isinstance(error, IndexError) else ArgumentError


class NumbersChecked:
    """The classes of arguments with which a function was called whose numbers and switches are
    such: what has ``passed`` once is not looked at again."""

    __slots__ = ("fn", "passed")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.passed: set[Any] = set()

    @classmethod
    def of(cls, fn: Callable[..., Any]) -> NumbersChecked | None:
        """What looks at the calls of ``fn``; None if it takes neither numbers nor switches."""
        return cls(fn) if takes_numbers(fn) else None

    @staticmethod
    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the check looks at: the classes, and which arguments are named."""
        if kwargs:
            return *map(type, args), *kwargs, *map(type, kwargs.values())
        return tuple(map(type, args))

    def check(self, name: str, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise for the first argument that is no number where one is asked for."""
        wrong = wrong_number(self.fn, args, kwargs)
        if wrong is not None:
            _refuse(name, *wrong, f"at {format_locs(here())}")
        self.passed.add(key)


# -- who has it -----------------------------------------------------------------------------------


@cache  # so that what has two names stays one function
def refuses_foreign(fn: F) -> F:
    """``fn`` with that error, which takes arguments by `other_names`, too. Those are looked for
    where it fails, so that no other call waits."""

    checked = NumbersChecked.of(fn)

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if checked is not None and (key := checked.key(args, kwargs)) not in checked.passed:
            checked.check(fn.__name__, key, args, kwargs)
        try:
            return fn(*args, **kwargs)
        except foreign_errors() as error:
            if "out" in kwargs:
                return into(fn.__name__, call, args, kwargs)
            own = with_own_names(fn, kwargs)
            if own == kwargs:
                refuse_foreign(fn, fn.__name__, error, args, kwargs)
                raise
        return call(*args, **own)

    return cast("F", call)


_ROOMS = tuple(
    f"staticflow.{room}"
    for room in (
        "ops.",
        "nn.",
        "special",
        "linalg",
        "eager.",
        "graph.dtypes",
        "autograd.",
        "distributions.",
        "optim.",
        "static.",
        "serialization",
        "pytree",
        "utils.",
        "array_api.",
        "distributed.",
        "runtime.",
    )
)


UNWORDED: set[Any] = set()
"""The wrappers of functions that hand on errors as they are."""


def _is_function(fn: Any) -> bool:
    """Whether ``fn`` is a function of ops without one of the wrappers that have that error."""
    is_function = type(fn) is FunctionType and fn.__module__.startswith(_ROOMS)
    return is_function and (fn in UNWORDED or not hasattr(fn, "__wrapped__"))


def refuses_foreign_in(names: dict[str, Any], around: Callable[[Any], Any] = lambda fn: fn) -> None:
    """Give the public functions of ops among the ``names`` of a package that error, and what
    ``around`` puts around them. Pickle finds them there by their own names."""
    for name in names.get("__all__", list(names)):
        if name in names and _is_function(names[name]):
            names[name] = worded = refuses_foreign(around(names[name]))
            if worded.__name__ == name:
                worded.__module__ = names["__name__"]


def refuses_foreign_of(methods: type, but: Collection[str] = ()) -> None:
    """Give the methods that take further arguments that error, ``but`` those that say themselves
    what is wrong, without a frame more."""
    for name, fn in list(vars(methods).items()):
        if _is_function(fn) and not name.startswith("_") and name not in but:
            code = inspect.unwrap(fn).__code__
            named = code.co_argcount - max(1, code.co_posonlyargcount) + code.co_kwonlyargcount
            if named > 0:
                setattr(methods, name, refuses_foreign(fn))


def refuses_foreign_to_make(base: type, around: Callable[[Any], Any] = lambda fn: fn) -> None:
    """Give the constructors of the classes below ``base``, which take no tensors, that error, and
    what ``around`` puts around them."""
    classes: list[type] = base.__subclasses__()
    for cls in classes:
        made = vars(cls).get("__init__")
        if made is not None and not hasattr(made, "__wrapped__"):
            type.__setattr__(cls, "__init__", own_method(around(made), ""))
        refuses_foreign_to_make(cls, around)


def refuses_data(fn: F) -> F:
    """``fn``, a constructor of what is then called on data, with an error where it is given these
    in the place of what only says how to compute."""

    @wraps(fn)
    def make(self: Any, *args: Any, **kwargs: Any) -> Any:
        if any(map(_is_data, (*args, *kwargs.values()))):
            _refuse_data(fn.__get__(self), type(self).__name__, args, kwargs)
        return fn(self, *args, **kwargs)

    return cast("F", make)


def _is_data(value: Any) -> bool:
    is_own = hasattr(value, "__sf_mode__") or isinstance(value, np.ndarray)
    return is_own and value.ndim > 0


def _refuse_data(fn: Any, name: str, args: Any, kwargs: Any) -> None:
    try:
        call = inspect.signature(fn).bind(*args, **kwargs)
    except TypeError:  # too few or too many: Python says it
        return
    for argument, value in call.arguments.items():
        if _is_data(value) and (
            kind := kind_of_parameter(call.signature.parameters[argument], value)
        ):
            raise DTypeError(
                f"{name}: {argument!r} must be {kind}, not {kind_of(value)}; make the layer first, "
                f"then call it on data: layer = {name}(...); layer(x), at {format_locs(here())}"
            )


def refuses_foreign_in_classes(base: type, but: Collection[str] = ()) -> None:
    """Give the public methods of ``base``, which is no tensor, and of the classes below it that
    error, ``but`` those that are called so often that a frame more would cost."""
    classes: list[type] = base.__subclasses__()
    for cls in classes:
        refuses_foreign_in_classes(cls, but)
    for name, fn in list(vars(base).items()):
        is_own = type(fn) is FunctionType and not hasattr(fn, "__wrapped__")
        if is_own and not name.startswith("_") and name not in but:
            type.__setattr__(base, name, own_method(fn, f".{name}"))


def own_method(fn: F, suffix: str = "") -> F:
    """``fn``, a method of what is no tensor, or its constructor, known as the class of that with a
    ``suffix``."""

    checked = NumbersChecked.of(fn)

    @wraps(fn)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if checked is not None and (key := checked.key(args, kwargs)) not in checked.passed:
            name = (self if isinstance(self, type) else type(self)).__name__ + suffix
            checked.check(name, key, (self, *args), kwargs)
        try:
            return fn(self, *args, **kwargs)
        except foreign_errors() as error:
            own = with_own_names(fn, kwargs)
            if own == kwargs:
                name = (self if isinstance(self, type) else type(self)).__name__ + suffix
                refuse_foreign(fn.__get__(self), name, error, args, kwargs, takes_tensors=False)
                raise
        return call(self, *args, **own)

    return cast("F", call)
