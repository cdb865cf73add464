"""The settings of staticflow, read once from environment variables named ``STATICFLOW_*``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Config", "config"]


@dataclass(slots=True)
class Config:
    """All settings.

    ``verify``: run the verifiers after every pass and on every kernel (``STATICFLOW_VERIFY=1``).
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
    ``num_threads``: how many threads compiled kernels may run on, 0 for as many as there are
    processors (``STATICFLOW_NUM_THREADS=1``).
    ``cache_dir``: the folder of machine code that is kept from process to process, None for the
    usual one of the system, "" for none (``STATICFLOW_CACHE_DIR=/home/me/codes``).
    """

    verify: bool
    debug: int
    fast_call: bool
    check_nan: bool
    poison: bool
    dump: str
    num_threads: int
    cache_dir: str | None

    @staticmethod
    def from_environment() -> Config:
        """The settings that the environment asks for."""
        get = os.environ.get
        return Config(
            verify=get("STATICFLOW_VERIFY", "0") not in ("", "0"),
            debug=int(get("STATICFLOW_DEBUG", "0") or 0),
            fast_call=get("STATICFLOW_FAST_CALL", "1") not in ("", "0"),
            check_nan=get("STATICFLOW_CHECK_NAN", "0") not in ("", "0"),
            poison=get("STATICFLOW_POISON", "0") not in ("", "0"),
            dump=get("STATICFLOW_DUMP", ""),
            num_threads=max(0, int(get("STATICFLOW_NUM_THREADS", "0") or 0)),
            cache_dir=get("STATICFLOW_CACHE_DIR"),
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


config = Config.from_environment()
