"""Writes schedules.json: the rates of PyTorch's schedules, for test_lr_scheduler.py. Run it where
PyTorch is."""

import json
from pathlib import Path

import torch

EPOCHS = 16
VALUES = [5.0, 4.0, 4.1, 4.2, 4.0, 3.9, 4.0, 4.0, 4.0, 4.0, 3.0, 3.1, 3.2, 2.99, 2.98, 2.97]
CASES = {
    "StepLR": [{"step_size": 3, "gamma": 0.5}],
    "MultiStepLR": [{"milestones": [2, 5, 5, 9], "gamma": 0.5}],
    "ConstantLR": [{}, {"factor": 0.25, "total_iters": 3}],
    "LinearLR": [{}, {"start_factor": 0.25, "end_factor": 0.75, "total_iters": 10}],
    "ExponentialLR": [{"gamma": 0.75}],
    "PolynomialLR": [{}, {"total_iters": 9, "power": 2.0}],
    "CosineAnnealingLR": [{"T_max": 5}, {"T_max": 8, "eta_min": 0.01}, {"T_max": 20}],
    "CosineAnnealingWarmRestarts": [{"T_0": 4}, {"T_0": 2, "T_mult": 2, "eta_min": 0.01}],
    "CyclicLR": [
        {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3},
        {"base_lr": 0.1, "max_lr": [0.5, 1.0], "step_size_up": 3, "step_size_down": 2,
         "mode": "triangular2", "base_momentum": 0.5},
        {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 4, "mode": "exp_range", "gamma": 0.9},
    ],
    "OneCycleLR": [
        {"max_lr": 1.0, "total_steps": EPOCHS},
        {"max_lr": [1.0, 0.5], "epochs": 4, "steps_per_epoch": 4, "anneal_strategy": "linear"},
        {"max_lr": 1.0, "total_steps": 20, "three_phase": True, "pct_start": 0.4,
         "div_factor": 10.0, "final_div_factor": 100.0},
    ],
    "ReduceLROnPlateau": [
        {"patience": 1, "factor": 0.5},
        {"patience": 0, "factor": 0.5, "mode": "max", "cooldown": 2, "min_lr": 0.05},
        {"patience": 0, "factor": 0.1, "threshold": 0.5, "threshold_mode": "abs"},
    ],
}  # fmt: skip


def optimiser() -> torch.optim.Optimizer:
    """Two groups with rates of their own."""
    first, second = (torch.zeros(1, requires_grad=True) for _ in range(2))
    groups = [{"params": [first]}, {"params": [second], "lr": 0.1}]
    return torch.optim.SGD(groups, lr=0.2, momentum=0.9)


def rates(opt: torch.optim.Optimizer, scheduler: object) -> list:
    """The rates and momenta of all epochs."""
    found = []
    for value in VALUES:
        found.append([g[n] for g in opt.param_groups for n in ("lr", "momentum")])
        opt.step()
        if value is not VALUES[-1]:
            takes = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
            scheduler.step(*[value] * takes)
    return found


def main() -> None:
    """Write the file."""
    of = torch.optim.lr_scheduler
    lines = []
    for kind, cases in CASES.items():
        for arguments in cases:
            opt = optimiser()
            found = rates(opt, getattr(of, kind)(opt, **arguments))
            lines.append(json.dumps([kind, arguments, found]))
    opt = optimiser()
    parts = [of.LinearLR(opt, total_iters=4), of.ExponentialLR(opt, gamma=0.5), of.StepLR(opt, 3)]
    found = rates(opt, of.SequentialLR(opt, parts, milestones=[5, 8]))
    lines.append(json.dumps(["SequentialLR", {}, found]))
    opt = optimiser()
    parts = [of.ConstantLR(opt, factor=0.1, total_iters=4), of.ExponentialLR(opt, gamma=0.9)]
    found = rates(opt, of.ChainedScheduler(parts))
    lines.append(json.dumps(["ChainedScheduler", {}, found]))
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    Path(__file__).with_name("schedules.json").write_text(text)


if __name__ == "__main__":
    main()
