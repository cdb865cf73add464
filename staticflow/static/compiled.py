"""What a program says of itself: what it is, what it costs, what it does with given arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

from staticflow import pytree
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError
from staticflow.graph.graph import Graph
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.ops.declaring.foreign import refuses_foreign_in_classes
from staticflow.runtime.runnable import Runnable
from staticflow.static.caller import Caller
from staticflow.static.written import Written

if TYPE_CHECKING:
    from staticflow.measure.profile import Profile
    from staticflow.measure.work import Kernel
    from staticflow.ops.symbols.calls import ModuleCall
    from staticflow.passes.pipeline import PassReport
    from staticflow.runtime.plan import Plan
    from staticflow.static.bisection import Culprit
    from staticflow.static.compile import Options, PhaseSeconds

__all__ = ["Compiled"]


class Compiled:
    """A compiled graph, and what it says of itself; nothing here changes it. `Program` is one that
    can be called."""

    __slots__ = ()

    graph: Graph
    options: Options
    phase_seconds: PhaseSeconds
    _executable: Runnable
    _caller: Caller
    _names: tuple[str, ...]
    _calls: Sequence[ModuleCall]
    _written: Written
    _made: Locs

    def profile(self, *args: Any, repeat: int | None = None, **named: Any) -> Profile:
        """Where the time of a call with these arguments goes: by kernel and by source line.

        The call is made ``repeat`` times (None: as many as take a fifth of a second) with a clock
        read around each kernel, in turns with as many as it always is, so that the profile says
        what profiling costs. What the program updates is copied before, so that nothing is
        trained. Raises what the call raises for wrong arguments, and `ArgumentError` for a
        ``repeat`` that is no positive int.

        >>> import staticflow as sf
        >>> x = sf.placeholder((None, 64), name="x")
        >>> found = sf.compile([x], (x @ sf.ones(64, 64)).relu().sum()).profile(sf.ones(32, 64))
        >>> [(row.kind, row.count) for row in found.rows]
        [('kernel', 1), ('kernel', 1)]
        >>> abs(sum(row.share for row in found.rows)) <= 1
        True
        """
        from staticflow.static.twin import profile_program

        return profile_program(self, args, named, repeat)

    def bisect(self, *args: Any, rtol: float | None = None, atol: float = 0.0) -> Culprit | None:
        """The first rewrite that gives another result for these arguments than the graph as it was
        written: the pass, its rule, the operation and its lines. None if there is none.

        Every stage is run by the interpreter, and the program on copies of what it updates. What
        may differ is ``atol`` and ``rtol`` of the largest element; by default what rounding makes
        of a dtype. A form that is right where what was written overflows is another result, too.
        Raises what the call raises for wrong arguments.

        >>> import staticflow as sf
        >>> x = sf.placeholder((None,), name="x")
        >>> step = sf.compile([x], (1 + x.exp()).log())
        >>> step.bisect(sf.tensor([1.0, 2.0]))
        >>> found = step.bisect(sf.tensor([1.0, 1000.0]))
        >>> found.name, found.rules, found.difference
        ('stabilize', ('softplus',), '1000.0 instead of inf at [1]')
        """
        from staticflow.static.bisection import bisect_program

        return bisect_program(self, args, rtol, atol)

    def check_nan(self, *args: Any) -> None:
        """Run the graph as it was written, op by op with NumPy, and update nothing.

        Raises `NanError` at the first NaN: which op made it of which operands, in which iteration
        of which loop, at which line. ``STATICFLOW_CHECK_NAN=1`` does this before every call.
        """
        self._caller.check_nan(*args)

    @property
    def variables(self) -> dict[str, Tensor]:
        """The tensors that a call reads or updates beside its arguments, by the names that they
        have in modules, in their optimiser, or as variables of the functions that run now.

        >>> import staticflow as sf
        >>> x, scale = sf.placeholder((None, 2), name="x"), sf.ones(2)
        >>> sf.compile([x], sf.nn.Linear(2, 1)(x * scale)).variables.keys()
        dict_keys(['scale', 'weight', 'bias'])
        """
        if self._written.labels:
            return dict(zip(self._written.labels, self._written.variables, strict=True))
        names = self._tensor_names()
        found: dict[str, Tensor] = {}
        for t in self._written.variables:
            name, copy = names.get(t, "tensor"), 1
            free = name
            while free in found:
                copy += 1
                free = f"{name}_{copy}"
            found[free] = t
        return found

    def _tensor_names(self) -> dict[Tensor, str]:
        from staticflow.measure.tensor_names import name_tensors

        if self._written.labels:
            return dict(zip(self._written.variables, self._written.labels, strict=True))
        modules = (module for call in self._calls if (module := call.module()) is not None)
        return name_tensors(self._written.variables, modules)

    def save(self, f: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write the program to the file ``f``, a path or an open file: its graph as text, and the
        tensors that it reads or updates, as they are now. `staticflow.load_program` reads it, on
        another machine too.

        The file is a safetensors file and holds no code. At a path it takes the place of an old one
        when it is complete. Raises `CheckpointError` for a graph with operations of your own
        (`Function`), or with an updated tensor that shares memory with another, and `ImportError`
        where safetensors is not installed.
        """
        from staticflow.static.saved_program import save_program

        save_program(self, f)

    @property
    def optimized(self) -> Graph:
        """The graph behind all passes, of clusters. Of a program that was found on disk they run
        when this, or anything else that is made by them, is first asked for."""
        return self._executable.draft.graph

    @property
    def passes(self) -> Sequence[PassReport]:
        """What each pass did."""
        return self._executable.draft.passes

    @property
    def plan(self) -> Plan:
        """The memory plan: offsets, live ranges, peak."""
        return self._executable.plan

    @property
    def donations(self) -> tuple[str, ...]:
        """The inputs in whose memory outputs lie after a call, by name.

        >>> import staticflow as sf
        >>> x, y = sf.placeholder((3,), name="x"), sf.placeholder((3,), name="y")
        >>> sf.compile([x, y], [x * y, y.sum()], donate=[x, y]).donations
        ('x',)
        """
        if not self._written.donated:
            return ()
        return tuple(self._names[i] for _, i in self._executable.signature.donated)

    @property
    def held_bytes(self) -> int:
        """The bytes of the program's own memory, as its calls so far have made it: at least what
        ``plan.peak_bytes`` says of the largest of them, and of what grows up to a tenth more, or
        64 KiB. It is 0 while a call runs. On a GPU it is the memory of the captured graphs."""
        return self._executable.held_bytes

    @property
    def kernel_count(self) -> int:
        """How many different kernels the program has."""
        return self._executable.kernel_count

    def work(self, **sizes: int | Sequence[int]) -> tuple[Kernel, ...]:
        """What each kernel does in one call where the unknown sizes have these values, by name: its
        launches, bytes and FLOPs, and the lines that it comes from, as `work_of_program` counts.

        >>> import staticflow as sf
        >>> x, w = sf.placeholder((None, 8), name="x"), sf.ones(8, 4)
        >>> (product,) = sf.compile([x], x @ w).work(x_0=16)
        >>> product.flops, product.bytes                  # 2 * 16 * 8 * 4, 4 * (128 + 32 + 64)
        (1024, 896)
        """
        from staticflow.measure.work import work_of_program

        return work_of_program(self._executable, sizes)

    def source(self, kind: str | None = None) -> str:
        """The program as ``"llvm"`` text, as ``"asm"`` of this machine, or its ``"kernels"``; of
        one on a GPU these, or its text in ``"cuda"`` C."""
        from staticflow.codegen.text import print_kernel

        makers: dict[str, Callable[[], str]] = {
            **self._executable.sources(),
            "kernels": lambda: "\n\n".join(map(print_kernel, self._executable.program.kernels)),
        }
        if kind is None:
            kind = next(iter(makers))
        if kind not in makers:
            raise ArgumentError(
                f"source: {kind!r} is none of {', '.join(makers)}, at {format_locs(here())}"
            )
        return makers[kind]()

    def explain(self, topic: str | None = None, **sizes: int) -> str:
        """What the program is and does, in one screen: its inputs, outputs and tensors by the names
        that they have in the code, its memory, its heaviest kernels with their bytes, FLOPs and
        lines, and what the passes did. Unknown sizes are those that are given by name, else 64.

        The topics have the details: ``"passes"`` what each pass and rule did at which lines,
        ``"kernels"`` all kernels, ``"plan"`` where each buffer lies and when it is live,
        ``"graph"`` the graph of clusters, ``"routine"`` the steps in their order, and ``"mesh"``
        what a process of a mesh sends, and what of that only since it is split otherwise than an op
        takes it. Raises `ArgumentError` for another word and `ShapeError` for a name of no size.

        >>> import staticflow as sf
        >>> x, w = sf.placeholder((None, 8), name="x"), sf.ones(8, 4)
        >>> step = sf.compile({"x": x}, {"y": (x @ w).relu()})
        >>> print("\\n".join(step.explain(x_0=16).splitlines()[2:8]))
        <BLANKLINE>
        inputs      x: f32[x_0, 8]
        outputs     y: f32[x_0, 4]
        other state 1, of 32 elements, 0 updated
                    w [8, 4]
        at          x_0 = 16
        """
        from staticflow.measure.explain import Subject, explain

        caller = self._caller
        subject = Subject(
            self.graph,
            self.optimized,
            self.passes,
            self._executable,
            self._names,
            [path.strip("[]'") for path in pytree.paths(caller.structure)],
            caller.variables,
            self._tensor_names(),
            caller.updated,
            self._made,
            asdict(self.phase_seconds),
            self._written.moved,
        )
        return explain(subject, topic, sizes)


refuses_foreign_in_classes(Compiled)
