"""Functions of shapes that are made of ops: against NumPy, in both modes, sizes known and unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import pytree
from staticflow.errors import DTypeError, ShapeError, SymbolicError
from staticflow.graph.dims import Dim

Fn = Callable[[Any], Any]
X = np.arange(24.0).reshape(2, 3, 4)

# name, of a tensor, of an array, the shapes of the argument
TABLE: tuple[tuple[str, Fn, Fn, tuple[tuple[int, ...], ...]], ...] = (
    ("movedim", lambda t: t.movedim(0, -1), lambda a: np.moveaxis(a, 0, -1), ((2, 3, 4), (3,))),
    ("movedims", lambda t: sf.moveaxis(t, (0, 1), (-1, 0)), lambda a: np.moveaxis(a, (0, 1), (-1, 0)), ((2, 3, 4),)),
    ("swapaxes", lambda t: t.swapaxes(0, 2), lambda a: a.swapaxes(0, 2), ((2, 3, 4),)),
    ("T", lambda t: t.T, lambda a: a.T, ((2, 3),)),
    ("mT", lambda t: t.mT + t.adjoint(), lambda a: 2 * a.swapaxes(-1, -2), ((2, 3, 4),)),
    ("rot90", lambda t: [t.rot90(k, (0, 1)) for k in range(-2, 4)], lambda a: [np.rot90(a, k) for k in range(-2, 4)],
     ((2, 3), (2, 3, 4))),
    ("fliplr", lambda t: t.fliplr() + t.flipud(), lambda a: np.fliplr(a) + np.flipud(a), ((2, 3),)),
    ("unflatten", lambda t: t.unflatten(-1, (2, -1)), lambda a: a.reshape(*a.shape[:-1], 2, -1), ((3, 4),)),
    ("ravel", lambda t: t.ravel(), lambda a: a.ravel(), ((2, 3), ())),
    ("atleast", lambda t: [sf.atleast_1d(t), sf.atleast_2d(t), sf.atleast_3d(t)],
     lambda a: [np.atleast_1d(a), np.atleast_2d(a), np.atleast_3d(a)], ((), (3,), (2, 3), (2, 3, 4))),
    ("expand_as", lambda t: t.narrow(0, 0, 1).expand_as(t), lambda a: np.broadcast_to(a[:1], a.shape), ((2, 3),)),
    ("split", lambda t: t.split([1, 2], 1), lambda a: np.split(a, [1], 1), ((2, 3), (2, 3, 4))),
    ("split sizes", lambda t: t.split(t.shape[0]), lambda a: [a], ((2, 3),)),
    ("tensor_split", lambda t: t.tensor_split(3), lambda a: np.array_split(a, 3), ((2, 3), (7,), (0, 2))),
    ("tensor_split at", lambda t: t.tensor_split((1, 5), 0), lambda a: np.split(a, (1, 5)), ((7,), (2, 3))),
    ("hstack", lambda t: sf.hstack([t, t]), lambda a: np.hstack([a, a]), ((3,), (2, 3))),
    ("vstack", lambda t: sf.vstack([t, t]), lambda a: np.vstack([a, a]), ((3,), (2, 3))),
    ("dstack", lambda t: sf.dstack([t, t]), lambda a: np.dstack([a, a]), ((3,), (2, 3))),
    ("column_stack", lambda t: sf.column_stack([t, t]), lambda a: np.column_stack([a, a]), ((3,), (2, 3))),
    ("concat", lambda t: sf.concat([t, t * 2], -1), lambda a: np.concatenate([a, a * 2], -1), ((2, 3),)),
    ("meshgrid", lambda t: sf.meshgrid(t, t[:2], indexing="xy"), lambda a: np.meshgrid(a, a[:2]), ((3,),)),
    ("tile", lambda t: sf.tile(t, (2,)), lambda a: np.tile(a, (1,) * (a.ndim - 1) + (2,)), ((3,), (2, 3))),
    ("repeat_interleave", lambda t: [t.repeat_interleave(2, -1), t.repeat_interleave(3)],
     lambda a: [np.repeat(a, 2, -1), np.repeat(a, 3)], ((3,), (2, 3))),
    ("diag", lambda t: sf.diag(t, 1), lambda a: np.diag(a, 1), ((3,), (3, 4))),
    ("trace", lambda t: t.trace(), np.trace, ((3, 4),)),
    ("narrow", lambda t: t.narrow(-1, 1, 2), lambda a: a[..., 1:3], ((2, 3), (3,))),
    ("select_scatter", lambda t: t.select_scatter(t[0] * 2, 0, -1), lambda a: np.concatenate([a[:-1], a[:1] * 2]),
     ((2, 3),)),
    ("one_hot", lambda t: sf.one_hot(t.long() % 3, 3), lambda a: np.eye(3, dtype=np.int64)[a.astype(int) % 3],
     ((3,), (2, 3), ())),
    ("rows", lambda t: sf.stack([row.sum() for row in t.narrow(0, 0, 2)]), lambda a: a[:2].reshape(2, -1).sum(1),
     ((2, 3), (3, 3))),
    ("fill", lambda t: t.clone().fill_(2) + t.clone().fill_diagonal_(0), lambda a: 2 + a - np.diag(np.diag(a)), ((3, 3),)),
)  # fmt: skip


def flat(out: Any) -> list[Any]:
    return pytree.flatten(list(out) if isinstance(out, tuple | list) else out)[0]


CASES = [(name, of, like, shape) for name, of, like, shapes in TABLE for shape in shapes]


@pytest.mark.parametrize(
    ("name", "of", "like", "shape"), CASES, ids=lambda v: "" if callable(v) else str(v)[:24]
)
def test_against_numpy(name: str, of: Fn, like: Fn, shape: tuple[int, ...]) -> None:
    x = np.asarray(np.arange(float(np.prod(shape))).reshape(shape) + 1)
    wanted = flat(like(x))
    for found in (flat(of(sf.from_numpy(x))), compiled(of, x, True), compiled(of, x, False)):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(f.numpy(), w, name)
            assert f.numpy().dtype == np.asarray(w).dtype


def compiled(of: Fn, x: np.ndarray, unknown: bool) -> list[Any]:
    sizes = tuple(None if unknown else n for n in x.shape)
    symbol = sf.placeholder(sizes, "float64", "x")
    return list(sf.compile([symbol], flat(of(symbol)))(x))


def test_sizes_of_tensors_stand_in_shapes() -> None:
    x = sf.placeholder((None, None), name="x")
    n, m = x.shape
    assert isinstance(n, Dim)
    outs = [x.view(m, n), x.reshape(-1, n), x.narrow(0, 0, 1).expand(n * 2, m), x.repeat(2, n), x.narrow(1, 0, m - 1),
            x.split([m - 1, 1], 1)[0], x.roll(n, 1), x[: n - 1], x.unflatten(0, (n, 1))]  # fmt: skip
    found = sf.compile([x], outs)(sf.arange(6.0).view(2, 3))
    assert [f.shape for f in found] == [
        (3, 2), (3, 2), (4, 3), (4, 6), (2, 2), (2, 2), (2, 3), (1, 3), (2, 1, 3),
    ]  # fmt: skip


def test_views_alias_where_they_do_in_pytorch() -> None:
    x = sf.zeros(2, 3)
    for view in (
        x.view(3, 2), x.reshape(6), x.t(), x.T, x.mT, x[0], x[:, 1:], x.unsqueeze(0), x.squeeze(), x.diagonal(),
        x.unfold(1, 2, 1), x.select(0, 1), x.narrow(0, 0, 1), x.movedim(0, 1), x.split(1)[0], x.unbind()[1],
        x.expand(4, 2, 3), x.flatten(), x[None], x.detach(), x[sf.tensor(1)],
    ):  # fmt: skip
        assert np.shares_memory(view.numpy(), x.numpy())
    for copied in (
        x.flip(0), x.roll(1), x.repeat(1, 1), x[[0, 1]], x.t().reshape(6), x.t().contiguous(), x.diag(), x.tril(),
        x[x == 0], x.index_select(0, sf.tensor([0, 1])), x.clone(),
    ):  # fmt: skip
        assert not np.shares_memory(copied.numpy(), x.numpy())


def test_view_wants_memory_that_allows_it() -> None:
    x = sf.from_numpy(X)
    assert x[:, :2].view(2, 2, 2, 2).shape == (2, 2, 2, 2)
    assert x.transpose(0, 1).view(3, 2, 2, 2).shape == (3, 2, 2, 2)
    assert x[:, :, ::2].view(6, 2).stride() == (4, 2)
    for strided, shape in ((x.transpose(0, 1), (6, 4)), (x[:, :2], (4, 4)), (x[..., 1:], (2, 9))):
        with pytest.raises(ShapeError, match=r"view.*strides.*reshape.*test_shapes\.py"):
            strided.view(shape)
        assert strided.reshape(-1).shape == (strided.numel(),)


def test_strides_and_offsets() -> None:
    x = sf.from_numpy(X)
    part = x[1, :, 1:]
    assert (x.stride(), x.stride(-1), x.storage_offset()) == ((12, 4, 1), 1, 0)
    assert (part.stride(), part.storage_offset(), part.is_contiguous()) == ((4, 1), 13, False)
    assert part.contiguous().stride() == (3, 1) and x.contiguous() is x
    y = sf.placeholder((None, 3), name="y")
    rows = y.contiguous()
    assert (rows.stride(), rows.storage_offset(), rows.is_contiguous()) == ((3, 1), 0, True)
    for of_memory in ("stride", "storage_offset", "is_contiguous"):
        with pytest.raises(
            sf.SymbolicError, match=rf"{of_memory} of a symbolic.*contiguous\(\).*test_"
        ):
            getattr(y, of_memory)()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: x.t(), "TBackward0"), (lambda x: x.T, "PermuteBackward0"), (lambda x: x.mT, "TransposeBackward0"),
        (lambda x: x[0], "SelectBackward0"), (lambda x: x[1:], "SliceBackward0"), (lambda x: x[[0]], "IndexBackward0"),
        (lambda x: x.view(-1), "ViewBackward0"), (lambda x: x.unsqueeze(0), "UnsqueezeBackward0"),
        (lambda x: x.diagonal(), "DiagonalBackward0"), (lambda x: x.flip(0), "FlipBackward0"),
        (lambda x: sf.stack([x, x]), "StackBackward0"), (lambda x: sf.cat([x, x]), "CatBackward0"),
        (lambda x: x.repeat(2, 2), "RepeatBackward0"), (lambda x: x.roll(1, 0), "RollBackward0"),
        (lambda x: x.tril(), "TrilBackward0"), (lambda x: x.masked_fill(x > 0, 1), "MaskedFillBackward0"),
        (lambda x: x.masked_select(x > 0), "MaskedSelectBackward0"), (lambda x: x.unfold(0, 1, 1), "UnfoldBackward0"),
        (lambda x: x.index_select(0, sf.tensor([0])), "IndexSelectBackward0"),
        (lambda x: x.take(sf.tensor([0])), "TakeBackward0"), (lambda x: sf.embedding(x, sf.tensor([0])), "EmbeddingBackward0"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_grad_fn_is_named_as_in_pytorch(call: Fn, name: str) -> None:
    assert call(sf.ones(2, 3, requires_grad=True)).grad_fn.name().removesuffix("()") == name


def test_selections_of_unknown_size() -> None:
    x = sf.tensor([[1.0, -2.0], [-3.0, 4.0]], requires_grad=True)
    picked = x.masked_select(x > 0)
    assert picked.tolist() == [1, 4] and sf.nonzero(x > 0).tolist() == [[0, 0], [1, 1]]
    assert [i.tolist() for i in sf.where(x > 0)] == [[0, 1], [0, 1]]
    (picked * sf.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [[2, 0], [0, 3]]
    assert sf.repeat_interleave(x, sf.tensor([2, 0]), dim=0).shape == (2, 2)
    assert sf.one_hot(sf.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    for classes in ([0, 3], [0, -1]):
        with pytest.raises(IndexError, match="one_hot: the classes must be from 0 to 2"):
            sf.one_hot(sf.tensor(classes), 3)
    with pytest.raises(TypeError, match="one_hot: the classes are integers, not float32"):
        sf.one_hot(sf.tensor([0.0]), 3)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(reduce: str, include_self: bool) -> None:
    of: dict[str, Callable[..., Any]] = {
        "sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min,
    }  # fmt: skip
    x, index, src = np.array([1.0, 2, 3]), np.array([0, 0, 2, 0]), np.array([4.0, -5, 6, 0.5])
    wanted = []
    for place in range(3):
        come = src[index == place].tolist()
        values = [*come, x[place]] if include_self or not come else come
        wanted.append(of[reduce](values))

    def reduced(x: Any, i: Any, s: Any) -> Any:
        return x.scatter_reduce(0, i, s, reduce, include_self=include_self)

    tensors = [sf.from_numpy(a) for a in (x, index, src)]
    np.testing.assert_allclose(reduced(*tensors).numpy(), wanted)
    symbols = [
        sf.placeholder((None,), a.dtype.name, f"a{i}") for i, a in enumerate((x, index, src))
    ]
    program = sf.compile(symbols, reduced(*symbols))
    np.testing.assert_allclose(program(x, index, src).numpy(), wanted)


def test_several_dims_are_put_in_at_once() -> None:
    x = sf.ones(2, 3)
    assert sf.unsqueeze(x, (0, -1)).shape == (1, 2, 3, 1) == x.unsqueeze([3, 0]).shape
    assert sf.unsqueeze(x, ()).shape == (2, 3)
    with pytest.raises(ShapeError, match="unsqueeze: a dim appears twice"):
        sf.unsqueeze(x, (1, 1))


def test_errors() -> None:
    x, n = sf.zeros(2, 3), sf.placeholder((None, 3), name="n")
    for call, error, says in (
        (lambda: x.unflatten(1, (2, 2)), ShapeError, "do not make up dim 1"),
        (lambda: x.split([1, 3], 1), ShapeError, "do not make up dim 1"),
        (lambda: x.hsplit(2), ShapeError, "no 2 equal parts"),
        (lambda: x.movedim((0, 1), 0), ShapeError, "place of its own"),
        (lambda: n.unbind(), SymbolicError, "how many slices"),
        (lambda: n.split(2), SymbolicError, "how many parts"),
        (lambda: len(n), SymbolicError, r"use x\.shape\[0\]"),
        (lambda: sf.cat([]), ShapeError, "at least one tensor"),
        (lambda: sf.meshgrid(x), ShapeError, "takes vectors"),
        (lambda: x.masked_fill(x, 0), DTypeError, "must be bool"),
        (lambda: sf.broadcast_tensors(x, sf.zeros(2)), ShapeError, "3 and 2 differ"),
    ):  # fmt: skip
        with pytest.raises(error, match=rf"(?s){says}.*test_shapes\.py"):
            call()
