"""Rules of random draws: one for all rows, or others for each."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.dtypes import bool_
from staticflow.graph.locs import format_locs
from staticflow.ops.basics.creation import full
from staticflow.ops.batching.general import write_out
from staticflow.ops.batching.row import Row, Value

__all__ = ["draw"]


def draw(row: Row) -> Any:
    """What an op draws in the shape of a row, or with randomness "different" of all rows. The
    values of the argument that has the shape do not matter."""
    randomness = row.walk.randomness
    if randomness == "error":
        raise ArgumentError(
            f'vmap: {row.op.name} draws random numbers, and randomness is "error"; give '
            'randomness="different" for other numbers in each row, or "same" for the same in all, '
            f"or draw outside of vmap, at {format_locs(row.node.locs)}"
        )
    if any(row.flags[2:]):
        return write_out(row)
    state, _, *bounds = row.args
    if row.flags[0]:
        raise ArgumentError(
            "vmap: the state of the generator differs from row to row; draw by one that is made "
            f"outside of vmap, at {format_locs(row.node.locs)}"
        )
    is_batched = randomness == "different"
    shape = row.node.tensor_type.shape
    like = full.beside(
        state, shape=(row.size, *shape) if is_batched else shape, value=False, dtype=bool_
    )
    return [Value(row.op(state, like, *bounds, **row.attrs), is_batched)]
