"""How many kernels the losses are, of known and of unknown sizes: one, and one or two with the gradient."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loss_cases import inputs, wave

import staticflow as sf
from staticflow.nn import functional as F

REFERENCE = Path(__file__).parents[1] / "reference" / "losses.json"
CASES = [case[:3] for case in json.loads(REFERENCE.read_text())]
CASES += [["multilabel_margin_loss", "named_classes", {}]]

MOST = {"value": 1, "gradient": 2, "both": 2}
MORE = {
    # how many classes are named, how often each is, and each beside each other, along either
    "multilabel_margin_loss": {"value": 3, "gradient": 4, "both": 5},
}
"""What takes more kernels than `MOST`."""
SMOOTHED = {"value": 2, "gradient": 2, "both": 5}
"""Of smoothed losses: a mean finds the number of rows that count first, and of unknown classes a kernel would
have more than 48 members."""


def arrays_of(kind: str) -> list[np.ndarray]:
    if kind == "named_classes":
        return [wave(5, 4), np.array([[0, 3, -1, 1]] * 5)]
    return inputs(kind)


def kernels_of(step: Any) -> int:
    return sum(
        n.op.name not in ("item", "reshape", "constant", "param") for n in step.optimized.nodes
    )


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("name", "kind", "options"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_kernels(name: str, kind: str, options: dict, reduction: str, known: bool) -> None:
    arrays = arrays_of(kind)
    handles = [
        sf.placeholder(a.shape if known else (None,) * a.ndim, a.dtype, name=f"x{i}")
        for i, a in enumerate(arrays)
    ]
    made = {
        n: sf.tensor(v, dtype="float64") if isinstance(v, list) else v for n, v in options.items()
    }
    loss = getattr(F, name)(*handles, reduction=reduction, **made)
    slope = sf.grad(loss.sum(), handles[0])
    wanted = {"value": [loss], "gradient": [slope], "both": [loss, slope]}
    most = MORE.get(name, MOST)
    if options.get("label_smoothing"):
        most = SMOOTHED
    found = {what: kernels_of(sf.compile(handles, results)) for what, results in wanted.items()}
    assert all(found[what] <= most[what] for what in found), found


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_classes_chosen_by_hand(known: bool) -> None:
    """The scores of classes are taken by `gather`, or by an index of rows and classes, in the kernel that
    needs them, and their gradient is a comparison, for which another kernel has looked at the classes."""
    n, c = (6, 9) if known else (None, None)
    x, t = sf.placeholder((n, c), name="x"), sf.placeholder((n,), "int64", name="t")
    a = np.arange(54, dtype="f4").reshape(6, 9) / 7 % 2
    b = np.array([0, 8, 3, 3, 1, 2])
    for chosen in (
        x.gather(1, t.unsqueeze(1)).squeeze(1),
        x.gather(1, t.unsqueeze(1))[:, 0],
        x.gather(1, t.view(-1, 1)),
        x[sf.arange(x.shape[0]), t],
    ):
        loss = (chosen * chosen).sum()
        step = sf.compile([x, t], [loss, sf.grad(loss, x)])
        assert kernels_of(sf.compile([x, t], loss)) == 1
        assert kernels_of(step) <= 3
        value, slope = step(a, b)
        wanted = np.zeros_like(a)
        wanted[np.arange(6), b] = 2 * a[np.arange(6), b]
        np.testing.assert_allclose(slope.numpy(), wanted, 1e-6)
        np.testing.assert_allclose(value.numpy(), (a[np.arange(6), b] ** 2).sum(), 1e-6)
        for wrong in (9, -10):
            with pytest.raises(sf.errors.IndexRangeError, match=r"gather|index|scatter_add"):
                step(a, np.where(np.arange(6) == 4, wrong, b))


def test_each_of_several_checks_names_itself() -> None:
    """Two in one kernel: an error says which of them refused."""
    x, y = sf.placeholder((5,), name="x"), sf.placeholder((5,), name="y")
    step = sf.compile([x, y], F.binary_cross_entropy(x, y))
    assert kernels_of(step) == 1
    right, wrong = np.full(5, 0.5, "f4"), np.array([0.5, 2, 0, 1, 0], "f4")
    step(right, right)
    with pytest.raises(sf.errors.ArgumentError, match="the input holds"):
        step(wrong, right)
    with pytest.raises(sf.errors.ArgumentError, match="the target holds"):
        step(right, wrong)
