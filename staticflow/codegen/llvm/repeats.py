"""Loops and branches of a routine in LLVM text: steps that run again and again, or at choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from staticflow.codegen.llvm.addresses import Reached
from staticflow.codegen.llvm.text import I64, phi
from staticflow.codegen.program.routine import Choose, Repeat, iteration_count
from staticflow.codegen.program.traffic import moved_bytes
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import is_provably_ge

if TYPE_CHECKING:
    from staticflow.codegen.llvm.routine import RunWriter

__all__ = ["write_choose", "write_repeat"]

_BETWEEN_LOOKS = (1 << 18) - 1
"""Bytes that the iterations of a loop move from one look to the next, about: some ten microseconds'
work, against some ten nanoseconds for a look."""

_MOST_ITERATIONS = (1 << 6) - 1
"""Iterations between two looks where each moves next to nothing. Those of nested loops multiply."""


def write_choose(run: RunWriter, step: Choose) -> None:
    """A branch, of which a flag says whether it is taken."""
    text = run.text
    before = text.block
    then, orelse, done = (text.new_block(n) for n in ("then", "else", "chosen"))
    text.branch(run.flag(step.flag), then, orelse)
    for block, steps in ((then, step.then), (orelse, step.orelse)):
        text.start(block)
        with run.indices.scope(before, is_loop=False):
            run.steps(steps)
        text.jump(done)
    text.start(done)


def write_repeat(run: RunWriter, step: Repeat) -> None:
    """A loop that counts its iterations; all places that move follow from their number."""
    text = run.text
    length = last = None
    if step.length is not None:
        length = run.indices.value(step.length)  # here, where all that follows can use it
        last = run.indices.value(step.length - 1) if step.reverse else None
    mask = _iterations_between_looks(run, step)
    before, head, done = text.block, text.new_block("loop"), text.new_block("looped")
    run.places.reached[step.loop] = Reached("0", length, last)
    once = step.flag is None and step.length is not None and is_provably_ge(step.length, 1)
    if once:
        text.jump(head)
    else:
        text.branch(_again(run, step), head, done)
    text.start(head)
    count = text.fresh("count")
    with run.indices.scope(before, is_loop=True):
        (counter,) = symbols_of(iteration_count(step.loop))
        run.indices.define(counter, count)
        if mask is not None:
            rest = text.op(f"and i64 {count}, {mask}")
            run.look_if(text.op(f"icmp eq i64 {rest}, {mask}"))
        run.places.reached[step.loop] = Reached(count, length, last)
        run.open.append(step.loop)
        run.steps(step.body)
        run.open.pop()
        stepped = text.op(f"add i64 {count}, 1")
        run.places.reached[step.loop] = Reached(stepped, length, last)
        again = _again(run, step)
    latch = text.block
    text.branch(again, head, done)
    head.phis.append(phi(count, I64, [("0", before), (stepped, latch)]))
    text.start(done)
    total = text.fresh("iterations")
    done.phis.append(phi(total, I64, [(stepped, latch), *([] if once else [("0", before)])]))
    run.places.reached[step.loop] = Reached(total, length, last)
    if step.binds is not None:
        run.indices.define(step.binds, total)


def _iterations_between_looks(run: RunWriter, step: Repeat) -> str | None:
    """A mask: where it covers the bits of the number of iterations that are done, the loop
    looks whether the user wants to stop. The more an iteration moves, the fewer they are. None
    if there are never so many."""
    moved = moved_bytes(run.program, run.table, step.body)
    if isinstance(moved, int):
        mask = min(_MOST_ITERATIONS, _BETWEEN_LOOKS >> moved.bit_length())
        short = step.length is not None and is_provably_ge(mask, step.length)
        return None if short else str(mask)
    text = run.text
    zeros = text.call("ctlz.i64", I64, (I64, run.indices.value(moved)), ("i1", "false"))
    bits = text.op(f"sub i64 64, {zeros}")
    many = text.op(f"lshr i64 {_BETWEEN_LOOKS}, {bits}")
    return text.call("umin.i64", I64, (I64, many), (I64, str(_MOST_ITERATIONS)))


def _again(run: RunWriter, step: Repeat) -> str:
    """Whether there is another iteration."""
    text = run.text
    flags = [] if step.flag is None else [run.flag(step.flag)]
    if step.length is not None:
        length = run.indices.value(step.length)
        flags.append(text.op(f"icmp slt i64 {run.places.reached[step.loop].iteration}, {length}"))
    return flags[0] if len(flags) == 1 else text.op(f"and i1 {flags[0]}, {flags[1]}")
