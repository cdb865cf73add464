"""``jit``: a Python function traced into a graph, compiled, and called like the function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import MethodType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy import ndarray

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.eager.creation import from_dlpack
from staticflow.eager.tensor import Tensor, as_tensor
from staticflow.eager.vertex import next_serial
from staticflow.errors import ShapeError, SymbolicError
from staticflow.graph.articles import with_article
from staticflow.graph.device import device
from staticflow.graph.dim_queries import as_symbol
from staticflow.graph.dims import Size, fresh_sym
from staticflow.graph.dtypes import BY_PYTHON, DType, get_default_dtype
from staticflow.graph.graph import attrs_key, new_param
from staticflow.graph.library_arrays import refuse_history
from staticflow.graph.locs import format_locs, here, warn
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.foreign import is_of_library
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import stabilizing, thread
from staticflow.ops.declaring.tracing import (
    Guard,
    collect_guards,
    depends_on,
    knowing_examples,
    tracing_state,
)
from staticflow.ops.loops.python_state import trace_alike
from staticflow.ops.loops.reachable import modules_asked
from staticflow.ops.loops.region import trace_at_once
from staticflow.ops.symbols.effect import marks_since
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.static.changed_arguments import (
    Change,
    apply_changes,
    find_changes,
    is_recorded,
    refuse_changes,
)
from staticflow.static.compile import Options, Program
from staticflow.static.inputs import refuse_crowd
from staticflow.static.shared_results import Shared, plan_results, put_together
from staticflow.static.traced import Traced

__all__ = ["Jitted", "jit"]

F = TypeVar("F", bound=Callable[..., Any])

_MOST = 16
"""Traces of one kind of arguments that are kept, for the values that Python reads of tensors."""

_MOST_MET = 256
"""Sizes of arguments that are remembered."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """What an argument looks like to the trace: its ``sizes``, of which None are unknown to it; a
    scalar of NumPy counts as a number beside tensors; what is on a GPU has a program there."""

    dtype: DType
    sizes: tuple[int | None, ...]
    is_number: bool
    gpu: device | None

    @staticmethod
    def of(given: Any, t: Tensor, dynamic: bool) -> _Leaf:
        """What the tensor ``t`` of an argument looks like; a ``dynamic`` trace knows sizes of 1
        alone, which broadcast."""
        sizes = tuple(None if dynamic and n != 1 else n for n in t.shape)
        return _Leaf(t.dtype, sizes, isinstance(given, np.generic), t.__sf_gpu__)

    def symbol(self, name: str) -> Symbol:
        sizes: list[Size] = [
            fresh_sym(f"{name}_{axis}") if n is None else n for axis, n in enumerate(self.sizes)
        ]
        symbol = Symbol(new_param(TensorType(self.dtype, tuple(sizes)), name, None, here()))
        symbol.weak = self.is_number
        return symbol


@dataclass(frozen=True, slots=True)
class _Kind:
    """A trace, the structure of its results and how they share memory, what else it depends on, and
    what it changes in place."""

    traced: Traced
    structure: pytree.TreeDef
    plan: tuple[Shared | None, ...]
    guards: tuple[Guard, ...]
    changes: tuple[Change, ...]

    @property
    def gives_new(self) -> bool:
        """Whether all that a call does is to make new tensors."""
        return not self.changes and not any(self.plan)

    def has_history(self, given: Iterable[Tensor], recording: bool) -> bool:
        """Whether a call with these tensors is recorded."""
        if not recording or not any(self.traced.reached):
            return False
        return any(t._vertex is not None or t._view is not None for t in given)

    def gives_result_of(self, given: Sequence[Tensor], recording: bool) -> bool:
        """Whether a call gives what its program does, as long as none of ``given`` has another
        history."""
        if len(self.traced.outputs) != 1 or self.structure.kind is not None:
            return False
        if recording and any(self.traced.reached) and self.traced.captured:
            return False  # which may come to have a history
        return not self.has_history(given, recording)

    def call_again(self, program: Program | None, args: tuple[Tensor, ...], recording: bool) -> Any:
        """What the function gives of tensors that are its arguments, by the ``program`` for their
        sizes if there is one that keeps nothing for a gradient, where it `gives_new`."""
        traced = self.traced
        if self.has_history((*args, *traced.captured), recording):
            return pytree.unflatten(self.structure, traced(args))
        results = traced.run(*args) if program is None else program(*args)
        if program is not None and len(traced.outputs) == 1:
            results = [results]
        return pytree.unflatten(self.structure, results)

    def holds(self, program: Program) -> bool:
        """Whether all is as it was when it was traced, as far as ``program``, one of those that
        were compiled of the trace, and all that the trace read can tell."""
        for obj, name, value in self.guards:
            if getattr(obj, name) != value:
                return False
        return not (program.is_suspect and program.has_replaced())

    def __call__(self, given: list[Tensor]) -> Any:
        """What the function gives of these arrays."""
        results = self._changing(given) if self.changes else self.traced(given)
        if any(self.plan):
            results = put_together(self.plan, self.traced.inputs, given, iter(results))
        return pytree.unflatten(self.structure, results)

    def _changing(self, given: list[Tensor]) -> list[Tensor]:
        """The results, after the changes of arguments."""
        operands = (*given, *self.traced.captured)
        refuse_changes(self.changes, len(given), operands)
        since = next_serial()
        results = self.traced(given)
        apply_changes(self.changes, operands, results, since)
        return results


_Met: TypeAlias = tuple[_Kind, Program, Program | None, Program | None]
"""What a jitted function remembers of a call, for later ones with arguments of the same sizes: the
kind; a program that ran, by which the kind says whether it still holds; the program for these
sizes, None where calls keep values for a gradient; and that program once more where its result is
all that a call gives, else None."""


class Jitted:
    """A function that is traced and compiled when it is first called with arguments of a kind.

    The kind is the structure of the arguments, and of each array its dtype, its rank, which of its
    sizes are 1, and the GPU that it is on, where the program runs then; anything that is no array
    is static and part of the kind by value. A scalar of NumPy is an array that counts as a number
    beside tensors. Other sizes never trace anew: the first program is for the sizes of the first
    call, and a later call with others compiles the trace once more, at most three times, with those
    sizes open that differ (`Traced`); where a pass chooses by sizes, the last bits of a sum may
    tell these apart. Unless it is ``dynamic``, all sizes are part of the kind. Values that Python
    reads of a tensor that is no argument do where they change. Part of the kind is, too, whether
    the modules that ``fn`` calls are training, whether operations are recorded (``no_grad``,
    ``inference_mode``), what `autocast` says, and the default dtype. Another library's tensor (with
    ``__dlpack__``) is taken on its memory. Where a module that it calls holds another tensor in the
    place of one, a tensor of another dtype, or another number or function (``dropout.p = 0.1``) of
    which its code asks, it is traced anew.
    """

    def __init__(self, fn: Callable[..., Any], options: Options, dynamic: bool = True) -> None:
        functools.update_wrapper(self, fn, updated=())
        self._fn, self._options, self._dynamic = fn, options, dynamic
        self._traces: dict[Hashable, list[_Kind]] = {}
        self._met: dict[Hashable, _Met] = {}

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A jitted function that stands in a class is a method of it, as a function is."""
        return self if instance is None else MethodType(self, instance)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy has: it traces by itself."""
        return {**vars(self), "_traces": {}, "_met": {}}

    def __getattr__(self, name: str) -> Any:
        """What a module that was jitted has: ``parameters()``, ``eval()``, its layers."""
        module = _module_in(self)
        if module is None or name.startswith("_"):
            raise AttributeError(f"a jitted function has no attribute {name!r}")
        return getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        module = _module_in(self)
        owner = self if module is None or name.startswith("_") else module
        object.__setattr__(self, name, value) if owner is self else setattr(owner, name, value)

    @property
    def trace_count(self) -> int:
        """How many kinds of arguments were traced, whatever their sizes, and are still known."""
        return sum(map(len, self._traces.values()))

    @property
    def compile_count(self) -> int:
        """How many programs were compiled of these traces (`programs`)."""
        return len(self.programs)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The compiled programs, of each kind of arguments one or, as sizes differ between calls,
        up to four (`Traced`), and as many for calls that keep values for a gradient."""
        traces = [k.traced for kinds in self._traces.values() for k in kinds]
        return tuple(program for traced in traces for program in traced.every_program)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Trace and compile if this is a new kind of arguments, and run."""
        state, sizes = thread.state, None
        if state.usual and not kwargs:
            sizes = _sizes_of(args, state.recording)
            met = self._met.get(sizes)
            if met is not None:
                kind_met, ran, again, alone = met
                if kind_met.holds(ran):
                    if alone is not None:
                        return alone(*args)
                    return kind_met.call_again(again, args, state.recording)
        leaves, structure = pytree.flatten((args, kwargs))
        if tracing_state.active or any(isinstance(v, Symbol) for v in leaves):
            # part of the graph that is being written
            return trace_at_once(functools.partial(self._fn, *args, **kwargs))
        if any(map(is_of_library, leaves)):
            leaves = _as_ours(leaves, structure)
        tensors = [as_tensor(v) if _is_array(v) else None for v in leaves]
        kind = (
            structure,
            structure.orders,
            state.recording,
            state.inference,
            state.autocast,
            state.autocast_dtype,
            get_default_dtype(),
            tuple(
                _static(v) if t is None else _Leaf.of(v, t, self._dynamic)
                for v, t in zip(leaves, tensors, strict=True)
            ),
        )
        given = [t for t in tensors if t is not None]
        known = self._traces.setdefault(kind, [])
        found = next((k for k in known if k.holds(k.traced.every_program[0])), None)
        if found is None:
            found = self._trace(leaves, tensors, structure)
            found.traced.program_for(given, state.recording)
            known.append(found)
            if len(known) > _MOST:
                self._forget(known)
            if not self._dynamic and len(self._traces) == _MOST + 1:
                warn(
                    f"jit: {getattr(self._fn, '__name__', 'fn')} was traced and compiled more than "
                    f"{_MOST} times, for each set of sizes anew; leave out dynamic=False, or pad "
                    "what it is given to a few sizes"
                )
        if sizes is not None and found.gives_new:
            if len(self._met) >= _MOST_MET:
                self._met.clear()
            traced = found.traced
            ran = traced.program_for(given, state.recording)
            again = traced.programs.known_for(given)
            alone = again if found.gives_result_of(given, state.recording) else None
            self._met[sizes] = found, ran, again, alone
        return found(given)

    def _forget(self, known: list[_Kind]) -> None:
        """Drop the oldest trace, and say that so many do not pay."""
        del known[0]
        self._met.clear()
        warn(
            f"jit: {getattr(self._fn, '__name__', 'fn')} was traced more than {_MOST} times for "
            "arguments of one kind, as what it depends on changes between calls: values that "
            "Python reads of a tensor (by item, float or numpy), the modes of modules; compute "
            "with the tensor itself, or give the number as an argument"
        )

    def _trace(
        self, leaves: Sequence[Any], tensors: Sequence[Tensor | None], structure: pytree.TreeDef
    ) -> _Kind:
        name = getattr(self._fn, "__name__", "fn")
        refuse_crowd(sum(t is not None for t in tensors), f"jit of {name}")
        with collect_guards() as guards:

            def write() -> tuple[list[Symbol], list[Symbol], Any]:
                return self._trace_inputs(leaves, tensors, structure)

            inputs, handles, result = trace_alike(
                write, _nodes_of, f"jit: {name}", (self._fn, leaves)
            )
            out_leaves, out_structure = pytree.flatten(result)
            nodes = [to_node(v) for v in out_leaves]
            plan, wholes = plan_results(self._fn, out_leaves, handles)
            outputs = [Symbol(n) for n, shared in zip(nodes, plan, strict=True) if shared is None]
            outputs += wholes
        paths = zip(_paths(structure), tensors, strict=True)
        names = [path for path, t in paths if t is not None]
        found = list(find_changes(inputs, handles, names))
        if not out_leaves and not found:
            raise ShapeError(f"jit: {name} returned no tensor, at {format_locs(here())}")
        first = len(outputs)
        outputs += [Symbol(new) for _, _, new in found]
        outputs = outputs or [Symbol(nodes[0])]  # a program has one at least
        traced = Traced.of(inputs, outputs, self._options, marks_since(0))
        given = [i.node for i in inputs]
        changes = [
            Change(position, name, result, traced.reached[result], is_recorded(new, given))
            for result, (position, name, new) in enumerate(found, first)
        ]
        return _Kind(traced, out_structure, plan, tuple(guards.values()), tuple(changes))

    def _trace_inputs(
        self, leaves: Sequence[Any], tensors: Sequence[Tensor | None], structure: pytree.TreeDef
    ) -> tuple[list[Symbol], list[Symbol], Any]:
        """The inputs of a trace, their handles, which may name other values by now, and what the
        function gives."""
        symbols = [
            None if t is None else _Leaf.of(v, t, self._dynamic).symbol(f"arg{i}")
            for i, (v, t) in enumerate(zip(leaves, tensors, strict=True))
        ]
        handles = [s for s in symbols if s is not None]
        inputs = [Symbol(s.node) for s in handles]
        given = [v if s is None else s for v, s in zip(leaves, symbols, strict=True)]
        args, kwargs = pytree.unflatten(structure, given)
        for v in leaves:
            if hasattr(v, "training"):
                depends_on(v, "training")
        for module in modules_asked(self._fn):
            depends_on(module, "training")
        given_now = (t for t in tensors if t is not None)
        examples = {
            sym: size
            for s, t in zip(handles, given_now, strict=True)
            for dim, size in zip(s.shape, t.shape, strict=True)
            if (sym := as_symbol(dim)) is not None
        }
        with stabilizing(self._options.is_stable), knowing_examples(examples):
            result = self._fn(*args, **kwargs)
        after, changed = pytree.flatten((args, kwargs))
        if changed != structure or any(a is not b for a, b in zip(after, given, strict=True)):
            raise SymbolicError(
                f"jit: {getattr(self._fn, '__name__', 'fn')} puts something else into a list or "
                "dict that it was given, of which the caller would not know; return it instead, "
                f"at {format_locs(here())}"
            )
        return inputs, handles, result

    def __repr__(self) -> str:
        return f"<jit of {getattr(self._fn, '__name__', self._fn)}, {self.compile_count} compiled>"


def jit(
    fn: F | None = None,
    *,
    dynamic: bool = True,
    numerics: str = "strict",
    passes: str | Iterable[str] | None = None,
    stabilize: bool = True,
    flush_subnormals: bool = False,
) -> Any:
    """Compile a function of arrays; it is traced with unknown sizes other than 1, so any size runs.

    ``fn`` is traced once for each kind of arguments (see `Jitted`): its operations become one
    graph. Python code that needs a value (``if x > 0``, ``int(x)``) is an error that says what to
    write instead. Code that needs sizes as numbers, for ``range(x.shape[0])`` or ``if x.shape[1] >
    3``, is traced with ``dynamic=False``: for each set of sizes anew, all of them known, a loop of
    Python as so many copies of its body. A jitted module has what the module has. What it gives
    back of its arguments and of tensors that it closes over, themselves or views of them, is on
    their memory. Called on tensors that require gradients, the result is one node of the tape,
    whose backward is compiled too; the call keeps for it what products, sums and loops gave, until
    backward. ``numerics``, ``passes``, ``stabilize`` and ``flush_subnormals``
    are those of `compile`, the third for gradients, too.

    >>> import staticflow as sf
    >>> f = sf.jit(lambda x: (x * x).sum())
    >>> x = sf.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> f(x).backward()
    >>> x.grad, f.compile_count
    (tensor([2., 4., 6.]), 1)
    >>> evens = sf.jit(lambda x: sf.stack([x[i] for i in range(0, x.shape[0], 2)]), dynamic=False)
    >>> evens(sf.arange(3)), evens(sf.arange(5)), evens.trace_count
    (tensor([0, 2]), tensor([0, 2, 4]), 2)
    """
    if fn is None:
        return functools.partial(
            jit, dynamic=dynamic, numerics=numerics, passes=passes, stabilize=stabilize,
            flush_subnormals=flush_subnormals,
        )  # fmt: skip
    if not callable(fn):
        raise SymbolicError(f"jit: takes a function, not {fn!r}, at {format_locs(here())}")
    options = Options.of(numerics, passes, stabilize, flush_subnormals)
    return Jitted(fn, options, as_bool("jit: 'dynamic'", dynamic))


def _module_in(jitted: Jitted) -> Any:
    """The module that was jitted; None if it is a function."""
    fn = vars(jitted).get("_fn")
    return fn if hasattr(type(fn), "named_parameters") else None


def _nodes_of(written: tuple[list[Symbol], list[Symbol], Any]) -> list[Node]:
    """What a trace computes: its results, and what it makes of its arguments in place."""
    _, handles, result = written
    found = (*handles, *pytree.flatten(result)[0])
    return [x.node for x in found if isinstance(x, Symbol)]


def _sizes_of(args: tuple[Any, ...], is_recording: bool) -> Hashable | None:
    """What calls share that are of one kind and of the same sizes, and of which the same tensors
    have no history; None if an argument is no tensor. It is asked at every call."""
    sizes: list[Any] = [is_recording, BY_PYTHON[float]]
    try:
        for a in args:
            data = a._data
            sizes += data.dtype, data.shape, a._vertex is None and a._view is None
            if type(data) is not ndarray:
                sizes.append(a.__sf_gpu__)
    except AttributeError:
        return None
    return tuple(sizes)


def _paths(structure: pytree.TreeDef) -> list[str]:
    """What errors call the arguments of a call."""
    positional, named = structure.children
    return [*pytree.paths(positional, "args"), *pytree.paths(named, "kwargs")]


def _as_ours(leaves: Sequence[Any], structure: pytree.TreeDef) -> list[Any]:
    """The arguments of a call, another library's tensors as ours on their memory."""
    found = []
    paths = _paths(structure)
    for value, path in zip(leaves, paths, strict=True):
        if is_of_library(value):
            refuse_history(value, f"jit: the argument {path}")
            value = from_dlpack(value)
        found.append(value)
    return found


def _is_array(v: Any) -> bool:
    return isinstance(v, Tensor | np.ndarray | np.generic)


def _static(v: Any) -> Hashable:
    """What equal values that are no arrays share: 1, 1.0 and True are different ones."""
    key = attrs_key({"": v})
    try:
        hash(key)
    except TypeError:
        raise SymbolicError(
            f"jit: an argument is {with_article(type(v))}, which is neither an array nor hashable; "
            f"give a tuple or a number instead, or close over it, at {format_locs(here())}"
        ) from None
    return key
