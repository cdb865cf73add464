"""What PyTorch's functions make of tensors and symbols of ours: an error that says what to call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from staticflow.errors import DTypeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.foreign import kind_of

__all__ = ["refuse_torch_function"]


def _first_own(values: Iterable[Any]) -> Any:
    """The first tensor or symbol of ours among arguments, also in lists of them."""
    for value in values:
        if hasattr(value, "__sf_mode__") and not isinstance(value, type):
            return value
        if isinstance(value, list | tuple):
            found = _first_own(value)
            if found is not None:
                return found
    return None


def refuse_torch_function(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> NoReturn:
    """Raise `DTypeError` for a function of PyTorch that meets a tensor or symbol of ours: PyTorch
    computes with tensors of its own."""
    own = _first_own((*args, *kwargs.values()))
    name = getattr(func, "__name__", str(func))
    text = "a tensor" if own is None else kind_of(own)
    raise DTypeError(
        f"torch: {name} takes tensors of PyTorch, and {text} is staticflow's; give "
        "torch.from_dlpack(x.detach()), or take PyTorch's over with sf.from_dlpack(...) and call "
        f"the function of sf, at {format_locs(here())}"
    )
