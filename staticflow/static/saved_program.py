"""Programs as files: the graph as text, and tensors; never code.

The file is a state file (`staticflow.save`) of three entries: ``program``, a JSON text that says
what follows here; ``variables``, the tensors that the program reads or updates beside its
arguments, by name; and ``arrays``, the constants that are too large for the text.

The JSON has the ``format`` (1), the version of ``staticflow`` that wrote it, the ``graph`` as text,
before any pass, the ``files`` and ``lines`` that its nodes come from, the names of the ``inputs``
and the numbers of those ``donated``, the ``variables`` with whether they require gradients, the
numbers of those that are ``generators``' states and of those ``updated``, the structure of the
``outputs``, ``numerics``, ``passes`` (null for all), and ``flush_subnormals``.
"""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict, namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from string import Formatter
from typing import IO, TYPE_CHECKING, Any

import staticflow
from staticflow import pytree
from staticflow.eager.random import GeneratorState
from staticflow.eager.tensor import Tensor
from staticflow.errors import (
    ArgumentError,
    CheckpointError,
    ParseError,
    StaticflowError,
    VerifyError,
)
from staticflow.graph.collector import without_collection
from staticflow.graph.dtypes import int64
from staticflow.graph.graph import Graph, free_symbols, new_param, regions_of, substitute_nodes
from staticflow.graph.locs import Loc, Locs, format_locs, here
from staticflow.graph.node import Node, constant, item, param
from staticflow.graph.parser import parse_graph
from staticflow.graph.printer import store_graph
from staticflow.graph.types import TensorType
from staticflow.graph.verify import verify_graph
from staticflow.ops import OPS
from staticflow.ops.declaring.foreign import refuses_foreign
from staticflow.ops.loops.printing import print_op
from staticflow.passes.order import PASSES, check_numerics, restore_passes
from staticflow.runtime.overlaps import share_elements
from staticflow.serialization import read_state, save
from staticflow.static.compile import Options, Program
from staticflow.static.free_positions import find_free_positions
from staticflow.static.given import describe_shared_elements
from staticflow.static.inputs import refuse_strange_sizes
from staticflow.static.written import Written, with_checked_sizes

if TYPE_CHECKING:
    from staticflow.static.compiled import Compiled

__all__ = ["load_program", "save_program"]

_FORMAT = 1

_ENTRIES = {"program", "variables", "arrays"}

_STRUCTURAL = (param, constant, item)


