"""A program of unknown sizes refuses whatever sizes the eager call refuses, and gives the same of
all others: every layer, public function and method, compiled once, is called with one size, or that of all
its inputs, made smaller and larger.

What a call says of sizes in Python, where they are numbers, says nothing of sizes that are open; so
a rule that stands there alone is silent in a program, which then computes what means nothing.
"""

import warnings

import numpy as np
import pytest
from calls_of_all import (
    CALLABLES,
    METHODS,
    NO_INPUTS,
    SLOW,
    calls_of,
    programs_of,
    symbols_for,
    tensors_in,
    with_leaves,
)
from slices import daily

import staticflow as sf
from staticflow import pytree

NAMES = [*sorted({*CALLABLES} - NO_INPUTS), *METHODS]
QUICK = [name for name in NAMES if name not in SLOW]

SIZES = (0, 1, 2, 3, 5)
"""What a size is made, beside one more and one less."""

KEPT = {"corrcoef", "cov", "squeeze", "squeeze_"}
"""A dim of unknown size that is 1 stays, as the page on differences says."""

BESIDE = [name for name in QUICK if name != "linalg.lstsq"]
"""Of a program with tensors; what `lstsq` gives of few rows a graph says otherwise, as the page on
differences tells."""

UNORDERED = {"bucketize", "searchsorted"}
"""Nothing is said of edges that are in no order, as these are; the shapes are compared."""


def array_like(a, dim, size):
    """Other elements, of the kind of those of ``a``, in its shape but for one dim."""
    shape = (*a.shape[:dim], size, *a.shape[dim + 1 :])
    rng = np.random.default_rng(0)
    if a.dtype.kind in "bi":
        return rng.integers(0, 2 if a.dtype.kind == "b" else 3, shape).astype(a.dtype)
    return rng.uniform(0.1, 0.9, shape).astype(a.dtype)


def resized(given):
    """The inputs with another size in one of them, and with another in all."""
    leaves, form = pytree.flatten(given)
    arrays = [i for i, x in enumerate(leaves) if isinstance(x, np.ndarray)]
    for i in arrays:
        for dim, old in enumerate(leaves[i].shape):
            for size in sorted({*SIZES, old - 1, old + 1} - {old, -1}):
                new = {i: array_like(leaves[i], dim, size)}
                yield pytree.unflatten(form, [new.get(k, x) for k, x in enumerate(leaves)])
    if len(arrays) > 1:
        for dim in range(max(leaves[i].ndim for i in arrays)):
            for size in SIZES:
                some = [i for i in arrays if dim < leaves[i].ndim]
                new = {i: array_like(leaves[i], dim, size) for i in some}
                yield pytree.unflatten(form, [new.get(k, x) for k, x in enumerate(leaves)])


def eagerly(fn, given):
    """What a call gives; None if it is refused."""
    sf.manual_seed(0)
    try:
        return [x.detach() for x in tensors_in(fn(*with_leaves(given, sf.tensor)))]
    except sf.StaticflowError:
        return None


def by_program(program, given):
    """The same of a program."""
    sf.manual_seed(0)
    try:
        return program(*(x for x in pytree.flatten(given)[0] if isinstance(x, np.ndarray)))
    except sf.StaticflowError:
        return None


def compare(name, found, wanted):
    """Hold what a program gives against what the eager call gives."""
    name = name.removeprefix("m.")
    assert wanted is not None, "the eager call is refused"
    if name in KEPT:
        return
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if name not in UNORDERED:
            a, b = a.double().numpy(), b.double().numpy()
            np.testing.assert_allclose(a, b, 2e-3, 2e-4, equal_nan=True)


