"""Comparisons asked for by words, and by values in Python."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from staticflow.comparison.chance import Chance
from staticflow.comparison.job import DTYPES, Job, Request, make_job
from staticflow.comparison.progress import Progress
from staticflow.comparison.record import Comparison
from staticflow.comparison.run import Options, compare_job
from staticflow.comparison.scaling import check_counts
from staticflow.comparison.source import ModelFile, load_file
from staticflow.eager.grad_mode import enable_grad
from staticflow.eager.inference import inference_mode
from staticflow.errors import ArgumentError
from staticflow.graph.articles import with_article
from staticflow.graph.dtypes import dtype_of
from staticflow.nn.module import Module

__all__ = ["compare_values", "job_of"]


def job_of(request: Request) -> Job:
    """The job that a request asks for. Raises `ArgumentError` where something is wrong with it."""
    return make_job(
        load_file(request.target),
        request.inputs or None,
        request.loss,
        request.optimizer,
        request.lr,
        request.steps,
        request.seed,
        request.dtype,
        request,
        request.sweep,
    )


def compare_values(
    model: Any,
    inputs: Any,
    loss: Any,
    optimizer: Any,
    lr: float | None,
    steps: int,
    seed: int,
    dtype: Any,
    quick: bool,
    sweep: str | None = None,
    processes: Sequence[int] = (),
) -> Comparison:
    """What `staticflow.compare` does. The generators of random numbers go on as if it had not been
    called."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ArgumentError(f"compare: steps is a number of at least 1, not {steps!r}")
    name = dtype_of(dtype).name
    if name not in DTYPES:
        raise ArgumentError(f"compare: the dtype is one of {', '.join(DTYPES)}, not {name}")
    if isinstance(model, str):
        file, target, words = load_file(model), model, (loss, optimizer)
    else:
        file = ModelFile(_source_of(model), _name_of(model), _maker_of(model), {})
        target = _name_for_others(model)
        words = ("none" if loss is None else loss, "none" if optimizer is None else optimizer)
    request = None
    if target and all(x is None or isinstance(x, str) for x in words):
        request = Request(target, (), *words, lr, steps, seed, name)
    counts = check_counts(processes)
    chance = Chance.now()
    try:
        with inference_mode(False), enable_grad():  # whatever the caller has switched off or on
            job = make_job(file, inputs, loss, optimizer, lr, steps, seed, name, request, sweep)
            return compare_job(job, Options(quick, processes=counts), Progress())
    finally:
        chance.restore()


def _name_for_others(model: Any) -> str:
    """What another process can import the class or function ``model`` by; "" if it cannot."""
    module, name = getattr(model, "__module__", ""), getattr(model, "__qualname__", "")
    is_there = getattr(sys.modules.get(module), name, None) is model
    return f"{module}:{name}" if is_there and module != "__main__" else ""


def _maker_of(model: Any) -> Callable[..., Module]:
    if isinstance(model, Module):
        first = deepcopy(model)
        return lambda: deepcopy(first)
    if not callable(model):
        raise ArgumentError(
            f"compare: the model is {with_article(type(model))}; it must be a module, a class of "
            'modules, a function that makes one, or "FILE.py:NAME"'
        )

    def make(**changed: Any) -> Module:
        made = model(**changed)
        if not isinstance(made, Module):
            raise ArgumentError(f"compare: {_name_of(model)} gives {with_article(type(made))}")
        return made

    make.__dict__["__wrapped__"] = model  # whose arguments a sweep may change
    return make


def _name_of(model: Any) -> str:
    return getattr(model, "__name__", type(model).__name__)


def _source_of(model: Any) -> str:
    kind = type(model) if isinstance(model, Module) else model
    try:
        return f"{inspect.getsourcefile(kind)}:{_name_of(kind)}"
    except TypeError:
        return _name_of(kind)
