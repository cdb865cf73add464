"""``compile``: from symbols to a native program."""

from __future__ import annotations

import reprlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from staticflow import pytree
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, DTypeError, ShapeError, SymbolicError
from staticflow.graph.collector import without_collection
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import close
from staticflow.graph.locs import Locs, format_locs, here, merge_locs
from staticflow.graph.node import Node, param, toposort
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.foreign import refuses_foreign_in_classes
from staticflow.ops.symbols.calls import calls_of
from staticflow.ops.symbols.dependents import depend
from staticflow.ops.symbols.effect import settle, without_effects
from staticflow.ops.symbols.symbol import Symbol, capture, to_node
from staticflow.passes.pipeline import PASSES, STABILIZING, choose_passes, optimize, passes_for
from staticflow.passes.rewrite import Pass
from staticflow.runtime.build import build
from staticflow.runtime.object_layout import box_type
from staticflow.runtime.plan import Plan
from staticflow.static.budget import hold_to_budget
from staticflow.static.caller import Caller
from staticflow.static.donation import Donations, read_donate
from staticflow.static.inputs import refuse_crowd, refuse_strange_sizes
from staticflow.static.staleness import Facts

if TYPE_CHECKING:
    from staticflow.measure.profile import Profile
    from staticflow.measure.work import Kernel
    from staticflow.static.bisection import Culprit

__all__ = ["Options", "PhaseSeconds", "Program", "compile"]

_EXAMPLE = Tensor._wrap(np.empty(()))


@dataclass(frozen=True, slots=True)
class Options:
    """How a graph is compiled: the ``numerics`` that are allowed, and the ``passes`` that run."""

    numerics: str = "strict"
    passes: tuple[tuple[str, Pass], ...] = PASSES

    @staticmethod
    def of(numerics: str, passes: str | Iterable[str] | None, stabilize: bool) -> Options:
        """The options that a user gives, passes by name."""
        chosen = choose_passes(passes, numerics)
        return Options(numerics, tuple(p for p in chosen if stabilize or p[0] not in STABILIZING))

    @property
    def passes_that_run(self) -> tuple[tuple[str, Pass], ...]:
        """The passes that run with these numerics."""
        return passes_for(self.numerics, self.passes)

    @property
    def is_stable(self) -> bool:
        """Whether what overflows is said in another form."""
        return any(name in STABILIZING for name, _ in self.passes)


@dataclass(frozen=True, slots=True)
class PhaseSeconds:
    """How long the phases of a compilation took, in seconds: to ``close`` the graph that was
    written, to ``optimise`` it by passes, to ``generate`` kernels, memory plan and LLVM text, and
    to ``load`` machine code, which LLVM makes or the disk has from another time."""

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
    donate: str | Symbol | Iterable[str | Symbol] | None = None,
) -> Program:
    """One native program that computes ``outputs`` from ``inputs``.

    ``inputs`` are placeholders, in the order of the call's arguments (or by name). ``outputs`` is a
    symbol, a tree of them, or None; a call gives eager tensors in that structure. ``updates`` says
    which tensors get which new values: all are computed from the values before the call and stored
    in place after the last thing that can fail. Tensors that the symbols mention are read afresh
    at every call. ``numerics="exact"`` keeps every order of products and sums as it was written,
    ``"strict"`` may choose another one, ``"fast"`` also ignores signed zeros, infinities and NaN.
    ``passes`` are all, or those of these names in their order, or all but those with a ``-`` before
    their names, as in ``passes=["-fuse"]``; results are the same, and what no program can do
    without runs in any case. ``program.explain("passes")`` says what each did.

    What overflows on its way, as ``log(1 + exp(x))`` does, is computed in a form that does not,
    unless ``stabilize`` is False; a gradient was written so, or not, where `grad` was called.

    Inputs that are named by ``donate``, by name or placeholder, are given away at each call: an
    output of the same type is written over such an input where all else that reads it can run
    before, and takes no memory of its own (``program.donations`` says which inputs that are). After
    the call their arrays hold that output; a program of this kind that is given one again raises
    `ArgumentError`, as it does for read-only memory. A call that fails changes nothing.

    The program is compiled once, here; unknown sizes are taken from the arrays of each call.

    >>> import staticflow as sf
    >>> w = sf.ones(2)
    >>> x = sf.placeholder((None, 2), name="x")
    >>> step = sf.compile([x], (x * w).sum(), updates={w: w - 0.1 * x.sum(dim=0)})
    >>> step(sf.ones(3, 2)).item(), w
    (6.0, tensor([0.7000, 0.7000]))
    """
    options = Options.of(numerics, passes, stabilize)
    with without_collection():
        return Program(inputs, outputs, updates, options, donate=donate)


_USUAL = Options()


