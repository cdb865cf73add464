"""The loss of sequences against labels whose places are unknown, by enumeration; and margins of
several labels."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ArgumentError

F = sf.nn.functional
T, N, C, S = 4, 3, 3, 2
SCORES = np.random.default_rng(0).standard_normal((T, N, C))
LABELS = np.array([[1, 2], [2, 2], [1, 0]])
STEPS, SPOKEN = np.array([4, 4, 2]), np.array([2, 2, 1])


def spelt(path: tuple[int, ...], blank: int) -> list[int]:
    return [k for k, _ in itertools.groupby(path) if k != blank]


def enumerated(logs: Any, labels: Any, steps: Any, spoken: Any, blank: int = 0) -> list[float]:
    """Minus the logarithm of the sum over all paths that spell the label."""
    found = []
    for n, (t, s) in enumerate(zip(steps, spoken, strict=True)):
        total = sum(
            math.exp(sum(logs[i, n, k] for i, k in enumerate(path)))
            for path in itertools.product(range(logs.shape[2]), repeat=int(t))
            if spelt(path, blank) == list(labels[n, :s])
        )
        found.append(-math.log(total) if total else math.inf)
    return found


def logs() -> Any:
    return sf.tensor(SCORES).log_softmax(2)


def test_each_loss_is_the_sum_over_all_paths() -> None:
    wanted = enumerated(logs().numpy(), LABELS, STEPS, SPOKEN)
    each = F.ctc_loss(
        logs(), sf.tensor(LABELS), sf.tensor(STEPS), SPOKEN.tolist(), reduction="none"
    )
    np.testing.assert_allclose(each.numpy(), wanted, 1e-9)
    args = logs(), sf.tensor(LABELS), sf.tensor(STEPS), sf.tensor(SPOKEN)
    np.testing.assert_allclose(sf.nn.CTCLoss(reduction="sum")(*args).item(), sum(wanted), 1e-9)
    mean = np.mean(np.array(wanted) / SPOKEN)
    np.testing.assert_allclose(sf.nn.CTCLoss()(*args).item(), mean, 1e-9)
    joined = sf.tensor([1, 2, 2, 2, 1])
    np.testing.assert_allclose(F.ctc_loss(logs(), joined, *args[2:]).item(), mean, 1e-9)
    alone = F.ctc_loss(
        logs()[:, 0], sf.tensor([1, 2]), sf.tensor(4), sf.tensor(2), reduction="none"
    )
    assert alone.shape == ()
    np.testing.assert_allclose(alone.item(), wanted[0], 1e-9)


def test_another_blank() -> None:
    labels = np.array([[0, 1], [1, 1], [0, 1]])
    each = F.ctc_loss(logs(), sf.tensor(labels), STEPS, SPOKEN, blank=2, reduction="none")
    wanted = enumerated(logs().numpy(), labels, STEPS, SPOKEN, 2)
    np.testing.assert_allclose(each.numpy(), wanted, 1e-9)


def test_what_cannot_be_spelt() -> None:
    args = sf.tensor(LABELS), [4, 2, 1], [0, 2, 1]
    each = F.ctc_loss(logs(), *args, reduction="none")
    np.testing.assert_allclose(each.numpy(), enumerated(logs().numpy(), LABELS, *args[1:]), 1e-9)
    assert each[1].item() == math.inf
    x = sf.tensor(SCORES, requires_grad=True)
    F.ctc_loss(x.log_softmax(2), *args, reduction="sum", zero_infinity=True).backward()
    assert x.grad is not None and not x.grad[:, 1].any() and bool(x.grad.isfinite().all())


def test_a_graph_gives_the_same_with_its_gradient() -> None:
    def loss(x: Any, labels: Any, steps: Any, spoken: Any) -> Any:
        return F.ctc_loss(x.log_softmax(2), labels, steps, spoken)

    arrays = SCORES, LABELS, STEPS, SPOKEN
    leaf = sf.tensor(SCORES, requires_grad=True)
    eager = loss(leaf, *map(sf.tensor, arrays[1:]))
    eager.backward()
    x = sf.placeholder((None, None, C), "float64", name="x")
    others = [
        sf.placeholder(s, "int64", name=f"i{i}")
        for i, s in enumerate([(None, None), (None,), (None,)])
    ]
    out = loss(x, *others)
    program = sf.compile([x, *others], [out, sf.grad(out, x)])
    value, gradient = program(*arrays)
    np.testing.assert_allclose(value.item(), eager.item(), 1e-9)
    assert leaf.grad is not None
    np.testing.assert_allclose(gradient.numpy(), leaf.grad.numpy(), 1e-9, 1e-12)
    assert sf.autograd.gradcheck(lambda v: loss(v, *map(sf.tensor, arrays[1:])), leaf)


def test_joined_labels_are_refused_in_a_graph() -> None:
    x = sf.placeholder((4, 2, 3), name="x")
    with pytest.raises(ArgumentError, match=r"ctc_loss: labels one behind the other"):
        F.ctc_loss(x, sf.placeholder((2,), "int64", name="l"), [4, 4], [1, 1])


def test_multilabel_margin_loss() -> None:
    x = np.array([[0.1, 0.2, 0.4, 0.8], [1.0, -1.0, 0.5, 0.0]])
    target = np.array([[3, 0, -1, 1], [1, -1, 0, 0]])
    wanted = []
    for row, given in zip(x, target, strict=True):
        named = list(itertools.takewhile(lambda k: k >= 0, given))
        others = [i for i in range(4) if i not in named]
        wanted.append(sum(max(0.0, 1 - row[y] + row[i]) for y in named for i in others) / 4)
    each = F.multilabel_margin_loss(sf.tensor(x), sf.tensor(target), "none")
    np.testing.assert_allclose(each.numpy(), wanted, 1e-9)
    one = sf.nn.MultiLabelMarginLoss()(sf.tensor(x[0]), sf.tensor(target[0]))
    np.testing.assert_allclose(one.item(), wanted[0], 1e-9)
    with pytest.raises(sf.ShapeError, match="multilabel_margin_loss: the target has shape"):
        F.multilabel_margin_loss(sf.tensor(x), sf.tensor([1]))
