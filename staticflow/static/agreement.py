"""What processes compare before each compiles its program of a mesh."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from staticflow.distributed.parts import checksum, find_odd_rank, refuse_other_elements
from staticflow.eager.tensor import Tensor
from staticflow.errors import RankError
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs, here
from staticflow.graph.printer import print_graph
from staticflow.ops.declaring.communicator import current

__all__ = ["agree"]


def agree(
    facts: Mapping[str, str],
    graph: Graph,
    variables: Sequence[tuple[str, Tensor, Any]],
) -> None:
    """Compare with all other processes the ``facts``, a graph, and ``variables``: a name, a tensor,
    and how it is split, or None. Raises `RankError`, in the same words on all of them, where one
    has others than most have."""
    texts = {**facts, "graph": print_graph(graph)}
    names = [name for name, _, _ in variables]
    splits = [_digest(str(split)) for _, _, split in variables]
    # Of a tensor in parts all ranks have other elements.
    sums = [0 if split is not None else checksum(tensor) for _, tensor, split in variables]
    told = _exchange("", np.array([*map(_digest, texts.values()), *splits, *sums], np.uint64))
    for i, (what, text) in enumerate(texts.items()):
        if found := find_odd_rank([numbers[i] for numbers in told]):
            shown = print_graph(graph, locs=True) if what == "graph" else text
            _refuse_other(what, text.splitlines(), shown.splitlines(), *found)
    for i, name in enumerate(names, start=len(texts)):
        if found := find_odd_rank([numbers[i] for numbers in told]):
            raise RankError(
                f"compile: on rank {found[0]} the tensor {name!r} is split otherwise than on rank "
                f"{found[1]}; every rank must split it alike, at {format_locs(here())}"
            )
    elements = [numbers[len(texts) + len(names) :] for numbers in told]
    refuse_other_elements("compile", names, elements)


def _refuse_other(
    what: str, lines: Sequence[str], shown: Sequence[str], odd: int, usual: int
) -> NoReturn:
    """Raise the error of a fact in ``lines`` that the ``odd`` rank has otherwise than the ``usual``
    one, with the first line in which they differ, as either shows it."""
    digests = _exchange(f", the {what} of each", np.array([*map(_digest, lines)], np.uint64))
    shared = min(len(digests[odd]), len(digests[usual]))
    first = int(np.argmax([*(digests[odd][:shared] != digests[usual][:shared]), True]))
    line = shown[first].strip() if first < len(shown) else "nothing more"
    told = _exchange(f", a line of the {what}", np.frombuffer(line.encode(), np.uint8))
    has = "".join([f"\n    rank {r} has {told[r].tobytes().decode()}" for r in (odd, usual)])
    raise RankError(
        f"compile: rank {odd} has another {what} than rank {usual}; every rank must have the same, "
        f"at {format_locs(here())}{has}"
    )


def _exchange(what: str, numbers: Any) -> list[Any]:
    """The numbers of all ranks."""
    communicator = current()
    ranks = range(communicator.size)
    label = f"compile{what} at {format_locs(here())}"
    return list(communicator.exchange(label, ranks, [numbers] * len(ranks)))


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