def save_program(program: Compiled, f: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write a program to the file ``f``, as `Program.save` says."""
    written = program._written
    if program.options.mesh is not None and program.options.mesh.size > 1:
        raise CheckpointError(
            f"save: the program is that of rank {program.options.mesh.rank} of "
            f"{program.options.mesh}, and no other process can run it; save the tensors, or a "
            f"program that was compiled without mesh=, at {format_locs(here())}"
        )
    _refuse_unknown_ops(written.graph)
    _refuse_code(written.graph)
    _refuse_free_positions(written.graph)
    _refuse_shared_memory(written)
    stored = store_graph(written.graph)
    files: dict[str, int] = {}
    lines = [[[files.setdefault(x.file, len(files)), x.line] for x in at] for at in stored.locs]
    numbers = {id(t): i for i, t in enumerate(written.variables)}
    variables = program.variables
    options = program.options
    header = {
        "format": _FORMAT,
        "staticflow": staticflow.__version__,
        "graph": stored.text,
        "files": [*files],
        "lines": lines,
        "inputs": written.names,
        "donated": sorted(written.donated),
        "variables": [[name, t.requires_grad] for name, t in variables.items()],
        "generators": [i for i, t in enumerate(written.variables) if isinstance(t, GeneratorState)],
        "updated": [numbers[id(t)] for t in written.updated],
        "outputs": _describe(written.structure),
        "numerics": options.numerics,
        "passes": None if options.passes == PASSES else options.passes,
        "flush_subnormals": options.flush_subnormals,
    }
    save({"program": json.dumps(header), "variables": variables, "arrays": stored.arrays}, f)


@refuses_foreign
def load_program(
    f: str | os.PathLike[str] | IO[bytes], variables: Mapping[str, Tensor] | None = None
) -> Program:
    """The program that `Program.save` wrote to ``f``, a path or an open file, compiled for this
    machine, or taken from the cache of machine code.

    It needs nothing of the code that it was written by. It has tensors of its own, with the values
    that they had when it was saved (``program.variables``), and goes on from there: a training
    step trains on, a generator goes on drawing. ``variables`` are tensors that it takes instead of
    those of the same names, so that two programs share their parameters.

    A file is data: reading one runs no code of it, and a graph in it is checked before it is
    compiled. Raises `CheckpointError` for a file that is damaged, of a newer format, or no program,
    and for ``variables`` that do not fit; `FileNotFoundError` for none; `ImportError` where
    safetensors is not installed.

    >>> import staticflow as sf, tempfile
    >>> x, w = sf.placeholder((None, 2), name="x"), sf.variable(sf.ones(2), name="w")
    >>> step = sf.compile([x], (x * w).sum(), updates={w: w - 0.1 * x.sum(dim=0)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     step.save(f"{folder}/step.safetensors")
    ...     again = sf.load_program(f"{folder}/step.safetensors")
    >>> again(sf.ones(3, 2)).item(), again.variables["w"], w
    (6.0, tensor([0.7000, 0.7000]), tensor([1., 1.]))
    """
    began = time.perf_counter()
    name = getattr(f, "name", type(f).__name__) if hasattr(f, "read") else os.fspath(f)
    instead = _check_given(variables)
    found = read_state(f, None, "load_program")
    if not isinstance(found, dict) or found.keys() != _ENTRIES:
        raise _wrong(f"{name} holds a state and no program; read it with staticflow.load")
    header = _read_header(name, found["program"])
    by = f"{name}, which staticflow {str(header.get('staticflow'))[:40]!r} wrote,"
    try:
        with without_collection():
            written, options = _read(header, found, instead)
    except CheckpointError:
        raise
    except (ParseError, VerifyError) as error:
        raise _wrong(f"the graph in {by} is none that {_own()} runs: {error}") from None
    except _DAMAGES as error:
        raise _wrong(f"{by} is damaged ({type(error).__name__}: {error})") from None
    try:
        with without_collection():
            return Program(replace(written, seconds=time.perf_counter() - began), options)
    except _DAMAGES as error:
        raise _wrong(f"{by} cannot be compiled ({type(error).__name__}: {error})") from error


def _own() -> str:
    return f"staticflow {staticflow.__version__}"


_DAMAGES = (
    StaticflowError, ValueError, LookupError, TypeError, AttributeError, AssertionError,
    RecursionError, OverflowError,
)  # fmt: skip
"""What reading, and compiling what no code of ours writes, raises where a file is none of ours."""


def _wrong(what: str) -> CheckpointError:
    return CheckpointError(f"load_program: {what}, at {format_locs(here())}")


# -- reading ---------------------------------------------------------------------------------------


def _check_given(variables: Any) -> Mapping[str, Tensor]:
    given = {} if variables is None else variables
    if not isinstance(given, Mapping):
        raise ArgumentError(
            "load_program: variables are a mapping {name: tensor}, as program.variables gives "
            f"them, not {type(variables).__name__}, at {format_locs(here())}"
        )
    for name, t in given.items():
        if not isinstance(t, Tensor):
            raise ArgumentError(
                "load_program: variables are a mapping {name: tensor}, and "
                f"{name!r} is {type(t).__name__}, at {format_locs(here())}"
            )
    return given


def _read_header(name: str, text: Any) -> dict[str, Any]:
    try:
        header = json.loads(text)
        number = header["format"]
    except (TypeError, ValueError, LookupError, RecursionError):
        raise _wrong(f"{name} is damaged: it does not say what program it holds") from None
    if type(number) is not int or number != _FORMAT:
        raise _wrong(
            f"{name} has the format {str(number)[:40]} of programs, which staticflow "
            f"{str(header.get('staticflow'))[:40]!r} wrote; {_own()} reads {_FORMAT}: install "
            "that version"
        )
    return dict(header)


def _read(
    header: Mapping[str, Any], found: Mapping[str, Any], instead: Mapping[str, Tensor]
) -> tuple[Written, Options]:
    """What the program is made of, and how it is compiled."""
    arrays = {key: t.numpy() for key, t in found["arrays"].items()}
    graph = parse_graph(header["graph"], OPS, arrays, _locs_of(header["files"], header["lines"]))
    verify_graph(graph)
    refuse_strange_sizes(graph)
    graph = with_checked_sizes(graph)
    _refuse_code(graph)
    _refuse_free_positions(graph)
    bounded = [s for s in free_symbols(graph) if s.upper is not None]
    if bounded:
        raise ValueError(f"the size {bounded[0]} of a param has a bound, which no call keeps")
    names = _texts(header["inputs"])
    states = _read_states(header.get("generators", ()), found["variables"])
    variables = _read_variables(header["variables"], states, instead)
    if len({*names}) != len(names) or len(graph.params) != len(names) + len(variables):
        raise ValueError("two inputs have one name, or its graph has other params")
    for p, t in zip(graph.params[len(names) :], variables, strict=True):
        if p.tensor_type != TensorType(t.dtype, t.shape):
            raise ValueError(f"the variable {t.name} is no {p.type}")
    updated = [variables[_position(i, variables)] for i in header["updated"]]
    structure = _structure_of(header["outputs"])
    count = structure.leaf_count
    twice = [name for name, t in instead.items() if sum(u is t for u in updated) > 1]
    if twice:
        raise _wrong(
            f"one tensor is given for {' and '.join(twice)}, which the program writes over; give "
            "each its own"
        )
    shared = describe_shared_elements(updated) if len({*updated}) == len(updated) else ""
    if shared:
        raise _wrong(shared)
    if len(set(updated)) != len(updated) or len(graph.outputs) != count + len(updated):
        raise ValueError("its graph has other outputs than it says")
    for t, value in zip(updated, graph.outputs[count:], strict=True):
        if value.tensor_type != TensorType(t.dtype, t.shape):
            raise ValueError(f"the new value of {t.name} is {value.type}")
    donated = frozenset(_position(i, names) for i in header["donated"])
    wanted = header["passes"]
    passes = PASSES if wanted is None else restore_passes(wanted)
    check_numerics(header["numerics"])
    graph = _with_sources(graph, dict(zip(graph.params[len(names) :], variables, strict=True)))
    labels = tuple(found["variables"])
    written = Written(graph, names, variables, tuple(updated), structure, donated, labels=labels)
    return written, Options(header["numerics"], passes, header["flush_subnormals"] is True)


def _texts(listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise ValueError("there is something else where texts should be")
    return tuple(listed)


def _position(number: Any, among: Sequence[Any]) -> int:
    if type(number) is not int or not 0 <= number < len(among):
        raise ValueError(f"there is no number {number!r} of {len(among)}")
    return number


def _locs_of(files: Sequence[str], lines: Sequence[Any]) -> Iterator[Locs]:
    files = _texts(files)
    known: dict[tuple[int, int], Loc] = {}
    for at in lines:
        yield tuple(
            known.setdefault((file, line), Loc.at(files[_position(file, files)], line))
            for file, line in at
        )


def _read_states(numbers: Sequence[int], saved: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The variables ``saved``, of which those of these numbers are states of generators."""
    listed = list(saved)
    names = {listed[_position(i, listed)] for i in numbers}
    return {
        name: GeneratorState(_two_numbers(t)) if name in names else t for name, t in saved.items()
    }


def _two_numbers(t: Tensor) -> list[int]:
    if t.dtype is not int64 or t.shape != (2,):
        raise ValueError(f"the state of a generator is {t.dtype}{list(t.shape)}")
    return [int(n) for n in t.tolist()]


def _read_variables(
    listed: Sequence[Any], saved: Mapping[str, Tensor], instead: Mapping[str, Tensor]
) -> tuple[Tensor, ...]:
    strange = instead.keys() - saved.keys()
    if strange:
        raise _wrong(
            f"the program has no variable {min(strange, key=str)!r}; it has "
            f"{', '.join(saved) or 'none'}"
        )
    if [name for name, _ in listed] != [*saved]:
        raise ValueError("it has other variables than it says")
    found = []
    for name, requires_grad in listed:
        t = instead.get(name)
        if t is None:
            t = saved[name]
            t.name = name
            if requires_grad is True:
                t.requires_grad_()
        elif (t.dtype, t.shape) != (saved[name].dtype, saved[name].shape):
            own, other = (TensorType(v.dtype, v.shape) for v in (saved[name], t))
            raise _wrong(
                f"the variable {name!r} is {own} in the program, and {other} is given for it"
            )
        found.append(t)
    return tuple(found)


def _with_sources(graph: Graph, sources: Mapping[Node, Tensor]) -> Graph:
    """The graph with params that stand for tensors."""
    new = {p: new_param(p.tensor_type, p.attrs["name"], t, p.locs) for p, t in sources.items()}
    return replace(
        graph,
        params=tuple(new.get(p, p) for p in graph.params),
        outputs=tuple(substitute_nodes(graph.outputs, new)),
    )


# -- writing ---------------------------------------------------------------------------------------


def _refuse_unknown_ops(graph: Graph) -> None:
    """Raise `CheckpointError` if the graph has an operation that only this process knows."""
    for node in graph.nodes:
        if node.op not in _STRUCTURAL and OPS.get(node.op.name) is not node.op:
            raise CheckpointError(
                f"save: the program uses {node.op.name}, made at {format_locs(node.locs)}, which "
                "is code of yours and no operation of staticflow: a file holds no code; write it "
                f"with operations of staticflow, at {format_locs(here())}"
            )
        for region in regions_of(node):
            _refuse_unknown_ops(region)


def _refuse_code(graph: Graph) -> None:
    """Raise `CheckpointError` if the graph prints more than values: attributes of these are code
    that runs."""
    for node in graph.nodes:
        if node.op is print_op:
            fields = [f for _, f, _, _ in Formatter().parse(node.attrs["template"]) if f]
            strange = next((f for f in fields if "." in f or "[" in f), None)
            if strange is not None:
                raise CheckpointError(
                    f"the program prints {strange!r}, an attribute or element, made at "
                    f"{format_locs(node.locs)}; in a file a template has plain names: print the "
                    f"value itself, at {format_locs(here())}"
                )
        for region in regions_of(node):
            _refuse_code(region)


def _refuse_free_positions(graph: Graph) -> None:
    """Raise `CheckpointError` if the graph goes to positions in memory that nothing checks."""
    node = find_free_positions(graph)
    if node is not None:
        raise CheckpointError(
            f"the program has {node.op.name}, made at {format_locs(node.locs)}, of positions of "
            "which a file does not say that pooling found them in a plane of that size; let it "
            f"pool where it needs them, at {format_locs(here())}"
        )


def _refuse_shared_memory(written: Written) -> None:
    """Raise `CheckpointError` if what a call updates has elements in common with another variable:
    in a file each has its own."""
    for t in written.updated:
        for other in written.variables:
            if other is not t and share_elements(t._data, other._data):
                raise CheckpointError(
                    f"save: {t.name or 'a tensor'} of shape {list(t.shape)}, which the program "
                    f"updates, shares memory with {other.name or 'a tensor'} of shape "
                    f"{list(other.shape)}, which it reads; in a file each would have its own, so "
                    f"compile the program with a clone of one, at {format_locs(here())}"
                )


# -- the structure of outputs ----------------------------------------------------------------------

_KINDS: dict[str, Any] = {k.__name__: k for k in (list, tuple, dict, OrderedDict)}


def _describe(structure: pytree.TreeDef) -> Any:
    """A structure as JSON: ``"*"`` for a leaf, null for None, else the container, its keys, and
    what is in it. A named tuple has its name and its fields."""
    kind = structure.kind
    if kind is None:
        return "*"
    if kind is type(None):
        return None
    children = [_describe(c) for c in structure.children]
    if pytree.is_registered(kind):
        raise CheckpointError(
            f"save: the outputs are of the class {kind.__name__}, which a file cannot name: "
            "loading it would run code of yours; give them as a tuple or dict, at "
            f"{format_locs(here())}"
        )
    if hasattr(kind, "_fields"):
        return ["named tuple", [kind.__name__, list(kind._fields)], children]
    strange = next((k for k in structure.keys if type(k) not in (str, int, float, bool)), None)
    if strange is not None:
        raise CheckpointError(
            f"save: the outputs are a dict with the key {strange!r}; in a file keys are strings "
            f"and numbers, at {format_locs(here())}"
        )
    order = [list(structure.order)] if tuple(structure.order) not in ((), structure.keys) else []
    return [kind.__name__, list(structure.keys), children, *order]


def _structure_of(described: Any, level: int = 0) -> pytree.TreeDef:
    """What `_describe` made ``described`` of."""
    if described == "*":
        return pytree.LEAF
    if described is None:
        return pytree.NONE
    if level == pytree.DEEPEST:
        raise ValueError("its outputs lie in too many containers")
    name, keys, inside, *order = described
    children = tuple(_structure_of(c, level + 1) for c in inside)
    if name in _KINDS:
        kind = _KINDS[name]
    else:
        if not all(field.isidentifier() for field in _texts(keys[1])):
            raise ValueError("a field of its outputs has no name")
        kind, keys = namedtuple(keys[0], keys[1], rename=True), range(len(keys[1]))
    if len({*keys}) != len(children) or len(keys) != len(children):
        raise ValueError("its outputs have other keys than values")
    if order and (kind is not dict or len(order) > 1 or {*order[0]} != {*keys}):
        raise ValueError("its outputs have keys in an order of others")
    return pytree.TreeDef(kind, tuple(keys), children, order=pytree.KeyOrder(*order))
