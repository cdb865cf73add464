"""Arrays on the memory of other libraries' tensors, by DLPack."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from staticflow.errors import AutogradError, DTypeError
from staticflow.graph.locs import format_locs, here

__all__ = ["array_of", "refuse_history"]


def refuse_history(value: Any, what: str) -> None:
    """Raise `AutogradError` for a tensor of another library that requires a gradient, since
    ``what``, taken on its memory, would not continue its history."""
    if getattr(value, "requires_grad", False):
        library = type(value).__module__.partition(".")[0]
        raise AutogradError(
            f"{what} is a tensor of {library} that requires a gradient, and its history ends here; "
            f"give its .detach(), at {format_locs(here())}"
        )


def array_of(value: Any, what: str) -> np.ndarray[Any, Any]:
    """The values of another library's tensor, on its memory and without its history; bfloat16 of
    PyTorch by its bits, which NumPy's DLPack carries. ``what`` names the tensor in errors.

    Raises `DTypeError` for memory that NumPy cannot see and dtypes that it does not know.
    """
    values = value.detach() if hasattr(value, "detach") else value
    try:
        if str(getattr(values, "dtype", "")) == "torch.bfloat16":
            bits = np.from_dlpack(values.view(sys.modules["torch"].int16))
            return bits.view(ml_dtypes.bfloat16)
        return np.from_dlpack(values)
    except (BufferError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise DTypeError(
            f"{what}: {type(value).__module__.partition('.')[0]}.{type(value).__name__} cannot be "
            f"taken over ({str(error).strip()}); convert it first, in dtype or to the CPU, "
            f"at {format_locs(here())}"
        ) from error
