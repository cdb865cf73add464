"""Whether programs are kept on disk in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from staticflow.config import config
from staticflow.runtime import build

_may_keep = build._may_keep


def keep_none() -> None:
    """Let each test compile its programs: many change what a pass or a kernel does, which no key of
    a program says."""
    build._may_keep = lambda recipe: False


@contextmanager
def keeping(folder: Path) -> Iterator[None]:
    """Keep programs in a folder, in a ``with`` block."""
    before = build._may_keep
    build._may_keep = _may_keep
    try:
        with config.change(cache_dir=str(folder)):
            yield
    finally:
        build._may_keep = before
