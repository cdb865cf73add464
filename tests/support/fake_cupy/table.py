"""What the table of cupy's names says of one: whether it is there, and which arguments it takes."""

from __future__ import annotations

import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["NAMES", "VERSION", "signature"]

_TABLE = json.loads(
    (Path(__file__).parents[2] / "reference" / "cupy.json").read_text(encoding="utf-8")
)
VERSION: str = _TABLE["cupy"]
NAMES: dict[str, dict[str, Any]] = _TABLE["names"]


@cache
def signature(module: str, name: str) -> inspect.Signature | None:
    """The parameters of a function or method; None where cupy does not say."""
    entry = NAMES[module][name]
    if not isinstance(entry, dict) or entry.get("call") is None:
        return None
    return inspect.Signature(
        [
            inspect.Parameter(n, inspect._ParameterKind(kind), default=None if given else _NEEDED)
            for n, kind, given in entry["call"]
        ]
    )


_NEEDED = inspect.Parameter.empty
