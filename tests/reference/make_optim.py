"""Writes optim.json: what PyTorch's optimisers do, for test_optim.py. Run it where PyTorch is.

The problem is small, smooth and made of formulas, so that the test can set it up again without
random numbers: two parameters in two groups, a tanh layer under a mean square.
"""

import json
from pathlib import Path

import numpy as np
import torch

STEPS = 100
KEPT = [1, 2, 3, 10, 100]
ADAM = {"lr": 0.01, "betas": [0.8, 0.95]}
CASES = {
    "SGD": {
        "plain": {"lr": 0.1},
        "weight_decay": {"lr": 0.1, "weight_decay": 0.05},
        "momentum": {"lr": 0.05, "momentum": 0.9},
        "dampening": {"lr": 0.1, "momentum": 0.8, "dampening": 0.3},
        "nesterov": {"lr": 0.05, "momentum": 0.9, "nesterov": True},
        "all": {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.02},
        "nesterov_decay": {"lr": 0.05, "momentum": 0.7, "weight_decay": 0.1, "nesterov": True},
        "maximize": {"lr": 0.01, "momentum": 0.5, "maximize": True, "weight_decay": 0.1},
    },
    "Adam": {
        "plain": {"lr": 0.01},
        "betas": ADAM | {"eps": 1e-3},
        "weight_decay": ADAM | {"weight_decay": 0.1},
        "amsgrad": ADAM | {"amsgrad": True, "maximize": True},
        "decoupled": ADAM | {"weight_decay": 0.1, "decoupled_weight_decay": True},
    },
    "AdamW": {
        "plain": {"lr": 0.01},
        "no_decay": {"lr": 0.01, "weight_decay": 0.0},
        "amsgrad": ADAM | {"amsgrad": True, "weight_decay": 0.2},
    },
    "Adamax": {
        "plain": {"lr": 0.02},
        "all": ADAM | {"weight_decay": 0.1, "eps": 1e-4, "maximize": True},
    },
    "NAdam": {
        "plain": {"lr": 0.02},
        "weight_decay": ADAM | {"weight_decay": 0.1, "momentum_decay": 0.02},
        "decoupled": ADAM | {"weight_decay": 0.1, "decoupled_weight_decay": True},
    },
    "RAdam": {
        "plain": {"lr": 0.02},
        "weight_decay": ADAM | {"weight_decay": 0.1, "eps": 1e-3},
        "decoupled": ADAM | {"weight_decay": 0.1, "decoupled_weight_decay": True},
    },
    "RMSprop": {
        "plain": {"lr": 0.01},
        "momentum": {"lr": 0.005, "alpha": 0.9, "momentum": 0.8, "weight_decay": 0.1},
        "centered": {"lr": 0.005, "alpha": 0.9, "centered": True, "eps": 1e-3},
        "all": {"lr": 0.005, "momentum": 0.8, "centered": True, "maximize": True, "eps": 1e-3},
    },
    "Adagrad": {
        "plain": {"lr": 0.1},
        "all": {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
    },
    "Adadelta": {
        "plain": {"lr": 1.0},
        "all": {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1},
    },
    "Rprop": {
        "plain": {"lr": 0.01},
        "all": {"lr": 0.02, "etas": [0.4, 1.5], "step_sizes": [1e-3, 0.03]},
        "maximize": {"lr": 0.001, "step_sizes": [1e-3, 2e-3], "maximize": True},
    },
    "ASGD": {
        "plain": {"lr": 0.1},
        "all": {"lr": 0.1, "lambd": 0.02, "alpha": 0.6, "t0": 2.0, "weight_decay": 0.1},
        "maximize": {"lr": 0.01, "lambd": 0.1, "t0": 0.0, "maximize": True},
    },
    "Adafactor": {
        "plain": {"lr": 0.05},
        "all": {"lr": 0.02, "beta2_decay": -0.5, "eps": [1e-4, 0.1], "d": 1.2, "weight_decay": 0.1},
        "maximize": {"lr": 0.01, "maximize": True},
    },
    "Muon": {
        "plain": {"lr": 0.01},
        "all": {
            "lr": 0.02, "weight_decay": 0.0, "momentum": 0.8, "nesterov": False, "eps": 1e-3,
            "ns_coefficients": [2.0, -1.5, 0.5], "ns_steps": 3, "adjust_lr_fn": "match_rms_adamw",
        },
    },
}  # fmt: skip


def run(kind: str, case: dict, dtype: torch.dtype) -> dict:
    """The parameters after some of the steps."""
    x = torch.tensor(np.sin(np.arange(12.0)).reshape(4, 3)).to(dtype)
    t = torch.tensor(np.cos(np.arange(8.0)).reshape(4, 2)).to(dtype)
    w = torch.tensor(np.sin(np.arange(6.0) + 1).reshape(2, 3)).to(dtype).requires_grad_()
    b = torch.tensor([[0.5, -0.5]] if kind == "Muon" else [0.5, -0.5]).to(dtype).requires_grad_()
    slow = {"params": [b], "lr": case["lr"] / 2}
    optimiser = getattr(torch.optim, kind)([{"params": [w]}, slow], **case)
    kept = {}
    for step in range(1, STEPS + 1):
        if step == 51:
            optimiser.param_groups[0]["lr"] *= 0.3
        optimiser.zero_grad()
        ((torch.tanh(x @ w.t() + b) - t) ** 2).mean().backward()
        optimiser.step()
        if step in KEPT:
            kept[step] = [w.flatten().tolist(), b.flatten().tolist()]
    return kept


RECORDED = {  # PyTorch's SGD with a momentum lets go of the gradient of the first step
    "SGD": {"lr": 0.1, "weight_decay": 0.05},
    "Adam": ADAM | {"weight_decay": 0.1},
    "Adam decoupled": ADAM | {"weight_decay": 0.1, "decoupled_weight_decay": True},
    "AdamW": ADAM | {"weight_decay": 0.1, "amsgrad": True},
    "Adamax": {"lr": 0.05},
    "NAdam": ADAM | {"weight_decay": 0.1},
    "RAdam": ADAM,
    "RMSprop": {"lr": 0.05, "momentum": 0.5},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.1},
    "Adadelta": {"lr": 1.0, "weight_decay": 0.1, "eps": 1e-3},
    "ASGD": {"lr": 0.1, "lambd": 0.1, "t0": 1.0},
}


