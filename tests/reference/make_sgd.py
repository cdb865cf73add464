"""Writes sgd.json: what PyTorch's SGD does, for test_optim.py. Run it where PyTorch is installed.

The problem is small, smooth and made of formulas, so that the test can set it up again without
random numbers: two parameters in two groups, a tanh layer under a mean square.
"""

import json
from pathlib import Path

import numpy as np
import torch

STEPS = 100
KEPT = [1, 2, 3, 10, 100]
CASES = {
    "plain": {"lr": 0.1},
    "weight_decay": {"lr": 0.1, "weight_decay": 0.05},
    "momentum": {"lr": 0.05, "momentum": 0.9},
    "dampening": {"lr": 0.1, "momentum": 0.8, "dampening": 0.3},
    "nesterov": {"lr": 0.05, "momentum": 0.9, "nesterov": True},
    "all": {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.02},
    "nesterov_decay": {"lr": 0.05, "momentum": 0.7, "weight_decay": 0.1, "nesterov": True},
}


def run(case: dict, dtype: torch.dtype) -> dict:
    """The parameters after some of the steps."""
    x = torch.tensor(np.sin(np.arange(12.0)).reshape(4, 3)).to(dtype)
    t = torch.tensor(np.cos(np.arange(8.0)).reshape(4, 2)).to(dtype)
    w = torch.tensor(np.sin(np.arange(6.0) + 1).reshape(2, 3)).to(dtype).requires_grad_()
    b = torch.tensor([0.5, -0.5]).to(dtype).requires_grad_()
    slow = {"params": [b], "lr": case["lr"] / 2}
    optimiser = torch.optim.SGD([{"params": [w]}, slow], **case)
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
        name: {
            "arguments": case,
            "float32": run(case, torch.float32),
            "float64": run(case, torch.float64),
        }
        for name, case in CASES.items()
    }
    text = json.dumps({"torch": torch.__version__, "cases": cases}, indent=1)
    Path(__file__).with_name("sgd.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
