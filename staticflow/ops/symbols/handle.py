"""What registering a hook gives."""

from __future__ import annotations

from typing import Any

__all__ = ["Handle"]


class Handle:
    """The key of a hook in ``hooks``, which calls them in their order, the last one last unless
    ``prepend``: `remove` takes it away, as leaving a ``with`` does."""

    def __init__(self, hooks: dict[Handle, Any], hook: Any, prepend: bool = False) -> None:
        self._hooks = hooks
        before = {} if prepend else dict(hooks)
        after = dict(hooks) if prepend else {}
        hooks.clear()
        hooks |= before | {self: hook} | after

    def remove(self) -> None:
        """Take the hook away; nothing happens if it is gone already."""
        self._hooks.pop(self, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()
