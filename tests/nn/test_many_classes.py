"""Losses over classes that come with their own layer of scores: by what they are said to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.autograd import gradcheck

F = nn.functional


def rng(*shape: int) -> np.random.Generator:
    return np.random.default_rng(shape)


def numbers(*shape: int) -> sf.Tensor:
    return sf.tensor(rng(*shape).standard_normal(shape), requires_grad=True)


def adaptive(**options: Any) -> nn.AdaptiveLogSoftmaxWithLoss:
    return nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7], 2.0, dtype=sf.float64, **options)


def test_adaptive_probabilities_are_such_and_the_loss_is_of_them() -> None:
    layer, x = adaptive(head_bias=True), numbers(5, 6)
    logs = layer.log_prob(x)
    sf.testing.assert_close(logs.exp().sum(1), sf.ones(5, dtype=sf.float64))
    assert layer.predict(x).tolist() == logs.argmax(1).tolist()
    target = sf.tensor([0, 2, 3, 11, 6])
    found = layer(x, target)
    sf.testing.assert_close(found.output, logs[sf.arange(5), target])
    sf.testing.assert_close(found.loss, -found.output.mean())
    alone = layer(x[3], target[3])
    assert alone.output.shape == alone.loss.shape == ()
    sf.testing.assert_close(alone.output, found.output[3])


@pytest.mark.parametrize("target", [[0, 2, 3, 11, 6], [0, 1, 2, 0, 1], [11, 10, 9, 8, 7]])
def test_adaptive_gradients_are_finite_differences(target: list[int]) -> None:
    layer, x = adaptive(), numbers(5, 6)
    weights = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    names = [n for n, _ in layer.named_parameters()]

    def loss(x: Any, *weights: Any) -> Any:
        state = dict(zip(names, weights, strict=True))
        return sf.func.functional_call(layer, state, (x, sf.tensor(target))).loss

    assert gradcheck(loss, (x, *weights))


def test_an_adaptive_program_takes_any_number_of_rows() -> None:
    layer = adaptive()
    x, y = sf.placeholder((None, 6), "float64", "x"), sf.placeholder((None,), "int64", "y")
    loss = layer(x, y).loss
    program = sf.compile([x, y], [loss, *sf.grad(loss, list(layer.parameters()))])
    for count in (1, 4, 9):
        rows, classes = numbers(count, 6).detach(), sf.tensor(rng(count).integers(0, 12, count))
        layer.zero_grad()
        eager = layer(rows, classes).loss
        eager.backward()
        found = program(rows, classes)
        sf.testing.assert_close(found[0], eager.detach())
        for g, p in zip(found[1:], layer.parameters(), strict=True):
            sf.testing.assert_close(g, p.grad)
    for call in (layer, program):
        for wrong in (12, -1):
            with pytest.raises(sf.ArgumentError, match="classes, which go from 0 to 11"):
                call(sf.zeros(2, 6, dtype=sf.float64), sf.tensor([0, wrong]))


@pytest.mark.parametrize("cutoffs", [[], [0, 3], [3, 3], [7, 3], [3, 12], [2.5], 4])
def test_cutoffs_that_do_not_rise_are_refused(cutoffs: Any) -> None:
    with pytest.raises(sf.ArgumentError, match="rise from 1 to n_classes - 1, 11"):
        nn.AdaptiveLogSoftmaxWithLoss(6, 12, cutoffs)


def test_adaptive_rows_and_classes_fit() -> None:
    with pytest.raises(sf.ShapeError, match=r"rows \(N, in_features\) and their classes"):
        adaptive()(sf.zeros(2, 6, dtype=sf.float64), sf.tensor([[0, 1]]))


OF_LINEAR = {
    "rows": ((4, 3), (5, 3), (5,), [0, 4, 1, 1], {}),
    "one row": ((3,), (5, 3), None, 2, {}),
    "classes at places": ((2, 3), (5, 2, 3), (5, 2), [[0, 1], [4, 2]], {"label_smoothing": 0.1}),
    "no features": ((4, 0), (5, 0), (5,), [0, 4, 1, 1], {}),
    "ignored": ((4, 3), (5, 3), None, [0, 1, 1, 3], {"ignore_index": 1, "reduction": "sum"}),
    "probabilities": ((2, 3), (2, 3), None, [[0.5, 0.5], [1.0, 0.0]], {"reduction": "none"}),
}


@pytest.mark.parametrize("case", OF_LINEAR)
def test_linear_cross_entropy_is_that_of_the_scores(case: str) -> None:
    shape, weight_shape, bias_shape, target, options = OF_LINEAR[case]
    x, w = numbers(*shape), numbers(*weight_shape)
    b = None if bias_shape is None else numbers(*bias_shape)
    y = sf.tensor(target)
    y = y.double() if y.dtype.is_floating else y
    scores = sf.einsum("ni,c...i->nc...", x if x.ndim == 2 else x[None], w)
    scores = scores if b is None else scores + b
    scores = scores if x.ndim == 2 else scores[0]
    wanted = F.cross_entropy(scores, y, **options)
    found = F.linear_cross_entropy(x, w, y, linear_bias=b, **options)
    sf.testing.assert_close(found, wanted)
    inputs = [v for v in (x, w, b) if v is not None]

    def loss(x: Any, w: Any, b: Any = None) -> Any:
        return F.linear_cross_entropy(x, w, y, linear_bias=b, **options)

    assert gradcheck(loss, tuple(inputs))


def test_the_layer_of_linear_cross_entropy() -> None:
    layer = nn.LinearCrossEntropyLoss(3, 5, out_features=(2,), bias=True)
    assert [*layer.state_dict()] == ["linear.weight", "linear.bias"]
    x, y = sf.randn(4, 3), sf.tensor(rng(4, 2).integers(0, 5, (4, 2)))
    scores = layer.linear(x).reshape(4, 5, 2)
    sf.testing.assert_close(layer(x, y), F.cross_entropy(scores, y))


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        (((2, 3, 4), (5, 4)), {}, r"takes an input \(N, in\) or \(in,\)"),
        (((3,), (5, 2, 3)), {}, r"with rows N \(C, \.\.\., in\)"),
        (((2, 3), (5, 3)), {"options": 1}, "options choose the chunks of PyTorch's own kernel"),
        (((2, 3), (5, 3)), {"linear_bias": sf.zeros(4)}, "linear_bias has shape"),
    ],
)
def test_wrong_calls_of_linear_cross_entropy(arguments: Any, options: Any, says: str) -> None:
    x, w = (sf.zeros(*shape) for shape in arguments)
    with pytest.raises(sf.StaticflowError, match=says):
        F.linear_cross_entropy(x, w, sf.tensor([0, 1]), **options)


def test_probabilities_have_no_class_to_ignore() -> None:
    with pytest.raises(sf.ArgumentError, match="leave ignore_index out"):
        F.linear_cross_entropy(sf.zeros(2, 3), sf.zeros(2, 3), sf.ones(2, 2), ignore_index=1)
