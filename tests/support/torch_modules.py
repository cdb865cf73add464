"""Layers of PyTorch on the samples that its own tests draw, taken over by ``from_module``."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
import torch_sweep as sweep

import staticflow as sf

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_modules import module_db

__all__ = ["MODULES", "sweep_module"]

MODULES = {info.name: info for info in module_db if "Lazy" not in info.name}
"""PyTorch's descriptions of its layers, by name; lazy ones have no shapes before they are called."""

flatten, map_leaves = torch.utils._pytree.tree_flatten, torch.utils._pytree.tree_map
DRAWING = (torch.nn.modules.dropout._DropoutNd, torch.nn.RReLU)


def sweep_module(name: str, count: int) -> list[str]:
    """What is not PyTorch's of up to ``count`` samples of a layer, in training and in evaluation:
    results, gradients by all parameters, and buffers afterwards."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for training in (False, True):
            torch.manual_seed(0)
            info = MODULES[name]
            samples = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
            )
            taken = [s for s in samples if s.forward_input is not None]
            for sample in taken[:: max(1, len(taken) // count)][:count]:
                try:
                    _check(info.module_cls, sample, training)
                except Exception as error:
                    text = f"{type(error).__name__}: {error}"
                    if not any(word in text for word in sweep.UNTRACED):
                        mode = "training" if training else "evaluation"
                        found.append(f"{name} in {mode}, {sample.desc}: {text}")
    return found


def _check(cls: Any, sample: Any, training: bool) -> None:
    made, given = sample.constructor_input, sample.forward_input
    torch.manual_seed(0)
    try:
        module = cls(*made.args, **made.kwargs).to(torch.float32).train(training)
        theirs = copy.deepcopy(module)
        wanted = flatten(theirs(*copy.deepcopy(given.args), **given.kwargs))[0]
    except Exception:  # PyTorch does not take it itself
        return
    is_drawn = training and (
        any(isinstance(m, DRAWING) for m in module.modules()) or bool(getattr(module, "dropout", 0))
    )
    ours = sf.torch.from_module(module, given.args, given.kwargs, copy=True)
    args, kwargs = map_leaves(
        lambda v: sf.from_dlpack(v) if isinstance(v, torch.Tensor) else v,
        (copy.deepcopy(given.args), given.kwargs),
    )
    actual = flatten(ours(*args, **kwargs))[0]
    sweep.compare([_theirs(v) for v in actual], wanted, is_drawn)
    if is_drawn:
        return
    states = ours.state_dict()
    for name, buffer in theirs.named_buffers():
        sweep.compare([_theirs(states[name])], [buffer], False)
    _check_gradients(theirs, ours, wanted, actual)


def _check_gradients(theirs: Any, ours: Any, wanted: Any, actual: Any) -> None:
    roots = [v for v in wanted if isinstance(v, torch.Tensor) and v.requires_grad]
    if not roots or not list(theirs.parameters()):
        return
    sum((v * _weights(v.shape)).sum() for v in roots).backward()
    own = [v for v in actual if isinstance(v, sf.Tensor) and v.requires_grad]
    sum((v * sf.from_dlpack(_weights(tuple(v.shape)))).sum() for v in own).backward()
    parameters = dict(ours.named_parameters())
    for name, parameter in theirs.named_parameters():
        gradient = parameters[name].grad
        if parameter.grad is None or gradient is None:
            assert parameter.grad is None or not parameter.grad.any(), f"no gradient by {name}"
        else:
            sweep.compare([_theirs(gradient)], [parameter.grad], False)


def _weights(shape: Any) -> Any:
    return torch.linspace(0.5, 1.5, torch.Size(shape).numel()).reshape(shape)


def _theirs(value: Any) -> Any:
    return torch.from_dlpack(value.detach()) if isinstance(value, sf.Tensor) else value