def run_recorded(name: str, case: dict) -> dict:
    """Steps with ``differentiable=True``: the gradient of what comes out by what the parameter was
    before and by the learning rate, and that of the sum of the former. In some of PyTorch's
    optimisers a step spoils what it has saved before, or takes a number alone as rate: then fewer.
    """
    for steps, of_rate in ((3, True), (3, False), (1, True), (1, False)):
        try:
            return {"steps": steps} | take_recorded_steps(name, case, steps, of_rate)
        except (RuntimeError, TypeError, ValueError):
            continue
    raise ValueError(name)


def take_recorded_steps(name: str, case: dict, steps: int, of_rate: bool) -> dict:
    """The value after the steps, its gradients, and the second derivative."""
    x = torch.tensor(np.sin(np.arange(12.0)).reshape(4, 3))
    t = torch.tensor(np.cos(np.arange(8.0)).reshape(4, 2))
    start = torch.tensor(np.sin(np.arange(6.0) + 1).reshape(2, 3)).requires_grad_()
    leaves = [start]
    if of_rate:
        leaves.append(torch.tensor(case["lr"], dtype=torch.float64, requires_grad=True))
        case = case | {"lr": leaves[1]}
    w = start.clone()
    kind = getattr(torch.optim, name.split()[0])
    optimiser = kind([w], differentiable=True, foreach=False, **case)
    for _ in range(steps):
        now = w.clone()  # whose memory no step changes
        loss = ((torch.tanh(x @ now.t()) - t) ** 2).mean()
        (w.grad,) = torch.autograd.grad(loss, [w], create_graph=True)
        optimiser.step()
    outer = ((torch.tanh(x @ w.t()) - t) ** 2).sum()
    gradients = torch.autograd.grad(outer, leaves, create_graph=True)
    (second,) = torch.autograd.grad(gradients[0].sum(), [start])
    return {
        "value": w.flatten().tolist(),
        "gradients": [g.flatten().tolist() for g in gradients],
        "second": second.flatten().tolist(),
    }


def main() -> None:
    """Write the file."""
    cases = {
        f"{kind} {name}": {
            "arguments": case,
            "float32": run(kind, case, torch.float32),
            "float64": run(kind, case, torch.float64),
        }
        for kind, cases in CASES.items()
        for name, case in cases.items()
    }
    recorded = {name: {"arguments": c} | run_recorded(name, c) for name, c in RECORDED.items()}
    text = (
        f'{{"torch": "{torch.__version__}", "cases": {{\n{_lines(cases)}\n}}, '
        f'"recorded": {{\n{_lines(recorded)}\n}}}}\n'
    )
    Path(__file__).with_name("optim.json").write_text(text)


def _lines(cases: dict) -> str:
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items())


if __name__ == "__main__":
    main()
