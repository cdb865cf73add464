"""``compile``: from symbols to a native program."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from staticflow.data_classes import dataclass
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, DTypeError, SymbolicError
from staticflow.graph.collector import without_collection
from staticflow.graph.device import device as device_type
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.ops.declaring.foreign import refuses_foreign_in_classes
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.symbols.captured import part_of
from staticflow.ops.symbols.dependents import depend
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.order import PASSES, STABILIZING, choose_passes, passes_for
from staticflow.runtime.build import build
from staticflow.runtime.object_layout import box_type
from staticflow.runtime.recipe import Recipe
from staticflow.runtime.runnable import Runnable
from staticflow.static.caller import Caller
from staticflow.static.compiled import Compiled
from staticflow.static.donation import Donations
from staticflow.static.placement import find_place
from staticflow.static.staleness import Facts
from staticflow.static.written import Written, write

if TYPE_CHECKING:
    from staticflow.distributed.mesh import Mesh

__all__ = ["Options", "PhaseSeconds", "Program", "compile"]


@dataclass(frozen=True, slots=True)
class Options:
    """How a graph is compiled: the ``numerics`` that are allowed, the ``passes`` that run, and
    whether subnormal numbers are zero."""

    numerics: str = "strict"
    passes: tuple[str, ...] = PASSES
    flush_subnormals: bool = False
    device: Any = None
    """The device that was asked for; None is that of the tensors in the graph."""
    mesh: Mesh | None = None
    """The mesh of processes that it is for, if it is for one."""

    @staticmethod
    def of(
        numerics: str,
        passes: str | Iterable[str] | None,
        stabilize: bool,
        flush_subnormals: bool = False,
        device: Any = None,
    ) -> Options:
        """The options that a user gives, passes by name."""
        chosen = choose_passes(passes, numerics)
        kept = tuple(p for p in chosen if stabilize or p not in STABILIZING)
        flushes = as_bool("flush_subnormals", flush_subnormals)
        return Options(numerics, kept, flushes, device)

    @property
    def passes_that_run(self) -> tuple[str, ...]:
        """The passes that run with these numerics."""
        return passes_for(self.numerics, self.passes)

    @property
    def in_words(self) -> str:
        """What decides the bits of results, as it is compared among processes."""
        return (
            f"numerics={self.numerics!r}, flush_subnormals={self.flush_subnormals}, "
            f"passes={','.join(self.passes)}"
        )

    @property
    def is_stable(self) -> bool:
        """Whether what overflows is said in another form."""
        return any(name in STABILIZING for name in self.passes)


@dataclass(frozen=True, slots=True)
class PhaseSeconds:
    """How long the phases of a compilation took, in seconds: to ``close`` the graph that was
    written, to ``optimise`` it by passes, to ``generate`` kernels, memory plan and LLVM text, and
    to ``load`` machine code, which LLVM makes. What the disk has from another time is loaded, and
    neither optimised nor generated."""

    close: float
    optimise: float
    generate: float
    load: float

    @property
    def total(self) -> float:
        """The seconds of all phases."""
        return self.close + self.optimise + self.generate + self.load


def compile(
    inputs: Sequence[Symbol] | Mapping[str, Symbol],
    outputs: Any = None,
    updates: Mapping[Tensor, Any] | Sequence[tuple[Tensor, Any]] | None = None,
    *,
    numerics: str = "strict",
    passes: str | Iterable[str] | None = None,
    stabilize: bool = True,
    flush_subnormals: bool = False,
    donate: str | Symbol | Iterable[str | Symbol] | None = None,
    device: Any = None,
    mesh: Mesh | None = None,
    local: bool = False,
) -> Program:
    """One native program that computes ``outputs`` from ``inputs``.

    ``inputs`` are placeholders, in the order of the call's arguments (or by name). ``outputs`` is a
    symbol, a tree of them, or None; a call gives eager tensors in that structure. ``updates`` says
    which tensors get which new values: all are computed from the values before the call and stored
    in place after the last thing that can fail. Where elements of these tensors are one place of
    memory (an expanded tensor, two views that overlap) it is a `ShapeError`, and an `AutogradError`
    of a tensor that was computed from one that requires a gradient: a graph computes that anew.
    Tensors that the symbols mention are read afresh at every call. ``numerics="exact"`` keeps every
    order of products and sums as it was written, ``"strict"`` may choose another one, ``"fast"``
    also ignores signed zeros, infinities and NaN. ``passes`` are all, or those of these names in
    their order, or all but those with a ``-`` before their names, as in ``passes=["-fuse"]``;
    results are the same, and what no program can do without runs in any case.
    ``program.explain("passes")`` says what each did.

    What overflows on its way, as ``log(1 + exp(x))`` does, is computed in a form that does not,
    unless ``stabilize`` is False; a gradient was written so, or not, where `grad` was called.

    Where numbers fade, as in a decay or a filter, their last ones are subnormal (below 1.2e-38 in
    float32), and each operation on such a number may take a processor a hundred cycles. With
    ``flush_subnormals`` arithmetic in float32 and float64 takes them for zero, and gives zero for
    them; what is only moved, negated, compared by its bits or made wider stays.

    Inputs that are named by ``donate``, by name or placeholder, are given away at each call: an
    output of the same type is written over such an input where all else that reads it can run
    before, and takes no memory of its own (``program.donations`` says which inputs that are). After
    the call their arrays hold that output; a program of this kind that is given one again raises
    `ArgumentError`, as it does for read-only memory. A call that fails changes nothing.

    The program runs on the ``device`` of the tensors that the symbols mention, or, if there are
    none, on the one that is named, else on the CPU. Tensors of two devices are a `DeviceError`; but
    those without dims, and the states of generators, may be on the CPU beside a GPU. A program on a
    GPU takes arrays of NumPy, which it copies there, and tensors of that GPU, and gives such. An
    operation that has no kernel on a GPU, as ``sf.linalg.qr``, is a `CompileError`.

    With a ``mesh`` of several processes, each compiles and calls the program, on the same arrays,
    and computes its part of what `staticflow.distributed.shard` splits, and of all that follows.
    Outputs are the same on every process, but for those that are split. Raises `RankError` if the
    processes have other graphs or tensors, and a call does if they are given other sizes. With
    ``local`` a process gives its own part of each input that is split, and not the whole: as many
    rows as all others, where their number is not known before.

    The program is compiled once, here; unknown sizes are taken from the arrays of each call.

    >>> import staticflow as sf
    >>> w = sf.ones(2)
    >>> x = sf.placeholder((None, 2), name="x")
    >>> step = sf.compile([x], (x * w).sum(), updates={w: w - 0.1 * x.sum(dim=0)})
    >>> step(sf.ones(3, 2)).item(), w
    (6.0, tensor([0.7000, 0.7000]))
    """
    options = Options.of(numerics, passes, stabilize, flush_subnormals, device)
    with without_collection():
        written = write(inputs, outputs, updates, donate)
        if mesh is not None:
            from staticflow.static.partitioned import for_mesh

            options, written = (
                replace(options, mesh=mesh),
                for_mesh(written, mesh, options.in_words, as_bool("local", local)),
            )
        elif as_bool("local", local):
            raise ArgumentError(
                f"compile: local=True is for programs of a mesh; give it as mesh=, at "
                f"{format_locs(here())}"
            )
        elif any(part_of(t) is not None for t in written.variables):
            raise SymbolicError(
                "compile: a tensor is in parts, of which each process has one, as split_state or "
                f"split_parameters made them; compile the program with mesh=, at "
                f"{format_locs(here())}"
            )
        return Program(written, options)


class Program(Compiled):
    """A compiled graph. Call it with one NumPy array or tensor for each input, in their order or by
    name; it gives eager tensors in the structure of the outputs."""

    # Each program has a call of its own, native code where it can be: then no frame of Python runs.
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(self, written: Written, options: Options, beside: Sequence[Tensor] = ()) -> None:
        """``beside`` are tensors whose device it is to be for, as inputs of a jitted function."""
        began = time.perf_counter()
        self._made: Locs = here()
        self.options = options
        self._written, self._names, self._calls = written, written.names, written.calls
        self.graph = written.graph
        """The graph as it was written, before any pass."""
        updated, sources = written.updated, written.variables
        recipe = Recipe(
            self.graph,
            self._names,
            updated,
            options.numerics,
            options.passes,
            written.donated,
            options.flush_subnormals,
        )
        self.device = find_place((*beside, *sources), options.device)
        """Where it runs, and where its outputs are."""
        self._executable = _build(recipe, self.device)
        over = self._executable.signature.donated if written.donated else ()
        self._caller = Caller(
            self._executable,
            self.graph,
            self._names,
            sources,
            updated,
            written.structure,
            self._made,
            Donations(over, self._names, self._made) if over else None,
        )
        self._usual = self._caller.entry()
        self.__call__ = self._usual
        follows, calls = written.follows, written.calls
        self._facts = Facts(sources, updated, calls)
        self.is_suspect = False
        """Whether a module has ever held something else in the place of what this has of it."""
        called = [m for m in (call.module() for call in calls) if m is not None]
        lists = [each for module in called for each in module._lists()]
        for thing in (*sources, *called, *lists) if follows else ():
            depend(self, thing)
        if self._facts.is_outdated() or self._facts.must_look:
            self.look_again()
        ended = time.perf_counter()
        optimised, generated = self._executable.optimised, self._executable.generated
        self.phase_seconds = PhaseSeconds(
            written.seconds, optimised - began, generated - optimised, ended - generated
        )
        self.compile_seconds = self.phase_seconds.total
        self.compile_count = 1
        """How often this program was compiled: once, whatever the sizes."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise DTypeError(
            "a program cannot be copied or pickled: it is machine code of this process, for the "
            "tensors that it captured; compile a graph of the copy, or save the tensors, "
            f"at {format_locs(here())}"
        )

    # -- what it was written by ----------------------------------------------------------------

    def look_again(self) -> None:
        """Look, before the next call, whether the program is still what its graph was written by:
        something about one of its tensors or modules has changed."""
        self.__call__ = self._looking

    def note_replaced(self, module: Any, name: str, before: Any) -> None:
        """Look so because ``module`` no longer has ``before`` as ``name``."""
        self._facts.note_replaced(module, name, before)
        self.is_suspect = True
        self.look_again()

    def note_other(self, module: Any, name: str, before: Any) -> None:
        """Note that ``module`` no longer has ``before``, a number for one, as ``name``: this
        program keeps it, and `jit` traces anew."""
        self._facts.note_other(module, name, before)
        self.is_suspect = True

    def note_retyped(self) -> None:
        """Note that one of its tensors has another dtype now, which no call takes."""
        self.is_suspect = True

    def has_replaced(self) -> bool:
        """Whether a module that was called holds something else now in the place of what the
        program has of it, or a tensor elements of another dtype."""
        return self._facts.find_replaced() is not None or self._facts.has_others()

    def check_what_changed(self) -> None:
        """Raise `SymbolicError` or `AutogradError` if the graph would be written otherwise now,
        after what has changed about its tensors and modules."""
        self._facts.check(self._made)
        if not self._facts.must_look:
            self.__call__ = self._usual

    def _looking(self, *args: Any, **kwargs: Any) -> Any:
        self.check_what_changed()
        return self._usual(*args, **kwargs)

    def __repr__(self) -> str:
        ins = ", ".join(
            f"{n}: {p.type}" for n, p in zip(self._names, self.graph.params, strict=False)
        )
        where = "" if self.device.type == "cpu" else f" on {self.device}"
        return (
            f"<program ({ins}){where}, {self.kernel_count} kernels, "
            f"made at {format_locs(self._made)}>"
        )


def _build(recipe: Recipe, where: device_type) -> Runnable:
    if where.type == "cpu":
        return build(recipe, box_type(Tensor, "_data"))
    from staticflow.runtime.device.build import build_on_device

    return build_on_device(recipe, where.index or 0)


refuses_foreign_in_classes(Program)
