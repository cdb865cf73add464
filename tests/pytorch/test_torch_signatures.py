"""Functions and classes of the names that PyTorch has take its arguments by its names."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="which arguments there are is said by PyTorch")

ROOMS = (
    "nn", "nn.functional", "nn.utils", "nn.utils.rnn", "nn.utils.parametrizations", "nn.utils.parametrize",
    "nn.init", "optim", "optim.lr_scheduler", "optim.swa_utils", "func", "autograd", "autograd.functional",
    "utils.data", "utils.checkpoint", "distributions", "amp",
)  # fmt: skip

ANYWHERE = {"size_average", "reduce", "device", "foreach", "fused", "capturable", "out"}
"""Those that PyTorch has given up, and those that say where and how it computes."""

ABSENT: dict[str, set[str]] = {
    # sparse gradients, and how often an index is there
    "nn.Embedding": {"scale_grad_by_freq", "sparse", "_weight", "_freeze"},
    "nn.EmbeddingBag": {"max_norm", "norm_type", "scale_grad_by_freq", "sparse", "_weight"},
    "nn.functional.embedding": {"scale_grad_by_freq", "sparse"},
    "nn.functional.embedding_bag": {"max_norm", "norm_type", "scale_grad_by_freq", "sparse"},
    # weights of elements, of which PyTorch takes another mean for each loss
    "nn.functional.huber_loss": {"weight"},
    "nn.functional.l1_loss": {"weight"},
    "nn.functional.mse_loss": {"weight"},
    "nn.UninitializedBuffer": {"persistent"},  # which register_buffer says
    # older names
    "nn.Hardtanh": {"min_value", "max_value"},
    "nn.utils.clip_grad_norm": {"parameters", "error_if_nonfinite"},
    "autograd.backward": {"grad_variables"},
    "autograd.enable_grad": {"orig_func"},
    # what docs/pytorch-differences.md says is not here
    "autograd.detect_anomaly": {"check_nan"},
    "autograd.set_detect_anomaly": {"check_nan"},
    "autograd.functional.hessian": {"vectorize", "outer_jacobian_strategy"},
    "autograd.functional.jacobian": {"vectorize", "strategy"},
    "autograd.gradcheck": {
        "check_batched_grad", "check_batched_forward_grad", "check_forward_ad", "check_backward_ad",
        "fast_mode", "masked",
    },
    "autograd.gradgradcheck": {
        "check_batched_grad", "check_fwd_over_rev", "check_rev_over_rev", "fast_mode", "masked",
    },
    "func.jacfwd": {"randomness"},
    "func.jacrev": {"chunk_size", "_preallocate_and_copy"},
    "func.jvp": {"strict"},
    "nn.utils.parametrize.ParametrizationList": {"unsafe"},
    "optim.lr_scheduler.SequentialLR": {"last_epoch"},
    "utils.checkpoint.checkpoint": {"context_fn", "determinism_check", "debug", "early_stop"},
    "utils.checkpoint.checkpoint_sequential": {"use_reentrant"},
    "utils.data.DataLoader": {
        "timeout", "worker_init_fn", "multiprocessing_context", "prefetch_factor",
        "persistent_workers", "pin_memory_device", "in_order",
    },
}  # fmt: skip
"""The arguments that are not taken."""


def parameters_of(what: Any) -> list[inspect.Parameter] | None:
    if not (inspect.isclass(what) or inspect.isroutine(what)):
        return None
    try:
        return list(inspect.signature(what).parameters.values())
    except (TypeError, ValueError):  # of C
        return None


@pytest.mark.parametrize("room", ROOMS)
def test_arguments_have_the_names_of_pytorch(room: str) -> None:
    theirs, ours = (
        importlib.import_module(f"{library}.{room}") for library in ("torch", "staticflow")
    )
    compared = 0
    for name in sorted(set(dir(theirs)) & set(dir(ours))):
        their = getattr(theirs, name)
        if name.startswith("_") or not getattr(their, "__module__", "").startswith("torch"):
            continue
        wanted, found = parameters_of(their), parameters_of(getattr(ours, name))
        if wanted is None or found is None:
            continue
        known = {p.name for p in found} | ANYWHERE
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        absent = {p.name for p in wanted if p.kind not in several} - known
        assert absent == ABSENT.get(f"{room}.{name}", set()), f"{room}.{name}"
        compared += 1
    assert compared
