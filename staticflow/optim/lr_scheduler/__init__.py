"""Learning-rate schedules.

A schedule sets ``group["lr"]``, a variable that eager steps and compiled programs both read: going
on to the next rate compiles nothing.

>>> import staticflow as sf
>>> w = sf.tensor([1.0], requires_grad=True)
>>> opt = sf.optim.SGD([w], lr=1.0)
>>> schedule = ExponentialLR(opt, gamma=0.5)
>>> for _ in range(2):
...     opt.step(); schedule.step()
>>> opt.param_groups[0]["lr"], schedule.get_last_lr()
(0.25, [0.25])
"""

from staticflow.optim.lr_scheduler.base import LRScheduler
from staticflow.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from staticflow.optim.lr_scheduler.cyclic import CyclicLR, OneCycleLR
from staticflow.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from staticflow.optim.lr_scheduler.plateau import ReduceLROnPlateau
from staticflow.optim.lr_scheduler.several import ChainedScheduler, SequentialLR

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip
