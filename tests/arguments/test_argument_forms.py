"""Argument forms that PyTorch takes, with what it gives (`tests/reference/make_forms.py`), in both modes."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.form_cases import CASES, REFUSED, run

import staticflow as sf

WANTED = json.loads((Path(__file__).parents[1] / "reference" / "forms.json").read_text())


def arrays(out: Any) -> list[Any]:
    outs = out if isinstance(out, tuple | list) else (out,)
    return [np.asarray(o) for o in outs]


def check(name: str, out: Any) -> None:
    found, wanted = arrays(out), WANTED[name]
    assert [str(a.dtype) for a in found] == [w["dtype"] for w in wanted]
    for a, w in zip(found, wanted, strict=True):
        expected = np.asarray(w["data"], w["dtype"]).reshape(w["shape"])
        assert a.shape == expected.shape
        within = 1 if a.dtype == np.uint8 else 1e-6  # PyTorch rounds after each dim, we once
        np.testing.assert_allclose(a.astype(np.float64), expected.astype(np.float64), 2e-6, within)


@pytest.mark.parametrize("name", CASES)
def test_eager(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(name, run(sf, CASES[name], sf.tensor))


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.graph])
def test_compiled(name: str) -> None:
    case = CASES[name]
    given = [np.asarray(a) for a in case.arrays]
    symbols = [
        sf.placeholder((None,) * a.ndim if case.open else a.shape, str(a.dtype), name=f"x{i}")
        for i, a in enumerate(given)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = case.call(sf, *symbols)
    check(name, sf.compile(symbols, list(out) if isinstance(out, tuple) else out)(*given))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    case, says = REFUSED[name]
    with pytest.raises(sf.StaticflowError, match=says) as caught:
        run(sf, case, sf.tensor)
    assert "form_cases.py:" in str(caught.value)


def test_a_chosen_dim_is_told() -> None:
    with pytest.warns(UserWarning, match=r"softmax: no dim is given, so 1 is taken.*write dim=1"):
        sf.nn.functional.softmax(sf.ones(2, 3))
    with pytest.warns(UserWarning, match="softmin: no dim is given, so 0 is taken"):
        sf.nn.Softmin()(sf.ones(3))
