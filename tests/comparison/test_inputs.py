"""Inputs as text and as arrays, and calls as text."""

from __future__ import annotations

import numpy as np
import pytest

from staticflow.comparison.calls import find_loss, find_optimizer, parse_call
from staticflow.comparison.inputs import inputs_of_batches, parse_inputs
from staticflow.errors import ArgumentError
from staticflow.graph.dtypes import float64


def test_an_input_says_dtype_sizes_name_and_bound() -> None:
    inputs, sizes = parse_inputs(["x: float32[N=6, 3]", "int64[N] < 4", "bool[]"], float64)
    assert [x.describe(sizes) for x in inputs] == ["x: f64[N=6, 3]", ": i64[N=6] < 4", ": bool[]"]
    random = np.random.default_rng(0)
    x, labels, flag = (each.draw(random, {"N": 50}) for each in inputs)
    assert x.shape == (50, 3) and x.dtype == np.float64
    assert set(labels) == {0, 1, 2, 3} and labels.dtype == np.int64
    assert flag.shape == () and flag.dtype == bool


def test_integers_without_a_bound_fit_any_table_and_bounded_numbers_are_chances() -> None:
    inputs, sizes = parse_inputs(["i32[100]", "f32[100] < 1"])
    ints, chances = (x.draw(np.random.default_rng(0), sizes) for x in inputs)
    assert set(ints) == {0, 1} and ints.dtype == np.int32
    assert chances.min() >= 0 and chances.max() < 1 and chances.std() > 0.1


def test_a_bound_may_be_an_open_size() -> None:
    inputs, sizes = parse_inputs(["f32[N=6, T=9]", "i64[N] <= T", "i64[T] < T", "i64[N] <= 3"])
    written = [x.describe(sizes) for x in inputs]
    assert written[1:] == [": i64[N=6] <= T", ": i64[T=9] < T", ": i64[N=6] <= 3"]
    assert parse_inputs([w[2:] for w in written])[0] == inputs  # as a fresh process reads it
    random = np.random.default_rng(0)
    _, lengths, places, few = (x.draw(random, {"N": 200, "T": 4}) for x in inputs)
    assert set(lengths) == {1, 2, 3, 4} and set(places) <= {0, 1, 2, 3} and set(few) == {1, 2, 3}


def test_a_size_that_integers_follow_from_batch_to_batch_is_their_bound() -> None:
    def batch(n: int) -> tuple[np.ndarray, ...]:
        return np.zeros((3, n)), np.array([n, 1, 2]), np.arange(n), np.array([0, 1, 7])

    inputs, _ = inputs_of_batches([batch(5), batch(4)])
    assert [(x.below, x.counts) for x in inputs[1:]] == [
        ("size0", True), ("size0", False), (8, False)
    ]  # fmt: skip
    (_, *others), _ = inputs_of_batches([batch(5)])
    assert [x.below for x in others] == [6, 5, 8]  # one batch tells nothing


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("f32", "is not an input"),
        ("f32[2", "is not an input"),
        ("f33[2]", "the dtypes are"),
        ("f32[N]", "write N=32 once"),
        ("f32[-2]", "the size '-2'"),
        ("f32[N=2, N=3]", "must be one number"),
        ("i64[2] < 0", "at least 1"),
        ("i64[2] < 3x", "at least 1, or an open size, not 3x"),
        ("i64[2] <= T", "the open size T, for which there must be an example"),
        ("", "is not an input"),
    ],
)
def test_what_is_no_input_is_refused(text: str, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        parse_inputs([text])


def test_sizes_that_vary_from_batch_to_batch_are_open() -> None:
    batches = [
        (np.zeros((n, t, 2)), np.arange(n), np.zeros(3)) for n, t in ((4, 5), (4, 6), (3, 5))
    ]
    inputs, sizes = inputs_of_batches(batches)
    assert [x.shape for x in inputs] == [("size0", "size1", 2), ("size0",), (3,)]
    assert sizes == {"size0": 4, "size1": 5} and inputs[1].below == "size0"


@pytest.mark.parametrize("text", ["f(x)", "a.b", "1", "f(", "f(*[1])", "lambda: 3", "f(open('x'))"])
def test_a_call_has_literal_arguments(text: str) -> None:
    with pytest.raises(ArgumentError, match="must be a name"):
        parse_call(text, "the model")


def test_losses_and_optimisers_by_name() -> None:
    assert find_loss("mse").targets == 1 and find_loss("sum").targets == 0
    assert find_loss("cross_entropy(label_smoothing=0.1)").classes
    with pytest.raises(ArgumentError, match="there is no loss 'entropy'"):
        find_loss("entropy")
    with pytest.raises(ArgumentError, match="the optimisers are sgd, "):
        find_optimizer("lbfgs", None)
    with pytest.raises(ArgumentError, match="momentun"):
        find_optimizer("sgd(momentun=1)", None)
