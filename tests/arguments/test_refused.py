"""What runs eagerly and is refused in a graph: every layer and public function is tried, on inputs
that it takes eagerly, as symbols with known sizes and with open ones; and the program of what is
not refused gives what the eager call gives.

Whoever makes a graph take more deletes a row of the tables; no row may be added without a reason.
"""

import warnings

import numpy as np
import pytest
from calls_of_all import (
    CALLABLES,
    NO_INPUTS,
    SLOW,
    calls_of,
    symbols_for,
    tensors_in,
    with_leaves,
)
from slices import daily

import staticflow as sf
from staticflow import pytree

KNOWN = {
    "as_strided": "as_strided of a symbolic value",  # of what may lie otherwise
    **dict.fromkeys(
        (
            "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor",
            "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
        ),
        "a size is",  # takes data or sizes
    ),
}  # fmt: skip
"""Refused with known sizes, with how the error begins."""

OPEN = {
    **KNOWN,
    "cross": "cross: goes along the first dim of size 3",
    "combinations": "combinations: the number of elements",
    "pdist": "pdist: the number of rows",
    "F.pdist": "pdist: the number of rows",
    "split": "split: how many parts",
    "tensor_split": "tensor_split: the indices are of shape",
    "unbind": "unbind: how many slices",
    "vander": "vander: the number of powers",
}
"""Refused with open sizes."""

AT_RUN = {"linalg.lstsq": "lstsq, whose residuals are used in a graph"}
"""Refused as the program of unknown sizes runs."""


def _refusal(fn, given, is_open):
    """The error that ``fn`` gives of symbols; "" if it gives none."""
    try:
        fn(*symbols_for(given, is_open)[0])
    except Exception as error:
        return str(error) or repr(error)
    return ""


def _compare(fn, given, is_open):
    """The program of ``fn`` gives what ``fn`` gives."""
    sf.manual_seed(0)
    wanted = tensors_in(fn(*with_leaves(given, sf.tensor)))
    args, inputs = symbols_for(given, is_open)
    program = sf.compile(inputs, tensors_in(fn(*args)))
    sf.manual_seed(0)
    found = program(*(x for x in pytree.flatten(given)[0] if isinstance(x, np.ndarray)))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(
            a.double().numpy(), b.detach().double().numpy(), 2e-4, 2e-5, equal_nan=True
        )


def _check_programs(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fn, given in calls_of(name):
            for table, is_open in ((KNOWN, False), (OPEN, True)):
                if is_open and name in AT_RUN:
                    with pytest.raises(sf.StaticflowError, match=AT_RUN[name]):
                        _compare(fn, given, is_open)
                elif name not in table:
                    _compare(fn, given, is_open)


def _check(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = calls_of(name)
        assert bool(calls) != (name in NO_INPUTS), "inputs for it belong into INPUTS or LAYERS"
        for table, is_open in ((KNOWN, False), (OPEN, True)):
            refusals = [r for r in (_refusal(*call, is_open) for call in calls) if r]
            wanted = table.get(name)
            if wanted is None:
                assert refusals == []
            else:
                assert refusals and all(r.startswith(wanted) for r in refusals)


@pytest.mark.parametrize("name", daily(sorted(CALLABLES), 40, "refused"))
def test_what_runs_eagerly_is_traced_or_refused_for_a_reason(name):
    _check(name)


@pytest.mark.parametrize("name", daily(sorted({*CALLABLES} - SLOW), 10, "compiled"))
def test_what_is_compiled_gives_what_runs_eagerly(name):
    _check_programs(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_all_that_is_compiled_gives_what_runs_eagerly(name):
    _check_programs(name)


@pytest.mark.parametrize("name", sorted(OPEN))
def test_what_is_refused_is_in_the_table(name):
    _check(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_all_that_runs_eagerly_is_traced_or_refused_for_a_reason(name):
    _check(name)
