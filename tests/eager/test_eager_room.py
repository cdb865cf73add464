"""What the eager side says of its own plan is so."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from staticflow import eager
from staticflow.eager import fast
from staticflow.native.language import role_of


def modules_of(package: Any) -> set[str]:
    (folder,) = package.__path__
    return {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}


def named_in(package: Any) -> set[str]:
    """The words in backquotes, and what stands before a dot in them."""
    return {name.split(".")[0] for name in re.findall(r"`([\w.]+)`", package.__doc__ or "")}


def test_every_module_is_in_the_plan() -> None:
    assert modules_of(eager) - named_in(eager) == set()
    assert modules_of(fast) - named_in(fast) == set()


def test_what_stands_twice_is_there() -> None:
    pairs = re.findall(r"^    (\w+)\.(\w+) +(\w+)\.([\w.]+)$", fast.__doc__ or "", re.MULTILINE)
    assert len(pairs) > 20
    for room, native, module, general in pairs:
        function = getattr(importlib.import_module(f"staticflow.eager.fast.{room}"), native)
        assert role_of(function) is not None, native
        thing: Any = importlib.import_module(f"staticflow.eager.{module}")
        for name in general.split("."):
            thing = getattr(thing, name)
