"""Random nets train the same way eagerly, compiled and jitted."""

import pytest
from slices import daily

from meaning.nets import BLOCKS, OPTIMIZERS, Program, difference, draw_program, shrink

PROGRAMS = 2000


def check(program: Program) -> None:
    found = difference(program)
    assert found is None, f"{(least := shrink(program))}: {difference(least)}"


@pytest.mark.filterwarnings("ignore:a random tensor")
@pytest.mark.parametrize("seed", daily(range(PROGRAMS), 4, "nets"))
def test_a_net_trains_the_same_in_every_way(seed):
    check(draw_program(seed))


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_every_net_trains_the_same_in_every_way(seed):
    check(draw_program(seed))


@pytest.mark.campaign
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_block_trains_the_same_with_every_optimizer(block, optimizer):
    check(Program((block, block), optimizer, True, False, 0))


def test_a_difference_is_found_and_shrunk(monkeypatch):
    monkeypatch.setitem(BLOCKS, "mode", lambda net, i, h: h * _mode())
    program = Program(("tanh", "mode", "exp_of_parameter"), "adam", True, False, 1)
    assert difference(program)
    assert shrink(program).blocks == ("mode",)


def _mode() -> int:
    """Another number in a trace."""
    from staticflow.ops.declaring.thread import thread

    return 2 if thread.state.tracing else 3
