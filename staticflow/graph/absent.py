"""Names of PyTorch that are left out for a reason, and the sentences that say it."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["refuse"]

COMPLEX = frozenset({
    "cdouble", "cfloat", "chalf", "complex", "complex32", "complex64", "complex128", "imag",
    "polar", "real", "view_as_complex", "view_as_real",
})  # fmt: skip
TRANSFORMS = frozenset({"fft", "istft", "stft"})


def refuse(package: str, name: str) -> NoReturn:
    """Raise the `AttributeError` for a name that the package does not have."""
    if name in COMPLEX:
        raise AttributeError(
            f"staticflow has no complex numbers, and so no {name}; keep the real and the imaginary "
            "part as two tensors"
        )
    if name in TRANSFORMS:
        raise AttributeError(
            f"staticflow has no complex numbers, and so no {name}; a transform of a known length "
            "is two products, by matrices of cosines and of sines"
        )
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
