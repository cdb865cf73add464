"""Arrays of GPUs, sent by NCCL, which cupy has; labels and sizes go by the messages of the host.

Each process has a GPU of its own. What a collective sends from rank to rank is a group of sends and
receives of NCCL, and each rank adds up for itself, in the order of the ranks. None of this has run
on a GPU: the tests run it on a stand-in for cupy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from staticflow.errors import RankError
from staticflow.ops.declaring.communicator import Carrier, Communicator

__all__ = ["Nccl", "find_nccl"]


def find_nccl(communicator: Communicator) -> Nccl | None:
    """What carries arrays of GPUs between the ranks; None where there is no cupy, or none with
    NCCL."""
    try:
        cupy = importlib.import_module("cupy")
        nccl = importlib.import_module("cupy.cuda.nccl")
    except ImportError:
        return None
    return Nccl(communicator, cupy, nccl) if nccl.available else None


class Nccl(Carrier):
    """A communicator of NCCL for each group of ranks, made where the group first exchanges."""

    def __init__(self, communicator: Communicator, cupy: Any, nccl: Any) -> None:
        self._communicator, self._cupy, self._nccl = communicator, cupy, nccl
        self._groups: dict[tuple[int, ...], Any] = {}
        self._stream: Any = None

    def exchange(
        self, members: Sequence[int], parts: Sequence[Any], counts: Sequence[int]
    ) -> list[Any]:
        """One part from each of the members, of so many elements, in the current stream."""
        at, own = members.index(self._communicator.rank), self._group(tuple(members))
        found = [
            parts[i] if i == at else self._cupy.empty(n, parts[at].dtype)
            for i, n in enumerate(counts)
        ]
        stream = self._cupy.cuda.get_current_stream().ptr
        try:
            self._nccl.groupStart()
            for i, (part, new) in enumerate(zip(parts, found, strict=True)):
                if i == at:
                    continue
                if part.nbytes:
                    own.send(part.data.ptr, part.nbytes, self._nccl.NCCL_UINT8, i, stream)
                if new.nbytes:
                    own.recv(new.data.ptr, new.nbytes, self._nccl.NCCL_UINT8, i, stream)
            self._nccl.groupEnd()
            own.check_async_error()
        except self._nccl.NcclError as error:
            raise self._refuse(error) from None
        return found

    def aside(self, work: Callable[[], Any]) -> Callable[[], Any]:
        """Do ``work`` in a stream of messages, behind what was asked for before in the current one;
        what is given has the current stream of then wait for it, and gives its result."""
        cuda = self._cupy.cuda
        if self._stream is None:
            self._stream = cuda.Stream(non_blocking=True)
        before, after = cuda.Event(disable_timing=True), cuda.Event(disable_timing=True)
        before.record()
        self._stream.wait_event(before)
        with self._stream:
            result = work()
            after.record()

        def end() -> Any:
            cuda.get_current_stream().wait_event(after)
            return result

        return end

    def abort(self) -> None:
        """End what the groups are at: ranks have come to different exchanges."""
        for group in self._groups.values():
            group.abort()
        self._groups.clear()

    def _group(self, members: tuple[int, ...]) -> Any:
        if members not in self._groups:
            at = members.index(self._communicator.rank)
            try:
                word = self._nccl.get_unique_id() if at == 0 else ()
                given = self._communicator.exchange_on_host(
                    f"the name of a group of {len(members)} for NCCL",
                    members,
                    [np.array(word, np.int8)] * len(members),
                )
                name = tuple(given[0].tolist())
                self._groups[members] = self._nccl.NcclCommunicator(len(members), name, at)
            except self._nccl.NcclError as error:
                raise self._refuse(error) from None
        return self._groups[members]

    def _refuse(self, error: Exception) -> RankError:
        rank, size = self._communicator.rank, self._communicator.size
        return RankError(
            f"NCCL on rank {rank} of {size}: {error}; each process needs a GPU of its own: NCCL "
            "takes no two ranks on one"
        )
