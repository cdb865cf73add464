"""Vjps of large arrays: compiled, and the same as op by op."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.core import Sample
from opinfo.modes import arrays_of, call, weights

import staticflow as sf
from staticflow.eager import noted_programs, pullback, vertex
from staticflow.eager.programs import Programs, compile_graph
from staticflow.eager.tape import WALK
from staticflow.graph.dtypes import float64
from staticflow.ops import OPS
from staticflow.ops.along.class_losses import cross_entropy_op
from staticflow.ops.along.normalization import layer_norm_op

differentiable = pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.vjp])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The ops whose vjps are compiled, every array being large."""
    found: list[str] = []

    def counted(graph: Any) -> Any:
        found.append("program")
        return compile_graph(graph)

    monkeypatch.setattr(pullback, "compile_graph", counted)
    for module in (pullback, vertex):
        monkeypatch.setattr(module, "LARGE", 1)
    monkeypatch.setattr(pullback, "programs_of", functools.cache(lambda op: Programs()))
    monkeypatch.setattr(WALK, "form", None)  # which knows what is large by itself
    yield found


def largest(samples: list[Sample]) -> Sample:
    return max(samples, key=lambda s: sum(a.size for a in arrays_of(s)))


def gradients(name: str, sample: Sample, turned: bool = False) -> list[Any]:
    leaves = [sf.from_numpy(a.copy("F" if turned else "C")) for a in arrays_of(sample)]
    leaves = [t.requires_grad_(t.dtype is float64) for t in leaves]
    outs = [o for o in call(ROWS[name], sample, leaves) if o.requires_grad]
    wanted = [t for t in leaves if t.requires_grad]
    if not outs:
        return []
    cts = [
        w if isinstance(w, sf.Tensor) else sf.from_numpy(np.asarray(w)) for w in weights(outs, 5)
    ]
    return list(sf.autograd.grad(outs, wanted, cts, allow_unused=True))


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
@differentiable
def test_as_op_by_op(
    name: str, turned: bool, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = largest(list(ROWS[name].samples(float64, True)))
    found = gradients(name, sample, turned)
    monkeypatch.setattr(pullback, "LARGE", 1 << 62)
    for a, b in zip(found, gradients(name, sample, turned), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12, 1e-13)


def back(fn: Any, *arrays: Any, ct: Any = None) -> list[Any]:
    leaves = [sf.from_numpy(a).requires_grad_() for a in arrays]
    out = fn(*leaves)
    out.backward(sf.ones(*out.shape) if ct is None else ct)
    return [np.asarray(t.grad) for t in leaves]


def drawn(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def test_one_program_for_all_sizes(made: list[str]) -> None:
    for n, m in ((2, 3), (5, 4), (7, 2), (1, 3)):
        x = drawn(n, m)
        (found,) = back(sf.nn.functional.silu, x)
        s = 1 / (1 + np.exp(-x))
        np.testing.assert_allclose(found, s * (1 + x * (1 - s)), 1e-5, 1e-6)
    assert len(made) == 2  # one for a dim of size 1


def test_what_is_one_pass_is_not_compiled(made: list[str]) -> None:
    x, y = drawn(3, 4), drawn(3, 4)
    back(lambda x, y: x * y, x, y)
    back(lambda x: (x.exp() + 1).sum(), x)
    back(lambda x, y: x @ y.t(), x, y)
    assert made == []
    gx, gy = back(lambda x, y: x / y, x, y)
    np.testing.assert_allclose(gx, 1 / y, 1e-6)
    np.testing.assert_allclose(gy, -x / (y * y), 1e-5)
    assert len(made) == 1


def test_broadcast_arguments_are_summed_on_the_way(made: list[str]) -> None:
    x, row, column = drawn(6, 5), drawn(5), drawn(6, 1)
    ct = sf.from_numpy(drawn(6, 5) * 2)
    for small in (row, column):
        gx, gs = back(lambda x, s: x * s, x, small, ct=ct)
        np.testing.assert_allclose(gx, ct.numpy() * small, 1e-6)
        wanted = ct.numpy() * x
        wanted = wanted.sum(0) if small is row else wanted.sum(1, keepdims=True)
        np.testing.assert_allclose(gs, wanted, 1e-5, 1e-6)
    assert len(made) == 2


def test_a_repeated_cotangent_is_not_written_out(made: list[str]) -> None:
    x = drawn(4, 6)
    for ct in (sf.ones(1, 1), sf.ones(4, 1), sf.ones(4, 6)):
        (found,) = back(lambda x: x.tanh(), x, ct=ct.expand(4, 6))
        np.testing.assert_allclose(found, 1 - np.tanh(x) ** 2, 1e-5, 1e-6)
    assert len(made) == 3
    (found,) = back(lambda x: x.sigmoid().mean(), x)
    s = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(found, s * (1 - s) / x.size, 1e-5)


def test_numbers_share_a_program_unless_a_rule_knows_them(made: list[str]) -> None:
    x = np.abs(drawn(4, 6)) + 0.5
    for p in (2.7, 3.5, 1.25):
        (found,) = back(lambda x, p=p: x**p, x)
        np.testing.assert_allclose(found, p * x ** (p - 1), 1e-4)
    assert len(made) == 1
    np.testing.assert_allclose(back(lambda x: x**2, x)[0], 2 * x, 1e-6)
    assert len(made) == 2


def test_what_is_turned_alike_is_not_copied(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    run = noted_programs.run
    monkeypatch.setattr(
        noted_programs, "run", lambda p, arrays: given.append(arrays) or run(p, arrays)
    )
    x, y, ct = (np.random.default_rng(i).uniform(0.5, 1.5, (3, 4, 5)) for i in range(3))
    order = (1, 2, 0)
    expected = back(lambda x, y: x / y, x.transpose(order).copy(), y.transpose(order).copy(),
                    ct=sf.from_numpy(ct.transpose(order).copy()))  # fmt: skip
    given.clear()
    found = back(lambda x, y: x / y, x.transpose(order), y.transpose(order),
                 ct=sf.from_numpy(ct.transpose(order)))  # fmt: skip
    assert given and all(a.flags.c_contiguous for arrays in given for a in arrays)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_recorded_backward_goes_op_by_op(made: list[str]) -> None:
    x = sf.from_numpy(drawn(4, 6)).requires_grad_()
    (g,) = sf.autograd.grad(sf.nn.functional.silu(x).sum(), [x], create_graph=True)
    assert made == [] and g.requires_grad


def test_layer_norm_in_every_dtype(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in (sf.float16, sf.bfloat16, sf.float32, sf.float64):
        found = []
        for large in (1, 1 << 62):
            monkeypatch.setattr(pullback, "LARGE", large)
            x, w, b = (
                sf.from_numpy(drawn(*s)).to(dtype).requires_grad_() for s in ((6, 8), (8,), (8,))
            )
            layer_norm_op(x, w, b, ndim=1, eps=1e-5).backward(sf.ones(6, 8, dtype=dtype))
            found.append([t.grad.to(sf.float64).numpy() for t in (x, w, b)])
        for a, b_ in zip(*found, strict=True):
            np.testing.assert_allclose(a, b_, 1e-3, 1e-3 if dtype.bits == 16 else 1e-5)
    assert len(made) == 4


def test_an_index_that_does_not_fit_is_refused_in_the_users_words(made: list[str]) -> None:
    x = sf.from_numpy(drawn(4, 3)).requires_grad_()
    labels = sf.tensor([0, 1, 2, 0])
    loss, _ = cross_entropy_op(x, labels, ignore_index=-100, mean=True)
    loss.backward()
    assert x.grad is not None and made
    np.testing.assert_allclose(x.grad.numpy().sum(1), 0, atol=1e-6)


def test_memory_of_intermediate_values_is_not_kept(made: list[str]) -> None:
    back(lambda x: x.softmax(0), drawn(16, 16))
    made_of = pullback.programs_of(OPS["softmax"]).by_kind
    programs = [p for p in made_of.values() if p and p.executable]
    assert programs
    for p in programs:
        assert p.executable._state.cell.value is None


def test_an_op_that_is_always_compiled_has_its_derivative_so(made: list[str]) -> None:
    third = np.float32(1 / 3)
    for rows in (4, 4, 2, 0):
        x = sf.ones(rows, 3, requires_grad=True)
        classes = sf.zeros(rows, dtype="int64")
        each, _ = cross_entropy_op(x, classes, ignore_index=-100, mean=False)
        each.sum().backward()
        np.testing.assert_allclose(x.grad, np.tile([third - 1, third, third], (rows, 1)), 1e-6)
    assert made == ["program"] * 2  # the cotangent of no rows repeats nothing


def test_an_argument_that_is_stretched_alone_has_its_own_shape(made: list[str]) -> None:
    x = sf.ones(4, 1, requires_grad=True).expand(4, 3)
    loss, _ = cross_entropy_op(x, sf.tensor([0, 1, 2, 0]), ignore_index=-100, mean=False)
    (gradient,) = sf.autograd.grad(loss.sum(), [x])
    np.testing.assert_allclose(gradient, 1 / 3 - np.eye(3)[[0, 1, 2, 0]], 1e-6)
