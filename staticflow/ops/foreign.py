"""What to say where arrays or lists were given instead of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.graph.locs import format_locs, here

__all__ = ["note_foreign"]


def note_foreign(what: str, error: AttributeError, args: Sequence[Any]) -> None:
    """Add to an ``error`` that came of a list or array among the arguments of ``what`` that it did,
    and what to give. Asked only where something has failed, so that nothing else pays for it."""
    plain = [a for a in args if not hasattr(a, "__sf_mode__")]
    foreign = [type(a).__name__ for a in plain if isinstance(a, list) or hasattr(a, "__array__")]
    if foreign and not hasattr(error, "__notes__"):
        error.add_note(
            f"{what} was given a {foreign[0]}; give tensors: wrap data with sf.from_numpy(...) or "
            f"sf.tensor(...), at {format_locs(here())}"
        )
