"""Writes spatial.json: what PyTorch's layers of one input give, convolutions to activations, for
test_nn_spatial.py. Run it where PyTorch is installed.

Each layer is run twice in training and once in evaluation, in float64, with parameters made by a
formula; of each run the output is kept, of the first the gradients.
"""

import json
from pathlib import Path

import numpy as np
import torch
from spatial_cases import CASES, numbers


def rounded(tensor: torch.Tensor) -> list[float]:
    """The elements, to the digits that are compared."""
    return [float(f"{v:.11g}") for v in tensor.detach().double().flatten().tolist()]


def run(case: tuple) -> dict:
    """What a layer gives."""
    name, args, kwargs, shape = case
    layer = getattr(torch.nn, name)(*args, **kwargs).double()
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(torch.tensor(numbers(tuple(parameter.shape), i + 1)))
    x = torch.tensor(numbers(shape, 0)).requires_grad_()
    out = layer(x)
    weights = torch.tensor(np.cos(np.arange(out.numel())).reshape(out.shape))
    (out * weights).sum().backward()
    second = layer(x * 0.5 + 1)
    layer.eval()
    return {
        "repr": repr(layer),
        "shape": list(out.shape),
        "state": {key: list(value.shape) for key, value in layer.state_dict().items()},
        "outputs": [rounded(v) for v in (out, second, layer(x))],
        "gradients": [rounded(v.grad) for v in (x, *layer.parameters())],
        "buffers": {key: rounded(value) for key, value in layer.named_buffers()},
    }


def main() -> None:
    """Write the file."""
    found = {name: run(case) for name, case in CASES.items()}
    rows = (
        f"{json.dumps(name)}:{json.dumps(r, separators=(',', ':'))}" for name, r in found.items()
    )
    text = "{\n" + ",\n".join(rows) + "\n}\n"
    Path(__file__).with_name("spatial.json").write_text(text)


if __name__ == "__main__":
    main()