def check(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fn, given, program in programs_of(name, True):
            for other in resized(given):
                found = by_program(program, other)
                if found is not None:
                    compare(name, found, eagerly(fn, other))


def check_beside_a_tensor(name):
    """The same of programs in which one of several inputs is a tensor, whose sizes are numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fn, given in calls_of(name):
            leaves, form = pytree.flatten(given)
            arrays = [i for i, x in enumerate(leaves) if isinstance(x, np.ndarray)]
            for kept in arrays if len(arrays) > 1 else ():
                rest = [i for i in arrays if i != kept]
                symbols, inputs = symbols_for([leaves[i] for i in rest], True)
                args = [*leaves]
                for i, x in zip([kept, *rest], [sf.tensor(leaves[kept]), *symbols], strict=True):
                    args[i] = x
                try:
                    results = tensors_in(fn(*pytree.unflatten(form, args)))
                    program = sf.compile(inputs, results)
                except sf.StaticflowError:
                    continue
                for other in resized(given):
                    new = pytree.flatten(other)[0]
                    if new[kept] is leaves[kept]:
                        found = by_program(program, [new[i] for i in rest])
                        if found is not None:
                            compare(name, found, eagerly(fn, other))


@pytest.mark.parametrize("name", daily(QUICK, 6, "wrong sizes"))
def test_programs_refuse_the_sizes_that_are_refused_eagerly(name):
    check(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_every_program_refuses_the_sizes_that_are_refused_eagerly(name):
    check(name)


@pytest.mark.parametrize("name", daily(BESIDE, 6, "wrong sizes beside a tensor"))
def test_programs_with_a_tensor_refuse_the_sizes_that_are_refused_eagerly(name):
    check_beside_a_tensor(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", BESIDE)
def test_every_program_with_a_tensor_refuses_the_sizes_that_are_refused_eagerly(name):
    check_beside_a_tensor(name)


def test_a_tensor_beside_sizes_that_are_open():
    check_beside_a_tensor("repeat_interleave")
    x, w = sf.placeholder((None, 3), name="x"), sf.ones(2, 3)
    n = x.shape[0]
    for fn in (
        lambda n: w.sum_to_size(n, 3),
        lambda n: w.split([1, n]),
        lambda n: w.unflatten(0, (n, 1)),
        lambda n: sf.nn.functional.interpolate(w[None], size=n),
    ):
        found = fn(n)
        program = sf.compile([x], tensors_in(found))
        for rows in (1, 2, 3):
            wanted = eagerly(lambda _, fn=fn, rows=rows: fn(rows), [sf.ones(1).numpy()])
            got = by_program(program, [np.ones((rows, 3), np.float32)])
            if got is not None:
                compare("", got, wanted)


@pytest.mark.parametrize(
    "name",
    [
        "F.embedding_bag", "F.grid_sample", "F.interpolate",
        "F.multilabel_margin_loss", "linalg.cross", "nn.BatchNorm1d", "quantile",
        "m.sum_to_size", "repeat_interleave", "select_scatter", "slice_scatter",
    ],
)  # fmt: skip
def test_what_once_was_silent(name):
    check(name)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
def test_images_of_no_elements_are_not_read(mode):
    resize = sf.nn.functional.interpolate
    with pytest.raises(sf.ShapeError, match=r"the sizes of space \[0, 6\]"):
        resize(sf.rand(2, 4, 0, 6), size=2, mode=mode)
    image = sf.placeholder((2, 4, None, 6), name="image")
    program = sf.compile([image], resize(image, size=2, mode=mode))
    assert program(sf.ones(2, 4, 1, 6)).shape == (2, 4, 2, 2)
    with pytest.raises(sf.ShapeError, match=r"must be at least 1, but .* is 0"):
        program(sf.ones(2, 4, 0, 6))


def test_vector_products_along_unknown_sizes_ask_for_a_dim():
    x = sf.placeholder((None, None), name="x")
    with pytest.raises(sf.ShapeError, match="give dim="):
        sf.cross(x, x)
    y = sf.placeholder((None, 3), name="y")
    program = sf.compile([y], sf.cross(y, y * 2))
    assert program(sf.ones(2, 3)).shape == (2, 3)
    with pytest.raises(sf.ShapeError, match=r"first dim of size 3; give dim=.* is 3"):
        program(sf.ones(3, 3))
    program = sf.compile([x], sf.cross(x, x * 2, dim=0))
    assert program(sf.ones(3, 4)).shape == (3, 4)
    with pytest.raises(sf.ShapeError, match=r"cross: the size of dim 0 .* is 4"):
        program(sf.ones(4, 3))
