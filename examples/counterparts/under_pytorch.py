"""Models of the examples under PyTorch: their own classes and losses, with PyTorch's modules.

What an example gives as ``peers`` to ``python -m staticflow compare``. It needs PyTorch.
"""

import inspect
import sys

import numpy as np
import torch


def under_pytorch(thing):
    """A class or function as it would be with PyTorch's ``nn`` and ``F``: its source, run again. A
    function or module of staticflow's is PyTorch's of the same name."""
    name = getattr(thing, "__name__", type(thing).__name__)
    if hasattr(torch.nn.functional, name):
        return getattr(torch.nn.functional, name)
    names = dict(vars(sys.modules[thing.__module__]))
    names |= {"nn": torch.nn, "F": torch.nn.functional}
    exec(inspect.getsource(thing), names)
    return names[name]


def adam_steps(model_class, loss, parameters, lr, compiled=False):
    """Training steps by Adam from ``parameters``, and what gives the parameters of now.

    The loss takes the output and the inputs that it calls by the names that ``forward`` has, or
    else those that the model does not take. ``compiled`` puts `torch.compile` before both.
    """
    net, judge = under_pytorch(model_class)(), under_pytorch(loss)
    taken = list(inspect.signature(model_class.forward).parameters)[1:]
    wanted = list(inspect.signature(loss).parameters)[1:]
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(torch.from_numpy(parameters[name]))
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)

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
