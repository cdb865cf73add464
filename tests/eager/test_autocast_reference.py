"""Functions inside ``autocast``, held to what PyTorch gives: `reference/make_autocast.py`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.autocast_cases import CASES, INPUTS, KINDS, call, cast_inputs, flat, names

import staticflow as sf
from staticflow.ops import OPS
from staticflow.ops.declaring.autocast_classes import CLASSES

ROWS = json.loads((Path(__file__).parents[1] / "reference" / "autocast.json").read_text())
OWN = dict(names(sf))

OTHERWISE = {
    "tensordot": "over all dims it is a dot product of PyTorch's, which keeps float32; ours is the "
    "product of matrices that the others are",
    "from_dlpack": "NumPy's protocol has no bfloat16",
    "tensor": "a symbol has no values",
    "linalg.lstsq": "PyTorch's driver gives no residuals",
}
"""What is not as there, and why."""


def test_every_op_says_what_autocast_makes_of_its_operands() -> None:
    missing = sorted(OPS.keys() - CLASSES.keys())
    assert not missing, f"{missing} are in no list of ops/declaring/autocast_classes.py"


def test_the_reference_goes_through_all_that_is_cast_for() -> None:
    asked = " ".join(name for name, *_ in ROWS)
    inner = {"nll", "_pad_first", "convolution", "convolution_transpose", "vecdot"}
    left = [n for n, kind in CLASSES.items() if kind != "given" and n not in asked]
    assert not [n for n in left if n not in inner]


def _block(kind: str) -> Any:
    return sf.autocast("cpu", dtype=sf.float16 if kind == "to float16" else sf.bfloat16)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_dtypes_are_pytorchs(kind: str, mode: str) -> None:
    differ = {}
    compared = 0
    for name, number, *found in ROWS:
        wanted = found[KINDS.index(kind)]
        if wanted is None or name in OTHERWISE:
            continue
        fn, inputs = (OWN[name], INPUTS[number]) if number is not None else _case(name)
        wrap = sf.tensor if mode == "eager" else lambda a: sf.placeholder(a.shape, dtype=a.dtype)
        with _block(kind), sf.no_grad():
            out = flat(call(fn, cast_inputs(kind, inputs), wrap))
        dtypes = wanted[0] if isinstance(wanted[0], list) else wanted
        compared += 1
        if [o.dtype.name for o in out] != dtypes:
            differ[name] = [o.dtype.name for o in out], dtypes
    assert not differ
    assert compared > 350


def _case(name: str) -> tuple[Any, Any]:
    fn, inputs = CASES[name]
    return partial(fn, sf), inputs


def test_values_are_pytorchs_to_the_accuracy_of_bfloat16() -> None:
    compared = 0
    for name, number, first, *_ in ROWS:
        if first is None or name in OTHERWISE or not isinstance(first[0], list):
            continue
        fn, inputs = (OWN[name], INPUTS[number]) if number is not None else _case(name)
        with _block("float32"), sf.no_grad():
            out = flat(call(fn, cast_inputs("float32", inputs), sf.tensor))
        for o, numbers in zip(out, first[1], strict=True):
            own = np.asarray(o.to(sf.float64)).ravel()[:6]
            size = np.nanmax(np.abs(numbers)) if numbers else 0.0
            np.testing.assert_allclose(own, numbers, rtol=0.02, atol=0.02 * size, err_msg=name)
            compared += 1
    assert compared > 350
