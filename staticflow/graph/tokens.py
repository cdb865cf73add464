"""The scanner that the texts of graphs and kernels are read with.

Tokens are names, numbers, strings and punctuation; white space and line ends only separate them,
and ``#`` starts a comment.
"""

from __future__ import annotations

import re
from itertools import islice

from staticflow.errors import ParseError

__all__ = ["Tokens"]

_TOKEN = re.compile(
    r"""(?>\s*(?:\#[^\n]*\s*)*)                    # space and comments, never given back
        ( [^\W\d]\w*                             # a name
        | \d+(?:\.\d+)?(?:e[+-]?\d+)?            # a number
        | "(?:[^"\\\n]|\\.)*"                     # a string
        | // | \.\. | -> | [^\s\w]               # a mark
        | \Z )                                   # the end""",
    re.VERBOSE,
)
_LOOK_AHEAD = 4


def _kind(token: str) -> str:
    if not token:
        return "end"
    first = token[0]
    if first.isdecimal():
        return "number"
    if first.isalnum() or first == "_":
        return "name"
    return "string" if first == '"' and len(token) > 1 else "mark"


class Tokens:
    """The tokens of a text, read from left to right with a look ahead.

    >>> tokens = Tokens("loop x 3")
    >>> tokens.accept("loop"), tokens.name("a variable"), tokens.integer()
    (True, 'x', 3)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = _TOKEN.findall(text) + [""] * _LOOK_AHEAD
        self._next = 0

    def sees(self, *texts: str) -> bool:
        """Whether the next tokens, up to four, are these."""
        at = self._next
        return self._tokens[at] == texts[0] and (
            len(texts) == 1 or tuple(self._tokens[at : at + len(texts)]) == texts
        )

    def names_behind(self, *texts: str) -> set[str]:
        """The names that stand anywhere in the text right behind these tokens, and those that
        follow each with a comma between."""
        found: set[str] = set()
        count, tokens = len(texts), self._tokens
        for start, token in enumerate(tokens):
            if token == texts[0] and tuple(tokens[start : start + count]) == texts:
                at = start + count
                while _kind(tokens[at]) == "name":
                    found.add(tokens[at])
                    at += 2 if tokens[at + 1] == "," else 1
        return found

    def sees_kind(self, kind: str) -> bool:
        """Whether the next token is a ``name``, ``number``, ``string``, ``mark`` or the ``end``."""
        return _kind(self._tokens[self._next]) == kind

    @property
    def next(self) -> str:
        """The next token; the empty string at the end."""
        return self._tokens[self._next]

    @property
    def after(self) -> str:
        """The token after the next one."""
        return self._tokens[self._next + 1]

    def take(self) -> str:
        """Take the next token, whatever it is."""
        token = self._tokens[self._next]
        self._next += token != ""
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if it is ``text``."""
        found = self._tokens[self._next] == text
        self._next += found
        return found

    def expect(self, text: str) -> None:
        """Take the next token, which must be ``text``."""
        if not self.accept(text):
            raise self.error(f"{text!r}")

    def expect_end(self) -> None:
        """There must be nothing left."""
        if self.next:
            raise self.error("the end of the text")

    def name(self, what: str) -> str:
        """Take a name; ``what`` says for the error what it names."""
        if not self.sees_kind("name"):
            raise self.error(what)
        return self.take()

    def integer(self) -> int:
        """Take a non-negative integer."""
        if not self.next.isdecimal():
            raise self.error("an integer")
        return int(self.take())

    def error(self, expected: str) -> ParseError:
        """The error that says where something else stands than ``expected``, and what."""
        match = next(islice(_TOKEN.finditer(self._text), self._next, None))
        position = match.start(1) if self.next else len(self._text.rstrip())
        found = repr(self.next) if self.next else "the end of the text"
        before = self._text[:position]
        start = before.rfind("\n") + 1
        line = self._text[start:].partition("\n")[0]
        return ParseError(
            f"line {before.count(chr(10)) + 1}, column {position - start + 1}: "
            f"expected {expected}, found {found}\n  {line}\n  {' ' * (position - start)}^"
        )
