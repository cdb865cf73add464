"""Files of programs of which somebody has changed the structure: edges, types, sizes, names, ops,
lines, bodies. A process of its own for `test_hostile_structures`, which sees whether it ends.

``python tests/graph/hostile_structures.py SEED COUNT [guard]`` prints each number as it begins, and a
line ``fault: ...`` for what is neither refused in one sentence nor runs as the interpreter does.
Memory that nobody may read is spoiled; with ``guard`` all lies beside pages that end the process.
"""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

if "guard" in sys.argv:  # before anything is compiled
    from guarded_memory import guard_memory

    guard_memory()

from hostile_programs import MEMORY, SECONDS, TooLong, fault_of_file, file_of_text
from random_programs import draw_program

import staticflow as sf
from staticflow.config import config
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.graph import Graph, close, free_symbols
from staticflow.graph.node import param, toposort
from staticflow.graph.printer import store_graph
from staticflow.ops.symbols.symbol import Symbol

Draw = random.Random


def with_late_sizes(chance: Draw) -> tuple[list[Any], list[Any]]:
    """A program of sizes that only the run knows, in loops and branches too."""
    x, y = sf.placeholder((None,), name="x"), sf.placeholder((None,), name="y")
    some, other = x[x > 0], y[y > 0]
    last, rows = sf.scan(lambda c, r: (c + r, c * r), sf.zeros(()), some)
    ends = sf.while_loop(lambda i, c: i < c.sum(), lambda i, c: (i + 1, c), (sf.zeros(()), other))
    either = sf.cond(last > 0, lambda: some.cumsum(0) + last, lambda: some * 2)
    kept = [some.cumsum(0), other.flip(0), rows, either, ends[0], last, some.sum() + other.sum()]
    kept.append(sf.scan(lambda c, r: (c + y[y > r].sum(), c), sf.zeros(()), x)[1])
    return [x, y], chance.sample(kept, chance.randint(1, 4))


def draw_graph(chance: Draw) -> Graph:
    """A graph to begin with."""
    if chance.random() < 0.3:
        inputs, outputs = with_late_sizes(chance)
    else:
        drawn = draw_program(chance, draws=False)
        inputs, outputs = drawn.inputs, drawn.outputs
    found = [Symbol(p) for p in free_params([y.node for y in outputs], [x.node for x in inputs])]
    return close([x.node for x in (*inputs, *found)], [y.node for y in outputs])


def free_params(outputs: list[Any], known: list[Any]) -> list[Any]:
    """The params that ``outputs`` need beside those that are ``known``."""
    return [n for n in toposort(outputs) if n.op is param and n not in known]


# -- changes of a text -----------------------------------------------------------------------------

VALUE = re.compile(r"%\w+")
SIZES = re.compile(r"(?<=[\[ ,(=])(?:\d+|[A-Za-z_]\w*)(?=[\],+*/ )-])")
NUMBERS = ("0", "1", "2", "3", "7", "1000", "-1", "A", "B", "x_0", "y_0", "selected")


def _exchange(pattern: re.Pattern[str]) -> Callable[[Draw, str], str]:
    """One thing that the pattern finds becomes another one that it finds."""

    def change(chance: Draw, text: str) -> str:
        found = list(pattern.finditer(text))
        if not found:
            return text
        one, other = chance.choice(found), chance.choice(found)
        return text[: one.start()] + other.group() + text[one.end() :]

    return change


def _another_size(chance: Draw, text: str) -> str:
    found = list(SIZES.finditer(text))
    if not found:
        return text
    one = chance.choice(found)
    return text[: one.start()] + chance.choice(NUMBERS) + text[one.end() :]


def _size_everywhere(chance: Draw, text: str) -> str:
    """All of one name of a size have another's, or are a number."""
    names = sorted(set(re.findall(r"(?<=[\[ ,(])[A-Za-z_]\w*(?=[\],+*/ )-])", text)))
    if not names:
        return text
    return re.sub(rf"\b{chance.choice(names)}\b", chance.choice((*names, *NUMBERS[:5])), text)


