"""Numbers of the command line, which say what is wrong with them in a sentence."""

from __future__ import annotations

import argparse
import math

__all__ = ["natural_int", "positive_int", "positive_number", "size_of"]


def natural_int(text: str) -> int:
    """A whole number from 0 on."""
    return _int_from(0, text)


def positive_int(text: str) -> int:
    """A whole number from 1 on."""
    return _int_from(1, text)


def _int_from(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"at least {least} is needed, not {text}")
    return value


def size_of(text: str) -> tuple[str, int]:
    """The name and the value of a size, ``batch=32``."""
    name, equals, number = text.partition("=")
    if not (name and equals and number.isdecimal()):
        raise argparse.ArgumentTypeError(f"a size is NAME=N, such as batch=32, not {text!r}")
    return name, int(number)


def positive_number(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"a number above 0 is needed, not {text}")
    return value
