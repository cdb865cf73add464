"""Files that a result is written to, found to be writable before there is one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from staticflow.errors import ArgumentError

__all__ = ["Output"]


class Output:
    """A file that gets its whole content at once, or is left as it was.

    Raises `ArgumentError` at once for a path that cannot be written. As a context it takes away
    what was not written.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._what, self._given = what, str(path)
        is_device = str(path).startswith(("/dev/", "/proc/"))  # such as where the table goes to
        self._part: str | None = None
        try:
            self._path = path if is_device else path.resolve()
            if self._path.is_dir():
                raise IsADirectoryError(21, "Is a directory")
            if is_device or (self._path.exists() and not self._path.is_file()):
                self._path.open("a").close()
            else:
                handle, self._part = tempfile.mkstemp(".part", self._path.name, self._path.parent)
                os.close(handle)
        except (OSError, ValueError) as error:
            raise self._error(error) from None

    @property
    def path(self) -> Path:
        """Where it is written to."""
        return self._path

    def write(self, text: str) -> None:
        """Write the file. Raises `ArgumentError` where that fails, as on a full disk."""
        try:
            self._write(text)
        except OSError as error:
            raise self._error(error) from None

    def _error(self, error: Exception) -> ArgumentError:
        reason = getattr(error, "strerror", None) or str(error)
        return ArgumentError(f"{self._what} cannot be written to {self._given!r}: {reason}")

    def _write(self, text: str) -> None:
        if self._part is None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)
            return
        Path(self._part).write_text(text, encoding="utf-8")
        os.chmod(self._part, 0o666 & ~_umask())
        os.replace(self._part, self._path)
        self._part = None

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        if self._part is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._part)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
