"""What kinds of values the parameters of a function take, by their annotations: the one declaration
that signatures, errors and the check before a call share.

Python takes any object where a condition is asked for, and a fraction in many places where an
integer is meant; whoever writes ``keepdim="no"`` means something that did not happen. So what a
parameter that is annotated as a number or a switch is given is looked at before the function runs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from staticflow.graph.dims import Dim

__all__ = ["kind_of_parameter", "takes", "takes_numbers", "wrong_number"]

_INTEGERS = (int, np.integer, Dim)

_KINDS: Mapping[str, tuple[Any, ...]] = {
    "int": _INTEGERS,
    "Size": _INTEGERS,
    "float": (*_INTEGERS, float, np.number),
    "bool": (bool, int, np.integer, np.bool_),
    "str": (str,),
    "None": (type(None),),
    "Dims": (*_INTEGERS, list, tuple, range, type(None)),
    "Sequence": (list, tuple, range),
    "tuple": (list, tuple),
    "Callable": (Callable,),
}
"""What values an annotation takes, by its first word; one with another word may take any."""

_AS: Mapping[str, str] = {"int": "__index__", "Size": "__index__", "float": "__float__"}
"""The method by which a value of another class counts as a number of a kind."""

_NUMBERS = frozenset(("bool", "int", "Size", "float", "None"))
"""The words of the annotations that are looked at before a function runs."""

_IN_WORDS = (
    (r"Callable\[.*\]", "a function"), ("Dims", "int | Sequence[int] | None"), ("Size", "int"),
    ("Any", "Tensor"),
)  # fmt: skip


def kind_of_parameter(parameter: inspect.Parameter, value: Any) -> str:
    """What the annotation of a parameter says that it is, in words, if ``value`` is not."""
    words = str(parameter.annotation).split(" | ")
    kinds = [_KINDS.get(word.split("[")[0]) for word in words]
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or None in kinds:
        return ""
    if any(isinstance(value, kind) for kind in kinds if kind):
        return ""
    text = " | ".join(words)
    for word, meaning in _IN_WORDS:
        text = re.sub(word, meaning, text)
    return text


def takes(parameter: inspect.Parameter, value: Any) -> bool:
    """Whether a parameter takes ``value`` for sure, so that it is the last to be blamed: it is the
    default, or of the kinds that the annotation names."""
    words = str(parameter.annotation).split(" | ")
    return value is parameter.default or all(word.split("[")[0] in _KINDS for word in words)


@cache
def _is_of_numbers(annotation: str) -> bool:
    return annotation != "None" and _NUMBERS.issuperset(annotation.split(" | "))


def takes_numbers(fn: Callable[..., Any]) -> bool:
    """Whether a parameter of ``fn`` is annotated as a number or a switch."""
    return any(
        _is_of_numbers(text) and name != "return"
        for name, text in getattr(fn, "__annotations__", {}).items()
        if isinstance(text, str)
    )


@cache
def _numbers(fn: Callable[..., Any]) -> Mapping[str | int, inspect.Parameter]:
    """The parameters of ``fn`` that are numbers or switches, by name and by place."""
    found: dict[str | int, inspect.Parameter] = {}
    for place, p in enumerate(inspect.signature(fn).parameters.values()):
        variadic = p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if _is_of_numbers(str(p.annotation)) and not variadic:
            found[p.name] = p
            if p.kind is not p.KEYWORD_ONLY:
                found[place] = p
    return found


def wrong_number(
    fn: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]
) -> tuple[str, Any, str] | None:
    """The first argument that cannot be the number or switch that ``fn`` takes there, its value,
    and what it must be, in words.

    Tensors and arrays are left to the function: those of one element may stand for a number.
    """
    parameters = _numbers(fn)
    given: list[tuple[str | int, Any]] = [*enumerate(args), *kwargs.items()]
    for place, value in given:
        p = parameters.get(place)
        if p is None or value is p.default or _counts_as(str(p.annotation), type(value)):
            continue
        if kind := kind_of_parameter(p, value):
            return p.name, value, kind
    return None


def _counts_as(annotation: str, kind: type) -> bool:
    if hasattr(kind, "__sf_mode__") or issubclass(kind, np.ndarray):
        return True
    methods = [_AS[word] for word in annotation.split(" | ") if word in _AS]
    return any(hasattr(kind, method) for method in methods)
