"""A stand-in for ``cupy.cuda.nccl``, and for the streams and events of cupy, among ranks that are
threads of `simulate`.

It has what cupy 14 has of it, by the same names and with the same arguments. A group of sends and
receives is done at ``groupEnd``, where the memory at the addresses is read and written; a receive
that is not sent to waits for the other ranks to come there.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections import Counter, deque
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_cupy import fake_cupy, install
from fake_cupy.arrays import CURRENT

from staticflow.ops.declaring.communicator import current
from staticflow.runtime.device.devices import OPEN

__all__ = ["FakeNccl", "fake_nccl"]

PATIENCE = 1000
"""Turns that a receive waits for."""


class NcclError(RuntimeError):
    """What NCCL refuses."""


class FakeNccl:
    """What the ranks have sent, and what each rank has asked streams for."""

    def __init__(self) -> None:
        self.mail: dict[tuple[Any, int, int], deque[bytes]] = {}
        self.sent: Counter[str] = Counter()
        self.asked: dict[int, list[str]] = {}
        self.aborted: set[int] = set()
        self.fault = ""
        self._names = itertools.count()
        self._group: dict[int, list[Any]] = {}

    def module(self) -> ModuleType:
        """The module."""
        nccl = self
        found = ModuleType("cupy.cuda.nccl")

        class NcclCommunicator:
            def __init__(self, ndev: int, commId: tuple[int, ...], rank: int) -> None:
                assert len(commId) == 128 and 0 <= rank < ndev
                assert all(type(n) is int and -128 <= n < 128 for n in commId)
                if nccl.fault:
                    raise NcclError(nccl.fault)
                self.name, self.rank = commId, rank

            def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
                nccl.add(stream, "send", sendbuf, count, datatype, (self.name, self.rank, peer))

            def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
                nccl.add(stream, "recv", recvbuf, count, datatype, (self.name, peer, self.rank))

            def check_async_error(self) -> None:
                pass

            def abort(self) -> None:
                nccl.aborted.add(current().rank)

        found.__dict__.update(
            available=True, NCCL_UINT8=1, NcclError=NcclError, NcclCommunicator=NcclCommunicator,
            get_unique_id=lambda: (next(self._names), *[-1] * 127),
            groupStart=self.start, groupEnd=self.end,
        )  # fmt: skip
        return found

    def add(self, stream: int, *call: Any) -> None:
        """Note a send or receive."""
        assert call[3] == 1 and call[2] > 0 and stream == get_stream().ptr
        self._group[current().rank].append(call)

    def start(self) -> None:
        """Begin a group."""
        assert self._group.setdefault(current().rank, []) == []
        self.ask("nccl")

    def end(self) -> None:
        """Do what is in the group."""
        calls, self._group[current().rank] = self._group[current().rank], []
        if CURRENT.device in OPEN:
            emulated: Any = OPEN[CURRENT.device]
            emulated.catch_up()
        for what, address, count, _, way in calls:
            if what == "send":
                self.mail.setdefault(way, deque()).append(ctypes.string_at(address, count))
                self.sent[f"messages of {current().rank}"] += 1
                self.sent[f"bytes of {current().rank}"] += count
        for what, address, count, _, way in calls:
            if what == "recv":
                self._wait(way)
                part = self.mail[way].popleft()
                assert len(part) == count
                ctypes.memmove(address, part, count)

    def _wait(self, way: Any) -> None:
        simulated: Any = current()
        stage, rank = simulated.stage, simulated.rank
        for _ in range(PATIENCE):
            if self.mail.get(way):
                return
            with stage.changed:
                stage.let_others(rank)
        raise AssertionError(f"nobody sends on {way[1:]}")

    def ask(self, what: str) -> None:
        """Note what a stream is asked for."""
        self.asked.setdefault(current().rank, []).append(f"{what} in {get_stream().ptr}")


_streams = itertools.count(1)


class Stream:
    """A stream, with nothing in it: all is done at once."""

    def __init__(self, nccl: FakeNccl, *, non_blocking: bool) -> None:
        assert non_blocking
        self.nccl, self.ptr = nccl, next(_streams)

    def wait_event(self, event: Event) -> None:
        """Note that what is asked for from now on comes behind the event."""
        with self:
            self.nccl.ask(f"wait for {event.stream}")

    def __enter__(self) -> Stream:
        self._before, CURRENT.stream = get_stream(), self
        return self

    def __exit__(self, *_: object) -> None:
        CURRENT.stream = self._before


class Event:
    """An event of the stream that it was recorded in."""

    def __init__(self, disable_timing: bool = False) -> None:
        self.stream = -1

    def record(self, stream: Any = None) -> None:
        """Note where."""
        self.stream = get_stream().ptr


def get_stream() -> Any:
    """The current stream of this thread."""
    return getattr(CURRENT, "stream", None) or SimpleNamespace(
        ptr=0, wait_event=lambda event: _first.ask(f"wait for {event.stream}")
    )


_first = FakeNccl()


def fake_nccl(patch: pytest.MonkeyPatch) -> FakeNccl:
    """Have ``import cupy.cuda.nccl`` find the stand-in while ``patch`` lasts."""
    global _first
    _first = nccl = FakeNccl()
    install(patch)
    cuda = fake_cupy.cuda
    patch.setitem(sys.modules, "cupy.cuda", cuda)
    patch.setitem(sys.modules, "cupy.cuda.nccl", nccl.module())
    own = {"Stream": lambda **named: Stream(nccl, **named), "Event": Event}
    for name, value in {**own, "get_current_stream": get_stream}.items():
        patch.setitem(cuda.__dict__, name, value)
    return nccl
