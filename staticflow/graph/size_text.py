"""Sizes as text: reads what `str` of a size writes.

The grammar, with Python's precedence::

    size    := product (("+" | "-") product)*
    product := factor (("*" | "//") factor)*
    factor  := "-" factor | INT | NAME | "(" size ")" | call "(" size "," size ")"
    call    := "max" | "min" | "root"
"""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.graph.dims import Dim, Size, Sym, dim_max, dim_min, root
from staticflow.graph.tokens import Tokens

__all__ = ["parse_size", "read_size"]

_CALLS = {"max": dim_max, "min": dim_min, "root": root}


def parse_size(text: str, symbols: Mapping[str, Sym]) -> Size:
    """The size that ``text`` describes, where ``symbols`` are the names it may use.

    >>> parse_size("16*(n//16) + max(n, 3)", {"n": Sym("n")})
    16*(n//16) + max(n, 3)

    Raises `ParseError` for text outside the grammar or a name that is not in ``symbols``.
    """
    tokens = Tokens(text)
    size = read_size(tokens, symbols)
    tokens.expect_end()
    return size


def read_size(tokens: Tokens, symbols: Mapping[str, Sym]) -> Size:
    """The size that the next tokens describe; as many are taken as belong to it."""
    total = _product(tokens, symbols)
    while True:
        if tokens.accept("+"):
            total = total + _product(tokens, symbols)
        elif tokens.accept("-"):
            total = total - _product(tokens, symbols)
        else:
            return total


def _product(tokens: Tokens, symbols: Mapping[str, Sym]) -> Size:
    total = _factor(tokens, symbols)
    while True:
        if tokens.accept("*"):
            total = total * _factor(tokens, symbols)
        elif tokens.accept("//"):
            fault = tokens.error("a divisor other than 0")
            divisor = _factor(tokens, symbols)
            if divisor == 0:
                raise fault
            total = total // divisor
        else:
            return total


def _factor(tokens: Tokens, symbols: Mapping[str, Sym]) -> Size:
    if tokens.accept("-"):
        return -_factor(tokens, symbols)
    if tokens.accept("("):
        size = read_size(tokens, symbols)
        tokens.expect(")")
        return size
    if tokens.sees_kind("number"):
        return tokens.integer()
    if any(tokens.sees(name, "(") for name in _CALLS):
        call = _CALLS[tokens.take()]
        tokens.expect("(")
        first = read_size(tokens, symbols)
        tokens.expect(",")
        second = read_size(tokens, symbols)
        tokens.expect(")")
        return call(first, second)
    if not tokens.sees_kind("name"):
        raise tokens.error("a size")
    if tokens.next not in symbols:
        known = ", ".join(sorted(symbols)) or "there is none"
        raise tokens.error(f"a symbol known here ({known})")
    return Dim.of(symbols[tokens.take()])
