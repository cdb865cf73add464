"""Einsum of formulas that are drawn: values by NumPy, gradients since einsum is linear in each
operand, eagerly and with open sizes."""

import numpy as np
import pytest
from slices import daily

import staticflow as sf

SEEDS = range(300)


def _formula(rng):
    """Terms of up to three operands, the letters of the result (None: not written), and sizes."""
    letters = list("ijkab"[: rng.integers(2, 6)])
    sizes = {c: int(rng.choice([1, 2, 3, 5, 17])) for c in letters}
    terms = [
        "".join(rng.choice(letters, rng.integers(1, min(4, len(letters)) + 1), rng.random() < 0.15))
        for _ in range(rng.integers(1, 4))
    ]
    used = sorted(set("".join(terms)))
    out = "".join(rng.permutation([c for c in used if rng.random() < 0.5]))
    formula = ",".join(terms) + ("" if rng.random() < 0.2 else f"->{out}")
    return formula, [rng.standard_normal([sizes[c] for c in t]) for t in terms]


def _check(seed):
    rng = np.random.default_rng(seed)
    formula, operands = _formula(rng)
    wanted = np.einsum(formula, *operands)
    weight = rng.standard_normal(wanted.shape)
    moves = [rng.standard_normal(x.shape) for x in operands]
    slopes = [
        np.sum(weight * np.einsum(formula, *operands[:i], move, *operands[i + 1 :]))
        for i, move in enumerate(moves)
    ]

    def program(*xs):
        return sf.einsum(formula, *xs)

    for run in (program, sf.jit(program)):
        leaves = [sf.tensor(x, requires_grad=True) for x in operands]
        y = run(*leaves)
        np.testing.assert_allclose(y.detach().numpy(), wanted, 1e-9, 1e-9)
        grads = sf.autograd.grad((y * sf.tensor(weight)).sum(), leaves)
        for grad, move, slope in zip(grads, moves, slopes, strict=True):
            products = grad.numpy() * move
            np.testing.assert_allclose(products.sum(), slope, 1e-9, 1e-9 * abs(products).sum())


@pytest.mark.parametrize("seed", daily(SEEDS, 2, "einsum"))
def test_formulas_of_the_day(seed):
    _check(seed)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", SEEDS)
def test_formulas(seed):
    _check(seed)
