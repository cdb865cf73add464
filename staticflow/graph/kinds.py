"""What a value is, in a word, where it is no tensor of ours."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["class_in_words", "is_of_library"]


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
