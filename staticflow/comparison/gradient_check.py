"""The gradient of a job against finite differences along random directions."""

from __future__ import annotations

import numpy as np

from staticflow.comparison.chance import seed_all
from staticflow.comparison.job import Job, default_dtype
from staticflow.comparison.source import explain_failure
from staticflow.eager.creation import from_numpy
from staticflow.eager.grad_mode import no_grad

__all__ = ["check_gradients"]

DIRECTIONS = 4
WIDTHS = (1e-5, 1e-6, 1e-7, 1e-8)
"""Steps of the differences: the one that fits best counts, since a wide one may cross a kink of
the loss and a narrow one is rounded."""

ALLOWED = 1e-5


def check_gradients(job: Job) -> str:
    """A sentence on the job's gradients beside finite differences in float64: how far off they
    are along random directions, or why they were not checked. Each loss makes the same draws."""
    if job.loss is None:
        return "not checked: there is no loss"
    try:
        with default_dtype("float64"):
            error = _largest_error(job.in_dtype("float64"))
    except Exception as failure:  # whatever a model in float32 alone may raise
        return f"not checked: {explain_failure(failure)}"
    if error is None:
        return "not checked: no parameter requires a gradient"
    verdict = "" if error <= ALLOWED else ": they differ, or the loss has a kink here"
    return f"off by {error:.1e} along {DIRECTIONS} directions{verdict}"


def _largest_error(job: Job) -> float | None:
    """The largest relative error of the slope along a direction; None without parameters."""
    model = job.make_model()
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        return None
    tensors = [from_numpy(a) for a in job.batches(1)[0]]

    def find_loss() -> object:
        seed_all(job.seed)
        return job.loss_of(job.output_of(model, tensors), tensors)

    loss = find_loss()
    loss.backward()  # type: ignore[attr-defined]
    gradients = [np.zeros(p.shape) if p.grad is None else p.grad.numpy().copy() for p in trained]
    values = [p.detach().numpy().copy() for p in trained]
    random = np.random.default_rng(job.seed)
    worst = 0.0
    for _ in range(DIRECTIONS):
        way = [random.standard_normal(v.shape) for v in values]
        slope = float(sum((g * d).sum() for g, d in zip(gradients, way, strict=True)))
        errors = []
        for width in WIDTHS:
            ends = []
            for sign in (1, -1):
                with no_grad():
                    for p, v, d in zip(trained, values, way, strict=True):
                        p.copy_(from_numpy(np.asarray(v + sign * width * d)))
                    ends.append(float(find_loss().item()))  # type: ignore[attr-defined]
            found = (ends[0] - ends[1]) / (2 * width)
            scale = max(abs(found), abs(slope)) or 1.0
            errors.append(abs(found - slope) / scale)
        worst = max(worst, float(np.min(errors)))
    return worst
