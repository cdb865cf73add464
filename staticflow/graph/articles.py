"""How messages name a value: its class, of another library too, behind *a* or *an*."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

__all__ = ["class_in_words", "is_of_library", "with_article"]


def with_article(noun: str | type) -> str:
    """A noun, or the name of a class, behind *a* or *an*, as it is spoken.

    >>> [with_article(noun) for noun in (int, list, "uint8", "ndarray", "SGD", "MyModule")]
    ['an int', 'a list', 'a uint8', 'an ndarray', 'an SGD', 'a MyModule']
    """
    noun = noun.__name__ if isinstance(noun, type) else noun
    return f"{'an' if _BEGINS_WITH_A_VOWEL.match(noun) else 'a'} {noun}"


_BEGINS_WITH_A_VOWEL = re.compile(r"[aeioAEIO]|[uU](?!int|ni|se|sa|func)|nd|[FHLMNRSX][A-Z]")
"""The last two alternatives are read letter by letter, as *ndarray* and *SGD* are."""


def is_of_library(value: Any) -> bool:
    """Whether ``value`` is the tensor of another library."""
    is_own = isinstance(value, np.ndarray | np.generic) or hasattr(value, "__sf_mode__")
    return hasattr(value, "__dlpack__") and not is_own


def class_in_words(value: Any) -> str:
    """The name of the class of ``value``, behind that of its library for a tensor of another one.

    >>> class_in_words(3)
    'int'
    """
    name = type(value).__name__
    return f"{type(value).__module__.partition('.')[0]}.{name}" if is_of_library(value) else name
