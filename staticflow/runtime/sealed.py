"""Objects whose attributes native code points into."""

from __future__ import annotations

__all__ = ["Sealed"]


class Sealed:
    """Each attribute is set once, and neither changed nor deleted from then on: native code, which
    holds addresses and no references, would go on with what is free."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):
            self._refuse(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._refuse(name)

    def _refuse(self, name: str) -> None:
        kind = type(self).__name__
        raise AttributeError(f"{name} of {kind} cannot be changed: native code points to it")
