"""What the standard has and the namespace has not, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from staticflow.graph.locs import format_locs, here

__all__ = ["LINALG", "MAIN", "refuse"]

_COMPLEX = "no dtype is complex: keep the real and the imaginary part in two arrays"
_UNSIGNED = "of unsigned integers there is uint8 alone: take the next wider signed one"

MAIN: Mapping[str, str] = {
    "complex64": _COMPLEX,
    "complex128": _COMPLEX,
    "imag": _COMPLEX,
    "fft": "transforms are complex, and no dtype is: take numpy.fft on x.numpy()",
    "uint16": _UNSIGNED,
    "uint32": _UNSIGNED,
    "uint64": "of unsigned integers there is uint8 alone: take int64 where the numbers fit",
}
"""Names of the main namespace that are refused, with the reason and what to do."""

LINALG: Mapping[str, str] = {
    "eig": "eigenvalues of unsymmetric matrices are complex: of symmetric ones take eigh",
    "eigvals": "eigenvalues of unsymmetric matrices are complex: of symmetric ones take eigvalsh",
}
"""Names of the extension ``linalg`` that are refused, with the reason and what to do."""


def refuse(module: str, name: str, reasons: Mapping[str, str]) -> NoReturn:
    """Raise the `AttributeError` of a name that ``module`` has not, with the reason if it is one of
    the standard."""
    if name in reasons:
        raise AttributeError(
            f"{module}.{name} of the array API is not there: {reasons[name]}, "
            f"at {format_locs(here())}"
        )
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
