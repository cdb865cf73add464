"""Fused functions: one program and one vertex on tensors, their ops everywhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import fused as calls
from staticflow.eager.costs import LARGE
from staticflow.errors import AutogradError
from staticflow.ops.declaring.fused import fused
from staticflow.testing import assert_close


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Grows by one for each program that is compiled."""
    found: list[Any] = []
    compiled = calls.compile_graph

    def counted(graph: Any, **named: Any) -> Any:
        found.append(graph)
        return compiled(graph, **named)

    monkeypatch.setattr(calls, "compile_graph", counted)
    return found


def new(name: str = "FusedBackward0") -> Any:
    """A fused function that nobody has called yet."""

    @fused(name)
    def gap(x: Any, y: Any, power: float = 2.0) -> Any:
        rows = (x - y).abs() ** power
        return (rows / (1 + rows.sum(-1, keepdim=True))).sum()

    return gap


def drawn(*shape: int, **options: Any) -> Any:
    """Numbers in (0.5, 1.5), the same at each call."""
    rng = np.random.default_rng(len(shape))
    return sf.tensor(rng.uniform(0.5, 1.5, shape).astype(np.float32), **options)


def test_a_call_is_one_vertex_and_one_program_each_way(made: list[Any]) -> None:
    gap = new("GapBackward0")
    x, y = drawn(4, 3, requires_grad=True), drawn(4, 3) * 0.5
    out = gap(x, y)
    assert repr(out.grad_fn) == "<GapBackward0>"
    ways = out.grad_fn.next_functions
    assert ways[0][0].variable is x and ways[1] == (None, 0)
    out.backward()
    assert len(made) == 2
    z = drawn(4, 3, requires_grad=True)
    gap.__wrapped__(z, y).backward()
    assert_close(x.grad, z.grad)


def test_other_sizes_compile_nothing_and_other_numbers_do(made: list[Any]) -> None:
    gap = new()
    for shape in ((4, 26), (7, 25), (2, 29)):
        x, y = drawn(*shape), drawn(*shape) * 0.5
        assert_close(gap(x, y), gap.__wrapped__(x, y))
    assert len(made) == 1
    gap(x, y, 3.0), gap(x, y, 3)
    assert len(made) == 3


def test_short_rows_have_a_program_for_each_length(made: list[Any]) -> None:
    gap = new()
    for shape, count in (
        ((4, 3), 1),
        ((700, 3), 1),
        ((7, 2), 2),
        ((9, 4), 3),
        ((9, 16), 4),
        ((8, 17), 5),
        ((5, 18), 5),
    ):
        x, y = drawn(*shape), drawn(*shape) * 0.5
        assert_close(gap(x, y), gap.__wrapped__(x, y))
        assert len(made) == count


def test_what_a_program_keeps_is_small(made: list[Any]) -> None:
    gap = new()
    x, y = drawn(4, 3, requires_grad=True), drawn(4, 3)
    gap(x, y).backward()
    assert [len(g.outputs) for g in made] == [2, 1]  # the sums of the rows are kept


