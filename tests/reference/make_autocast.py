"""Writes autocast.json: the dtypes and first values that PyTorch gives inside ``autocast``, for
test_autocast_reference.py. Run it where PyTorch is: ``python tests/reference/make_autocast.py``."""

import json
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

from autocast_cases import CASES, INPUTS, KINDS, RANDOM, call, cast_inputs, flat, names

import staticflow as sf

SKIPPED = {"compile", "set_num_threads", "set_printoptions", "set_default_dtype", "manual_seed"}


def tensor(array):
    if array.dtype.name == "bfloat16":
        return torch.tensor(array.astype(np.float32)).to(torch.bfloat16)
    return torch.tensor(array)


def block(kind):
    dtype = torch.float16 if kind == "to float16" else torch.bfloat16
    return torch.autocast("cpu", dtype=dtype)


def stored(fn, inputs, kind, has_values):
    """The dtypes of the results, and the first values of each; None where it is refused."""
    try:
        with block(kind), torch.no_grad():
            out = flat(call(fn, cast_inputs(kind, inputs), tensor))
    except Exception:
        return None
    if not out or not all(isinstance(o, torch.Tensor) and not o.is_complex() for o in out):
        return None
    dtypes = [str(o.dtype).removeprefix("torch.") for o in out]
    if not has_values:
        return dtypes
    numbers = [o.double().flatten()[:6].tolist() for o in out]
    return dtypes, [[float(f"{v:.4g}") for v in row] for row in numbers]


def own(name, fn, theirs):
    """The number of the first of the inputs that both take; None if there is none."""
    for i, inputs in enumerate(INPUTS):
        try:
            if stored(theirs, inputs, "float32", False) and flat(call(fn, inputs, sf.tensor)):
                return i
        except Exception:
            continue
    return None


def main():
    warnings.simplefilter("ignore")
    others = dict(names(torch))
    lines = []
    for name, fn in names(sf):
        if name in others and name not in SKIPPED:
            number = own(name, fn, others[name])
            if number is not None:
                found = [
                    stored(others[name], INPUTS[number], k, k == "float32" and name not in RANDOM)
                    for k in KINDS
                ]
                lines.append(json.dumps([name, number, *found], allow_nan=True))
    for name, (fn, inputs) in CASES.items():
        found = [stored(partial(fn, torch), inputs, k, k == "float32") for k in KINDS]
        lines.append(json.dumps([name, None, *found]))
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    Path(__file__).with_name("autocast.json").write_text(text)


if __name__ == "__main__":
    main()
