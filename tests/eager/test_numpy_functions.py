"""NumPy's functions of arrays on tensors: those with a counterpart, and those that are methods, give what
NumPy gives, on the tape and in graphs; any other computes with values or says that it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import AutogradError, DTypeError, StaticflowError, SymbolicError
from staticflow.ops.tensors.array_functions import _BY_METHOD, _COUNTERPARTS, _WRITING, shown_name

RNG = np.random.default_rng(0)
A = RNG.uniform(0.5, 2.0, (3, 3))
B = RNG.uniform(0.5, 2.0, (3, 3))
V = A[0]
PLACES = np.array([[2, 0, 1]])
Calls = tuple[Callable[..., Any], ...]

CALLS: dict[Any, Calls] = {
    np.reshape: (lambda x, y: np.reshape(x, (9, 1)), lambda x, y: np.reshape(x, -1)),
    np.ravel: (lambda x, y: np.ravel(x),),
    np.transpose: (lambda x, y: np.transpose(x), lambda x, y: np.transpose(x[None], (1, 0, 2))),
    np.moveaxis: (lambda x, y: np.moveaxis(x[None], 0, -1),),
    np.expand_dims: (lambda x, y: np.expand_dims(x, 1),),
    np.broadcast_to: (lambda x, y: np.broadcast_to(x, (2, 3, 3)),),
    np.flip: (lambda x, y: np.flip(x), lambda x, y: np.flip(x, 1)),
    np.flipud: (lambda x, y: np.flipud(x),), np.fliplr: (lambda x, y: np.fliplr(x),),
    np.roll: (lambda x, y: np.roll(x, 1), lambda x, y: np.roll(x, -1, axis=1)),
    np.size: (lambda x, y: np.size(x),),
    np.concatenate: (lambda x, y: np.concatenate([x, y]), lambda x, y: np.concatenate((x, y), axis=1),
                     lambda x, y: np.concatenate([x, B], axis=None), lambda x, y: np.concatenate(x)),
    np.stack: (lambda x, y: np.stack([x, y]), lambda x, y: np.stack([x, y], axis=-1),
               lambda x, y: np.stack(x)),
    np.vstack: (lambda x, y: np.vstack([x, y]), lambda x, y: np.vstack(x)),
    np.hstack: (lambda x, y: np.hstack((x, y)), lambda x, y: np.hstack(x)),
    np.dstack: (lambda x, y: np.dstack([x, y]),),
    np.column_stack: (lambda x, y: np.column_stack([x, y[0]]),),
    np.tile: (lambda x, y: np.tile(x, 2), lambda x, y: np.tile(x, (2, 1))),
    np.repeat: (lambda x, y: np.repeat(x, 2), lambda x, y: np.repeat(x, 2, axis=1)),
    np.dot: (lambda x, y: np.dot(x, y), lambda x, y: np.dot(x[0], y[0]), lambda x, y: np.dot(x, 2.0),
             lambda x, y: np.dot(x, y[None])),
    np.inner: (lambda x, y: np.inner(x, y),), np.outer: (lambda x, y: np.outer(x, y[0]),),
    np.kron: (lambda x, y: np.kron(x, y),),
    np.tensordot: (lambda x, y: np.tensordot(x, y), lambda x, y: np.tensordot(x, y, axes=([1], [0]))),
    np.einsum: (lambda x, y: np.einsum("ij,kj->ik", x, y), lambda x, y: np.einsum("ii", x)),
    np.linalg.inv: (lambda x, y: np.linalg.inv(x),), np.linalg.det: (lambda x, y: np.linalg.det(x),),
    np.linalg.solve: (lambda x, y: np.linalg.solve(x, y), lambda x, y: np.linalg.solve(x, y[0])),
    np.linalg.norm: (lambda x, y: np.linalg.norm(x), lambda x, y: np.linalg.norm(x, axis=1)),
    np.diag: (lambda x, y: np.diag(x), lambda x, y: np.diag(x[0], 1)),
    np.diagonal: (lambda x, y: np.diagonal(x, 1),), np.trace: (lambda x, y: np.trace(x, -1),),
    np.tril: (lambda x, y: np.tril(x),), np.triu: (lambda x, y: np.triu(x, 1),),
    np.take: (lambda x, y: np.take(x, [0, 4]), lambda x, y: np.take(x, PLACES, axis=1)),
    np.take_along_axis: (lambda x, y: np.take_along_axis(x, PLACES, axis=0),),
    np.where: (lambda x, y: np.where(x > 1, x, y), lambda x, y: np.where(x > 1, x, 0.0)),
    **{pick: (lambda x, y, f=pick: f(x), lambda x, y, f=pick: f(x, axis=0),
              lambda x, y, f=pick: f(x, axis=(0, 1), keepdims=True))
       for pick in (np.max, np.amax, np.min, np.amin, np.ptp)},
    np.sort: (lambda x, y: np.sort(x), lambda x, y: np.sort(x, axis=0), lambda x, y: np.sort(x, axis=None)),
    np.argsort: (lambda x, y: np.argsort(x), lambda x, y: np.argsort(x, axis=None)),
    np.diff: (lambda x, y: np.diff(x), lambda x, y: np.diff(x, 2, axis=0)),
    np.zeros_like: (lambda x, y: np.zeros_like(x),), np.ones_like: (lambda x, y: np.ones_like(x),),
    np.full_like: (lambda x, y: np.full_like(x, 2.5),),
    np.nan_to_num: (lambda x, y: np.nan_to_num(x),),
    # by methods
    **{f: (lambda x, y, f=f: f(x), lambda x, y, f=f: f(x, axis=0))
       for f in (np.mean, np.prod, np.std, np.sum, np.var, np.argmax, np.argmin)},
    **{f: (lambda x, y, f=f: f(x > 1), lambda x, y, f=f: f(x > 1, axis=1)) for f in (np.all, np.any)},
    **{f: (lambda x, y, f=f: f(x, axis=0), lambda x, y, f=f: f(x)) for f in (np.cumprod, np.cumsum)},
    **{f: (lambda x, y, f=f: f(x),) for f in (
        np.around, np.round, np.isneginf, np.isposinf, np.ndim, np.shape, np.unstack, np.linalg.diagonal)},
    **{f: (lambda x, y, f=f: f(x, 3),) for f in (np.array_split, np.split, np.hsplit, np.vsplit)},
    np.dsplit: (lambda x, y: np.dsplit(x[None], 3),),
    np.clip: (lambda x, y: np.clip(x, 0.8, 1.5), lambda x, y: np.clip(x, None, y)),
    np.squeeze: (lambda x, y: np.squeeze(x[None]), lambda x, y: np.squeeze(x[None], axis=0)),
    np.swapaxes: (lambda x, y: np.swapaxes(x, 0, 1),),
    np.linalg.matmul: (lambda x, y: np.linalg.matmul(x, y),),
    np.linalg.tensordot: (lambda x, y: np.linalg.tensordot(x, y),),
}  # fmt: skip
EACH = [(f, i) for f, calls in CALLS.items() for i in range(len(calls))]


def named(value: Any) -> str:
    return str(value) if isinstance(value, int) else shown_name(value)


def flat(out: Any) -> list[Any]:
    return [x for part in out for x in flat(part)] if isinstance(out, tuple | list) else [out]


def values(out: Any) -> list[Any]:
    return [np.asarray(x.detach() if isinstance(x, sf.Tensor) else x) for x in flat(out)]


def test_every_function_that_is_promised_has_a_call() -> None:
    assert set(CALLS) == {*_COUNTERPARTS, *_BY_METHOD}


@pytest.mark.parametrize(("function", "which"), EACH, ids=named)
def test_it_gives_what_numpy_gives(function: Any, which: int) -> None:
    call = CALLS[function][which]
    wanted = flat(call(A, B))
    x, y = (sf.tensor(v).requires_grad_() for v in (A, B))
    results = flat(call(x, y))
    for w, found in zip(wanted, values(results), strict=True):
        assert found.dtype == np.asarray(w).dtype and found.shape == np.shape(w)
        np.testing.assert_allclose(found, w, 1e-12)
    floats = [r for r in results if isinstance(r, sf.Tensor) and r.requires_grad]
    constant = function in (np.zeros_like, np.ones_like, np.full_like)
    assert constant or len(floats) == sum(np.asarray(w).dtype == np.float64 for w in wanted)
    if not floats or function in (np.around, np.round):
        return
    sum(r.sum() * (i + 1) for i, r in enumerate(floats)).backward()
    steps = np.zeros((3, 3))
    steps[1, 2] = 1e-6
    ends = [values(call(A + d, B)) for d in (steps, -steps)]
    there, back = (sum(v.sum() * (i + 1) for i, v in enumerate(vs)) for vs in ends)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad[1, 2].item(), (there - back) / 2e-6, 1e-5, 1e-6)


@pytest.mark.parametrize("function", CALLS, ids=shown_name)
def test_it_is_traced(function: Any) -> None:
    x, y = (sf.placeholder((3, 3), "float64", name=n) for n in "xy")
    for call in CALLS[function]:
        outs = flat(call(x, y))
        symbols = [o for o in outs if hasattr(o, "__sf_mode__")]
        assert symbols or function in (np.size, np.ndim, np.shape)
        found = sf.compile([x, y], symbols)(A, B) if symbols else outs
        for f, w in zip(found, flat(call(A, B)), strict=True):
            np.testing.assert_allclose(np.asarray(f), w, 1e-12)


OTHERS: dict[str, Callable[[Any], Any]] = {
    "percentile": lambda x: np.percentile(x, 30), "median": lambda x: np.median(x, axis=0),
    "nonzero": np.nonzero, "argwhere": np.argwhere, "flatnonzero": np.flatnonzero,
    "extract": lambda x: np.extract(A > 1, x), "block": lambda x: np.block([[x, x]]),
    "resize": lambda x: np.resize(x, (2, 2)), "rollaxis": lambda x: np.rollaxis(x, 1),
    "unique": np.unique, "histogram": np.histogram, "qr": np.linalg.qr, "fft": np.fft.fft,
    "insert": lambda x: np.insert(x, 0, 1.0), "average": np.average, "array_equal": lambda x: np.array_equal(x, x), "array_repr": np.array_repr,
    "result_type": np.result_type,
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_any_other_computes_with_values(name: str) -> None:
    call = OTHERS[name]
    for found, wanted in zip(flat(call(sf.tensor(A))), flat(call(A)), strict=True):
        assert not isinstance(found, sf.Tensor)
        if isinstance(wanted, np.ndarray | float):
            np.testing.assert_array_equal(found, wanted)
        else:
            assert found == wanted
    says = (
        r"np\..* computes with the values of a tensor that requires a gradient.*detach.*test_numpy"
    )
    with pytest.raises(AutogradError, match=says):
        call(sf.tensor(A).requires_grad_())
    with pytest.raises(SymbolicError, match="test_numpy_functions"):
        call(sf.placeholder((3, 3), "float64", name="x"))


WRITES: dict[Any, Callable[[Any], Any]] = {
    np.copyto: lambda x: np.copyto(x, B), np.fill_diagonal: lambda x: np.fill_diagonal(x, 0.0),
    np.place: lambda x: np.place(x, A > 1, [0.0]), np.put: lambda x: np.put(x, [0], 1.0),
    np.put_along_axis: lambda x: np.put_along_axis(x, PLACES, 0.0, 0),
    np.putmask: lambda x: np.putmask(x, A > 1, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("function", WRITES, ids=shown_name)
def test_none_writes_to_a_tensor(function: Any) -> None:
    assert set(WRITES) == _WRITING
    x = sf.tensor(A)
    with pytest.raises((DTypeError, TypeError)):
        WRITES[function](x)
    with pytest.raises(
        DTypeError, match=r"np\.median cannot write to a tensor.*test_numpy_functions"
    ):
        np.median(A, axis=0, out=x[0])
    np.testing.assert_array_equal(x.numpy(), A)


def test_a_failing_call_is_worded() -> None:
    with pytest.raises(StaticflowError, match=r"test_numpy_functions\.py"):
        np.concatenate([sf.ones(2), sf.ones(2, 2)])
