"""A graph that is called like a function, as one operation of the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.eager.inference import unrecordable
from staticflow.eager.tensor import Tensor
from staticflow.eager.vertex import record
from staticflow.graph.graph import new_param
from staticflow.graph.locs import here
from staticflow.graph.node import Node, param, toposort
from staticflow.graph.op import Op
from staticflow.ops.declaring.thread import for_itself, stabilizing, thread
from staticflow.ops.symbols.captured import capture
from staticflow.ops.symbols.effect import settle, states
from staticflow.ops.symbols.flow import reached_from
from staticflow.ops.symbols.gradient import pullback
from staticflow.ops.symbols.symbol import Symbol
from staticflow.static.compile import Options
from staticflow.static.sized_programs import SizedPrograms

__all__ = ["Traced"]


@dataclass(slots=True)
class Traced:
    """A graph that is called like a function: its inputs, outputs, the tensors that it mentions,
    those whose state it reads on its way, for each output the numbers of the operands that its
    gradient reaches, its programs, and its derivatives by what they give."""

    inputs: list[Symbol]
    outputs: list[Symbol]
    captured: tuple[Tensor, ...]
    states: tuple[Node, ...]
    reached: list[frozenset[int]]
    programs: SizedPrograms
    backward: dict[tuple[bool, ...], tuple[Traced, list[bool]] | None]

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
        programs = SizedPrograms(inputs, outputs, options, left, follows)
        return Traced(inputs, outputs, tensors, changing, reached, programs, {})

    def __call__(self, given: Sequence[Tensor], recorded: bool = True) -> list[Tensor]:
        """Run, as one differentiable operation of the tape if it is to be ``recorded`` and an
        output reaches what requires a gradient: it does so as operations were recorded when it was
        traced."""
        operands = (*given, *self.captured)
        if recorded and any(self.reached):
            require = {i for i, t in enumerate(operands) if t.requires_grad}
            apart = [require.isdisjoint(reached) for reached in self.reached]
            recorded = not all(apart)
        else:
            recorded = False
        seen = [n.attrs["source"].detach().clone() for n in self.states] if recorded else []
        results: list[Tensor] = self.run(*given)
        if recorded:
            attrs = {"traced": self, "seen": seen}
            record(_JIT_OP, operands, attrs, tuple(results), saves=range(len(operands)))
            for result, is_apart in zip(results, apart, strict=True):
                if is_apart:
                    result._vertex = None
        if thread.state.inference:
            unrecordable(tuple(results))
        return results

    def run(self, *given: Tensor) -> list[Tensor]:
        """What the program gives, off the tape."""
        results = self.programs.program_for(given)(*given)
        return [results] if len(self.outputs) == 1 else results

    def derivative(
        self, needs: Sequence[bool], given: Sequence[bool]
    ) -> tuple[Traced, list[bool]] | None:
        """The graph from the inputs, the states as the call saw them and the ``given`` cotangents
        of the outputs to the needed cotangents of the operands, and which operands have one; None
        if none has."""
        key = (*needs, *given)
        if key not in self.backward:
            with for_itself(), stabilizing(self.programs.options.is_stable):
                self.backward[key] = self._derive(needs, given)
        return self.backward[key]

    def _derive(
        self, needs: Sequence[bool], given: Sequence[bool]
    ) -> tuple[Traced, list[bool]] | None:
        first = len(self.inputs)  # names that no lower derivative has
        seeds: list[Any] = [
            Symbol(new_param(o.node.tensor_type, f"ct{i}", None, here())) if is_given else None
            for i, (o, is_given) in enumerate(zip(self.outputs, given, strict=True), first)
        ]
        handles = [*self.inputs, *(Symbol(capture(t)) for t in self.captured)]
        found = pullback(self.outputs, seeds, handles)
        has = [need and g is not None for need, g in zip(needs, found, strict=True)]
        wanted = [g.node for g, is_there in zip(found, has, strict=True) if is_there]
        if not wanted:
            return None
        seen = {v: new_param(v.tensor_type, f"state{i}") for i, v in enumerate(self.states)}
        nodes, _ = settle(wanted, seen)
        inputs = [*self.inputs, *map(Symbol, seen.values()), *(s for s in seeds if s is not None)]
        derived = Traced.of(inputs, list(map(Symbol, nodes)), self.programs.options, follows=False)
        return derived, has


def _vjp(
    needs: Sequence[bool],
    cts: Any,
    out: Any,
    *operands: Any,
    traced: Traced,
    seen: Sequence[Tensor],
) -> list[Any]:
    derivative = traced.derivative(needs, [ct is not None for ct in cts])
    if derivative is None:
        return [None] * len(operands)
    inputs = operands[: len(traced.inputs)]
    program, has = derivative
    given = [*inputs, *seen, *(ct for ct in cts if ct is not None)]
    found = iter(program(given, thread.state.recording))
    return [next(found) if is_there else None for is_there in has]


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
