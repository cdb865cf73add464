"""Tensors print as PyTorch's do; `reference/make_printing.py` asks PyTorch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from printing_cases import CASES

import staticflow as sf

TEXTS = json.loads((Path(__file__).parents[1] / "reference" / "printing.json").read_text())


def unfolded(text: str) -> str:
    """Without the line break before a suffix: it hangs on the length of the package's name."""
    return re.sub(r",\n *(dtype|size)=", r", \1=", text.replace("staticflow.", "torch."))


def test_tensors_print_as_in_pytorch() -> None:
    assert len(TEXTS) == len(CASES)
    for (options, array), text in zip(CASES, TEXTS, strict=True):
        with sf.printoptions(**options):
            assert unfolded(repr(sf.tensor(array))) == unfolded(text), options


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (sf.tensor([1], dtype="int8"), "tensor([1], dtype=staticflow.int8)"),
        (sf.ones(1, dtype="bfloat16"), "tensor([1.], dtype=staticflow.bfloat16)"),
        (sf.tensor([0.1], dtype="bfloat16"), "tensor([0.1001], dtype=staticflow.bfloat16)"),
        (sf.ones(1, requires_grad=True), "tensor([1.], requires_grad=True)"),
        (sf.ones(1, requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward0>)"),
        (sf.tensor(2.0, requires_grad=True), "tensor(2., requires_grad=True)"),
        (sf.zeros(0, dtype="int64"), "tensor([], dtype=staticflow.int64)"),
        (sf.zeros(2, 0, dtype="bool"), "tensor([], size=(2, 0), dtype=staticflow.bool)"),
        (sf.ones(2, 3).t()[1:], "tensor([[1., 1.],\n        [1., 1.]])"),
        (sf.ones(1).expand(2, 2), "tensor([[1., 1.],\n        [1., 1.]])"),
    ],
)
def test_what_is_said_beside_the_elements(t: sf.Tensor, text: str) -> None:
    assert repr(t) == str(t) == text


def test_a_suffix_that_does_not_fit_goes_on_a_line_of_its_own() -> None:
    x = sf.full((9,), 0.5, requires_grad=True) * 1
    assert repr(x) == (
        "tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000],\n"
        "       grad_fn=<MulBackward0>)"
    )


def test_the_default_dtype_goes_without_saying() -> None:
    x = sf.ones(1)
    sf.set_default_dtype("float64")
    try:
        assert repr(sf.ones(1)) == "tensor([1.])"
        assert repr(x) == "tensor([1.], dtype=staticflow.float32)"
    finally:
        sf.set_default_dtype("float32")


def test_options() -> None:
    before = sf.get_printoptions()
    assert before == {
        "precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None,
    }  # fmt: skip
    sf.set_printoptions(precision=1)
    try:
        assert repr(sf.tensor([0.25, 1.5])) == "tensor([0.2, 1.5])"
        sf.set_printoptions(sci_mode=True)
        assert repr(sf.tensor([0.25])) == "tensor([2.5e-01])"
    finally:
        sf.set_printoptions(profile="default")
    assert sf.get_printoptions() == before
    with pytest.raises(ZeroDivisionError), sf.printoptions(precision=0):
        raise ZeroDivisionError
    assert sf.get_printoptions() == before


def test_numbers_in_text() -> None:
    assert f"{sf.tensor(1.5):.2f} {sf.tensor(7):>3}" == "1.50   7"
    assert f"{sf.tensor(2.5, requires_grad=True) * 2:.1f}" == "5.0"
    assert f"{sf.tensor([1.0])}" == "tensor([1.])"
    with pytest.raises(TypeError, match="format"):
        f"{sf.tensor([1.0]):.2f}"


def test_notebooks_see_what_it_is_and_the_elements() -> None:
    html = sf.tensor([[1.0, 2.0]], requires_grad=True)._repr_html_()
    assert "staticflow.float32 [1, 2] on cpu" in html and "requires_grad=True" in html
    assert "&lt;MulBackward0&gt;" in (sf.ones(1, requires_grad=True) * 2)._repr_html_()
