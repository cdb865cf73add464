"""Gradients where functions have corners, ends and ties: at zeros, halves, equal and whole numbers,
and where these are infinite or huge, every function of one or two tensors has PyTorch's wherever that is finite."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import numpy as np
import pytest

import staticflow as sf

torch = pytest.importorskip("torch")

POINTS = {
    "zeros": np.zeros((3, 3)),
    "ones": np.ones((3, 3)),
    "ties": np.array([[1.0, 1.0, 2.0], [2.0, 0.0, 0.0], [1.0, -1.0, -1.0]]),
    "halves": np.array([[0.5, -0.5, 1.5], [2.5, -1.5, 0.0], [-2.5, 1.0, -1.0]]),
    "a row of zeros": np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [0.0, 1.0, 0.0]]),
    "infinities": np.array([[inf, 1.0, -1.0], [-inf, 0.5, 2.0], [0.0, -inf, inf]]),
    "huge": np.array([[1e200, 1.0, -1.0], [-1e200, 0.5, 2.0], [1e300, -3.0, 4.0]]),
    "ends of exp": np.array([[700.0, -700.0, 40.0], [-800.0, 800.0, 2.0], [20.0, -30.0, 4.0]]),
    "a zero": np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]]),
}

MODULES = {
    "": (sf, torch),
    "special.": (sf.special, torch.special),
    "linalg.": (sf.linalg, torch.linalg),
    "nn.functional.": (sf.nn.functional, torch.nn.functional),
}

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "x": lambda fn, x: fn(x),
    "x, dim=-1": lambda fn, x: fn(x, dim=-1),
    "x, 2": lambda fn, x: fn(x, 2),
    "x, 0.5": lambda fn, x: fn(x, 0.5),
    "x, 2, 2": lambda fn, x: fn(x, 2, 2),
    "x, 2, dim=0": lambda fn, x: fn(x, 2, dim=0),
    "x, flipped": lambda fn, x: fn(x, x.flip(0)),
    "x, x": lambda fn, x: fn(x, x * 1),
    "x, 0 x": lambda fn, x: fn(x, x * 0),
}

OTHER: dict[str, str] = {
    **dict.fromkeys(("alpha_dropout", "bernoulli", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
       "gumbel_softmax", "multinomial", "normal", "pca_lowrank", "rrelu", "svd_lowrank"), "are drawn"),
    **dict.fromkeys(("kthvalue", "mode", "nanmedian", "topk", "matrix_norm", "norm"), "of equal numbers take another"),
    **dict.fromkeys(("digamma", "polygamma", "psi"), "have nine digits in PyTorch"),
    **dict.fromkeys(("cholesky_inverse", "cholesky_solve", "det", "eigh", "lu", "logdet", "qr", "slogdet", "svd"), "are of singular matrices"),
    **dict.fromkeys(("acosh", "arccosh"), "have slopes where they are not defined in PyTorch"),
    **dict.fromkeys(("compile", "cond", "from_dlpack", "initial_seed", "load", "manual_seed", "save", "seed", "vmap", "while_loop"), "are no functions of tensors"),
    "hardsigmoid": "has a slope of a sixth in float32 in PyTorch",
}  # fmt: skip
"""Functions whose gradients are others, and why."""

OTHER_FAR: dict[str, str] = {
    "cumprod": "infinity times 0",
    "logcumsumexp": "PyTorch's loses what is far below the largest",
    "linalg.solve": "the matrix is singular but for the last bits",
}
"""Functions whose gradients at what is infinite or huge are others, and why."""

FAR = ("infinities", "huge")

SWITCHES = ("are_", "get_", "is_", "set_", "use_")
"""How the names of functions begin that ask for the state of the library or change it."""


def functions() -> Iterator[tuple[str, Any, Any]]:
    for prefix, (ours, theirs) in MODULES.items():
        for name in sorted(n for n in dir(ours) if not n.startswith(("_", *SWITCHES))):
            fn = getattr(theirs, name, None)
            if callable(fn) and not isinstance(fn, type) and name not in OTHER:
                yield prefix + name, getattr(ours, name), fn


FUNCTIONS = {name: (ours, theirs) for name, ours, theirs in functions()}


def gradients_of(call: Callable[[Any, Any], Any], fn: Any, x: Any, grad: Any) -> list[Any]:
    """The gradients of the results that have one, each of their sums; none where the call is
    refused."""
    try:
        found = call(fn, x)
    except Exception:
        return []
    results = [*found] if isinstance(found, tuple | list) else [found]
    sums = [y.sum() for y in results if getattr(y, "requires_grad", False)]
    try:
        every = [grad(s, x, retain_graph=True, allow_unused=True)[0] for s in sums]
    except RuntimeError:  # of what has no gradient there
        return []
    return [np.zeros((3, 3)) if g is None else g.numpy(force=True) for g in every]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gradient_at_corners_ends_and_ties(name: str) -> None:
    ours, theirs = FUNCTIONS[name]
    for (form, call), (where, at) in itertools.product(CALLS.items(), POINTS.items()):
        if where in FAR and name in OTHER_FAR:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that PyTorch calls old, and missing dims
            x, y = torch.tensor(at, requires_grad=True), sf.tensor(at, requires_grad=True)
            wanted = gradients_of(call, theirs, x, torch.autograd.grad)
            found = gradients_of(call, ours, y, sf.autograd.grad) if wanted else []
        if len(found) != len(wanted):
            continue
        for f, w in zip(found, wanted, strict=True):
            is_known = np.isfinite(w)
            said = f"{name}({form}) at {where}: {f.tolist()}, and {w.tolist()}"
            assert np.allclose(f[is_known], w[is_known], 1e-7, 1e-7), said
