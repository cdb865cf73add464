"""The two graphs of a job: the tape of one eager step, and the compiled step as it runs."""

from __future__ import annotations

from staticflow.comparison.job import Job, default_dtype
from staticflow.comparison.record import Graphs
from staticflow.drawing.model import Drawing
from staticflow.drawing.picture import make_picture
from staticflow.drawing.tapes import draw_tape
from staticflow.eager.creation import from_numpy
from staticflow.static.compile import Program

__all__ = ["find_graphs", "sizes_of", "tape_of"]


def find_graphs(job: Job, program: Program | None) -> Graphs:
    """The tape of one eager step of a job and its compiled step as it runs, side by side; either is
    None where there is none."""
    tape = tape_of(job)
    drawing = (
        None if program is None else make_picture(program, sizes=sizes_of(job, program)).drawing
    )
    return Graphs(
        None if tape is None else tape.as_dict(), None if drawing is None else drawing.as_dict()
    )


def tape_of(job: Job) -> Drawing | None:
    """The drawing of what one eager step of a job records, on a model of its own; None where there
    is no loss or nothing to train."""
    model = job.make_model()
    if job.loss is None or not any(p.requires_grad for p in model.parameters()):
        return None
    tensors = [from_numpy(array) for array in job.batches(1)[0]]
    with default_dtype(job.dtype):
        loss = job.loss_of(job.output_of(model, tensors), tensors)
    return draw_tape([loss], f"{job.name}, one eager step")


def sizes_of(job: Job, program: Program) -> dict[str, int]:
    """The example that a job has of the unknown sizes of its compiled step."""
    names = {symbol.name for symbol in program.graph.symbols}
    return {name: size for name, size in job.sizes.items() if name in names}
