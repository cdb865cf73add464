"""Losses: PyTorch's numbers and gradients in both modes, the modules, and what is refused."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loss_cases import inputs, wave

import staticflow as sf
from staticflow import nn
from staticflow.nn import functional as F

FOLDER = Path(__file__).parents[1] / "reference"
REFERENCE = json.loads((FOLDER / "losses.json").read_text())
REDUCTIONS = ("mean", "sum", "none")


def made(options: dict[str, Any], dtype: str) -> dict[str, Any]:
    return {n: sf.tensor(v, dtype=dtype) if isinstance(v, list) else v for n, v in options.items()}


def cast(arrays: list[np.ndarray], dtype: str) -> list[np.ndarray]:
    return [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]


def close(found: Any, wanted: list[float], dtype: str) -> None:
    rtol = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-2}[dtype]
    wide = found.detach().numpy().ravel().astype(np.float64)
    np.testing.assert_allclose(wide, wanted, rtol=rtol, atol=rtol)


CASES = [pytest.param(*case, id=f"{case[0]}-{i}") for i, case in enumerate(REFERENCE)]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize(("name", "kind", "options", "values", "gradient"), CASES)
def test_pytorchs_numbers(
    name: str, kind: str, options: dict, values: list, gradient: list, dtype: str
) -> None:
    if dtype == "float16" and name == "binary_cross_entropy":
        pytest.skip("1 - x of rounded probabilities is another number")
    arrays = cast(inputs(kind), dtype)
    for reduction, wanted in zip(REDUCTIONS, values, strict=True):
        given = [sf.tensor(a) for a in arrays]
        given[0].requires_grad_()
        loss = getattr(F, name)(*given, reduction=reduction, **made(options, dtype))
        assert loss.shape == (() if len(wanted) == 1 else loss.shape)
        assert loss.dtype.name == dtype
        close(loss, wanted, dtype)
        if reduction == "mean":
            loss.backward()
            close(given[0].grad, gradient, dtype)


@pytest.mark.parametrize(("name", "kind", "options", "values", "gradient"), CASES)
def test_compiled_losses_are_the_same(
    name: str, kind: str, options: dict, values: list, gradient: list
) -> None:
    arrays = inputs(kind)
    first = "N" if arrays[0].ndim > 1 else None
    handles = [
        sf.placeholder(
            (first, *a.shape[1:]) if first and a.ndim else a.shape, a.dtype, name=f"x{i}"
        )
        for i, a in enumerate(arrays)
    ]
    losses = [
        getattr(F, name)(*handles, reduction=r, **made(options, "float64")) for r in REDUCTIONS
    ]
    program = sf.compile(handles, [*losses, sf.grad(losses[0], handles[0])])
    *found, slope = program(*arrays)
    for value, wanted in zip(found, values, strict=True):
        close(value, wanted, "float64")
    close(slope, gradient, "float64")


def test_batchmean_divides_by_the_rows() -> None:
    x, y = (sf.tensor(a) for a in inputs("log_probabilities"))
    total = F.kl_div(x, y, reduction="sum")
    assert F.kl_div(x, y, reduction="batchmean").item() == pytest.approx(total.item() / 5)
    assert nn.KLDivLoss("batchmean")(x, y).item() == pytest.approx(total.item() / 5)


def test_scores_of_zero_have_a_gradient() -> None:
    x = sf.zeros(2, requires_grad=True)
    F.binary_cross_entropy_with_logits(x, sf.tensor([0.0, 1.0]), reduction="sum").backward()
    assert x.grad.tolist() == [0.5, -0.5]


def test_certain_probabilities_have_finite_losses_and_gradients() -> None:
    x = sf.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    loss = F.binary_cross_entropy(x, sf.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none")
    assert loss.tolist() == [0.0, 0.0, 100.0, 100.0]
    loss.sum().backward()
    assert x.grad.tolist() == pytest.approx([0.0, 0.0, -1e12, 1e12])


def test_nothing_but_ignored_targets() -> None:
    x = sf.zeros(2, 3, requires_grad=True)
    ignored = sf.tensor([-100, -100])
    assert np.isnan(F.cross_entropy(x, ignored).item())
    assert F.cross_entropy(x, ignored, reduction="sum").item() == 0.0
    assert F.cross_entropy(x, ignored, reduction="none").tolist() == [0.0, 0.0]


MODULES = {
    "MSELoss": ("mse_loss", "real", {}),
    "L1Loss": ("l1_loss", "real", {}),
    "SmoothL1Loss": ("smooth_l1_loss", "real", {"beta": 0.5}),
    "HuberLoss": ("huber_loss", "real", {"delta": 0.5}),
    "NLLLoss": (
        "nll_loss",
        "classes_in_range",
        {"ignore_index": 1, "weight": [0.5, 1.0, 2.0, 0.25]},
    ),
    "CrossEntropyLoss": ("cross_entropy", "classes", {"label_smoothing": 0.1}),
    "BCELoss": ("binary_cross_entropy", "probabilities", {"weight": [0.5, 1.0, 2.0, 0.25]}),
    "BCEWithLogitsLoss": ("binary_cross_entropy_with_logits", "scores", {"pos_weight": [2.0]}),
    "KLDivLoss": ("kl_div", "two_log_probabilities", {"log_target": True}),
    "PoissonNLLLoss": ("poisson_nll_loss", "counts", {"full": True}),
    "GaussianNLLLoss": ("gaussian_nll_loss", "gaussian", {"full": True}),
    "MarginRankingLoss": ("margin_ranking_loss", "order", {"margin": 0.5}),
    "HingeEmbeddingLoss": ("hinge_embedding_loss", "signs", {"margin": 0.5}),
    "CosineEmbeddingLoss": ("cosine_embedding_loss", "vectors", {"margin": 0.5}),
    "SoftMarginLoss": ("soft_margin_loss", "signs", {}),
    "MultiLabelSoftMarginLoss": ("multilabel_soft_margin_loss", "labels", {}),
    "MultiMarginLoss": ("multi_margin_loss", "classes_in_range", {"p": 2}),
    "TripletMarginLoss": ("triplet_margin_loss", "triplets", {"swap": True}),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", MODULES)
def test_modules_are_the_functions(name: str, reduction: str) -> None:
    function, kind, options = MODULES[name]
    given = [sf.tensor(a) for a in inputs(kind)]
    module = getattr(nn, name)(reduction=reduction, **made(options, "float64"))
    wanted = getattr(F, function)(*given, reduction=reduction, **made(options, "float64"))
    assert module(*given).tolist() == wanted.tolist()
    assert list(dict(module.named_buffers())) == [n for n in options if "weight" in n]
    assert repr(module) == f"{name}()"


def test_a_distance_of_ones_own() -> None:
    given = [sf.tensor(a) for a in inputs("triplets")]
    loss = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda a, b: (a - b).abs().sum(-1), margin=0.5, swap=True
    )
    near, far, other = (
        np.abs(a - b).sum(-1)
        for a, b in [
            (x, y) for i, x in enumerate(inputs("triplets")) for y in inputs("triplets")[i + 1 :]
        ]
    )
    wanted = np.maximum(0, near - np.minimum(far, other) + 0.5).mean()
    assert loss(*given).item() == pytest.approx(wanted)


def refuse(match: str, error: type[Exception] = ValueError) -> Any:
    return pytest.raises(error, match=match)


def test_what_losses_refuse() -> None:
    x, t = sf.tensor(wave(5, 4)), sf.tensor([0, 1, 2, 3, 0])
    with refuse("delta lies above 0"):
        F.huber_loss(x, x, delta=0)
    with refuse("beta cannot be negative"):
        F.smooth_l1_loss(x, x, beta=-1)
    with refuse("label_smoothing lies in"):
        F.cross_entropy(x, t, label_smoothing=1.5)
    with refuse("p is 1 or 2"):
        F.multi_margin_loss(x, t, p=3)
    with refuse("negative entries"):
        F.gaussian_nll_loss(x, x, -x.abs() - 1)
    with refuse("takes log-probabilities", sf.ShapeError):
        F.nll_loss(x, t.reshape(5, 1))
    with refuse('"mean", "sum" or "none", not', sf.ShapeError):
        nn.L1Loss("average")
    for target in (t, sf.softmax(x, 1)):
        with refuse(
            r"weight of each class has shape \[3\], and \[4\] is needed, at .*test_nn",
            sf.ShapeError,
        ):
            F.cross_entropy(x, target, sf.ones(3, dtype="float64"))
    with refuse("index 4", sf.IndexRangeError):
        F.cross_entropy(x, t + 1)


o, i = sf.ones, partial(sf.zeros, dtype="int64")
OTHER_SHAPES = [
    (F.margin_ranking_loss, (o(3, 1), o(3), o(3))), (F.margin_ranking_loss, (o(3), o(3), o(()))),
    (F.cosine_embedding_loss, (o(3, 2), o(3, 2), o(3, 1))),
    (F.cosine_embedding_loss, (o(3, 2), o(2), o(3))),
    (F.cosine_embedding_loss, (o(2), o(2), o(1))),
    (F.triplet_margin_loss, (o(3, 2), o(2), o(3, 2))),
    (F.triplet_margin_with_distance_loss, (o(3, 2), o(2), o(3, 2))),
    (F.multi_margin_loss, (o(3, 2), i(1))), (F.multi_margin_loss, (o(3, 2), i(3), 1, 1.0, o(1))),
    (F.multilabel_margin_loss, (o(3, 2), i(1, 2))),
    (F.multilabel_margin_loss, (o(3, 2), i(3, 1))),
    (F.nll_loss, (o(3, 2), i(3), o(3))), (F.cross_entropy, (o(3, 2), i(3), o(1))),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(OTHER_SHAPES)))
def test_shapes_that_pytorch_refuses_are_not_broadcast(case: int) -> None:
    loss, args = OTHER_SHAPES[case]
    with pytest.raises(sf.ShapeError, match=r"shape.*test_nn_losses"):
        loss(*args)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_a_target_that_is_broadcast_is_warned_of(name: str, recwarn: Any) -> None:
    loss = getattr(F, name)
    column, n = sf.placeholder((None, 1), name="x"), sf.placeholder((None, 1), name="y")
    loss(column, n), loss(sf.ones(2, 3), sf.ones(2, 3)), loss(sf.ones(2), sf.tensor(1.0))
    assert not recwarn
    says = rf"{name}: .* \[4, 1\] .* \[4\] are broadcast"
    with pytest.warns(UserWarning, match=says) as caught:
        loss(sf.ones(4, 1), sf.zeros(4))
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_what_is_ignored_has_no_part_in_smoothed_labels(reduction: str) -> None:
    """Neither an infinite loss of an ignored row, nor the slope of a mean over none."""
    scores = sf.tensor([[1.0, 2.0, 3.0], [2.0, 1.0, 0.0]], requires_grad=True)
    for weight in (None, sf.tensor([1.0, 2.0, 3.0])):
        none = F.cross_entropy(
            scores, sf.tensor([-100, -100]), weight, reduction=reduction, label_smoothing=0.1
        )
        assert sf.autograd.grad(none.sum(), [scores])[0].tolist() == [[0.0] * 3] * 2
        infinite = sf.tensor([[1.0, 2.0, 3.0], [float("inf"), 1.0, 0.0]])
        one = F.cross_entropy(
            infinite, sf.tensor([0, -100]), weight, reduction=reduction, label_smoothing=0.1
        )
        assert one.isfinite().all().item()
