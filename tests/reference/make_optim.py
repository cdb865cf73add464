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
}  # fmt: skip


def run(kind: str, case: dict, dtype: torch.dtype) -> dict:
    """The parameters after some of the steps."""
    x = torch.tensor(np.sin(np.arange(12.0)).reshape(4, 3)).to(dtype)
    t = torch.tensor(np.cos(np.arange(8.0)).reshape(4, 2)).to(dtype)
    w = torch.tensor(np.sin(np.arange(6.0) + 1).reshape(2, 3)).to(dtype).requires_grad_()
    b = torch.tensor([0.5, -0.5]).to(dtype).requires_grad_()
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
            kept[step] = [w.flatten().tolist(), b.tolist()]
    return kept


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
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items())
    text = f'{{"torch": "{torch.__version__}", "cases": {{\n{lines}\n}}}}\n'
    Path(__file__).with_name("optim.json").write_text(text)


if __name__ == "__main__":
    main()
