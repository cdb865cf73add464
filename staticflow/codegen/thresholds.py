"""From which sizes on something pays, for kernels and for those that choose before there is one."""

from __future__ import annotations

__all__ = ["LEAST_ROWS", "SHARED_WORK", "WAKING_WORK"]

SHARED_WORK = 100_000
"""The work, in units of `staticflow.codegen.work`, from which on threads pay that are awake: about
10 microseconds. They take half a microsecond to begin and to end, and what one has written another
has to fetch: a step of 10 microseconds takes 21 if it is shared from 60,000 on."""

WAKING_WORK = 500_000
"""The work from which on threads pay that sleep: about 60 microseconds, several times what it takes
to wake one up."""

LEAST_ROWS = 16
"""The rows that a product must have to be computed in blocks: more than are in a tile."""
