"""Models of the examples under PyTorch: their own classes and losses, with PyTorch's modules.

What an example gives as ``peers`` to ``python -m staticflow compare``. It needs PyTorch.
"""

import inspect
import sys
from types import ModuleType

import numpy as np
import torch


def under_pytorch(thing):
    """A class or function as it would be with PyTorch's ``nn`` and ``F``: its source, run again. A
    function or module of staticflow's is PyTorch's of the same name."""
    name = getattr(thing, "__name__", type(thing).__name__)
    if hasattr(torch.nn.functional, name):
        return getattr(torch.nn.functional, name)
    twin = ModuleType(f"{thing.__module__}_under_pytorch")  # where `torch.compile` looks names up
    sys.modules[twin.__name__] = twin
    names = vars(sys.modules[thing.__module__]) | {"nn": torch.nn, "F": torch.nn.functional}
    vars(twin).update(names | {"__name__": twin.__name__})
    exec(inspect.getsource(thing), vars(twin))
    return getattr(twin, name)


def sgd_steps(model_class, loss, parameters, lr, momentum, compiled=False):
    """Training steps from ``parameters``, and what gives the parameters of now.

    The loss takes the output and the inputs that it calls by the names that ``forward`` has, or
    else those that the model does not take. ``compiled`` puts `torch.compile` before both.
    """
    net, judge = under_pytorch(model_class)(), under_pytorch(loss)
    taken = list(inspect.signature(model_class.forward).parameters)[1:]
    wanted = list(inspect.signature(loss).parameters)[1:]
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(torch.from_numpy(parameters[name]))
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=momentum)

    def forward(*inputs):
        output = net(*inputs[: len(taken)])
        if set(wanted) <= set(taken):
            return judge(output, *(inputs[taken.index(name)] for name in wanted))
        return judge(output, *inputs[len(taken) :])

    run = torch.compile(forward) if compiled else forward

    def step(*arrays):
        value = run(*(torch.from_numpy(np.asarray(a)) for a in arrays))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.detach()

    return step, lambda: {n: p.detach().numpy().copy() for n, p in net.named_parameters()}
