"""What PyTorch makes of the functions of `tests/meaning/functions.py`, for meaning.json.

Run from the root of the repository with a Python that has PyTorch:
``python tests/reference/make_meaning.py``.
"""

import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from meaning.functions import FUNCTIONS  # noqa: E402

X, W = [0.5, -1.25, 2.0], [1.5, 0.75, -0.5]
WEIGHTS = torch.tensor([1.0, 2.0, 3.0])


def twice(fn):
    return lambda x, w: fn(fn(x * 1, w), w)


def once(fn):
    return lambda x, w: fn(x * 1, w)


def derivative(fn):
    def run(x, w):
        x = x * 1
        y = (fn(x, w) ** 3 * WEIGHTS).sum()
        return torch.autograd.grad(y, x, create_graph=True)[0]

    return run


AROUND = {
    "plain": lambda fn: fn, "scan": twice, "while": twice, "cond": once, "derivative": derivative,
}  # fmt: skip


def answer(fn):
    x, w = (torch.tensor(v, requires_grad=True) for v in (X, W))
    try:
        y = fn(x, w)
        if y.requires_grad:
            (y * y * WEIGHTS).sum().backward()
    except RuntimeError as error:
        return {"error": str(error).split("\n")[0].split(". ")[0]}
    grads = {n: None if t.grad is None else t.grad.tolist() for n, t in (("x", x), ("w", w))}
    return {"value": y.tolist(), **grads}


found = {
    name: {
        around: answer(wrap(lambda x, w, fn=fn: fn(torch, x, w))) for around, wrap in AROUND.items()
    }
    for name, fn in FUNCTIONS.items()
}
text = json.dumps({"torch": torch.__version__, "answers": found}, indent=1)
(HERE / "meaning.json").write_text(text + "\n")
