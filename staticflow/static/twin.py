"""A program a second time: on copies of what it updates, to see what it would do, or in its own
place, by code that reads a clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow import pytree
from staticflow.codegen.llvm.probes import Probes
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, DeviceError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.numbers import unwrap_integer
from staticflow.measure.clock import probes_of_host
from staticflow.measure.memory import Memory, bytes_in_steps, measure_program
from staticflow.measure.probing import Contestants, profile_runs
from staticflow.measure.profile import Profile
from staticflow.measure.readings import Reader, find_sizes, name_sizes, read_one
from staticflow.runtime.drafting import compile_draft
from staticflow.runtime.executable import Executable
from staticflow.runtime.object_layout import box_type
from staticflow.runtime.plan import name_bound_sizes
from staticflow.runtime.runnable import Runnable
from staticflow.static.caller import Caller

if TYPE_CHECKING:
    from staticflow.static.compiled import Compiled

__all__ = ["late_sizes_finder", "measure_memory", "profile_program", "read_in_place", "twin_of"]


def read_in_place(program: Compiled) -> tuple[Callable[..., Any], Reader]:
    """What does all that a call of the program does, to the same tensors and with the same bits, by
    code that reads a clock around each step and in memory of its own; and what was read.

    >>> import staticflow as sf
    >>> x, count = sf.placeholder((), name="x"), sf.tensor(0.0)
    >>> step = sf.compile([x], x * 2, updates={count: sf.symbol(count) + 1})
    >>> call, reader = read_in_place(step)
    >>> call(3.0).item(), count.item(), reader.read_counts()[0, 0].item()
    (6.0, 1.0, 1)
    """
    caller, executable, probes = program._caller, _native(program._executable), probes_of_host()
    box = None if caller.donations else box_type(Tensor, "_data")
    other = compile_draft(executable.draft, caller.variables, box, probes)
    return replace(caller, executable=other).entry(), Reader(other, probes)


def twin_of(program: Compiled, probes: Probes | None = None) -> Caller:
    """The call of a program on copies of what it updates or is given away, and memory of its own.
    It takes the arguments that the program takes, gives the same, and raises the same errors. With
    ``probes`` its code reads a clock around each step."""
    caller, executable = program._caller, _native(program._executable)
    copies = {id(t): Tensor._wrap(np.array(t._data)) for t in caller.updated}
    variables = tuple(copies.get(id(t), t) for t in caller.variables)
    box = None if caller.donations else box_type(Tensor, "_data")
    other = compile_draft(executable.draft, variables, box, probes)
    updated = tuple(copies[id(t)] for t in caller.updated)
    structure, names, made = caller.structure, caller.names, caller.made
    kept = caller.donations and replace(caller.donations, keeps=True)
    return Caller(other, caller.graph, names, variables, updated, structure, made, kept)


def _native(executable: Runnable) -> Executable:
    """The native code of a program. Raises `DeviceError` of one that runs on a GPU."""
    if not isinstance(executable, Executable):
        raise DeviceError(
            f"a program on {executable.where} is neither profiled nor bisected; compile the same "
            f"graph for the CPU, at {format_locs(here())}"
        )
    return executable


def measure_memory(program: Compiled, *args: Any, **named: Any) -> Memory:
    """The memory of a call of a program with these arguments, predicted and measured. What the
    program updates stays as it is.

    >>> import staticflow as sf
    >>> x = sf.placeholder((None, 100), name="x")
    >>> found = measure_memory(sf.compile([x], x.cumsum(dim=1).sum()), sf.ones(50, 100))
    >>> found.predicted <= found.measured <= found.predicted + 200
    True
    """
    call = twin_of(program)

    def run() -> Sequence[Any]:
        leaves, _ = pytree.flatten(call(*args, **named))
        return [t._data for t in leaves]

    run()
    found = {}
    if not program.plan.unknown <= {*program.plan.routine.sizes}:
        probed, reader = _probed_twin(program)
        readings, dropped = read_one(reader, partial(probed, *args, **named))
        of_run = {} if dropped else find_sizes(reader, readings)
        found = {size: max(numbers) for size, numbers in of_run.items()}
    _reset(program, call)
    return measure_program(_native(call.executable), call.arrays(*args, **named), run, found)


def late_sizes_finder(program: Compiled) -> Callable[..., dict[str, int | Sequence[int]]]:
    """A function of the arguments of a program that gives the sizes that only the run can tell,
    such as the iterations of a loop, as `Program.work` takes them. One that is another each time it
    is found, as that of a loop in a loop, is a list in the order of the run. What the program
    updates stays as it is.

    >>> import staticflow as sf
    >>> x = sf.placeholder((None,), name="x")
    >>> step = sf.compile([x], sf.while_loop(lambda y: y.sum() < 9, lambda y: y * 2, x))
    >>> late_sizes_finder(step)(sf.ones(3))
    {'iterations': 2}
    """
    if not name_bound_sizes(program._executable.program):
        return lambda *args, **named: {}
    twin, reader = _probed_twin(program)

    def find(*args: Any, **named: Any) -> dict[str, int | Sequence[int]]:
        _reset(program, twin)
        readings, dropped = read_one(reader, partial(twin, *args, **named))
        return {} if dropped else name_sizes(reader, readings)

    return find


def _probed_twin(program: Compiled) -> tuple[Caller, Reader]:
    probes = probes_of_host()
    twin = twin_of(program, probes)
    return twin, Reader(_native(twin.executable), probes)


def _reset(program: Compiled, twin: Caller) -> None:
    """Let the copies that a twin has updated be as they were."""
    for copy, t in zip(twin.updated, program._caller.updated, strict=True):
        np.copyto(copy._data, t._data)


def profile_program(
    program: Compiled, args: Sequence[Any], named: Mapping[str, Any], repeat: int | None
) -> Profile:
    """What `Program.profile` gives."""
    repeat = unwrap_integer(repeat)
    if repeat is not None and (type(repeat) is not int or repeat < 1):
        raise ArgumentError(
            f"profile: repeat is {repeat!r}; it must be a positive int, or None for as many calls "
            f"as take a fifth of a second, at {format_locs(here())}"
        )
    plain = twin_of(program)
    plain(*args, **named)  # which raises what is wrong with the arguments
    probed, reader = _probed_twin(program)
    probed(*args, **named)
    held = bytes_in_steps(reader.executable, probed.arrays(*args, **named))

    def reset() -> None:
        _reset(program, plain)
        _reset(program, probed)

    contestants = Contestants(
        partial(plain, *args, **named), partial(probed, *args, **named), reset, reader
    )
    names = ", ".join(program._caller.names)
    return profile_runs(contestants, f"program({names})", repeat, held)
