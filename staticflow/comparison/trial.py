"""The first run of a job, before anything is measured: what does not fit together is said in a
sentence, and a loss by name gets a target that fits."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow import pytree
from staticflow.comparison.calls import NamedLoss
from staticflow.comparison.inputs import Input
from staticflow.comparison.precision import default_dtype
from staticflow.comparison.scores import find_scores
from staticflow.comparison.source import ModelFile, explain_failure
from staticflow.eager.creation import from_numpy
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError
from staticflow.graph.articles import with_article
from staticflow.nn.module import Module
from staticflow.ops.symbols.symbol import Symbol
from staticflow.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from staticflow.comparison.job import Job

__all__ = ["add_target", "attempt", "refuse_arguments", "try_once"]


def attempt(what: Callable[[], Any], wrong: str) -> Any:
    """What ``what`` gives. Raises `ArgumentError`, which begins with ``wrong``, for whatever it
    raises."""
    try:
        return what()
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"{wrong}: {explain_failure(error)}") from error


def refuse_arguments(file: ModelFile) -> None:
    """Raise `ArgumentError` for a model that cannot be made without arguments that nobody gives."""
    try:
        made = inspect.signature(file.make)
        if "(" in file.name:  # its arguments are given
            return
    except (TypeError, ValueError):  # a built-in
        return
    needed = [
        p.name
        for p in made.parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise ArgumentError(
            f"{file.name} needs {', '.join(needed)} to be made; give what it needs, such as "
            f'"FILE.py:{file.name}({needed[0]}=...)", or a function without arguments that makes a '
            "module. A function of tensors is no model: a class of nn.Module whose forward calls "
            "it is"
        )


# -- the target of a named loss --------------------------------------------------------------------


def add_target(job: Job, loss: NamedLoss) -> Job:
    """The job with a target for its loss, of a shape that fits the output."""
    output, shape = _output_type(job)
    target = Input("target", *loss.target_for(shape, output.dtype))
    random = np.random.default_rng(job.seed + 1)
    inputs = (*job.inputs, target)
    data = []
    for batch in job.data:
        known = dict(job.sizes)
        for x, array in zip(job.inputs, batch, strict=True):
            known |= {s: n for s, n in zip(x.shape, array.shape, strict=True) if isinstance(s, str)}
        data.append((*batch, target.draw(random, known)))
    return replace(job, inputs=inputs, data=tuple(data), loss_takes=(len(job.inputs),))


Factors = tuple[int | str, ...]
"""A size as a product of numbers and of names of open sizes."""


def _output_type(job: Job) -> tuple[Tensor, tuple[Factors, ...]]:
    """The first output of the model, and its shape by factors, with the names of open sizes where
    these are known to be its sizes: of a model that cannot be a graph the first alone."""
    batch = job.batches(1)[0]
    output = _run(job, job.make_model(), [from_numpy(a) for a in batch])
    first = next((x for x in pytree.flatten(output)[0] if isinstance(x, Tensor)), None)
    if first is None or not first.shape:
        raise ArgumentError(
            f"the loss {job.loss_name} needs an output that is a tensor with dims, and the model "
            f"gives {'a single number' if first is not None else type(output).__name__}; write "
            "loss(output) into the file, or name the loss sum"
        )
    sizes = [int(s) for s in first.shape]
    named = _trace_shape(job)
    if named is not None and len(named) == len(sizes):
        return first, tuple(_factors(s, n, job) for s, n in zip(named, sizes, strict=True))
    leading = {a.shape[0]: x.shape[0] for x, a in zip(job.inputs, batch, strict=True) if a.ndim}
    return first, tuple((n,) for n in (leading.get(sizes[0], sizes[0]), *sizes[1:]))


def _factors(size: str, example: int, job: Job) -> Factors:
    """The factors of a size, ``example`` alone where it is no product of open sizes.

    A size such as ``2*N*T`` is that of dims that were flattened.
    """
    words = size.split("*")
    if not all(word in job.sizes or word.isdecimal() for word in words):
        return (example,)
    return tuple(int(word) if word.isdecimal() else word for word in words)


def _trace_shape(job: Job) -> list[str] | None:
    """The sizes of the first output as text, where the model is traced; None if it cannot be."""
    try:
        with default_dtype(job.dtype):
            output = job.output_of(job.make_model(), job.placeholders())
    except Exception:  # whatever the model raises where it meets symbols: that is told later
        return None
    first = next((x for x in pytree.flatten(output)[0] if isinstance(x, Symbol)), None)
    return None if first is None else [str(s) for s in first.shape]


# -- the first run ---------------------------------------------------------------------------------


def _run(job: Job, model: Module, tensors: Sequence[Tensor]) -> Any:
    shown = ", ".join(x.describe(job.sizes) for x in job.inputs)
    with default_dtype(job.dtype):
        return attempt(
            lambda: job.output_of(model, tensors), f"the model does not run on its inputs ({shown})"
        )


def try_once(job: Job) -> Job:
    """The job, after the model and the loss have been run once. Raises `ArgumentError` for what
    does not run, and for what gives nothing to compare."""
    model = job.make_model()
    tensors = [from_numpy(copy.copy(a)) for a in job.batches(1)[0]]
    output = _run(job, model, tensors)
    leaves = pytree.flatten(output)[0]
    if not any(isinstance(leaf, Tensor) for leaf in leaves):
        raise ArgumentError(f"the model gives {type(output).__name__}, in which no tensor is")
    attempt(lambda: find_scores(job, model), "evaluate(model, seed) does not run")
    if job.loss is None:
        if job.optimizer is not None:
            raise ArgumentError("an optimiser needs a loss, as --loss cross_entropy")
        note = "no loss was given, so the model is only run forward"
        if len(leaves) == 1 and leaves[0].shape == ():
            note += "; with the loss mean its one number is the loss"
        return replace(job, notes=(*job.notes, note))
    with default_dtype(job.dtype):
        loss = attempt(
            lambda: job.loss_of(output, tensors), f"the loss {job.loss_name} does not run"
        )
    if not isinstance(loss, Tensor) or loss.shape != ():
        shape = f" of shape {list(loss.shape)}" if isinstance(loss, Tensor) else ""
        raise ArgumentError(
            f"the loss {job.loss_name} gives {with_article(type(loss))}{shape}; it must be a "
            "single number: reduce it, as in loss.mean()"
        )
    if not any(p.requires_grad for p in model.parameters()):
        note = "no parameter requires a gradient, so a step is the model and its loss"
        return replace(job, optimizer=None, optimizer_name="none", notes=(*job.notes, note))
    if not loss.requires_grad:
        raise ArgumentError(
            f"the loss {job.loss_name} has no gradient by any parameter: the model does not use "
            "them, or gives what has no derivative, such as integers; --loss none runs it forward"
        )
    return job if job.optimizer is None else _name_optimizer(job, model)


def _name_optimizer(job: Job, model: Module) -> Job:
    """The job, once its optimiser was made and is one."""
    made = attempt(lambda: job.make_optimizer(model), f"the optimiser {job.optimizer_name}")
    if not isinstance(made, Optimizer):
        raise ArgumentError(
            f"the optimiser {job.optimizer_name} gives {with_article(type(made))}; it must be one "
            "of sf.optim, of the parameters that it is given"
        )
    rate = made.param_groups[0]["lr"] if made.param_groups else 0.0
    return replace(job, optimizer_name=f"{type(made).__name__}, lr {float(rate):g}")
