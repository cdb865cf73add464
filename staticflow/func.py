"""Modules as functions of their parameters, by the name of ``torch.func``.

>>> import staticflow as sf
>>> model = sf.nn.Linear(2, 2)
>>> zeros = {name: sf.zeros_like(p) for name, p in model.named_parameters()}
>>> sf.func.functional_call(model, zeros, sf.ones(2))
tensor([0., 0.])
"""

from staticflow.nn.functional_call import functional_call

__all__ = ["functional_call"]
