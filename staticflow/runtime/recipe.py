"""What decides a program, before any pass has run."""

from __future__ import annotations

from dataclasses import field, replace

from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, get_default_dtype
from staticflow.graph.graph import Graph
from staticflow.graph.identity import identify_graph
from staticflow.ops import OPS
from staticflow.passes.order import PASSES
from staticflow.runtime.code_cache import key_of, package_state
from staticflow.runtime.machine import host_target, machine_parts
from staticflow.runtime.threads import most_workers

__all__ = ["Recipe", "identify"]


def _target() -> Target:
    return replace(host_target(), workers=most_workers(), shares=True)


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that decides what a program is: its ``graph`` as it was written, and how it is compiled.

    The params that have no entry in ``names`` are variables; ``updated`` are the tensors that the
    last outputs are new values of. The memory of intermediate values is freed after each run unless
    the program ``keeps_arena``. The inputs of the numbers ``donated`` may have results in their
    memory. ``flushes`` says whether subnormal numbers are zero. It is for the machine ``target``,
    and Python's floats are of a ``dtype``.
    """

    graph: Graph
    names: tuple[str, ...]
    updated: tuple[object, ...]
    numerics: str = "strict"
    passes: tuple[str, ...] = PASSES
    donated: frozenset[int] = frozenset()
    flushes: bool = False
    keeps_arena: bool = True
    target: Target = field(default_factory=_target)
    dtype: DType = field(default_factory=get_default_dtype)

    @property
    def n_out(self) -> int:
        """How many outputs are no new values."""
        return len(self.graph.outputs) - len(self.updated)


def identify(recipe: Recipe) -> bytes | None:
    """A key that two recipes share, in whatever processes, only if their programs have the same
    machine code; None where nothing says so: of operations of a user's, and where the
    sources of staticflow are no files."""
    state = package_state()
    graph = identify_graph(recipe.graph, OPS)
    if state is None or graph is None:
        return None
    numbers = {id(p.attrs["source"]): i for i, p in reversed([*enumerate(recipe.graph.params)])}
    options = (
        recipe.names,
        [numbers[id(t)] for t in recipe.updated],
        recipe.numerics,
        recipe.passes,
        sorted(recipe.donated),
        recipe.flushes,
        recipe.keeps_arena,
        recipe.target,
        recipe.dtype,
    )
    return key_of("program", state, *machine_parts(), repr(options), *graph)
