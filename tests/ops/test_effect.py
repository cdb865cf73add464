"""State that changes on the way: at once on tensors, as updates of a program in a graph."""

import numpy as np
import pytest

import staticflow as sf
from staticflow.ops.symbols.effect import effect, read


def counted(x, calls):
    """``x * 2``, and ``calls`` has counted it."""
    return effect(x * 2, calls, read(calls, x) + 1)


def drawn(x, state):
    """``x`` times the state, which doubles."""
    now = read(state, x)
    return effect(x * now, state, now * 2)


def test_tensors_change_at_once():
    calls = sf.zeros(())
    assert counted(sf.ones(2), calls).tolist() == [2, 2]
    assert calls.item() == 1


def test_a_program_stores_the_last_value_and_reads_in_order():
    state, x = sf.ones(()), sf.placeholder((None,), name="x")
    first = drawn(x, state)
    second = drawn(x, state)
    f = sf.compile([x], (first, second))
    one, two = f(sf.ones(3))
    assert (one.tolist(), two.tolist(), state.item()) == ([1] * 3, [2] * 3, 4)
    one, two = f(sf.ones(2))
    assert (one.tolist(), two.tolist(), state.item()) == ([4] * 2, [8] * 2, 16)


def test_both_modes_leave_the_same_state():
    eager, static = sf.ones(()), sf.ones(())
    x = sf.placeholder((2,), name="x")
    f = sf.compile([x], drawn(drawn(x, static), static))
    for _ in range(3):
        a = drawn(drawn(sf.ones(2), eager), eager)
        b = f(sf.ones(2))
        assert a.tolist() == b.tolist() and eager.item() == static.item()


def test_what_passes_prune_still_counts():
    calls, x = sf.zeros(()), sf.placeholder((2,), name="x")
    f = sf.compile([x], x + counted(x, calls) * 0, numerics="fast")
    f(sf.ones(2))
    assert calls.item() == 1


def test_equal_reads_on_either_side_of_a_change_are_two():
    state, x = sf.ones(()), sf.placeholder((), name="x")
    before = read(state, x)
    y = effect(x * 1, state, before + 1)
    f = sf.compile([x], (before * 1, y, read(state, x) * 1))
    assert [v.item() for v in f(np.float32(5))] == [1, 5, 2]


def test_gradients_go_through_the_value_and_not_the_state():
    state, x = sf.full((), 3.0), sf.placeholder((2,), name="x")
    loss = drawn(x, state).sum()
    f = sf.compile([x], (loss, *sf.grad(loss, [x])))
    _, g = f(sf.ones(2))
    assert g.tolist() == [3, 3] and state.item() == 6


def test_a_variable_has_one_new_value():
    calls, x = sf.zeros(()), sf.placeholder((2,), name="x")
    y = counted(x, calls)
    with pytest.raises(sf.ShapeError, match="is among the updates, and the graph changes it"):
        sf.compile([x], y, updates={calls: sf.symbol(calls) + 1})


def test_the_new_value_is_of_the_variables_type():
    state, x = sf.zeros(2), sf.placeholder((3,), name="x")
    with pytest.raises(sf.ShapeError, match="3 and 2 differ"):
        effect(x, state, x)


def test_jit_changes_state_and_its_backward_sees_what_the_call_saw():
    state = sf.full((), 2.0)
    f = sf.jit(lambda x: drawn(x, state).sum())
    x = sf.ones(3, requires_grad=True)
    first = f(x)
    second = f(x)
    assert state.item() == 8
    first.backward()
    assert x.grad.tolist() == [2] * 3
    second.backward()
    assert x.grad.tolist() == [6] * 3
    assert state.item() == 8 and f.compile_count == 1


def test_the_order_is_that_of_the_program_in_a_loop_too():
    """The second draw is asked for first: the walk from the outputs comes to it first."""
    state, x = sf.ones(()), sf.placeholder((None,), name="x")

    def step(carry, row):
        first = drawn(row, state)
        second = drawn(row, state)
        return carry, (second, first)

    _, (second, first) = sf.scan(step, x[0], x)
    f = sf.compile([x], (second, first))
    for _ in range(2):
        began = state.item()
        later, earlier = f(sf.ones(3))
        assert earlier.tolist() == [began, 4 * began, 16 * began]
        assert later.tolist() == [2 * began, 8 * began, 32 * began]
        assert state.item() == 64 * began


class Head(sf.nn.Module):
    """Draws and counts what its result does not need, between draws that it does."""

    def __init__(self):
        super().__init__()
        self.norm = sf.nn.BatchNorm1d(3)

    def forward(self, x):
        sf.rand(5)
        y = x + sf.rand(3)
        self.norm(x * 2)
        sf.nn.functional.dropout(x, 0.5)
        return y


def with_symbols(head, x):
    p = sf.placeholder((None, 3), name="x")
    return sf.compile([p], head(p))(x)


WAYS = {
    "jit": lambda head, x: sf.jit(head)(x),
    "module": with_symbols,
    "jit on symbols": lambda head, x: with_symbols(sf.jit(head.forward), x),
    "scan": lambda head, x: sf.jit(
        lambda x: sf.scan(lambda c, row: (c, head(row)), (), x.unsqueeze(0))[1][0]
    )(x),
    "unused loop": lambda head, x: sf.jit(
        lambda x: (sf.scan(lambda c, row: (c, head(row)), (), x.unsqueeze(0)), head(x))[1]
    )(x),
    "while_loop": lambda head, x: sf.jit(
        lambda x: sf.while_loop(lambda i, x: i < 1, lambda i, x: (i + 1, head(x)), (0, x))[1]
    )(x),
    "cond": lambda head, x: sf.jit(lambda x: sf.cond(x.sum() > 0, head, lambda x: x, x))(x),
    "checkpoint": lambda head, x: sf.jit(
        lambda x: sf.utils.checkpoint.checkpoint(head, x, use_reentrant=False)
    )(x),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_traced_function_does_happens_whoever_needs_it(way):
    x = sf.arange(12.0).reshape(4, 3).requires_grad_()
    seen = []
    for is_eager in (True, False):
        sf.manual_seed(5)
        head = Head()
        for _ in range(2):
            if is_eager and way == "unused loop":
                head(x)
            y = head(x) if is_eager else WAYS[way](head, x)
            if y.requires_grad:
                y.sum().backward()  # has no effect again
        state = [head.norm.running_mean.tolist(), head.norm.num_batches_tracked.item()]
        seen.append([y.tolist(), *state, sf.rand(2).tolist()])
    assert seen[0] == seen[1]
