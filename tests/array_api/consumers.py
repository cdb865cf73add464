"""What becomes of the calls in `consumer_calls.py`: ``python tests/array_api/consumers.py scipy``, or
``sklearn``, in a process of its own: both ask the environment while they are imported.

It prints, as JSON, by call why it is not what it is on NumPy's arrays, or "" where it is.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
from consumer_calls import SCIPY, SKLEARN

import staticflow as sf

XP = sf.ones(1).__array_namespace__()


OF_BOTH = "refused of NumPy's arrays, too: "


def _words(text: str) -> list[str]:
    return text.split()


def _arrays() -> dict[str, Any]:
    random = np.random.default_rng(0)
    y = np.tile([0, 1, 1], 8)
    return {
        "x": random.standard_normal(12), "y": random.standard_normal(12),
        "p": random.uniform(0.1, 0.9, 12), "q": random.uniform(0.1, 0.9, 12),
        "l": random.standard_normal(24), "long": random.standard_normal(40),
        "m": random.standard_normal((6, 4)), "k": np.arange(12) % 4,
        "w": np.array([1.0, 0.5, 0.25]), "c": np.array([[0.0, 1.0], [2.0, 0.5]]),
        "ones": np.ones((3, 3)), "flags": random.random((6, 5)) > 0.4,
        "labels": np.arange(24).reshape(6, 4) % 3, "few": np.array([1, 2]), "ratio": np.array(0.3),
        "turn": np.array([[0.0, 1.0], [1.0, 0.0]]), "at": random.uniform(0, 3, (2, 5)),
        "edges": np.array([0.0, 0.5, 1.0]), "gains": np.array([1.0, 1.0, 0.0]),
        "sections": np.array([[1.0, 0.5, 0.25, 1.0, -0.2, 0.1]]),
        "knots": np.array([0.0, 0, 0, 0, 0.5, 1, 1, 1, 1]), "band": np.array([0.0, 0.3, 0.5, 1.0]),
        "sheet": random.standard_normal((10, 10)), "eye": np.eye(3),
        "up": np.linspace(0, 1, 12), "zeros": np.zeros(1),
        "X": random.standard_normal((24, 4)), "Y": y, "y_": y,
        "z": np.where(random.random(24) > 0.2, y, 1 - y), "s": random.uniform(0.1, 0.9, 24),
        "t": random.standard_normal(24), "u": random.standard_normal(24),
    }  # fmt: skip


def _ends(line: Any, out: Any) -> None:
    out[...] = line[2:] - line[:-2]


def _scipy() -> Any:
    import scipy

    return scipy


def _functions(xp: Any) -> dict[str, Any]:
    """Functions that calls are given."""

    def rows(seed: int) -> Callable[..., Any]:
        random = np.random.default_rng(seed)
        return lambda size: xp.asarray(random.standard_normal(size))

    return {
        "xp": xp,
        "mean": lambda v, axis=-1: xp.mean(v, axis=axis),
        "difference": lambda a, b, axis=-1: xp.mean(a, axis=axis) - xp.mean(b, axis=axis),
        "normal": rows(1),
        "squares": lambda v: v * v,
        "square": lambda v: v * v,
        "below": lambda v: v * v - 0.5,
        "ends": _ends,
        "second": lambda v, axis, *rest: _scipy().ndimage.correlate1d(v, [1.0, -2, 1], axis, *rest),
        "near": lambda at: (at[0] * 0.5, at[1]),
        "middle": lambda v: v[4],
        "total": lambda v, axis: xp.sum(v, axis=axis),
        "total_of_rows": lambda v: xp.sum(v, axis=0),
    }


def _names(library: str, xp: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """What a call may name."""
    if library == "scipy":
        import scipy
        import scipy.cluster.hierarchy
        import scipy.cluster.vq
        import scipy.differentiate
        import scipy.optimize.elementwise
        import scipy.signal.windows

        parts = _words(
            "cluster constants differentiate fft integrate interpolate linalg ndimage optimize "
            "signal spatial special stats"
        )
        known = {name: getattr(scipy, name) for name in parts}
        known["normal_cdf"] = scipy.special.ndtr
        return {**known, **_functions(xp), **arrays}

    importlib.import_module("sklearn.experimental.enable_halving_search_cv")  # which adds searches
    parts = _words(
        "calibration decomposition discriminant_analysis kernel_approximation linear_model metrics "
        "mixture model_selection naive_bayes pipeline preprocessing utils"
    )
    known = {name: __import__(f"sklearn.{name}", fromlist=["_"]) for name in parts}
    return {**known, "xp": xp, **arrays, "y": arrays["Y"]}


def flat(value: Any) -> Iterator[Any]:
    """The numbers and arrays in a result."""
    if is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, f.name) for f in fields(value)]
    if isinstance(value, Mapping):
        value = [value[k] for k in sorted(value)]
    if isinstance(value, tuple | list):
        for v in value:
            yield from flat(v)
    elif isinstance(value, sf.Tensor | np.ndarray | np.generic | int | float | complex | bool):
        yield value


def difference(found: Any, wanted: Any) -> str:
    """What of a result is not NumPy's."""
    mine, theirs = list(flat(found)), list(flat(wanted))
    if len(mine) != len(theirs):
        return f"{len(mine)} values, not {len(theirs)}"
    for a, b in zip(mine, theirs, strict=True):
        if isinstance(a, np.ndarray) and a.ndim and isinstance(b, np.ndarray):
            return "it gives an array of NumPy's"
        left = a.detach().numpy() if isinstance(a, sf.Tensor) else np.asarray(a)
        right = np.asarray(b)
        if left.shape != right.shape:
            return f"the shape {left.shape}, not {right.shape}"
        if not np.allclose(left, right, 1e-6, 1e-9, equal_nan=True):
            return "other numbers"
    return ""


def outcome(call: str, library: str, arrays: Mapping[str, Any]) -> str:
    """Why a call on tensors is not what it is on arrays."""
    tensors = {k: sf.from_numpy(v.copy()) for k, v in arrays.items()}
    try:
        wanted = eval(call, _names(library, np, {k: v.copy() for k, v in arrays.items()}))
    except Exception as error:
        return f"{OF_BOTH}{type(error).__name__}: {error}"
    try:
        found = eval(call, _names(library, XP, tensors))
    except Exception as error:
        return _reason(error)
    return difference(found, wanted)


def _reason(error: Exception) -> str:
    """Why a call is refused, without the line and what is of this version alone."""
    if "complex" in str(error):
        return "it computes with complex numbers"
    return f"{type(error).__name__}: {str(error).split(', at ')[0]}"


def main(library: str) -> dict[str, str]:
    """The outcome of each call."""
    arrays = _arrays()
    calls = SCIPY if library == "scipy" else SKLEARN
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if library == "scipy":
            return {call: outcome(call, library, arrays) for call in calls}
        from sklearn import config_context

        with config_context(array_api_dispatch=True):
            return {call: outcome(call, library, arrays) for call in calls}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
