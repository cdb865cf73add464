"""What gives the memory of an argument eagerly is a view of it in a graph: a change of the one is
one of the other, or is refused; never lost."""

import numpy as np
import pytest
from calls_of_all import CALLABLES, METHODS, NO_INPUTS, SLOW, calls_of, tensors_in, with_leaves

import staticflow as sf
from staticflow import pytree

NAMES = [*sorted({*CALLABLES} - NO_INPUTS - SLOW), *METHODS]
NAMES = [name for name in NAMES if not name.endswith("_")]  # which change their argument


def _shares(a, b):
    return (
        a.dtype is b.dtype and a.size and np.shares_memory(a.detach().numpy(), b.detach().numpy())
    )


def _pairs(fn, given):
    """The numbers of a result and of the argument in whose memory it lies."""
    arguments = with_leaves(given, sf.tensor)
    leaves = tensors_in(arguments)
    results = tensors_in(fn(*arguments))
    return [
        (i, j) for i, r in enumerate(results) for j, x in enumerate(leaves) if _shares(r, x)
    ]  # fmt: skip


def _change(fn, given, pair, first):
    """What changes a result or its argument, and gives both."""

    def program(*leaves):
        rest = iter(leaves)
        arguments = with_leaves(given, lambda _: next(rest))
        both = tensors_in(fn(*arguments))[pair[0]], leaves[pair[1]]
        both[first].add_(1)
        return [x * 1 for x in both]

    return program


def _outcome(program, given):
    leaves = [sf.tensor(x) for x in pytree.flatten(given)[0] if isinstance(x, np.ndarray)]
    return [x.tolist() for x in program(*leaves)]


@pytest.mark.parametrize("name", NAMES)
def test_a_change_of_one_is_one_of_the_other(name):
    for fn, given in calls_of(name):
        for pair in _pairs(fn, given)[:3]:
            for first in (0, 1):
                program = _change(fn, given, pair, first)
                try:
                    wanted = _outcome(program, given)
                except sf.StaticflowError:
                    continue  # several elements of the result are one, or its dtype takes no 1
                try:
                    found = _outcome(sf.jit(program), given)
                except sf.StaticflowError as error:
                    assert "tests/arguments" in str(error)  # the line is said
                    continue
                assert found == wanted
