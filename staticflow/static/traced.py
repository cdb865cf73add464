"""A graph that is called like a function, as one operation of the tape."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any, TypeAlias

from staticflow.data_classes import dataclass
from staticflow.eager.inference import unrecordable
from staticflow.eager.tensor import Tensor
from staticflow.eager.vertex import record
from staticflow.errors import OPERAND_ERRORS
from staticflow.graph.dims import Sym
from staticflow.graph.graph import new_param, substitute_nodes
from staticflow.graph.locs import here
from staticflow.graph.node import Node, param, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.thread import for_itself, stabilizing, thread
from staticflow.ops.symbols.captured import capture
from staticflow.ops.symbols.effect import is_mark, settle, states
from staticflow.ops.symbols.flow import reached_from
from staticflow.ops.symbols.gradient import pullback
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.order import SIMPLIFY
from staticflow.static.compile import Options, Program
from staticflow.static.kept_values import number_of, values_to_keep
from staticflow.static.sized_programs import SizedPrograms

__all__ = ["Traced"]


_Key: TypeAlias = tuple[tuple[bool, ...], tuple[bool, ...]]
"""Of which operands a gradient is wanted, and of which outputs there is a cotangent."""


@dataclass(frozen=True, slots=True)
class _Keeping:
    """A graph that gives some of its values, too, by its ``programs``, and its gradient by these:
    what ``derived`` gives, behind the inputs, the states as the call saw them and the cotangents,
    of operands that ``has`` says. The first ``results`` are those of the graph; some of these may
    be among the values, which have the numbers ``kept``."""

    programs: SizedPrograms
    kept: tuple[int, ...]
    derived: Traced
    has: list[bool]


@dataclass(slots=True)
class _Recorded:
    """What a graph remembers of its recorded calls with the same operands to differentiate by.

    ``needs`` has a flag for each operand: whether its gradient may be wanted; ``any`` says whether
    one is true. ``unreached`` are the numbers of the outputs whose gradient reaches none of these.
    ``given`` has a flag for each output: whether the next such call keeps values for a backward
    that has a cotangent of it; at first for all outputs that reach one, and None if kept values
    were of no use. ``keeps`` has by such flags what keeps the values, or None if none is worth it.
    """

    needs: tuple[bool, ...]
    any: bool
    unreached: tuple[int, ...]
    given: tuple[bool, ...] | None
    keeps: dict[tuple[bool, ...], _Keeping | None] = field(default_factory=dict)


@dataclass(slots=True)
class Traced:
    """A graph that is called like a function: its inputs, outputs, the tensors that it mentions,
    those whose state it reads on its way, for each output the numbers of the operands that its
    gradient reaches, and which of these some output's reaches, its programs, its derivatives from
    the inputs alone by what they give, and what is known of its ``recorded`` calls by which
    operands require a gradient."""

    inputs: list[Symbol]
    outputs: list[Symbol]
    captured: tuple[Tensor, ...]
    states: tuple[Node, ...]
    reached: list[frozenset[int]]
    are_reached: tuple[bool, ...]
    programs: SizedPrograms
    backward: dict[_Key, tuple[Traced, list[bool]] | None]
    recorded: dict[tuple[bool, ...], _Recorded]

    @staticmethod
    def of(
        inputs: list[Symbol],
        outputs: list[Symbol],
        options: Options,
        left: Sequence[Node] = (),
        follows: bool = True,
    ) -> Traced:
        """The graph from ``inputs`` to ``outputs``; ``left`` are marks of effects."""
        nodes = [*(o.node for o in outputs), *left]
        changing = tuple(states(nodes))
        variables = [
            n
            for n in toposort(nodes)
            if n.op is param and n.attrs["source"] is not None and n not in changing
        ]
        tensors = tuple(n.attrs["source"] for n in variables)
        operands = [*(s.node for s in inputs), *variables]
        reached = reached_from([o.node for o in outputs], operands)
        some = frozenset[int]().union(*reached)
        return Traced(
            inputs, outputs, tensors, changing, reached,
            tuple([i in some for i, _ in enumerate(operands)]),
            SizedPrograms(inputs, outputs, options, left, follows), {}, {},
        )  # fmt: skip

    def __call__(self, given: Sequence[Tensor], recorded: bool = True) -> list[Tensor]:
        """Run, as one differentiable operation of the tape if it is to be ``recorded`` and an
        output reaches what requires a gradient: it does so as operations were recorded when it was
        traced."""
        operands = (*given, *self.captured)
        call = self._recorded_of(operands) if recorded else None
        if call is None or not call.any:
            results = self.run(*given)
        else:
            results = self._run_recorded(given, operands, call)
        if thread.state.inference:
            unrecordable(tuple(results))
        return results

    def _run_recorded(
        self, given: Sequence[Tensor], operands: tuple[Tensor, ...], call: _Recorded
    ) -> list[Tensor]:
        seen = [n.attrs["source"].detach().clone() for n in self.states]
        keeping, count = self._keeping(call, given), len(self.outputs)
        attrs = {"traced": self, "seen": seen, "call": call, "keeping": keeping}
        if keeping is None:
            results = self.run(*given)
        else:
            results = keeping.programs.run(*given)
            kept = [results[i] if i >= count else results[i].detach() for i in keeping.kept]
            operands = (*operands, *kept)
            del results[count:]
        record(_JIT_OP, operands, attrs, tuple(results), saves=range(len(operands)))
        for i in call.unreached:
            results[i]._vertex = None
        return results

    def _recorded_of(self, operands: Sequence[Tensor]) -> _Recorded:
        """What is remembered of recorded calls in which the same operands require a gradient as
        among ``operands``: the inputs, and then the captured tensors."""
        wanted = tuple([t.requires_grad for t in operands])
        found = self.recorded.get(wanted)
        if found is None:
            needs = self._wanted_of(wanted)
            same = (call for call in self.recorded.values() if call.needs == needs)
            found = next(same, None) or self._know(needs)
            self.recorded[wanted] = found
        return found

    def _know(self, needs: tuple[bool, ...]) -> _Recorded:
        given = tuple([any(needs[i] for i in reached) for reached in self.reached])
        unreached = tuple([i for i, is_reached in enumerate(given) if not is_reached])
        return _Recorded(needs, True in needs, unreached, given)

    def _wanted_of(self, wanted: Sequence[bool]) -> tuple[bool, ...]:
        """The operands that some output reaches and of which a gradient is ``wanted``, as flags."""
        return tuple([a and b for a, b in zip(wanted, self.are_reached, strict=True)])

    def program_for(self, given: Sequence[Tensor], recorded: bool) -> Program:
        """The program that runs when this is called with these tensors."""
        operands = (*given, *self.captured)
        call = self._recorded_of(operands) if recorded else None
        keeping = None if call is None or not call.any else self._keeping(call, given)
        programs = self.programs if keeping is None else keeping.programs
        return programs.program_for(given)

    @property
    def every_program(self) -> list[Program]:
        """The programs of these outputs that were compiled, with those that keep values."""
        calls = {id(call): call for call in self.recorded.values()}.values()
        keeping = [k for call in calls for k in call.keeps.values() if k is not None]
        every = [self.programs, *(k.programs for k in keeping)]
        return [program for programs in every for _, program in programs.compiled]

    def run(self, *given: Tensor) -> list[Tensor]:
        """What the program gives, off the tape."""
        return self.programs.run(*given)

    def derivative(
        self, needs: Sequence[bool], given: Sequence[bool]
    ) -> tuple[Traced, list[bool]] | None:
        """The graph from the inputs, the states as the call saw them and the ``given`` cotangents
        of the outputs to the needed cotangents of the operands, and which operands have one; None
        if none has."""
        key = tuple(needs), tuple(given)
        if key not in self.backward:
            with for_itself(), stabilizing(self.programs.options.is_stable):
                self.backward[key] = self._derive(*key)
        return self.backward[key]

    def _derive(
        self, needs: Sequence[bool], given: Sequence[bool]
    ) -> tuple[Traced, list[bool]] | None:
        wanted, seeds, has = self._pull(needs, given)
        if not wanted:
            return None
        seen = self._make_states()
        nodes, _ = settle(wanted, seen)
        inputs = [*self.inputs, *map(Symbol, seen.values()), *seeds]
        derived = Traced.of(inputs, list(map(Symbol, nodes)), self.programs.options, follows=False)
        return derived, has

    def _pull(
        self, needs: Sequence[bool], given: Sequence[bool]
    ) -> tuple[list[Node], list[Symbol], list[bool]]:
        """The needed cotangents of the operands that there are, those ``given`` of the outputs, of
        which they are made, and which operands have one."""
        numbers = itertools.count(len(self.inputs))  # which no lower derivative's have
        seeds: list[Any] = [
            Symbol(new_param(o.node.tensor_type, f"ct{next(numbers)}", None, here()))
            if is_given
            else None
            for o, is_given in zip(self.outputs, given, strict=True)
        ]
        handles = [*self.inputs, *(Symbol(capture(t)) for t in self.captured)]
        found = pullback(self.outputs, seeds, handles)
        has = [need and g is not None for need, g in zip(needs, found, strict=True)]
        wanted = [g.node for g, is_there in zip(found, has, strict=True) if is_there]
        return wanted, [s for s in seeds if s is not None], has

    def _make_states(self) -> dict[Node, Node]:
        """Params for the states as a call saw them."""
        return {v: new_param(v.tensor_type, f"state{i}") for i, v in enumerate(self.states)}

    def _keeping(self, call: _Recorded, args: Sequence[Tensor]) -> _Keeping | None:
        """What keeps values for the gradient of such a call; None if none is worth it, and where
        hooks take what is saved: a checkpoint keeps little, and the same each time."""
        given = call.given
        if given is None or thread.state.saved_hooks is not None:
            return None
        if given not in call.keeps:
            with for_itself(), stabilizing(self.programs.options.is_stable):
                try:
                    found = self._keep(call.needs, given, self.programs.sizes_of(args))
                except OPERAND_ERRORS:  # which backward raises again
                    found = None
            call.keeps[given] = found
        return call.keeps[given]

    def _keep(
        self, needs: Sequence[bool], given: Sequence[bool], sizes: Mapping[Sym, int]
    ) -> _Keeping | None:
        wanted, seeds, has = self._pull(needs, given)
        if not wanted:
            return None
        seen, written = self._make_states(), [n for n in toposort(wanted) if not is_mark(n)]
        settled, _ = settle([*written, *wanted], seen)
        as_written = dict(zip(reversed(settled), reversed([*written, *wanted]), strict=True))
        wanted = settled[len(written) :]
        inputs, options = [*self.inputs, *map(Symbol, seen.values()), *seeds], self.programs.options
        alone = SizedPrograms(inputs, list(map(Symbol, wanted)), options, follows=False)
        values = values_to_keep(
            wanted, {s.node for s in seeds}, sizes, lambda nodes: _in_blocks(nodes, alone, sizes)
        )
        if not values:
            return None
        places = {o.node: i for i, o in enumerate(self.outputs)}
        first = len(self.outputs)
        more = [as_written[v] for v in values if as_written[v] not in places]
        places |= {node: i for i, node in enumerate(more, first)}
        params = [
            new_param(TensorType(v.tensor_type.dtype, v.tensor_type.shape), f"kept{i}")
            for i, v in enumerate(values)
        ]
        nodes = substitute_nodes(wanted, dict(zip(values, params, strict=True)))
        inputs += map(Symbol, params)
        derived = Traced.of(inputs, list(map(Symbol, nodes)), options, follows=False)
        outputs, own = [*self.outputs, *map(Symbol, more)], self.programs
        programs = SizedPrograms(self.inputs, outputs, options, own.left, own.follows)
        return _Keeping(programs, tuple([places[as_written[v]] for v in values]), derived, has)


def _in_blocks(
    nodes: Collection[Node], programs: SizedPrograms, sizes: Mapping[Sym, int]
) -> set[Node]:
    """The ``nodes`` that a program for these sizes computes for a block of rows at a time."""
    from staticflow.passes.pipeline import optimize  # and all passes with it
    from staticflow.passes.row_blocks import has_blocks, row_blocks

    shapes = {n: n.type.shape for n in nodes if isinstance(n.type, TensorType) and n.type.shape}
    numbers = {n: [number_of(size, sizes) for size in shape] for n, shape in shapes.items()}
    large = {n for n, (*rows, columns) in numbers.items() if has_blocks(prod(rows), columns)}
    if not large:
        return set()
    options = programs.options
    passes = [p for p in options.passes if p in SIMPLIFY]
    _, reports = optimize(programs.write(sizes).graph, options.numerics, passes)
    rules = [r.counts.lines.values() for r in reports if r.name == row_blocks.__name__]
    lines = {line for found in rules for lines in found for line in lines}
    return {n for n in large if not lines.isdisjoint(n.locs)}


def _vjp(
    needs: Sequence[bool],
    cts: Any,
    out: Any,
    *operands: Any,
    traced: Traced,
    seen: Sequence[Tensor],
    call: _Recorded,
    keeping: _Keeping | None,
) -> list[Any]:
    count = len(traced.inputs) + len(traced.captured)
    wanted, given = tuple(needs[:count]), tuple([ct is not None for ct in cts])
    known = traced.recorded.get(wanted)
    needs = traced._wanted_of(wanted) if known is None else known.needs
    recorded, kept = thread.state.recording, operands[count:]
    cotangents = [*seen, *(ct for ct in cts if ct is not None)]
    inputs = operands[: len(traced.inputs)]
    is_as_before = needs == call.needs
    if keeping is not None and not recorded and is_as_before and call.keeps.get(given) is keeping:
        found, has = keeping.derived([*inputs, *cotangents, *kept], False), keeping.has
    else:  # from the inputs alone, as a derivative of the gradient needs it, too
        call.given = given if is_as_before and not recorded else None
        derivative = traced.derivative(needs, given)
        if derivative is None:
            return [None] * len(operands)
        program, has = derivative
        found = program([*inputs, *cotangents], recorded)
    left = iter(found)
    return [*(next(left) if is_there else None for is_there in has), *(None for _ in kept)]


def _refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("the tape runs a jitted call through its compiled programs")


_JIT_OP = Op(
    name="jit",
    doc="A call of a jitted function, as one node of the tape.",
    infer=_refuse,
    reference=_refuse,
    vjp=_vjp,
    grad_name="JitBackward",
)
