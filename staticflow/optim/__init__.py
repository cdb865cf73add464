"""Optimisers, one definition for both modes.

An optimiser is one update rule written in ops. ``step()`` applies it now, from the ``.grad`` of the
parameters; ``minimize(loss)`` gives it as updates for ``sf.compile``. Parameters, state and
learning rates are tensors that both share, so either mode can go on from the other.

>>> import staticflow as sf
>>> w = sf.tensor([1.0, 2.0], requires_grad=True)
>>> opt = sf.optim.SGD([w], lr=0.25)
>>> (w * w).sum().backward(); opt.step()
>>> w.detach()
tensor([0.5000, 1.0000])
>>> x = sf.placeholder((2,), name="x")
>>> loss = (w * x).sum()
>>> step = sf.compile([x], loss, updates=opt.minimize(loss))
>>> step(sf.ones(2)).item(), w.tolist()
(1.5, [0.25, 0.75])
"""

from staticflow.ops.declaring.foreign import refuses_foreign_in_classes, refuses_foreign_to_make
from staticflow.optim import lr_scheduler, swa_utils
from staticflow.optim.adafactor import Adafactor
from staticflow.optim.adagrad import Adadelta, Adagrad
from staticflow.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from staticflow.optim.group import ParamGroup
from staticflow.optim.lbfgs import LBFGS
from staticflow.optim.lr_scheduler.base import leaves_rates
from staticflow.optim.muon import Muon
from staticflow.optim.optimizer import Optimizer
from staticflow.optim.rmsprop import RMSprop
from staticflow.optim.rprop import ASGD, Rprop
from staticflow.optim.sgd import SGD

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon",
    "NAdam", "Optimizer", "ParamGroup", "RAdam", "RMSprop", "Rprop", "lr_scheduler", "swa_utils",
]  # fmt: skip

refuses_foreign_to_make(Optimizer)
refuses_foreign_in_classes(Optimizer, but=("step", "zero_grad"))
refuses_foreign_to_make(lr_scheduler.LRScheduler, leaves_rates)
refuses_foreign_in_classes(lr_scheduler.LRScheduler)
refuses_foreign_to_make(swa_utils.AveragedModel.__mro__[1])
refuses_foreign_in_classes(swa_utils.AveragedModel, but=("forward",))