class Program:
    """A compiled graph. Call it with one NumPy array or tensor for each input, in their order or by
    name; it gives eager tensors in the structure of the outputs."""

    # Each program has a call of its own, native code where it can be: then no frame of Python runs.
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        updates: Any,
        options: Options = _USUAL,
        left: Sequence[Node] = (),
        follows: bool = True,
        donate: Any = None,
        sizes: Sequence[Equality] = (),
    ) -> None:
        """``left`` are marks of effects that happen though nothing depends on them. A program that
        does not follow what changes is the way back of a call: what was so then is so for it.
        ``sizes`` are what holds of the sizes beside what the operations need."""
        began = time.perf_counter()
        self._made: Locs = here()
        self.options = options
        self._names, handles = _name_inputs(inputs)
        leaves, structure = pytree.flatten(outputs)
        pairs = _pairs(updates)
        n_out = len(leaves)
        written = [*(to_node(v) for v in leaves), *(_new_value(t, v) for t, v in pairs), *left]
        nodes, changed = settle(written)
        nodes = nodes[: n_out + len(pairs)]
        pairs = _with_effects(pairs, changed)
        out_nodes, new_nodes = nodes[:n_out], [*nodes[n_out:], *changed.values()]
        equalities = [*sizes]
        equalities += [e for (t, _), n in zip(pairs, new_nodes, strict=True) for e in _fits(t, n)]
        in_nodes = [h.node for h in handles]
        given = read_donate(donate, self._names, in_nodes)
        variables = _captured_params(in_nodes, [*out_nodes, *new_nodes], [t for t, _ in pairs])
        updated = tuple(t for t, _ in pairs)
        self.graph = close([*in_nodes, *variables], [*out_nodes, *new_nodes], equalities)
        """The graph as it was written, before any pass."""
        refuse_strange_sizes(self.graph)
        closed = time.perf_counter()
        self.optimized, self.passes = optimize(self.graph, options.numerics, options.passes)
        optimised = time.perf_counter()
        self._executable = build(
            self.optimized, self._names, updated, n_out, box_type(Tensor, "_data"), donated=given
        )
        over = self._executable.signature.donated
        self._caller = Caller(
            self._executable,
            self.graph,
            self._names,
            tuple(n.attrs["source"] for n in variables),
            updated,
            structure,
            self._made,
            Donations(over, self._names, self._made) if over else None,
        )
        single = structure.kind is None and not updated
        call = self._executable.boxing(self._caller, _EXAMPLE) if single else self._caller
        self._usual = hold_to_budget(self.graph, self._executable, call, self._caller.arrays)
        self.__call__ = self._usual
        sources = [n.attrs["source"] for n in variables]
        calls = self._calls = calls_of(toposort(written)) if follows else []
        self._facts = Facts(sources, updated, calls)
        self.is_suspect = False
        """Whether a module has ever held something else in the place of what this has of it."""
        for thing in (*sources, *(call.module() for call in calls)) if follows else ():
            if thing is not None:
                depend(self, thing)
        if self._facts.is_outdated() or self._facts.must_look:
            self.look_again()
        ended = time.perf_counter()
        generated = self._executable.generated
        self.phase_seconds = PhaseSeconds(
            closed - began, optimised - closed, generated - optimised, ended - generated
        )
        self.compile_seconds = ended - began
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

    def _looking(self, *args: Any, **kwargs: Any) -> Any:
        self._facts.check(self._made)
        if not self._facts.must_look:
            self.__call__ = self._usual
        return self._usual(*args, **kwargs)

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

    # -- looking -----------------------------------------------------------------------------

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
        return tuple(self._names[i] for _, i in self._executable.signature.donated)

    @property
    def held_bytes(self) -> int:
        """The bytes of the program's own memory, as its calls so far have made it: at least what
        ``plan.peak_bytes`` says of the largest of them, and of what grows up to a tenth more, or
        64 KiB. It is 0 while a call runs."""
        return self._executable.held_bytes

    @property
    def kernel_count(self) -> int:
        """How many different kernels the program has."""
        return len(self._executable.program.kernels)

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

    def source(self, kind: str = "llvm") -> str:
        """The program as ``"llvm"`` text, as ``"asm"`` of this machine, or its ``"kernels"``."""
        from staticflow.codegen.text import print_kernel

        makers: dict[str, Callable[[], str]] = {
            "llvm": lambda: self._executable.llvm,
            "asm": self._executable.module.assembly,
            "kernels": lambda: "\n\n".join(map(print_kernel, self._executable.program.kernels)),
        }
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
        ``"graph"`` the graph of clusters, ``"routine"`` the steps in their order. Raises
        `ArgumentError` for another word and `ShapeError` for a name of no size.

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
        from staticflow.measure.tensor_names import name_tensors

        caller = self._caller
        modules = (module for call in self._calls if (module := call.module()) is not None)
        subject = Subject(
            self.graph,
            self.optimized,
            self.passes,
            self._executable,
            self._names,
            [path.strip("[]'") for path in pytree.paths(caller.structure)],
            caller.variables,
            name_tensors(caller.variables, modules),
            caller.updated,
            self._made,
            asdict(self.phase_seconds),
        )
        return explain(subject, topic, sizes)

    def __repr__(self) -> str:
        ins = ", ".join(
            f"{n}: {p.type}" for n, p in zip(self._names, self.graph.params, strict=False)
        )
        return f"<program ({ins}), {self.kernel_count} kernels, made at {format_locs(self._made)}>"


