"""Transforms of functions, and modules as functions of their parameters: ``torch.func``.

>>> import staticflow as sf
>>> model = sf.nn.Linear(2, 1)
>>> ones = {name: sf.ones_like(p) for name, p in model.named_parameters()}
>>> def loss(parameters, x):
...     return sf.func.functional_call(model, parameters, x).sum()
>>> sf.func.grad(loss)(ones, sf.ones(3, 2))["weight"]
tensor([[3., 3.]])
"""

from staticflow.autograd.transforms import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
from staticflow.autograd.vmap import vmap
from staticflow.nn.functional_call import functional_call
from staticflow.nn.stacked_state import stack_module_state
from staticflow.ops.declaring.foreign import refuses_foreign_in

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "stack_module_state", "vjp", "vmap",
]  # fmt: skip

refuses_foreign_in(globals())
