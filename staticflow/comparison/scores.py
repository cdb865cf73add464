"""What a trained model is worth, by the file's own measure, such as accuracy on held-out data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from staticflow.comparison.precision import default_dtype
from staticflow.eager.grad_mode import no_grad
from staticflow.errors import ArgumentError
from staticflow.nn.module import Module

if TYPE_CHECKING:
    from staticflow.comparison.job import Job

__all__ = ["find_scores"]


def find_scores(job: Job, model: Module) -> dict[str, float]:
    """What ``evaluate(model, seed)`` of the job's file gives for a model, which does not train
    meanwhile: numbers by name, none where there is no such function. Raises `ArgumentError` for
    anything else that it gives."""
    if job.evaluate is None:
        return {}
    is_training = model.training
    model.eval()
    try:
        with default_dtype(job.dtype), no_grad():
            found = job.evaluate(model, job.seed)
    finally:
        model.train(is_training)
    try:
        if not isinstance(found, Mapping):
            raise TypeError
        return {str(name): float(value) for name, value in found.items()}
    except (TypeError, ValueError):
        raise ArgumentError(
            f"evaluate(model, seed) gives {found!r}; it must give a dict of numbers by name, "
            'such as {"accuracy": 0.97}'
        ) from None