def _name_inputs(inputs: Any) -> tuple[tuple[str, ...], list[Symbol]]:
    if callable(inputs):
        raise SymbolicError(
            "compile: takes symbols, not a function; sf.jit(f) traces one"
            f", at {format_locs(here())}"
        )
    if isinstance(inputs, Symbol) or not isinstance(inputs, Iterable):
        raise SymbolicError(
            f"compile: inputs are a list, as in compile([x], ...), at {format_locs(here())}"
        )
    named = isinstance(inputs, Mapping)
    given = list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    # a placeholder that was printed is the same placeholder
    handles = [Symbol(without_effects(h.node)) if isinstance(h, Symbol) else h for h in given]
    refuse_crowd(len(handles), "compile")
    for h in handles:
        if (
            not isinstance(h, Symbol)
            or h.node.op is not param
            or h.node.attrs["source"] is not None
        ):
            shown = reprlib.repr(h) if isinstance(h, list | tuple | dict) else repr(h)
            raise SymbolicError(
                f"compile: an input is {shown}; inputs are what sf.placeholder made, and not what "
                "an in-place operation made of it: change a clone (y = x.clone(); y += 1), "
                f"at {format_locs(here())}"
            )
    if len({h.node for h in handles}) != len(handles):
        raise SymbolicError(f"compile: an input is named twice, at {format_locs(here())}")
    names = tuple(inputs) if named else tuple(h.node.attrs["name"] for h in handles)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise SymbolicError(
            f"compile: two inputs are called {twice[0]!r}; give them names of their own, "
            f"at {format_locs(here())}"
        )
    return names, handles


def _pairs(updates: Any) -> list[tuple[Tensor, Any]]:
    if not isinstance(updates, Mapping | Iterable | None):
        raise SymbolicError(
            f"compile: updates are a mapping {{tensor: new value}}, not {type(updates).__name__}; "
            f"an optimiser gives one, updates=opt.minimize(loss), at {format_locs(here())}"
        )
    pairs = list(updates.items() if isinstance(updates, Mapping) else updates or ())
    seen: set[Tensor] = set()
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], Tensor):
            raise SymbolicError(
                "compile: updates are a mapping {tensor: new value}, or pairs of the two, not "
                f"{pair!r}, at {format_locs(here())}"
            )
        t, value = pair
        if isinstance(value, Tensor):
            raise SymbolicError(
                f"compile: the new value of a tensor of shape {list(t.shape)} is an eager tensor, "
                "computed once and now; start from sf.symbol(t), as in "
                f"updates={{t: sf.symbol(t) + 1}}, at {format_locs(here())}"
            )
        if t in seen:
            raise ShapeError(
                f"compile: a tensor of shape {list(t.shape)} is updated twice, at "
                f"{format_locs(here())}"
            )
        seen.add(t)
    return pairs


def _with_effects(
    pairs: Sequence[tuple[Tensor, Any]], changed: Mapping[Node, Node]
) -> list[tuple[Tensor, Any]]:
    """The updates, with those of the variables that the graph changes on its way."""
    given = {t for t, _ in pairs}
    more = [(v.attrs["source"], Symbol(new)) for v, new in changed.items()]
    for t, new in more:
        if t in given:
            raise ShapeError(
                f"compile: {t.name or 'a tensor'} of shape {list(t.shape)} is among the updates, "
                f"and the graph changes it on its way, at {format_locs(new.node.locs)}; leave it "
                f"out of the updates, at {format_locs(here())}"
            )
    return [*pairs, *more]


def _new_value(t: Tensor, value: Any) -> Node:
    node = to_node(value, t.dtype)
    have = node.tensor_type
    if have.dtype is not t.dtype or have.ndim != t.ndim:
        raise ShapeError(
            f"compile: the new value of a variable {TensorType(t.dtype, t.shape)} is {have}; they "
            f"must agree, at {format_locs(merge_locs(node.locs, here()))}"
        )
    return node


def _fits(t: Tensor, value: Node) -> Iterator[Equality]:
    """What must hold of sizes for ``value`` to be stored over ``t``."""
    what = f"the new value of a variable {TensorType(t.dtype, t.shape)} is {value.tensor_type}"
    for a, b in zip(value.tensor_type.shape, t.shape, strict=True):
        if a != b:
            yield Equality(a, b, what, merge_locs(value.locs, here()))


def _captured_params(
    inputs: Sequence[Node], outputs: Sequence[Node], updated: Sequence[Tensor]
) -> list[Node]:
    """The params that stand for eager tensors, those that are only written included."""
    found: dict[Node, None] = {}
    known = set(inputs)
    for node in toposort(outputs):
        if node.op is not param or node in known:
            continue
        if node.attrs["source"] is None:
            raise SymbolicError(
                f"compile: the outputs need the placeholder {node.attrs['name']!r} ({node.type}, "
                f"made at {format_locs(node.locs)}), which is not among the inputs, "
                f"at {format_locs(here())}"
            )
        found[node] = None
    for t in updated:
        found[capture(t)] = None
    return list(found)


refuses_foreign_in_classes(Program)
