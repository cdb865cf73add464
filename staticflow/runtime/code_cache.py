"""What the compiler made, kept for the next process: a private folder, with a file for each entry.

An entry is found by the digest of all that decides what it is, so none is ever changed and two
processes that make one at the same time write the same. It is written under another name and then
renamed; it says of what it is the entry, and has a checksum of it. A file that is damaged, cut or
another's is never used: it is made anew, with a warning. So is nothing of a folder that others may
write into. What has not been asked for longest goes first when the folder grows too large.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from staticflow.config import config
from staticflow.data_classes import dataclass
from staticflow.graph.locs import warn
from staticflow.runtime.once import once

__all__ = [
    "KEY_BYTES", "LIMIT", "CodeCache", "Usage", "code_cache", "key_of", "own_source",
    "package_state",
]  # fmt: skip

LIMIT = 256 * 2**20
"""Bytes of all entries together."""

_FORMAT = b"staticflow 1\n"
"""How an entry begins; another number where entries of before are no longer to be found."""

KEY_BYTES = 32
"""The length of a key, a digest by SHA-256."""

_LOOKED_AT = 3600.0
"""Seconds after which it is noted again that an entry was asked for, and files count as left over
that were never renamed."""

_STORES = 64
"""So many entries are stored until the size of the folder is looked at again, or an eighth of all
where that is more: 60,000 entries take 0.3 s to look at."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The number of entries of a cache, and their bytes together."""

    entries: int
    bytes: int


class CodeCache:
    """The entries in ``folder``, which is made when something is first stored."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.folder = folder
        self.limit = limit
        self._until_look = 1  # stores, until the size is looked at

    def fetch(self, make: Callable[[], bytes], *parts: str | bytes) -> bytes:
        """The entry of ``parts``, which say all that decides what ``make`` makes; made and stored
        if there is none yet. What cannot be stored is made all the same, with a warning."""
        return self.fetch_by(key_of(*parts), make)

    def fetch_by(self, key: bytes, make: Callable[[], bytes]) -> bytes:
        """The entry that has this key (`key_of`); made and stored if there is none yet."""
        found = self.find(key)
        if found is None:
            found = make()
            self.store(key, found)
        return found

    def usage(self) -> Usage:
        """The entries in the folder, counted now."""
        sizes = [entry.stat().st_size for entry in self._files()]
        return Usage(len(sizes), sum(sizes))

    def count(self, mark: bytes) -> int:
        """How many of the entries begin with ``mark``."""
        head = len(_FORMAT) + 2 * KEY_BYTES
        found = 0
        for entry in self._files():
            with contextlib.suppress(OSError), open(entry, "rb") as file:
                found += file.read(head + len(mark))[head:] == mark
        return found

    def clear(self) -> None:
        """Take every entry away; programs that run have what they need in memory."""
        for entry in self._files():
            _remove(entry)

    # -- entries ---------------------------------------------------------------------------------

    def find(self, key: bytes) -> bytes | None:
        """The entry that has this key; None if there is none, or, with a warning, a damaged one."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                content, status = file.read(), os.fstat(file.fileno())
        except OSError:
            return None
        head = len(_FORMAT) + 2 * KEY_BYTES
        data = content[head:]
        if content[:head] != _FORMAT + key + key_of(data) or not _is_own(status):
            warn(f"{path} is damaged, or another's: what it held is made anew")
            return None
        if time.time() - status.st_mtime > _LOOKED_AT:
            with contextlib.suppress(OSError):
                os.utime(path)
        return data

    def store(self, key: bytes, data: bytes) -> None:
        """Let the key have this entry. Warns, once, where nothing can be stored."""
        import tempfile  # with all that it imports, where something is stored

        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(suffix=".part", dir=self.folder)
            try:
                with open(handle, "wb") as file:
                    file.write(_FORMAT + key + key_of(data) + data)
                os.replace(name, self._path(key))
            except BaseException:
                _remove(Path(name))
                raise
        except OSError as error:
            _warn_once(
                f"machine code is not kept for the next process, in {self.folder}: {error}; "
                "STATICFLOW_CACHE_DIR may name another folder, or none"
            )
            return
        self._until_look -= 1
        if self._until_look <= 0:
            self._until_look = max(_STORES, self._shrink() // 8)

    def _path(self, key: bytes) -> Path:
        return self.folder / key.hex()

    def _files(self) -> Iterator[os.DirEntry[str]]:
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if len(entry.name) == 2 * KEY_BYTES or entry.name.endswith(".part"):
                    yield entry

    def _shrink(self) -> int:
        """Take away what was asked for longest ago, until a quarter is free, where all is too much;
        and what was begun and never became an entry. How many entries there were."""
        known = []
        for entry in self._files():
            with contextlib.suppress(OSError):  # another process takes away, too
                known.append((entry.stat().st_mtime, entry.stat().st_size, entry))
        total = sum(size for _, size, _ in known)
        room = total if total <= self.limit else self.limit * 3 // 4
        for asked, size, entry in sorted(known, key=lambda k: k[0]):
            is_left_over = entry.name.endswith(".part") and time.time() - asked > _LOOKED_AT
            if is_left_over or total > room:
                _remove(entry)
                total -= size
        return len(known)


def code_cache() -> CodeCache | None:
    """The cache in the folder that the settings say; None if there is to be none, or, with a
    warning, if the folder is another user's or others may write into it."""
    return _cache_in(config.cache_dir)


@once
def _cache_in(named: str | None) -> CodeCache | None:
    folder = _usual_folder() if named is None else Path(named)
    if folder is None or named == "":
        return None
    if _is_private(folder):
        return CodeCache(folder)
    warn(
        f"{folder} is another user's, or others may write into it, so no machine code is kept "
        "there: take that right away (chmod go-w), or name a folder by STATICFLOW_CACHE_DIR"
    )
    return None


def _usual_folder() -> Path | None:
    """Where the system wants such files; None for a user without a home."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "staticflow"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "staticflow"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else home / ".cache") / "staticflow"


def _is_private(folder: Path) -> bool:
    """Whether nobody else may write into a folder, or it is not there yet."""
    try:
        return _is_own(folder.stat())
    except OSError:
        return True


def _is_own(status: os.stat_result) -> bool:
    """Whether a file or a folder is this user's, and nobody else may write into it."""
    if not hasattr(os, "geteuid"):  # Windows keeps the folders of users apart
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def own_source(file: str) -> str:
    """The source of a module that decides what entries are; nothing if it has none, as in a zip
    file, which holds one release."""
    try:
        return Path(file).read_text()
    except OSError:
        return ""


@functools.cache
def package_state() -> bytes | None:
    """A digest of all sources of staticflow, and of the versions of what says where Python's
    objects lie; None where the sources are no files.

    Of a source it has the path, the size and the nanosecond in which it was changed: to read them
    all takes as long as a tenth of the import.
    Of the first one it has the text, which names the release.
    """
    root = Path(__file__).parents[1]
    try:
        sources = sorted(_sources(str(root)))
    except OSError:
        return None
    if not sources:
        return None
    versions = (
        sys.version,
        getattr(sys, "abiflags", ""),
        sys.platform,
        platform.machine(),
        np.__version__,
    )
    return key_of(*versions, own_source(str(root / "__init__.py")), repr(sources))


def _sources(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _sources(entry.path)


def key_of(*parts: str | bytes) -> bytes:
    """The key of an entry: the digest of parts, each with its length, so that no two lists of parts
    have one."""
    import hashlib  # and OpenSSL with it, where something is compiled

    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


def _remove(path: Path | os.DirEntry[str]) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


_warn_once = functools.cache(warn)
