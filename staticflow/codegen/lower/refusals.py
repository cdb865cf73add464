"""Why a kernel stops before its end: reasons, the codes that it returns, and the errors."""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.errors import ArgumentError, IndexRangeError, LinAlgError, StaticflowError

__all__ = ["CODES", "REFUSALS", "code_of", "read_code"]

REFUSALS: Mapping[str, tuple[type[StaticflowError], str]] = {
    "index": (IndexRangeError, ": an index lies outside the dim that it selects from"),
    "singular": (LinAlgError, ": a matrix is singular"),
    "definite": (LinAlgError, ": a matrix is not positive definite"),
    "values": (ArgumentError, ""),
}
"""Why a kernel stops: the error, and what it says behind the op; a function that refuses values
has words of its own."""

CODES = {reason: code for code, reason in enumerate(REFUSALS, 1)}
"""What a kernel returns for each reason."""


def code_of(reason: str, member: int = 0) -> int:
    """What a kernel returns for a reason if the value is refused by one of several members."""
    return CODES[reason] + member * len(CODES)


def read_code(code: int) -> tuple[int, type[StaticflowError], str]:
    """The member that refused a value, the error, and what it says behind the op."""
    member, number = divmod(code - 1, len(CODES))
    return member, *[*REFUSALS.values()][number]
