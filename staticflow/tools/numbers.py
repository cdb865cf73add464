"""Numbers of the command line, which say what is wrong with them in a sentence."""

from __future__ import annotations

import argparse
import math

__all__ = ["positive_int", "positive_number"]


def positive_int(text: str) -> int:
    """A whole number from 1 on."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"at least 1 is needed, not {text}")
    return value


def positive_number(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"a number above 0 is needed, not {text}")
    return value
