"""What a test says of tensors, and small tools by PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.testing import assert_close

ONES = sf.ones(2, 2)


def test_what_is_close() -> None:
    assert_close(sf.tensor([1.0, 2.0]), sf.tensor([1.0 + 1e-6, 2.0]))
    assert_close({"a": [ONES, 1]}, {"a": [ONES.clone(), 1]})
    assert_close(sf.tensor([np.nan]), sf.tensor([np.nan]), equal_nan=True)
    assert_close(sf.tensor([1.0]), sf.tensor([1.05]), rtol=0.1, atol=0)
    assert_close(sf.ones(2, dtype=sf.bfloat16), sf.ones(2), check_dtype=False)
    assert_close(sf.tensor([3], requires_grad=False), np.array([3]))


@pytest.mark.parametrize(
    ("actual", "expected", "says"),
    [
        (ONES, sf.tensor([[1.0, 1.0], [1.0, 1.5]]), r"elements: 1 of 4\n.*0.5 at index \(1, 1\)"),
        (ONES, sf.ones(2), r"shapes are \[2, 2\] and \[2\]"),
        (ONES, ONES.double(), "dtypes are float32 and float64"),
        (sf.tensor([1]), sf.tensor([2]), "1 of 1"),
        ([ONES, {"b": 1.0}], [ONES, {"b": 2.0}], r"elements at \[1\] at \['b'\]: 1 of 1"),
        ([ONES], [], "lengths are 1 and 0"),
        ({"a": 1}, {"b": 1}, "keys are"),
        (sf.tensor([np.nan]), sf.tensor([np.nan]), "1 of 1"),
    ],
    ids=range(8),
)
def test_what_is_not(actual: Any, expected: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        assert_close(actual, expected)
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(actual, expected, msg="mine")


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows(name: str) -> None:
    window = getattr(sf, f"{name.replace('hanning', 'hann')}_window")
    wanted = getattr(np, name)
    np.testing.assert_allclose(window(6, periodic=False).numpy(), wanted(6), atol=1e-6)
    np.testing.assert_allclose(window(6, dtype=sf.float64).numpy(), wanted(7)[:6], atol=1e-12)
    assert window(1).tolist() == [1] and window(0).shape == (0,)


def test_parameters_as_one_vector() -> None:
    net = sf.nn.Linear(2, 3)
    vector = sf.nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,) and vector.requires_grad
    sf.nn.utils.vector_to_parameters(sf.arange(9.0), net.parameters())
    assert net.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and net.bias.tolist() == [6, 7, 8]
    with pytest.raises(sf.ShapeError, match="8 elements"):
        sf.nn.utils.vector_to_parameters(sf.arange(8.0), net.parameters())


def test_names_of_types() -> None:
    assert isinstance(sf.float32, sf.dtype) and sf.Size([2, 3]) == sf.ones(2, 3).shape
    assert not sf.is_inference(ONES) and sf.is_inference(sf.inference_mode()(sf.ones_like)(ONES))


def test_integers_are_compared_in_all_their_bits() -> None:
    x = sf.tensor([2**53 + 1, 0])
    with pytest.raises(AssertionError, match="1 of 2"):
        assert_close(x, x - sf.tensor([1, 0]))
    assert_close(x, x - sf.tensor([1, 0]), atol=1)


def test_the_checks_that_pytorch_has() -> None:
    x = sf.ones(2, 3)
    assert_close(x, sf.ones(3, 2).T, check_stride=False, check_layout=True, check_device=True)
    with pytest.raises(AssertionError, match=r"strides are \[3, 1\] and \[1, 2\]"):
        assert_close(x, sf.ones(3, 2).T, check_stride=True)
    with pytest.raises(AssertionError, match=r"strides at \[0\]"):
        assert_close([x], [sf.ones(3, 2).T], check_stride=True)
    assert_close(x, np.ones((2, 3), np.float32), check_stride=True)
    assert_close(sf.nn.Parameter(x), x)
    with pytest.raises(AssertionError, match="classes are Parameter and Tensor"):
        assert_close(sf.nn.Parameter(x), x, allow_subclasses=False)
    with pytest.raises(AssertionError, match="in step 3: Mismatched elements: 6 of 6"):
        assert_close(x, x + 1, msg=lambda wrong: f"in step 3: {wrong}")
