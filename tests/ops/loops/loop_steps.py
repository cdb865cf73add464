"""What tests ask of the loops in a compiled program."""

from __future__ import annotations

from typing import Any

from staticflow.codegen.program.routine import Carry, Copy, Repeat, places_of, walk_steps

__all__ = ["carries_of", "copies_in", "loops_of"]


def loops_of(program: Any) -> list[Repeat]:
    """The loops, each before those in it."""
    return [s for s in walk_steps(program.plan.routine.steps) if isinstance(s, Repeat)]


def carries_of(loop: Repeat) -> set[Carry]:
    """The carries that lie in no stack."""
    places = [p for step in walk_steps((loop,)) for p in places_of(step)]
    return {p for p in places if isinstance(p, Carry) and p.loop == loop.loop}


def copies_in(loop: Repeat) -> list[Copy]:
    """The copies that each iteration makes."""
    return [s for s in loop.body if isinstance(s, Copy)]
