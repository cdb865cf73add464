"""Checks of what datasets, samplers and loaders are given."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here

__all__ = ["check_callable", "check_count", "check_has"]


def check_has(owner: str, argument: str, value: Any, *methods: str) -> None:
    """Raise `ArgumentError` unless ``value``, an argument of ``owner``, has all of ``methods``,
    such as ``__len__``, and is no class."""
    if isinstance(value, type) or not all(hasattr(value, method) for method in methods):
        raise ArgumentError(
            f"{owner}: {argument} is {with_article(type(value))}, and must have "
            f"{' and '.join(methods)}, at {format_locs(here())}"
        )


def check_count(owner: str, argument: str, value: Any, least: int = 1) -> None:
    """Raise `ArgumentError` unless ``value`` is an integer, ``least`` or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(
            f"{owner}: {argument} is {value!r}, and must be an integer of {least} or more, "
            f"at {format_locs(here())}"
        )


def check_callable(owner: str, argument: str, value: Any) -> None:
    """Raise `ArgumentError` unless ``value`` is None or can be called."""
    if value is not None and not callable(value):
        raise ArgumentError(
            f"{owner}: {argument} is {with_article(type(value))}, and must be a function, at "
            f"{format_locs(here())}"
        )
