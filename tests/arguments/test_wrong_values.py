"""A program gives what the eager call gives of values at the edge of what a function is for, and
refuses what that refuses: every layer, public function and method, compiled once, is called with one element,
or all, of each input NaN, infinite, 0, negative or far outside of all dims.
"""

import warnings

import numpy as np
import pytest
from calls_of_all import CALLABLES, METHODS, NO_INPUTS, SLOW, programs_of
from slices import daily
from test_wrong_sizes import by_program, eagerly

import staticflow as sf
from staticflow import pytree

NAMES = [*sorted({*CALLABLES} - NO_INPUTS), *METHODS]
QUICK = [name for name in NAMES if name not in SLOW]

VALUES = {
    "f": (np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 2.0),
    "i": (-1, -100, 0, 3, 4, 100, 2**40, -(2**63)),
    "b": (False, True),
}

FINITE = {"cholesky", "linalg.cholesky", "linalg.qr", "linalg.slogdet", "qr", "slogdet"}
"""Factors of infinite numbers, which are NaN in other places, and signs of what is NaN."""

SIZED = {"bincount", "one_hot", "repeat_interleave", "tensor_split"}
"""Values are sizes of the result, which a program may know less of."""


def filled(given):
    """The inputs with another value in one element of one of them, or in all."""
    leaves, form = pytree.flatten(given)
    for i, x in enumerate(leaves):
        if isinstance(x, np.ndarray) and x.size:
            for value in VALUES[x.dtype.kind]:
                for part in (slice(None), slice(-1, None)):
                    new = x.copy()
                    new.reshape(-1)[part] = value
                    yield pytree.unflatten(form, [*leaves[:i], new, *leaves[i + 1 :]])


def compare(name, found, wanted, given):
    """Hold what a program gives against what the eager call gives."""
    name = name.removeprefix("m.")
    if name in FINITE and has_infinite(given):
        return
    if "cholesky" in name and wanted is None and not is_indefinite(given[0]):
        return
    assert wanted is not None, "the eager call is refused"
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = a.double().numpy(), b.double().numpy()
        np.testing.assert_allclose(a, b, 2e-3, 2e-4, equal_nan=True)


def is_indefinite(a):
    """Whether a matrix is so by more than rounding, which is done in another order."""
    values = np.linalg.eigvalsh(a.astype(np.float64))
    return bool(np.any(values[..., 0] < -1e-6 * abs(values).max()))


def has_infinite(given):
    arrays = [x for x in pytree.flatten(given)[0] if isinstance(x, np.ndarray)]
    return any(np.isinf(a).any() for a in arrays)


def check(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fn, given, program in programs_of(name, False):
            for other in filled(given):
                found = by_program(program, other)
                if found is not None:
                    compare(name, found, eagerly(fn, other), other)
                elif name.split(".")[-1] not in SIZED:
                    assert eagerly(fn, other) is None, "the program is refused"


@pytest.mark.parametrize("name", daily(QUICK, 6, "wrong values"))
def test_programs_give_what_is_given_eagerly_of_unusual_values(name):
    check(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_every_program_gives_what_is_given_eagerly_of_unusual_values(name):
    check(name)


@pytest.mark.parametrize("name", ["linalg.slogdet", "logdet", "repeat_interleave"])
def test_what_once_was_silent(name):
    check(name)


def test_determinants_of_nan_are_nan():
    x = sf.placeholder((3, 3), name="x")
    program = sf.compile([x], [sf.linalg.det(x), *sf.linalg.slogdet(x)])
    rng = np.random.default_rng(0)
    for _ in range(200):
        a = rng.normal(size=(3, 3)).astype(np.float32)
        a.reshape(-1)[rng.integers(0, 9, 3)] = [0, 0, np.nan]
        assert all(v.isnan() for v in program(a))


@pytest.mark.parametrize("dtype", [sf.int64, sf.bool], ids=str)
def test_maps_of_places_are_of_floats(dtype):
    affine_grid = sf.nn.functional.affine_grid
    for theta in (sf.ones(1, 2, 3, dtype=dtype), sf.placeholder((1, 2, 3), dtype)):
        with pytest.raises(sf.DTypeError, match="affine_grid: takes maps of floats"):
            affine_grid(theta, (1, 1, 2, 2))
