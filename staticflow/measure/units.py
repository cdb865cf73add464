"""Quantities in words: seconds, bytes, operations and ratios, with three digits and a unit."""

from __future__ import annotations

import math

__all__ = ["bytes_in_words", "flops_in_words", "ratio_in_words", "seconds_in_words"]

TIMES = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
SIZES = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB"))
OPERATIONS = ((1.0, "FLOP"), (1e3, "kFLOP"), (1e6, "MFLOP"), (1e9, "GFLOP"), (1e12, "TFLOP"))


def seconds_in_words(seconds: float) -> str:
    """A time with three digits and the unit that suits it.

    >>> [seconds_in_words(s) for s in (0.0, 4.2e-8, 0.001234, 0.9996, 75.0, 3600.0)]
    ['0 s', '42.0 ns', '1.23 ms', '1.00 s', '75.0 s', '60.0 min']
    """
    if abs(seconds) >= 600:
        return f"{digits(seconds / 60)} min" if math.isfinite(seconds) else f"{seconds} s"
    return in_units(seconds, TIMES, "s")


def bytes_in_words(count: float) -> str:
    """A number of bytes with three digits and a binary unit; below 1 KiB it is exact.

    >>> [bytes_in_words(n) for n in (0, 1000, 1024, 1536, 2**20 - 1, 5 * 2**30)]
    ['0 B', '1000 B', '1.00 KiB', '1.50 KiB', '1.00 MiB', '5.00 GiB']
    """
    if abs(count) < 2**10:
        return f"{count:.0f} B"
    return in_units(count, SIZES, "B")


def flops_in_words(count: float) -> str:
    """A number of floating-point operations with three digits and a decimal unit.

    >>> [flops_in_words(n) for n in (0, 12, 1234, 5.6e9)]
    ['0 FLOP', '12 FLOP', '1.23 kFLOP', '5.60 GFLOP']
    """
    if abs(count) < 1e3:
        return f"{count:.0f} FLOP"
    return in_units(count, OPERATIONS, "FLOP")


def ratio_in_words(ratio: float) -> str:
    """A ratio with three digits and the sign of multiplication.

    >>> [ratio_in_words(r) for r in (0.0123, 1.0, 3.149, 1234.5)]
    ['0.0123 ×', '1.00 ×', '3.15 ×', '1,234 ×']
    """
    return f"{digits(ratio)} ×"


def in_units(value: float, units: tuple[tuple[float, str], ...], zero: str) -> str:
    """A value in the largest of the ascending units in which it is 1 or more once rounded."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f} {zero}"
    rounded = max(abs(value), float(f"{abs(value):.3g}"))
    scale, unit = next((u for u in reversed(units) if rounded >= u[0]), units[0])
    return f"{digits(value / scale)} {unit}"


def digits(value: float) -> str:
    """A number with three significant digits, and all those before the point.

    >>> [digits(v) for v in (0.0, 0.0012349, 9.999, 12.34, 999.7, 1023.9, float("nan"))]
    ['0', '0.00123', '10.0', '12.3', '1,000', '1,024', 'nan']
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    places = 2 - math.floor(math.log10(float(f"{abs(value):.2e}")))
    return f"{value:,.{max(places, 0)}f}"
