"""The settings of staticflow, read once from environment variables named ``STATICFLOW_*``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from staticflow.data_classes import dataclass

__all__ = ["Config", "config"]


@dataclass(slots=True)
class Config:
    """All settings.

    ``verify``: run the verifiers after every pass and on every kernel, and compare what is found on
    disk with what is compiled (``STATICFLOW_VERIFY=1``).
    ``debug``: 1 prints the graph after every pass, 2 also the kernels, 3 also the LLVM text
    (``STATICFLOW_DEBUG=2``).
    ``fast_call``: call compiled programs through a native entry that unpacks arrays itself, where
    the platform allows; off, through ctypes with a packed table (``STATICFLOW_FAST_CALL=0``).
    ``check_nan``: before each call of a compiled program, run its graph op by op with NumPy and
    stop at the first NaN, with nothing updated; slow (``STATICFLOW_CHECK_NAN=1``).
    ``poison``: compile programs that fill their memory with NaN and absurd integers before they
    begin, and each buffer again once its place is free (``STATICFLOW_POISON=1``).
    ``dump``: the folder into which the stages of every graph are written, "" for none
    (``STATICFLOW_DUMP=stages``).
    ``capture``: launch a program on a GPU as a captured graph from its second call of the same
    sizes on; off, kernel by kernel (``STATICFLOW_CAPTURE=0``).
    ``tf32``: multiply matrices of float32 in programs for a GPU that are compiled from now on by
    tensor cores, which round them to TF32, 10 bits behind the point (``STATICFLOW_TF32=1``).
    ``num_threads``: how many threads compiled kernels may run on, 0 for as many as there are
    processors (``STATICFLOW_NUM_THREADS=1``).
    ``cache_dir``: the folder of machine code that is kept from process to process, None for the
    usual one of the system, "" for none (``STATICFLOW_CACHE_DIR=/home/me/codes``).
    ``wait_limit``: after how many seconds a process that waits for another ends all, and says what
    each waits for, 1800 if unset, 0 for never (``STATICFLOW_WAIT_LIMIT=600``).
    """

    verify: bool
    debug: int
    fast_call: bool
    check_nan: bool
    poison: bool
    dump: str
    capture: bool
    tf32: bool
    num_threads: int
    cache_dir: str | None
    wait_limit: int

    @staticmethod
    def from_environment() -> Config:
        """The settings that the environment asks for."""
        get = os.environ.get
        return Config(
            verify=get("STATICFLOW_VERIFY", "0") not in ("", "0"),
            debug=_number("STATICFLOW_DEBUG"),
            fast_call=get("STATICFLOW_FAST_CALL", "1") not in ("", "0"),
            check_nan=get("STATICFLOW_CHECK_NAN", "0") not in ("", "0"),
            poison=get("STATICFLOW_POISON", "0") not in ("", "0"),
            dump=get("STATICFLOW_DUMP", ""),
            capture=get("STATICFLOW_CAPTURE", "1") not in ("", "0"),
            tf32=get("STATICFLOW_TF32", "0") not in ("", "0"),
            num_threads=_number("STATICFLOW_NUM_THREADS"),
            cache_dir=get("STATICFLOW_CACHE_DIR"),
            wait_limit=_number("STATICFLOW_WAIT_LIMIT", 1800),
        )

    @contextmanager
    def change(self, **settings: object) -> Iterator[None]:
        """Other settings, for all threads, in a ``with`` block."""
        before = {name: getattr(self, name) for name in settings}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


def _number(flag: str, unset: int = 0) -> int:
    """The whole number that an environment variable holds; with a warning 0 where it holds none, so
    that the command line can still be asked for its help."""
    text = os.environ.get(flag, "").strip()
    if text and not text.isdecimal():
        warnings.warn(
            f"{flag} is {text!r}; it must be a whole number from 0 on, and 0 is taken", stacklevel=3
        )
        return 0
    return int(text or unset)


config = Config.from_environment()
