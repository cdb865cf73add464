"""One of several processes that train the model of a comparison together, each on its part of every
batch: ``mpirun -n 4 python -m staticflow.comparison.on_mesh ORDER.json``.

Each kernel runs on one thread, so that so many processes have so many times what one has. The first
process writes the answer.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import staticflow as sf
from staticflow import distributed
from staticflow.comparison.amount import sizes_of_call
from staticflow.comparison.contest import trace_step
from staticflow.comparison.fresh import load_batches
from staticflow.comparison.inputs import Batch
from staticflow.comparison.job import Job, Request, job_without_trial
from staticflow.eager.tensor import Tensor
from staticflow.errors import RankError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size
from staticflow.measure.messages import messages_of
from staticflow.static.compile import Program

__all__ = ["main", "split_inputs"]

WARM_STEPS = 20
"""So many steps come first, whose losses are told."""

SECONDS = 0.6
"""So long are steps timed, of which there are at least 5."""

MOST_STEPS = 500


def main(order_file: str) -> None:
    """Run the order that is in a file."""
    order = json.loads(Path(order_file).read_text())
    mesh = distributed.mesh(data=-1)
    if mesh.size != order["processes"]:
        raise RankError(
            f"there is {mesh.size} process of {order['processes']}: mpirun is not that of mpi4py"
        )
    sf.set_num_threads(1)
    request = {**order["request"], "inputs": tuple(order["request"]["inputs"])}
    job = job_without_trial(Request(**request), order["model_takes"], tuple(order["loss_takes"]))
    batches, _ = load_batches(Path(order["data"]))
    model = job.make_model()
    _, symbols, outputs, updates = trace_step(job, model, lambda given: split_inputs(job, given))
    program = sf.compile(symbols, outputs, updates=updates, mesh=mesh)
    losses: list[float] = []
    took: list[float] = []

    def step() -> None:
        began = time.perf_counter()
        found = program(*batches[len(took) % len(batches)])
        took.append(time.perf_counter() - began)
        loss = found[0] if isinstance(outputs, list) else found
        if len(took) <= WARM_STEPS and isinstance(loss, Tensor) and loss.shape == ():
            losses.append(float(loss.item()))

    for _ in range(WARM_STEPS):
        step()
    longest = distributed.all_reduce(sf.tensor(statistics.median(took)), mesh, "amax").item()
    for _ in range(min(MOST_STEPS, max(5, int(SECONDS / longest)))):
        step()
    if mesh.rank == 0:
        sent, messages = count_sent(program, batches[0])
        steady = took[WARM_STEPS:]
        answer = {"seconds": steady, "losses": losses, "bytes": sent, "messages": messages}
        Path(order["answer"]).write_text(json.dumps(answer))


def split_inputs(job: Job, given: list[Any]) -> list[Any]:
    """The inputs of a job, of which each process has a part of those whose first dim is that of the
    first input."""
    rows = job.inputs[0].shape[:1]
    return [
        distributed.shard(x, "data", *(None,) * (len(of.shape) - 1))
        if rows and of.shape[:1] == rows
        else x
        for x, of in zip(given, job.inputs, strict=True)
    ]


def count_sent(program: Program, batch: Batch) -> tuple[int, int]:
    """The bytes and the messages that one process sends in a step, besides those in loops."""
    at, plan = sizes_of_call(program, batch), program.plan

    def evaluate(size: Size) -> int:
        values = {s: at.get(s.name, 1) for s in plan.layout.expand(symbols_of(size))}
        return plan.evaluate(size, values)

    once = [m for m in messages_of(plan.routine.steps, evaluate) if not m.inside]
    return sum(m.bytes for m in once), sum(m.messages for m in once)


if __name__ == "__main__":
    main(sys.argv[1])
