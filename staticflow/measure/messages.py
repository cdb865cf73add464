"""The collectives of a program: when each comes, what this process sends, how long that takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from staticflow.codegen.program.routine import Ask, Step, blocks_of
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size
from staticflow.graph.types import TensorType
from staticflow.measure.lines import lines_in_words
from staticflow.measure.tables import cut, table
from staticflow.measure.units import bytes_in_words, seconds_in_words
from staticflow.ops.along.collectives import goes_at_once
from staticflow.ops.along.ordered_collectives import COLLECTIVES, NUMBERS, end_op
from staticflow.ops.declaring.communicator import current
from staticflow.passes.partition.moves import Moved

__all__ = ["Message", "explain_messages", "messages_of"]


@dataclass(frozen=True, slots=True)
class Message:
    """What one collective sends from one rank, each time that it comes: so many messages, of so
    many bytes together. It is the step ``place`` of the program, or inside of that step, a loop or
    branch (``inside``)."""

    step: Ask
    place: int
    inside: bool
    messages: int
    bytes: int


Evaluate = Callable[[Size], int]


def messages_of(steps: Sequence[Step], evaluate: Evaluate) -> list[Message]:
    """The collectives among steps, in the order in which they run. ``evaluate`` gives the numbers
    that sizes are."""
    found: list[Message] = []

    def walk(step: Step, place: int, inside: bool) -> None:
        if isinstance(step, Ask) and step.op in COLLECTIVES:
            found.append(Message(step, place, inside, *_count_messages(step, evaluate)))
        for block in blocks_of(step):
            for inner in block:
                walk(inner, place, True)

    for place, step in enumerate(steps, 1):
        walk(step, place, False)
    return found


def _count_messages(step: Ask, evaluate: Evaluate) -> tuple[int, int]:
    """How many messages a rank sends, and their bytes; of an exchange or broadcast what the one
    sends that sends most."""
    of = sum(evaluate(t.size * t.dtype.itemsize) for t in _operands(step))
    ranks = math.prod(step.attrs["mesh"][a] for a in step.attrs["axes"])
    others, name = ranks - 1, step.attrs.get("collective", step.op.name)
    if step.op is end_op:
        return 0, 0
    if name == "all_reduce":
        if goes_at_once(of, ranks):
            return others, of * others
        return 2 * others, 2 * of * others // ranks
    if name in ("reduce_scatter", "all_to_all"):
        return others, of * others // ranks
    return others, of if name == "exchange" else of * others


def _operands(step: Ask) -> tuple[TensorType, ...]:
    return step.types[NUMBERS.get(step.op, 0) : len(step.values)]


def explain_messages(
    steps: Sequence[Step],
    evaluate: Evaluate,
    at: Mapping[str, int],
    moved: Sequence[Moved],
    cost: tuple[float, float] | None = None,
) -> list[str]:
    """The lines of ``explain("mesh")``: the collectives, and what is ``moved`` by them only since
    it is split otherwise than it is wanted. The ``cost`` of messages is what was measured, or
    given: the seconds of each, and of each byte."""
    found = messages_of(steps, evaluate)
    if not found:
        return ["none: every process could run it alone"]
    rows = [["step", "collective", "of", "sent", "axes", "for"]]
    for message in found:
        step, operands = message.step, _operands(message.step)
        of = str(operands[0]) if len(operands) == 1 else f"{len(operands)} of {operands[0].dtype}"
        name = f"{step.op.name} {step.attrs.get('collective', '')}".rstrip()
        of += ", waits" if step.op is end_op else ""
        rows.append([
            f"{message.place}{' inside' if message.inside else ''}", name, cut(of, 30),
            bytes_in_words(message.bytes), f"{list(step.attrs['axes'])} of "
            f"{list(step.attrs['mesh'])}", lines_in_words(step.locs),
        ])  # fmt: skip
    once = [m for m in found if not m.inside]
    sent, messages = sum(m.bytes for m in once), sum(m.messages for m in once)
    where = ", ".join(f"{name} = {value}" for name, value in at.items())
    return [
        *([f"at {where}"] if where else []),
        *table(rows, "><<><<"),
        f"of {len(steps)} steps; each process sends {bytes_in_words(sent)} in {messages} messages "
        "a call" + (", and what is inside in each iteration" if len(once) < len(found) else ""),
        _predict(sent, messages, cost),
        *_explain_moves(moved, evaluate),
    ]


def _explain_moves(moved: Sequence[Moved], evaluate: Evaluate) -> list[str]:
    if not moved:
        return []
    rows = [["moved", "split", "wanted", "by", "sent", "for"]]
    rows += [
        [
            cut(str(m.kind), 30), m.now, m.wanted, ", ".join(m.readers),
            bytes_in_words(evaluate(m.bytes)), lines_in_words(m.locs),
        ]
        for m in moved
    ]  # fmt: skip
    return ["", *table(rows, "<<<<><")]


def _predict(sent: int, messages: int, given: tuple[float, float] | None) -> str:
    cost = given or current().cost
    if cost is None:
        return "how long that takes was not measured: no messages go between processes here"
    latency, second_of_byte = cost
    seconds = messages * latency + sent * second_of_byte
    return (
        f"about {seconds_in_words(seconds)} of messages a call: {seconds_in_words(latency)} each, "
        f"and {bytes_in_words(1 / second_of_byte)} a second, as was "
        f"{'given' if given else 'measured here'}; kernels that run between begin and end "
        "hide theirs"
    )
