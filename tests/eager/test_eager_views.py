"""Views and in-place operations: memory, versions and histories behave as PyTorch's."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import AutogradError, DTypeError, ShapeError


def leaf(*data: Any, dtype: str = "float32") -> sf.Tensor:
    return sf.tensor(list(data), dtype=dtype, requires_grad=True)


def grad_of(t: sf.Tensor) -> Any:
    assert t.grad is not None
    return t.grad.tolist()


# -- recorded changes -----------------------------------------------------------------------------


def test_a_part_takes_a_value_with_its_history() -> None:
    x, w = leaf(1, 2, 3), leaf(10)
    y = x * 2
    y[1] = w[0]
    (y * y).sum().backward()
    assert y.tolist() == [2, 10, 6] and grad_of(x) == [8, 0, 24] and grad_of(w) == [20]
    assert repr(y.grad_fn) == "<CopySlices>"


def test_a_part_of_a_constant_takes_a_history() -> None:
    w = leaf(5, 6)
    y = sf.zeros(2, 2)
    for i in range(2):
        y[i] = w * (i + 1)
    assert y.requires_grad and not y.is_leaf
    (y * sf.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert grad_of(w) == [7, 10]


def test_operations_in_place_on_a_view() -> None:
    x = leaf(1, 2, 3, 4)
    y = x * 1
    y[1:3].mul_(x[:2])  # 1, 2*1, 3*2, 4
    y.reshape(2, 2)[1].add_(x[0])
    assert y.tolist() == [1, 2, 7, 5]
    y.sum().backward()
    # 1 + x1 x0 + x0 + x2 x1 + x3 + x0 ... by hand: d/dx0 = 1 + x1 + 2, d/dx1 = x0 + x2
    assert grad_of(x) == [1 + 2 + 2, 1 + 3, 2, 1]


def test_a_view_sees_a_recorded_change_of_its_base() -> None:
    x = leaf(1, 2)
    y = x * 1
    before = y[0]
    y.mul_(x)
    assert before.item() == 1 and repr(before.grad_fn) == "<SelectBackward0>"
    before.backward()
    assert grad_of(x) == [2, 0]


def test_a_view_sees_a_recorded_change_through_another_view() -> None:
    x = leaf(1, 2, 3)
    y = x * 1
    first, rest = y[:2], y[1:]
    rest.mul_(10)
    assert first.tolist() == [1, 20]
    first.sum().backward()
    assert grad_of(x) == [1, 10, 0]


def test_a_view_of_a_constant_becomes_part_of_the_graph() -> None:
    x = leaf(1, 2)
    plain = sf.ones(2)
    part, apart = plain[0], plain.detach()
    assert not part.requires_grad
    plain.mul_(x)
    assert part.requires_grad and not apart.requires_grad
    (part * 3).backward()
    assert grad_of(x) == [3, 0] and apart.tolist() == [1, 2]


@pytest.mark.parametrize(
    "view",
    [
        lambda y: y[1],
        lambda y: y[:, 1],
        lambda y: y[::2],
        lambda y: y.t(),
        lambda y: y.t()[1:],
        lambda y: y.reshape(-1),
        lambda y: y.reshape(-1)[2:7],
        lambda y: y[None, :, None],
        lambda y: y.t().unsqueeze(1)[0],
        lambda y: y.narrow(1, 1, 2),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_changes_through_views(view: Callable[[Any], Any], transposed: bool) -> None:
    """Against the same without views: elements chosen by a mask."""
    data = np.arange(1.0, 13).reshape(4, 3)
    x = sf.tensor(data, requires_grad=True)
    y = (x.t() * 2).t() if not transposed else (x.t() * 2)
    y = y * 1  # a base of its own, in either order of elements
    if view(y)._base is not y:
        pytest.skip("this reshape of a transposed tensor is a copy, as in PyTorch")
    view(y).mul_(view(y)).add_(1)
    weights = sf.from_numpy(np.cos(np.arange(12.0)).reshape(y.shape))
    (g,) = sf.grad((y * weights).sum(), [x])

    mask = sf.zeros(*y.shape, dtype="bool")
    view(mask).copy_(True)
    z = (x.t() * 2).t() if not transposed else (x.t() * 2)
    out = sf.where(mask, z * z + 1, z)
    (expected,) = sf.grad((out * weights).sum(), [x])
    assert y.tolist() == out.tolist()
    np.testing.assert_allclose(g.numpy(), expected.numpy(), 1e-12)


def test_second_derivatives_through_a_change_of_a_view() -> None:
    x = leaf(2, 3, dtype="float64")
    y = x * x
    y[0].mul_(y[1])  # x0^2 x1^2, x1^2
    (g,) = sf.grad(y.sum(), [x], create_graph=True)
    assert g.tolist() == [2 * 2 * 9, 2 * 4 * 3 + 6]
    (h,) = sf.grad(g[0], [x])
    assert h.tolist() == [2 * 9, 4 * 2 * 3]


def test_masks_and_index_tensors_store() -> None:
    x, w = leaf(1, -2, 3), leaf(5)
    y = x * 1
    y[y < 0] = 0.0
    y[sf.tensor([2])] = w
    y.sum().backward()
    assert y.tolist() == [1, 0, 5] and grad_of(x) == [1, 0, 0] and grad_of(w) == [1]


def test_zeroing_keeps_the_graph() -> None:
    x = leaf(1, 2)
    y = x * 2
    y.zero_()
    assert y.requires_grad
    y.sum().backward()
    assert grad_of(x) == [0, 0]


def test_copy_broadcasts_and_casts() -> None:
    x = leaf(1, dtype="float64")
    y = sf.zeros(2, 3)
    assert y.copy_(x) is y and y.dtype is sf.float32
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype is sf.float64 and grad_of(x) == [6]
    with pytest.raises(ShapeError):
        sf.zeros(2).copy_(sf.ones(3))


def test_an_operation_of_several_ops_in_place() -> None:
    """All that was computed on the way keeps what is overwritten."""
    x = leaf(1, 2, dtype="float64")
    y = x * 1
    y._update(lambda t: (t * t).exp() * t, (), {})
    y.sum().backward()
    e = np.exp(np.array([1.0, 4.0]))
    np.testing.assert_allclose(grad_of(x), e * (1 + 2 * np.array([1.0, 4.0])))


# -- refusals -------------------------------------------------------------------------------------


def test_a_view_of_a_leaf_refuses() -> None:
    x = leaf(1, 2)
    with pytest.raises(AutogradError, match=r"a view of a leaf.*no_grad.*test_eager_views\.py:\d+"):
        x[0] = 5
    with sf.no_grad():
        x[0] = 5
    assert x.tolist() == [5, 2]


def test_a_view_taken_in_no_grad_refuses_a_recorded_change() -> None:
    y = leaf(1, 2) * 1
    with sf.no_grad():
        part = y[0]
    with pytest.raises(AutogradError, match=r"taken in sf\.no_grad.*test_eager_views\.py:\d+"):
        part.mul_(2)


def test_a_change_of_what_was_saved_through_a_view_is_caught() -> None:
    x = leaf(1, 2)
    y = x * 1
    z = (y * y).sum()
    y[0].mul_(2)
    with pytest.raises(AutogradError, match=r"mul: argument 0.*version 1, version 0 is needed"):
        z.backward()


def test_a_recorded_change_of_what_was_saved_before_is_caught() -> None:
    """The value was computed before, so the change does not keep what it needs."""
    x = leaf(1, 2)
    y = x * 1
    z = y * y
    y.add_(z)
    with pytest.raises(AutogradError, match="changed in place"):
        y.sum().backward()


def test_dtypes_of_a_higher_category_are_refused() -> None:
    with pytest.raises(DTypeError, match="float32 into a tensor of int64"):
        sf.zeros(2, dtype="int64").add_(1.5)


# -- versions and memory --------------------------------------------------------------------------


def test_versions_count_changes_of_the_memory() -> None:
    x = sf.zeros(4)
    part, apart = x[:2], x.detach()
    assert x._version == 0
    part.add_(1)
    apart.mul_(2)
    x[3] = 1
    assert x._version == part._version == apart._version == 3
    assert part._base is x and x._base is None and part[0]._base is x


def test_new_data_has_a_version_of_its_own() -> None:
    x = sf.zeros(2)
    x.add_(1)
    x.data = sf.ones(2)
    assert x._version == 0


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_changes_in_place_leave_no_cycles(no_collector: None) -> None:
    def changed() -> list[Any]:
        x = leaf(1, 2, 3)
        y = x * 1
        part = y[:2]
        z = y * y
        y.mul_(x)
        part.mul_(y[1:])
        y.add_(z)
        y[0] = part[1]
        y.mul_(y)
        return [weakref.ref(t) for t in (x, y, z, part, y.grad_fn)]

    assert [w() for w in changed()] == [None] * 5


def test_a_long_chain_of_views() -> None:
    x = leaf(1, 2)
    y = x * 1
    part = y
    for _ in range(3000):
        part = part.reshape(1, 2) if part.ndim == 1 else part[0]
    part.mul_(3)
    assert part._base is y and y.tolist() == [3, 6]
    y.sum().backward()
    assert grad_of(x) == [3, 3]


def test_a_view_with_negative_strides() -> None:
    data = np.arange(6.0)
    x = sf.from_numpy(data[::-1])
    x[1:3].mul_(10)
    assert data.tolist() == [0, 1, 2, 30, 40, 5] and x.tolist() == data[::-1].tolist()
    w = leaf(1, dtype="float64")
    x.mul_(w)
    x[0].mul_(w[0])
    x.sum().backward()
    assert grad_of(w) == [5 * 2 + 40 + 30 + 2 + 1]


UNCHANGED = {
    "view": lambda x: x.view(x.shape), "view -1": lambda x: x.view(-1, 3),
    "reshape": lambda x: x.reshape(2, 3), "view of dtype": lambda x: x.view(x.dtype),
    "squeeze": lambda x: x.squeeze(), "squeeze dim": lambda x: x.squeeze(0),
    "expand": lambda x: x.expand(2, 3), "permute": lambda x: x.permute(0, 1),
    "transpose": lambda x: x.transpose(1, 1), "movedim": lambda x: x.movedim(0, 0),
    "unflatten": lambda x: x.unflatten(0, (2,)), "...": lambda x: x[...], ":": lambda x: x[:],
}  # fmt: skip


@pytest.mark.parametrize("case", UNCHANGED)
def test_a_view_that_changes_nothing_is_another_tensor(case: str) -> None:
    x = sf.ones(2, 3)
    for _ in range(3):  # the third time as it is remembered
        y = UNCHANGED[case](x)
        assert y is not x and y._base is x and y.shape == x.shape
        y.requires_grad_()
        assert not x.requires_grad
    y.detach().add_(1)
    assert x.tolist() == [[2.0] * 3] * 2
    w = sf.ones(2, 3, requires_grad=True)
    z = UNCHANGED[case](w)
    assert not z.is_leaf and z.grad_fn is not None
    (z * 2).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("case", ["flatten", "contiguous", "float", "atleast_2d"])
def test_what_has_nothing_to_do_gives_the_tensor_itself(case: str) -> None:
    x = sf.ones(3) if case == "flatten" else sf.ones(2, 3)
    assert (getattr(x, case)() if hasattr(x, case) else getattr(sf, case)(x)) is x


def test_parts_of_several_may_be_changed() -> None:
    """PyTorch refuses it; a part is a slice as any other."""
    x = sf.ones(4, requires_grad=True)
    y = x * 1
    first, second = y.chunk(2)
    first.mul_(3)
    y.unbind()[3].zero_()
    (y.sum() + second.sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3, 2, 0]


def test_what_an_operation_changes_itself_it_keeps() -> None:
    x = sf.tensor([0.5, 2.0], dtype=sf.float64, requires_grad=True)
    y, z = x * 1, x * 1
    y.mul_(y)
    z.tanh_().exp_()
    (y + z).sum().backward()
    slope = (1 - x.tanh() ** 2) * x.tanh().exp()
    assert x.grad is not None and sf.allclose(x.grad, 2 * x + slope)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
@pytest.mark.parametrize("alpha", [-0.1, 3, 1, True])
def test_scaled_additions_in_place_are_those_out_of_place(dtype: str, alpha: Any) -> None:
    x, y = sf.tensor([1.5, -2.25, 3.0]).to(dtype), sf.tensor([0.3, 7.0, -1.0]).to(dtype)
    for change, form in ((sf.Tensor.add_, sf.add), (sf.Tensor.sub_, sf.sub)):
        z = x.clone()
        if dtype == "int64" and type(alpha) is float:
            with pytest.raises(DTypeError, match=r"cannot be scaled by alpha = -0\.1"):
                change(z, y, alpha=alpha)
        else:
            assert change(z, y, alpha=alpha) is z and z._version == 1
            assert z.tolist() == form(x, y, alpha=alpha).tolist()
    with pytest.raises(TypeError, match="beta"):
        x.add_(y, beta=2)


def test_a_view_of_what_has_no_history_is_changed_at_once() -> None:
    x = sf.zeros(2, 2)
    row = x[0]
    row.add_(1).mul_(3)
    assert x.tolist() == [[3, 3], [0, 0]] and x._version == 2
    w = sf.ones(2, requires_grad=True)
    part = (w * 1)[:1]
    part.add_(1, alpha=2)
    assert part.grad_fn is not None and part.tolist() == [3]
    with pytest.raises(AutogradError, match="view of a leaf"):
        w[:1].add_(sf.ones(1), alpha=2)


@pytest.mark.parametrize("n", [4, 400], ids=["small", "large"])
def test_changes_of_parts_whatever_the_size(n: int) -> None:
    x = sf.ones(n, n, requires_grad=True)
    v = sf.full((n,), 3.0, requires_grad=True)
    y = x * 2
    y[1] = v
    y[:, 0].mul_(3)
    y[2:, 1:][0].copy_(v[1:])
    y[y > 5] = 0.0
    y.sum().backward()
    assert x.grad is not None and v.grad is not None
    wanted = np.full((n, n), 2.0)
    wanted[:, 0] = 0  # 6, and so overwritten
    wanted[1:3] = 0
    assert x.grad.tolist() == wanted.tolist()
    assert v.grad.tolist() == [0.0, *[2.0] * (n - 1)]
    z = x * 1
    z.copy_(v)
    z.zero_()
    z.sum().backward()
    assert x.grad.tolist() == wanted.tolist()


def test_a_change_of_shape_in_place_is_counted() -> None:
    x = sf.zeros(2, 3)
    for n, change in enumerate(("t_", "unsqueeze_", "squeeze_", "transpose_", "resize_"), 1):
        args = {"unsqueeze_": (0,), "transpose_": (0, 1), "resize_": (2,)}.get(change, ())
        getattr(x, change)(*args)
        assert x._version == n, change