def test_operands_that_broadcast_and_do_not_lie_in_order() -> None:
    gap = new()
    x = drawn(3, 4, requires_grad=True)
    for y in (drawn(3), drawn(1, 3), drawn(4, 1), drawn(4, 6)[:, ::2], drawn()):
        found = sf.autograd.grad(gap(x.t(), y), [x])
        assert_close(found, sf.autograd.grad(gap.__wrapped__(x.t(), y), [x]))


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
def test_operands_that_are_turned_alike_are_not_copied(
    order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are their results and gradients in another order than they."""

    @fused("ScaledBackward0", only_large=True)
    def scaled(x: Any, y: Any, dim: int) -> Any:
        total = (x * y).sum(dim, keepdim=True)
        return x / total - y, total.sum(dim)

    given: list[Any] = []
    run = calls._run
    monkeypatch.setattr(calls, "_run", lambda p, arrays: given.append(arrays) or run(p, arrays))
    for dim in range(3):
        leaves = [drawn(30, 40, 60).requires_grad_() for _ in range(2)]
        x, y = (leaf.permute(order) for leaf in leaves)
        ways = []
        for fn in (scaled, scaled.__wrapped__):
            out, total = fn(x, y, dim)
            assert out.stride() == x.stride() and total.shape == x.sum(dim).shape
            loss = (out * out).sum() + total.sum()
            ways.append((out, total, *sf.autograd.grad(loss, [x, y])))
        for found, wanted in zip(*ways, strict=True):
            assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        assert ways[0][2].stride() == x.stride()
    operands = [a for arrays in given for a in arrays[:2]]
    assert len(given) == 6 and all(a.flags.c_contiguous for a in operands)


@pytest.mark.parametrize("dim", [0, 1])
def test_what_is_computed_of_turned_operands_is_not_turned_by_a_copy(
    dim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    compiled = calls.compile_graph
    monkeypatch.setattr(
        calls, "compile_graph", lambda g, **n: made.append(compiled(g, **n)) or made[-1]
    )

    @fused("PartsBackward0", only_large=True)
    def parts(x: Any, dim: int) -> Any:
        return (x * 2).narrow(dim, 1, 299) - x.narrow(dim, 0, 299).exp()

    x = drawn(300, 300, requires_grad=True)
    parts(x, 1 - dim).sum().backward()
    parts(x.t(), dim).sum().backward()
    given, x.grad = x.grad, None
    parts.__wrapped__(x.t(), dim).sum().backward()
    assert_close(given, x.grad * 2)
    straight, back, turned, turned_back = [len(e.program.kernels) for e in made]
    assert (turned, turned_back) == (straight, back)


def test_what_does_not_fit_is_an_error_of_the_ops() -> None:
    gap = new()
    with pytest.raises(sf.ShapeError, match=r"sub.*test_eager_fused"):
        gap(drawn(4, 3), drawn(4, 2))
    with pytest.raises(sf.DTypeError, match="not list"):
        gap(drawn(4, 3), [1.0])


def test_the_same_operand_twice_and_one_made_of_the_other() -> None:
    gap = new()
    for fn in (gap, gap.__wrapped__):
        x = drawn(4, 3).double().requires_grad_()

        def both(x: Any, fn: Any = fn) -> Any:
            return fn(x, x * x + 3) + fn(x, x)

        assert sf.autograd.gradcheck(both, (x,)) and sf.autograd.gradgradcheck(both, (x,))


def test_second_derivatives_run_op_by_op(made: list[Any]) -> None:
    gap = new()
    x, y = drawn(4, 3, requires_grad=True), drawn(4, 3) * 0.5
    found = []
    for fn in (gap, gap.__wrapped__):
        (first,) = sf.autograd.grad(fn(x, y), [x], create_graph=True)
        found += [sf.autograd.grad(first.square().sum(), [x])]
    assert_close(*found)
    assert len(made) == 1


def test_changed_operands_are_refused_and_freed_ones_too() -> None:
    gap = new()
    x = drawn(4, 3, requires_grad=True)
    y = drawn(4, 3)
    out = gap(x, y)
    y.add_(1)
    with pytest.raises(AutogradError, match=r"gap: argument 1.*changed in place"):
        out.backward()
    out = gap(x, y)
    out.backward()
    with pytest.raises(AutogradError, match="second time"):
        out.backward()


def test_an_operand_of_which_only_the_shape_is_used_may_change() -> None:
    x = drawn(64, requires_grad=True)
    inner = x * 1
    out = sf.nn.functional.dropout(inner, 0.5)
    inner.add_(1)
    (g,) = sf.autograd.grad(out.sum(), [x], retain_graph=True)
    assert set(g.tolist()) == {0.0, 2.0}
    with pytest.raises(AutogradError, match="changed in place"):  # which runs it again
        sf.autograd.grad(out.sum(), [x], create_graph=True)


def test_what_only_a_library_computes_runs_op_by_op() -> None:
    @fused("")
    def inverse(x: Any) -> Any:
        return sf.linalg.inv(x) + 1

    assert_close(inverse(2 * sf.eye(2)), sf.tensor([[1.5, 1.0], [1.0, 1.5]]))


def test_settings_of_the_thread() -> None:
    gap = new()
    x, y = drawn(4, 3, requires_grad=True), drawn(4, 3) * 0.5
    packed: list[Any] = []

    def pack(t: Any) -> int:
        packed.append(t)
        return len(packed) - 1

    with sf.autograd.graph.saved_tensors_hooks(pack, packed.__getitem__):
        out = gap(x, y)
    (hooked,) = sf.autograd.grad(out, [x])
    assert len(packed) == 3
    assert_close(hooked, *sf.autograd.grad(gap(x, y), [x]))
    with sf.inference_mode():
        assert gap(x, y).is_inference()
    with sf.no_grad():
        assert not gap(x, y).requires_grad


class Parts(NamedTuple):
    whole: Any
    rest: Any


def test_a_named_tuple_is_one_program_too(made: list[Any]) -> None:
    """Its operands, which do not lie in order, are turned for it, and so are the results."""

    @fused("PartsBackward0")
    def parts(x: Any) -> Any:
        return Parts(x.floor(), x - x.floor())

    x = drawn(3, 4, requires_grad=True)
    for given in (x, x.T):
        found = parts(given)
        assert type(found) is Parts
        assert repr(found.rest.grad_fn) == repr(found.whole.grad_fn) == "<PartsBackward0>"
        assert_close(found.whole + found.rest, given)
        (gradient,) = sf.autograd.grad(found.rest.sum(), x)
        assert_close(gradient, sf.ones(3, 4))
    assert len(made) == 4
    with sf.inference_mode():
        found = parts(drawn(3, 4))
    assert type(found) is Parts and all(part.is_inference() for part in found)
    xs = sf.placeholder((None, 4), name="xs")
    assert type(parts(xs)) is Parts
    assert len(made) == 5


def test_in_a_graph_it_is_its_ops() -> None:
    gap = new()
    y = drawn(4, 3) * 0.5
    xs = sf.placeholder((None, 3), name="xs")
    program = sf.compile([xs], gap(xs, y))
    assert "gap" not in str(program.graph)
    assert_close(program(drawn(4, 3)), gap(drawn(4, 3), y))
    assert_close(sf.jit(gap)(drawn(4, 3), y), gap(drawn(4, 3), y))


def test_an_answer_that_is_no_number_is_not_recorded(made: list[Any]) -> None:
    @fused("")
    def positive(x: Any) -> Any:
        return (x > 0).all()

    assert positive(drawn(4, requires_grad=True)).item() is True
    assert len(made) == 1


def test_small_tensors_of_some_functions_go_through_their_ops(made: list[Any]) -> None:
    for n, programs in ((8, 0), (LARGE // 8, 2)):
        x = sf.from_numpy(np.random.default_rng(0).random((n, 8), np.float32))
        a = x.numpy().copy()
        a[0, 0] = np.nan
        x[0, 0] = float("nan")
        for found, wanted in zip(sf.aminmax(x, dim=1), (a.min(1), a.max(1)), strict=True):
            np.testing.assert_array_equal(found.numpy(), wanted)
        low, high = x[:1].clone() - 0.1, x[:, :1].clone() + 0.1
        got = sf.clamp(x, low, high).numpy()
        np.testing.assert_array_equal(got, np.minimum(np.maximum(a, low.numpy()), high.numpy()))
        assert len(made) == programs


RECURRENT = """
import staticflow as sf
from staticflow.eager import fused

made, compiled = [], fused.compile_graph
fused.compile_graph = lambda graph, **named: made.append(graph) or compiled(graph, **named)
net = sf.nn.LSTM(3, 5)
lengths = sf.tensor([7, 3, 5, 1])
x = sf.randn(7, 4, 3, requires_grad=True)
out, (h, c) = net(x, lengths=lengths)
(out.sum() + (h * c).sum()).backward()
(net(x, lengths=lengths)[1][0]).sum().backward()  # of one output alone
print(len(made), x.grad[5:, 1].abs().sum().item())
"""


def test_programs_of_sizes_that_have_to_be_equal_are_sound() -> None:
    """The graphs of both ways name what their params were before equal sizes had one name: the
    verifier refused a recurrent net on sequences of different lengths. The process is new, where
    nobody has had these programs compiled yet."""
    environment = {**os.environ, "STATICFLOW_VERIFY": "1"}
    run = subprocess.run(
        [sys.executable, "-c", RECURRENT], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    programs, beyond = run.stdout.split()
    assert int(programs) >= 3 and float(beyond) == 0
