"""Files of programs in whose graph an attribute was changed, read and run: a process of its own for
`test_hostile_attributes`, which sees whether it ends.

``python tests/graph/hostile_programs.py SAMPLES OP...`` prints what it is about to do, a line each, and
a line ``fault: ...`` for what is neither refused in one sentence nor runs as the interpreter does.
"""

from __future__ import annotations

import io
import json
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hostile_graphs import changed_graphs
from opinfo import ROWS
from opinfo.modes import arrays_of, graph_of

import staticflow as sf
from staticflow.errors import CheckpointError, StaticflowError
from staticflow.graph.graph import Graph
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.printer import store_graph

MEMORY = 8 << 30

SECONDS = 20
"""What one program may take; few take a tenth of a second."""


class TooLong(Exception):
    """A program takes too long to be judged."""


def file_of(graph: Graph) -> io.BytesIO:
    """What a program of this graph would be saved as."""
    stored = store_graph(graph)
    return file_of_text(stored.text, stored.arrays, len(graph.params), len(graph.outputs))


def file_of_text(text: str, arrays: Any, inputs: int, outputs: int) -> io.BytesIO:
    """The file of a program whose graph is this text, with the arrays that it names."""
    header = {
        "format": 1,
        "staticflow": sf.__version__,
        "graph": text,
        "files": [],
        "lines": [],
        "inputs": [f"a{i}" for i in range(inputs)],
        "donated": [],
        "variables": [],
        "updated": [],
        "outputs": ["list", [*range(outputs)], ["*"] * outputs],
        "numerics": "strict",
        "passes": None,
        "flush_subnormals": False,
    }
    file = io.BytesIO()
    sf.save({"program": json.dumps(header), "variables": {}, "arrays": arrays}, file)
    file.seek(0)
    return file


def fault_of(graph: Graph, arrays: list[Any]) -> str:
    """What is wrong with how a file of the graph is read and run; nothing if that is as it must be."""
    try:
        file = file_of(graph)
    except Exception:  # which has no text
        return ""
    return fault_of_file(file, lambda program: arrays, "length" in str(graph))


def fault_of_file(file: io.BytesIO, arrays_for: Callable[[Any], list[Any]], long: bool) -> str:
    """What is wrong with how a file is read and its program runs on ``arrays_for`` it; one that is
    ``long`` may take its time."""
    try:
        program = sf.load_program(file)
    except CheckpointError as error:
        return _hole(str(error))
    except MemoryError:
        return ""
    except TooLong:
        return "" if long else "reading it takes long"
    except BaseException as error:
        return f"load_program raises {type(error).__name__}: {error}"
    arrays = arrays_for(program)
    wanted: list[Any] | str
    try:
        wanted = interpret_graph(program.graph, [a.copy() for a in arrays])
    except (StaticflowError, MemoryError) as error:
        wanted = type(error).__name__
    except TooLong:
        return ""
    except BaseException as error:
        wanted = f"raw {type(error).__name__}: {error}"
    try:
        found = [t.numpy() for t in program(*[a.copy() for a in arrays])]
    except MemoryError:  # for what is a view to the interpreter
        return ""
    except StaticflowError as error:
        return "" if type(wanted) is str else f"it raises {type(error).__name__}: {error}"
    except BaseException as error:
        return f"it raises {type(error).__name__}: {error}"
    if type(wanted) is str:
        return f"it runs, and the interpreter raises {wanted}"
    return _difference(found, wanted)


def _hole(said: str) -> str:
    """What of an error says that the graph was found right, and could not be compiled."""
    raw = re.search(r"cannot be compiled \((\w+): .*", said)
    return "" if raw is None or hasattr(sf.errors, raw[1]) else raw[0]


def _difference(found: list[Any], wanted: Any) -> str:
    for a, w in zip(found, wanted, strict=True):
        if (a.dtype, a.shape) != (w.dtype, w.shape):
            return f"it gives {a.dtype}{list(a.shape)} for {w.dtype}{list(w.shape)}"
        if a.dtype.kind in "iub":
            bad = a != w
        else:
            x, y = a.astype(np.float64), w.astype(np.float64)
            with np.errstate(all="ignore"):
                near = np.abs(x - y) <= 1e-2 * np.abs(y) + 1e-2
            bad = ~(near | (x == y) | (np.isnan(x) & np.isnan(y)))
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return f"it gives {a[at]} for {w[at]} at {list(at)}"
    return ""


def _cases(name: str, samples: int) -> Iterator[tuple[str, Graph, list[Any]]]:
    info = ROWS[name]
    print(f"begin: {name}", flush=True)
    chosen = list(info.samples(info.dtypes[0], False))[:: max(1, 7 // samples)][:samples]
    for number, sample in enumerate(chosen):
        for what, graph in changed_graphs(graph_of(info, sample)):
            yield f"sample {number}: {what}", graph, arrays_of(sample)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    samples, names = int(sys.argv[1]), sys.argv[2:]
    sf.set_num_threads(1)

    def leave(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, leave)
    for what, graph, arrays in (case for name in names for case in _cases(name, samples)):
        print(what.replace("\n", " "), flush=True)
        signal.alarm(SECONDS)
        try:
            fault = fault_of(graph, arrays)
        except TooLong:
            fault = "it takes long"
        signal.alarm(0)
        if fault:
            print(f"fault: {what}: {fault}".replace("\n", " "), flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    main()
