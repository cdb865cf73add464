"""*A* or *an*, in messages."""

from __future__ import annotations

import re

__all__ = ["with_article"]


def with_article(noun: str | type) -> str:
    """A noun, or the name of a class, behind *a* or *an*, as it is spoken.

    >>> [with_article(noun) for noun in (int, list, "uint8", "ndarray", "SGD", "MyModule")]
    ['an int', 'a list', 'a uint8', 'an ndarray', 'an SGD', 'a MyModule']
    """
    noun = noun.__name__ if isinstance(noun, type) else noun
    return f"{'an' if _BEGINS_WITH_A_VOWEL.match(noun) else 'a'} {noun}"


_BEGINS_WITH_A_VOWEL = re.compile(r"[aeioAEIO]|[uU](?!int|ni|se|sa|func)|nd|[FHLMNRSX][A-Z]")
"""The last two alternatives are read letter by letter, as *ndarray* and *SGD* are."""
