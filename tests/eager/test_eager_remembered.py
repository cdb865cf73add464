"""What is remembered of a call gives what the call itself gives."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import pytree
from staticflow.eager.fast.forms import fast_forms
from staticflow.eager.mode import EAGER
from staticflow.errors import IndexRangeError, ShapeError, StaticflowError
from staticflow.ops import OPS
from staticflow.ops.declaring.by_shape import BY_SHAPE
from staticflow.ops.tensors import subscript

CALLS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "reshape": [((6,), {}), ((-1,), {}), (((2, 3),), {}), ((3, 2), {}), ((4,), {})],
    "view": [((6,), {}), ((2, -1), {}), ((2, 3), {}), ((5,), {})],
    "flatten": [((), {}), ((0, 1), {})],
    "unsqueeze": [((0,), {}), ((), {"dim": -1}), ((7,), {})],
    "squeeze": [((), {}), ((0,), {})],
    "expand": [((2, 3), {}), ((4, 2, 3), {}), ((4, -1, -1), {}), ((2, 4), {})],
    "permute": [((1, 0), {}), (([1, 0],), {}), ((0, 1), {}), ((0, 0), {})],
    "transpose": [((0, 1), {}), ((-1, -2), {}), ((0, 2), {})],
    "t": [((), {})],
    "sum": [
        ((), {}),
        ((1,), {}),
        ((), {"dim": (0, 1), "keepdim": True}),
        ((2,), {}),
        ((0,), {"dtype": sf.int8}),
        ((), {"dtype": sf.uint8}),
    ],
    "mean": [((), {}), ((0,), {}), ((), {"dtype": sf.float64})],
    "amax": [((), {}), ((1, True), {})],
    "argmin": [((), {}), ((0,), {})],
    "softmax": [((1,), {}), ((), {"dim": 0}), ((1, "float64"), {})],
    "logsumexp": [((1,), {}), (((0, 1),), {})],
    "all": [((), {}), ((1,), {})],
    "chunk": [((2,), {}), ((2, 1), {}), ((0,), {}), ((5,), {"dim": -1}), ((2, 2), {})],
    "split_method": [
        ((1,), {}),
        ((2, 1), {}),
        (([1, 2], 1), {}),
        ((), {"split_size": 2}),
        ((-1,), {}),
    ],
    "unbind": [((), {}), ((1,), {}), ((), {"dim": -1}), ((3,), {})],
}
METHODS = {"split_method": "split"}
PLAIN = {m.written.__name__: m.written for m in BY_SHAPE.values()}


def remembered(fn: Any) -> Any:
    """The form of ``fn`` whose calls are remembered."""
    forms = fast_forms(
        [*OPS.values()], (), (), sf.Tensor, EAGER.general, EAGER.finish, [fn], {}
    )  # fmt: skip
    return forms.remembered[fn]


def tensors() -> dict[str, sf.Tensor]:
    floats = sf.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
    return {
        "floats": floats,
        "doubles": floats.double(),
        "transposed": floats.t().contiguous().t(),
        "wants a gradient": floats.clone().requires_grad_(),
        "view of one that does": floats.clone().requires_grad_()[:, :],
        "ints": floats.long(),
        "small ints": floats.to(sf.int8),
        "nothing": sf.zeros(0, 3),
        "number": sf.tensor(2.0),
    }


def outcome(fn: Any, x: sf.Tensor, args: Any, kwargs: Any) -> Any:
    try:
        out = fn(x, *args, **kwargs)
    except StaticflowError as error:
        said = str(error).removeprefix(error._named)  # without the function that was called
        return type(error), said.partition(", at ")[0]
    except TypeError:
        return TypeError
    if isinstance(out, tuple):
        return [seen(part, x) for part in out]
    return seen(out, x)


def seen(out: sf.Tensor, x: sf.Tensor) -> Any:
    grad = None
    if out.requires_grad:
        grad = sf.grad((out * out).sum(), x).tolist()
    name = str(out.grad_fn)
    return out.shape, out.dtype, str(out.tolist()), out is x, out._base is not None, name, grad


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_remembered_call_is_the_call(name: str) -> None:
    method = METHODS.get(name, name)
    for args, kwargs in CALLS[name]:
        for what, x in tensors().items():
            expected = outcome(PLAIN[name], x, args, kwargs)
            for _ in range(4):  # the third is the first that is remembered
                assert outcome(getattr(sf.Tensor, method), x, args, kwargs) == expected, what
            again = outcome(lambda x, *a, **k: getattr(x, method)(*a, **k), x, args, kwargs)
            assert again == expected, what


def test_strides_tell_calls_apart() -> None:
    x = sf.ones(2, 3)
    for _ in range(4):
        assert x.view(3, 2)._base is x
        with pytest.raises(ShapeError, match="not compatible"):
            sf.ones(3, 2).t().view(3, 2)
        copied = sf.ones(3, 2).t().reshape(6)
        assert copied._base is None


def test_switches_are_no_part_of_what_is_remembered() -> None:
    x = sf.ones(2, 3, requires_grad=True)
    for _ in range(4):
        assert x.sum(1).requires_grad and x.t().requires_grad
        with sf.no_grad():
            assert not x.sum(1).requires_grad and not x.t().requires_grad
        with sf.inference_mode():
            assert x.sum(1).is_inference()
        with sf.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            y = x.softmax(1)
        assert sf.grad(y.sum(), x).abs().sum() > 0.1  # of twice the result
    symbol = sf.placeholder((2, 3), name="x")
    assert not isinstance(symbol.sum(1), sf.Tensor)


def test_the_line_of_a_remembered_call_is_the_users() -> None:
    x = sf.ones(2, 3, requires_grad=True)
    for make in (lambda: x.sum(1), lambda: sf.sum(x, 1), lambda: x.t(), lambda: sf.t(x)):
        make()
        make()
        line = make.__code__.co_firstlineno
        (loc,) = make().grad_fn.locs
        assert (loc.file, loc.line) == (__file__, line)


def test_another_dtype_of_the_same_shape_is_another_call() -> None:
    for dtype in (np.float32, np.float64, np.int32, np.float16):
        x = sf.from_numpy(np.ones((2, 3), dtype))
        for _ in range(4):
            assert x.sum(1).dtype is (sf.int64 if dtype is np.int32 else x.dtype)


SUBSCRIPTS = [
    0, -1, 1, 2, 5, -6, slice(1, 2), slice(None), slice(0, 9), slice(5, 1), slice(None, None, 2),
    slice(-1, None), slice(0, 1, -1), slice(None, None, 0), (0, 1), (slice(None), 0), (..., -1),
    (None, ..., slice(1, None)), (0, None, 1), (True, 0), (1.0, 0), 1.0, True, None, ...,
    (slice(0, None), slice(None, None, 2)), (0, 1, 2), (slice(1.0, None), 0), (0, [1, 0]),
]  # fmt: skip


@pytest.mark.parametrize("what", sorted(tensors()))
def test_a_remembered_subscript_is_the_subscript(what: str) -> None:
    def plain(x: sf.Tensor, key: Any) -> Any:
        return subscript.get(x, key)

    x = tensors()[what]
    for key in SUBSCRIPTS:
        expected = outcome(plain, x, (key,), {})
        for _ in range(4):
            assert outcome(sf.Tensor.__getitem__, x, (key,), {}) == expected, key
    with sf.inference_mode():
        assert x.clone()[...].is_inference()


def test_a_change_of_a_view_by_subscript_reaches_the_base() -> None:
    x = sf.ones(3, 2, requires_grad=True)
    y = x * 1
    for part in (y[1], y[:2], y[:, 0], y[None, 2]):
        part.mul_(2.0)
    assert y.tolist() == [[4, 2], [8, 4], [4, 2]]
    assert sf.grad(y.sum(), x).tolist() == y.tolist()


def test_equal_arguments_of_other_types_are_other_calls() -> None:
    x = sf.ones(2, 3)
    assert x.sum(1).shape == (2,)
    assert x.sum((0, 1)).shape == ()
    for dim in (1.0, (0, 1.0)):
        with pytest.raises((TypeError, sf.ShapeError, sf.DTypeError)):
            x.sum(dim)
        with pytest.raises((TypeError, sf.ShapeError, sf.DTypeError)):
            x.sum(dim=dim)


def test_a_list_is_what_it_holds_now() -> None:
    x, dims = sf.ones(2, 3), [0]
    assert x.sum(dims).shape == (3,)
    dims[0] = 1
    assert x.sum(dims).shape == (2,)
    assert x.sum([0, 1]).shape == ()
    sizes = [3, 2]
    assert x.view(sizes).shape == (3, 2)
    sizes[:] = [6, 1]
    assert x.view(sizes).shape == (6, 1)
    assert x.view([3, 2]).shape == (3, 2)


def test_more_parts_than_are_remembered() -> None:
    x = sf.arange(100.0).requires_grad_()
    for _ in range(2):
        assert [p.item() for p in x.unbind()] == list(range(100))
        assert [len(p) for p in sf.split(x, 30)] == [30, 30, 30, 10]


# -- several tensors ------------------------------------------------------------------------------

F = sf.nn.functional
SEVERAL: dict[str, Any] = {
    "linear": (F.linear, lambda t: [t(4, 3), t(2, 3), t(2)]),
    "linear without bias": (F.linear, lambda t: [t(5, 4, 3), t(2, 3)]),
    "cat": (sf.cat, lambda t: [[t(2, 3), t(1, 3)], 0]),
    "cat along the last": (lambda x, y: sf.cat((x, y), dim=-1), lambda t: [t(2, 3), t(2, 0)]),
    "stack": (sf.stack, lambda t: [[t(2), t(2)], -1]),
    "gather": (sf.gather, lambda t: [t(3, 2), 1, sf.tensor([[0, 1], [1, 0]])]),
    "index_select": (sf.index_select, lambda t: [t(3, 2), 0, sf.tensor([2, 0, 0])]),
    "addmm": (sf.addmm, lambda t: [t(2), t(3, 4), t(4, 2)]),
    "outer": (sf.outer, lambda t: [t(3), t(2)]),
    "cross_entropy": (F.cross_entropy, lambda t: [t(3, 4), sf.tensor([0, 3, 1])]),
    "smooth": (
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
        lambda t: [t(2, 4), sf.tensor([3, 1])],
    ),
    "nll_loss": (F.nll_loss, lambda t: [t(3, 4), sf.tensor([0, 3, 1]), t(4)]),
    "layer_norm": (F.layer_norm, lambda t: [t(3, 4), (4,), t(4), t(4)]),
    "group_norm": (F.group_norm, lambda t: [t(2, 4, 3), 2, t(4)]),
    "conv1d": (F.conv1d, lambda t: [t(2, 3, 7), t(4, 3, 3), t(4)]),
    "conv2d": (F.conv2d, lambda t: [t(1, 2, 5, 5), t(3, 2, 3, 3), None, 2, "valid"]),
    "max_pool2d": (F.max_pool2d, lambda t: [t(1, 2, 4, 4), 2]),
    "avg_pool1d": (F.avg_pool1d, lambda t: [t(1, 2, 4), 2]),
    "embedding": (F.embedding, lambda t: [sf.tensor([[0, 1]]), t(3, 2)]),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_of_several_tensors(name: str) -> None:
    """A second and a third call give what the first gave, on other values, with their gradients."""
    fn, make = SEVERAL[name]
    rng = np.random.default_rng(0)

    def tensor(*shape: int) -> sf.Tensor:
        return sf.from_numpy(rng.uniform(0.5, 1.5, shape)).requires_grad_()

    def found(args: Any) -> Any:
        leaves = [
            a for a in pytree.flatten(args)[0] if isinstance(a, sf.Tensor) and a.requires_grad
        ]
        out = fn(*args)
        grads = sf.grad((out * out).sum(), leaves)
        return out.shape, out.dtype, out.tolist(), str(out.grad_fn), [g.tolist() for g in grads]

    for _ in range(4):
        args = make(tensor)
        remembered = found(args)
        with without_memory():
            assert remembered == found(args)


@contextlib.contextmanager
def without_memory() -> Iterator[None]:
    """All functions as they were written."""
    forms = {fn: marked.form for fn, marked in BY_SHAPE.items()}
    for marked in BY_SHAPE.values():
        marked.form = marked.written
    try:
        yield
    finally:
        for fn, form in forms.items():
            BY_SHAPE[fn].form = form


def test_one_tensor_in_two_places_is_told_from_two() -> None:
    calls: list[Any] = []

    def fn(x: Any, y: Any) -> Any:
        calls.append(x is y)
        return x - y

    form = remembered(fn)
    x, y = sf.ones(2), sf.zeros(2)
    for _ in range(4):
        assert form(x, x).tolist() == [0, 0] and form(y, y).tolist() == [0, 0]
        assert form(y, x).tolist() == [-1, -1] and form(x, y).tolist() == [1, 1]
    assert sorted(calls) == [False, False, True, True]  # the second of a kind is remembered


def test_what_is_not_all_ops_is_called_anew() -> None:
    calls: list[Any] = []

    def fn(x: Any, y: Any) -> Any:
        calls.append(None)
        return x + y * sf.from_numpy(np.full(2, float(len(calls)), np.float32))

    form = remembered(fn)
    x, y = sf.ones(2), sf.ones(2)
    assert [form(x, y).tolist()[0] for _ in range(5)] == [2, 3, 4, 5, 6]


def test_errors_of_values_are_worded_at_every_call() -> None:
    x = sf.ones(2, 3)
    for _ in range(3):
        assert F.cross_entropy(x, sf.tensor([0, 1])).shape == ()
        with pytest.raises(IndexRangeError, match=r"test_eager_remembered\.py"):
            F.cross_entropy(x, sf.tensor([0, 3]))


def test_the_default_dtype_is_asked_again() -> None:
    x = sf.tensor([1, 2])
    assert x.logsumexp(0).dtype is sf.float32
    sf.set_default_dtype(sf.float64)
    try:
        assert x.logsumexp(0).dtype is sf.float64
    finally:
        sf.set_default_dtype(sf.float32)


def test_zeros_of_both_signs_are_two_arguments() -> None:
    x, a, b = sf.ones(1, 1, requires_grad=True), sf.ones(1, 1), sf.ones(1, 1)
    for beta in (0.0, -0.0, 0.0):
        grad = sf.grad(sf.addmm(x, a, b, beta=beta).sum(), x)
        assert np.signbit(grad.item()) == np.signbit(beta)


@pytest.mark.parametrize("dtype", [float, int, sf.int64])
def test_dtypes_that_a_setting_completes(dtype: Any) -> None:
    x = sf.ones(2, 3)
    try:
        for default in (sf.float32, sf.float64, sf.float32):
            sf.set_default_dtype(default)
            for name in ("softmax", "sum") if dtype is float else ("sum",):
                plain = PLAIN[name](x, 1, dtype=dtype)
                assert getattr(x, name)(1, dtype=dtype).dtype is plain.dtype
    finally:
        sf.set_default_dtype(sf.float32)


def test_a_kernel_is_found_by_the_kind_of_the_call() -> None:
    """Ops that run as kernels, by their methods and functions; what the kernel refuses is
    worded."""
    x = sf.tensor([[0.5, -1.0, 2.0]], requires_grad=True)
    for make in (x.erf, lambda: sf.erf(x), lambda: F.gelu(x), lambda: x.softmax(1), x.lgamma):
        natively = [make() for _ in range(4)]
        assert len({str(y.tolist()) for y in natively}) == 1
        assert len({str(sf.grad(y.sum(), x).tolist()) for y in natively}) == 1
    turned = sf.ones(3, 4).t()
    for _ in range(4):
        assert turned.erf().shape == (4, 3) and sf.tensor([1]).erf().dtype is sf.float32
        with pytest.raises(TypeError, match=r"erf.*test_eager_remembered\.py"):
            x.erf(1)


def test_a_tensor_in_the_place_of_a_number_is_asked_for_its_value() -> None:
    x, m = sf.arange(12.0), sf.arange(12.0).view(3, 4)
    calls: list[Callable[[Any], Any]] = [
        lambda t: x.view(t, -1), lambda t: x.reshape((t, 12 // int(t))), lambda t: m.expand(t, 3, 4),
        lambda t: m[t - 2 :], lambda t: m[:, t - 2], lambda t: m[t - 2], lambda t: m.sum(t - 2),
        lambda t: m.flatten(t - 2), lambda t: sf.cat([m, m], t - 2), lambda t: x.chunk(t)[0],
        lambda t: x.split(t)[0], lambda t: m.softmax(t - 2), lambda t: m.unsqueeze(dim=t - 2),
    ]  # fmt: skip
    for call in calls:
        expected = [call(k).tolist() for k in (2, 3)]
        for k in (2, 2, 2, 2, 3, 3, 3):
            assert call(sf.tensor(k)).tolist() == expected[k - 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: sf.zeros(2, 3), lambda: sf.ones((2, 3)), lambda: sf.full((2, 3), -0.0), lambda: sf.empty(2),
        lambda: sf.arange(2, 5), lambda: sf.arange(0, 1, 0.25), lambda: sf.eye(3), lambda: sf.linspace(0, 1, 3),
        lambda: sf.zeros_like(sf.ones(2)), lambda: sf.full_like(sf.ones(2), 7), lambda: sf.zeros(100_000),
        lambda: sf.ones(2, requires_grad=True), lambda: sf.ones(2, dtype=sf.int32), lambda: sf.zeros(0, 3),
    ],
    ids=range(14),
)  # fmt: skip
def test_what_is_made_of_arguments_alone_is_made_anew(make: Callable[[], sf.Tensor]) -> None:
    first = make()
    expected = first.dtype, first.requires_grad, repr(first.detach().numpy()), first.is_leaf
    for _ in range(5):
        t = make()
        assert (t.dtype, t.requires_grad, repr(t.detach().numpy()), t.is_leaf) == expected
        assert t.detach().numpy().flags.writeable
        with sf.no_grad():
            t.add_(1)  # which nobody else sees
    with sf.inference_mode():
        assert make().is_inference()


DRAWS: list[Callable[[], Any]] = [
    lambda: sf.rand(2, 3), lambda: sf.randn((4,)), lambda: sf.randint(0, 9, (5,)),
    lambda: sf.randperm(6), lambda: sf.bernoulli(sf.full((7,), 0.5)), lambda: sf.rand_like(sf.ones(2, 2)),
    lambda: sf.normal(0.0, 2.0, (3,)), lambda: F.dropout(sf.ones(8)), lambda: sf.rand(0, 3),
    lambda: sf.rand(5000), lambda: sf.rand(2, requires_grad=True), lambda: sf.rand(2, dtype=sf.float64),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(DRAWS)))
def test_each_draw_is_another(k: int) -> None:
    """A remembered call goes on in the stream as the call itself does."""
    drawn = []
    for memory in (contextlib.nullcontext, without_memory):
        sf.manual_seed(3)
        with memory():
            drawn.append([DRAWS[k]().tolist() for _ in range(6)])
        drawn[-1].append(sf.get_rng_state().tolist())
    assert drawn[0] == drawn[1]
    assert len({str(d) for d in drawn[0][:6]}) > 1 or not drawn[0][0]
    own = sf.Generator()
    assert [sf.rand(2, generator=own.manual_seed(1)).tolist() for _ in range(4)] == [
        sf.rand(2, generator=own.manual_seed(1)).tolist()
    ] * 4
