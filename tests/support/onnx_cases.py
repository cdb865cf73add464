"""The node tests that onnx brings along, run by models that are loaded."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

import staticflow as sf
from staticflow.ops.symbols.symbol import Symbol

Array = np.ndarray[Any, Any]


@cache
def cases() -> dict[str, Any]:
    """The tests by name, those of expanded functions left out."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = {t.name: t for t in load_model_tests(kind="node")}
    return {n: t for n, t in found.items() if "_expanded" not in n}


def inputs_of(values: Sequence[Any]) -> list[Any]:
    """What a model is called with, in copies."""
    return [
        inputs_of(v) if isinstance(v, list) else None if v is None else sf.from_numpy(array_of(v))
        for v in values
    ]


def array_of(value: Any) -> Array:
    """An array, which the tests give as such or as a ``TensorProto``."""
    from onnx import TensorProto, numpy_helper

    return np.array(numpy_helper.to_array(value) if isinstance(value, TensorProto) else value)


def run_now(model: Any, values: Sequence[Any]) -> list[Any]:
    return flat(model(*inputs_of(values)))


def run_compiled(model: Any, values: Sequence[Any], unknown: bool = False) -> list[Any]:
    """The outputs of a program; where ``unknown``, of placeholders whose sizes are all open."""
    given = inputs_of(values)
    numbers = {i for i, n in enumerate(model.input_names) if n in model.number_names}
    declared = None if unknown else _declared(model)

    def symbol(i: int, g: Any) -> Any:
        if isinstance(g, list):
            return [symbol(i, e) for e in g]
        if g is None or i in numbers:
            return g
        if declared is not None:
            return declared[i]
        shape = (None,) * g.ndim if unknown else tuple(g.shape)
        return sf.placeholder(shape, g.dtype, name=f"x{next(count)}")

    count = itertools.count()
    xs: list[Any] = []
    asked = []
    for i, g in enumerate(given):
        asked.append(symbol(i, g))
        xs += [x for x in leaves(asked[-1]) if isinstance(x, Symbol)]
    out = model(*asked)
    fed = [g for i, g in enumerate(leaves(given)) if isinstance(leaves(asked)[i], Symbol)]
    if not any(isinstance(o, Symbol) for o in leaves(out)):
        return flat(out)
    return flat(sf.compile(xs, out)(*fed))


def _declared(model: Any) -> Any:
    """The placeholders that the file declares; None where it does not say them, as of lists."""
    try:
        return model.placeholders()
    except sf.ModelError:
        return None


def leaves(value: Any) -> list[Any]:
    """The tensors in lists and tuples."""
    if isinstance(value, list | tuple):
        return [leaf for v in value for leaf in leaves(v)]
    return [value]


def flat(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def differs(case: Any, found: Sequence[Any], wanted: Sequence[Any]) -> str | None:
    """What of the outputs is not as the test wants it."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs, not {len(wanted)}"
    for f, w in zip(found, wanted, strict=True):
        if w is None or (isinstance(w, list) and not isinstance(f, list)):
            if f is not w:
                return "another kind of value"
            continue
        if isinstance(w, list):
            why = differs(case, f, w)
            if why:
                return why
            continue
        a = f.detach().numpy()
        w = array_of(w)
        if a.dtype != w.dtype or a.shape != w.shape:
            return f"{a.dtype}{a.shape}, not {w.dtype}{w.shape}"
        wide = a.dtype.kind not in "biu"
        x, y = (v.astype(np.float64) if wide else v for v in (a, w))
        if not wide and not np.array_equal(x, y):
            return f"{x.reshape(-1)[:6]}, not {y.reshape(-1)[:6]}"
        rtol = max(case.rtol, {2: 1 / 64}.get(a.dtype.itemsize, 0))  # last digits of 16 bits
        # what cancels to zero is rounded as the largest elements are
        atol = max(case.atol, 1e-7, 1e-8 * np.max(np.abs(y[np.isfinite(y)]), initial=0))
        if wide and not np.allclose(x, y, rtol, atol, equal_nan=True):
            return f"{x.reshape(-1)[:6]}, not {y.reshape(-1)[:6]}"
    return None


RANDOM = "its random numbers are NumPy's"
BRANCHES = "in a graph: both branches give values of the same shapes; eagerly it passes"

EXPLAINED = {
    **dict.fromkeys(
        (
            "test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed",
            "test_training_dropout", "test_training_dropout_default",
            "test_training_dropout_default_mask", "test_training_dropout_mask",
        ),
        RANDOM,
    ),
    **dict.fromkeys(
        ("test_loop13_seq", "test_loop16_seq_none"),
        "in a graph: a loop carries tensors, and no sequence; eagerly it passes",
    ),
    "test_affine_grid_3d_align_corners": BRANCHES,
    **dict.fromkeys(
        ("test_affine_grid_2d", "test_affine_grid_2d_align_corners"),
        "in a graph: a Squeeze without axes wants known sizes; eagerly it passes",
    ),
    "test_if_opt": "in a graph: both branches give the same structure; eagerly it passes",
}  # fmt: skip
"""Why tests that load do not pass: all of their modes, or in a graph alone."""

_DTYPE = re.compile(r"has the dtype (\w+), which")
_REASON = re.compile(r"has no meaning here: (.*), at ")


def refusal(error: sf.ModelError) -> str:
    """Why a model is refused, without what is of this file alone."""
    text = str(error)
    dtype = _DTYPE.search(text)
    if dtype:
        return f"a dtype that is none of ours, {_family(dtype[1])}"
    reason = _REASON.search(text)
    return reason[1] if reason else text


def _family(name: str) -> str:
    if name == "STRING":
        return "texts"
    return (
        "unsigned integers of 16 bits and more"
        if name.startswith("UINT") and name[4:] in ("16", "32", "64")
        else "numbers of 8 bits and fewer that are packed"
    )


def outcome(name: str) -> str:
    """What becomes of a test: nothing where both modes pass, why it is refused, or what is wrong."""
    case = cases()[name]
    try:
        model = sf.onnx.load(case.model.SerializeToString())
    except sf.ModelError as error:
        return refusal(error)
    why = EXPLAINED.get(name, "")
    found = {mode: _mode(case, model, run) for mode, run in MODES.items()}
    if why.startswith("in a graph: "):
        return why if found["compiled"] and not found["eager"] else f"{why}, but {found}"
    if why:
        return why if all(found.values()) else f"{why}, but {found}"
    return "; ".join(f"{mode}: {text}" for mode, text in found.items() if text)


MODES = {"eager": run_now, "compiled": run_compiled}


def _mode(case: Any, model: Any, run: Any) -> str:
    with np.errstate(all="ignore"):
        for values, wanted in case.data_sets:
            try:
                why = differs(case, run(model, values), wanted)
            except sf.StaticflowError as error:
                why = f"{type(error).__name__}: {error}"
            if why:
                return why
    return ""