def _lines(change: Callable[[Draw, list[str], int, int], None]) -> Callable[[Draw, str], str]:
    def changed(chance: Draw, text: str) -> str:
        lines = text.split("\n")
        i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
        change(chance, lines, i, j)
        return "\n".join(lines)

    return changed


def _swap(chance: Draw, lines: list[str], i: int, j: int) -> None:
    lines[i], lines[j] = lines[j], lines[i]


def _repeat(chance: Draw, lines: list[str], i: int, j: int) -> None:
    lines.insert(j, lines[i])


def _drop(chance: Draw, lines: list[str], i: int, j: int) -> None:
    del lines[i]


def _bodies(chance: Draw, text: str) -> str:
    """A region takes the place of another one."""
    spans = []
    for start in (m.start() for m in re.finditer(r"graph \(", text)):
        depth, at = 0, text.index("{", start)
        for end in range(at, len(text)):
            depth += (text[end] == "{") - (text[end] == "}")
            if not depth:
                spans.append((start, end + 1))
                break
    inner = spans[1:]
    if not inner:
        return text
    (a, b), (c, d) = chance.choice(inner), chance.choice(inner)
    return text[:a] + text[c:d] + text[b:]


OPS = re.compile(r"(?<== )\w+(?=\()")
DTYPES = re.compile(r"\b(?:f32|f64|f16|bf16|i64|i32|u8|bool)(?=\[)")
ATTRS = re.compile(r"\w+=(?:\[[^\]\[]*\]|[\w.-]+)")
CHANGES: tuple[Callable[[Draw, str], str], ...] = (
    *[_exchange(VALUE)] * 4, *[_another_size] * 2, *[_size_everywhere] * 4, _exchange(SIZES),
    _exchange(OPS), _exchange(DTYPES), _exchange(ATTRS), _lines(_swap), _lines(_repeat),
    _lines(_drop), *[_bodies] * 2,
)  # fmt: skip

# -- one program -----------------------------------------------------------------------------------


def arrays_for(program: Any, chance: Draw) -> list[Any]:
    """Arguments for the inputs of a program, as they are declared, of sizes by chance."""
    graph: Graph = program.graph
    types = graph.declared or tuple(p.tensor_type for p in graph.params)
    named = free_symbols(graph).union(*(symbols_of(d) for t in types for d in t.shape))
    sizes = {s: chance.choice((0, 1, 2, 3, 5)) for s in sorted(named, key=lambda s: s.name)}
    rng = np.random.default_rng(chance.getrandbits(32))
    found = []
    for t in types:
        shape = [max(evaluate_dim(d, sizes), 0) for d in t.shape]
        found.append(rng.integers(0, 4, shape).astype(t.dtype.numpy))
    return found


def fault_of_seed(seed: str) -> tuple[str, str]:
    """What is wrong with the program of a seed, and its text."""
    chance = random.Random(seed)
    try:
        graph = draw_graph(chance)
    except sf.StaticflowError:  # whose sizes contradict each other
        return "", ""
    stored = store_graph(graph)
    text = stored.text
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        text = chance.choice(CHANGES)(chance, text)
    file = file_of_text(text, stored.arrays, len(graph.params), len(graph.outputs))
    return fault_of_file(file, lambda program: arrays_for(program, chance), True), text


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    first, count = sys.argv[1], int(sys.argv[2])
    sf.set_num_threads(1)

    def leave(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, leave)
    with config.change(poison=True):
        for number in range(count):
            print(number, flush=True)
            signal.alarm(SECONDS)
            try:
                fault, text = fault_of_seed(f"{first} {number}")
            except TooLong:
                fault = ""
            signal.alarm(0)
            if fault:
                print(f"fault: {number}: {fault}".replace("\n", " "), flush=True)
                if "text" in sys.argv:
                    print(text)
    print("end", flush=True)
    sys.stdout.flush()
    os._exit(0)  # guarded memory outlives what the interpreter frees


if __name__ == "__main__":
    main()
