"""What the array API asks of an array: its namespace, and a move to a device."""

from __future__ import annotations

import importlib
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here

__all__ = ["array_namespace", "to_device"]

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""The versions of the standard that the namespace serves: each contains those before it."""


def array_namespace(self: Any, /, *, api_version: str | None = None) -> Any:
    """The module `staticflow.array_api`, which is imported when this first asks for it: functions
    by the names of the array API standard. Raises `ArgumentError` for a version that it does not
    have.

    >>> import staticflow as sf
    >>> xp = sf.ones(2).__array_namespace__(api_version="2024.12")
    >>> xp.expand_dims(xp.asarray([1, 2]), axis=0)
    tensor([[1, 2]])
    """
    if api_version is not None and api_version not in VERSIONS:
        raise ArgumentError(
            f"__array_namespace__: the version {api_version!r} of the array API; there are "
            f"{', '.join(VERSIONS)}, at {format_locs(here())}"
        )
    return importlib.import_module("staticflow.array_api")


def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    """The tensor on ``device``; itself if it is there. ``stream`` must be None: copies run on the
    current one."""
    if stream is not None:
        raise ArgumentError(
            f"to_device: the stream is {stream!r}; it must be None, at {format_locs(here())}"
        )
    return self.to(device)
