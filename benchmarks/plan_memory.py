"""How much memory training steps take: the arena of the plan, the bound, which no layout can go
below, and the same in the order in which the program was written; beside it what the allocator
hands out while a step runs, compiled and eager. Nothing is timed.

``python benchmarks/plan_memory.py [NAME ...]``
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from staticflow import nn
from staticflow.codegen.program import node_order
from staticflow.codegen.program.memory_order import order_as_written
from staticflow.comparison.contest import eager_contestant, static_contestant
from staticflow.comparison.job import Job, make_job
from staticflow.comparison.source import ModelFile, load_file
from staticflow.measure.memory import measure_eager
from staticflow.static.compile import Program
from staticflow.static.twin import measure_memory

__all__ = ["EXAMPLES", "Row", "example_job", "main", "measure_job", "with_known_sizes"]

FOLDER = Path(__file__).parents[1] / "examples"

EXAMPLES = (
    "lenet", "lstm_classifier", "transformer", "weight_sharing:RandomDepth", "adaptive_ode",
    "custom_module", "rnn_scan", "truncated_bptt",
)  # fmt: skip
"""The files of the examples that have a model, with its loss and optimiser; of two models one."""


class Perceptron(nn.Module):
    """Rows of 1,024 numbers through four layers of as many."""

    def __init__(self) -> None:
        super().__init__()
        layers = [m for _ in range(4) for m in (nn.Linear(1024, 1024), nn.ReLU())]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: object) -> object:
        return self.layers(x)


class Encoder(nn.Module):
    """Six layers of a transformer, of 128 features and 4 heads."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 6)

    def forward(self, x: object) -> object:
        return self.layers(x)


LARGER: dict[str, tuple[Callable[[], nn.Module], tuple[str, ...]]] = {
    "four layers": (Perceptron, ("x: f32[N=1024, 1024]",)),
    "encoder": (Encoder, ("x: f32[N=16, T=64, 128]",)),
}
"""Models that are no examples, with their inputs."""


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes: of the ``arena``, its ``bound``, the bound of the order ``as_written``, and the most
    that a ``compiled`` and an ``eager`` step had at one time."""

    arena: int
    bound: int
    as_written: int
    compiled: int
    eager: int


def example_job(name: str) -> Job:
    """The job of an example or of a larger model."""
    if name in LARGER:
        make, inputs = LARGER[name]
        return make_job(ModelFile(name, name, make, {}), inputs, loss="mse", optimizer="adam")
    file, colon, model = name.partition(":")
    return make_job(load_file(f"{FOLDER / file}.py{colon}{model}"))


def with_known_sizes(job: Job) -> Job:
    """The job with the example of each open size in its place."""
    inputs = [
        replace(x, shape=tuple(job.sizes.get(s, s) if isinstance(s, str) else s for s in x.shape))
        for x in job.inputs
    ]
    return replace(job, inputs=tuple(inputs))


def measure_job(job: Job) -> Row:
    """The memory of a step of the job."""
    program, batch = _compile(job), job.batches(1)[0]
    sizes = {s.name: job.sizes[s.name] for s in program.plan.routine.sizes}
    with mock.patch.object(node_order, "order_by_memory", order_as_written):
        as_written = _compile(job).plan.bound_bytes(**sizes)
    step = eager_contestant(job).step
    step(*batch)
    return Row(
        program.plan.arena_bytes(**sizes),
        program.plan.bound_bytes(**sizes),
        as_written,
        measure_memory(program, *batch).measured,
        measure_eager(lambda: step(*batch)).measured,
    )


def _compile(job: Job) -> Program:
    program = static_contestant(job).program
    assert program is not None
    return program


def _rows(names: Sequence[str]) -> Iterator[str]:
    head = ("arena", "bound", "times", "as written", "compiled", "eager")
    yield f"{'kB':>16} {'sizes':>7}" + "".join(f"{h:>12}" for h in head)
    for name in names:
        job = example_job(name)
        for sizes, each in (("known", with_known_sizes(job)), ("open", job)):
            row = measure_job(each)
            kilo = [f"{b / 1000:,.1f}" for b in
                    (row.arena, row.bound, row.as_written, row.compiled, row.eager)]  # fmt: skip
            kilo.insert(2, f"{row.arena / max(row.bound, 1):.3f}")
            yield f"{name[:16]:>16} {sizes:>7}" + "".join(f"{k:>12}" for k in kilo)


def main(names: Sequence[str] = ()) -> None:
    """Print a row for each model, with known and with open sizes."""
    for line in _rows(names or (*EXAMPLES, *LARGER)):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
