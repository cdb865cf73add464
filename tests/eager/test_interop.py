"""Tensors and the rest of Python: NumPy, DLPack, copies, pickles."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.errors import AutogradError, DeviceError, DTypeError, SymbolicError

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


# -- NumPy ----------------------------------------------------------------------------------------


def test_numpy_shares_memory() -> None:
    x = sf.zeros(2, 3)
    x.numpy()[0] = 1
    assert x.sum().item() == 3 and np.shares_memory(np.asarray(x), x.numpy())
    assert np.asarray(x, dtype="f8").dtype == np.float64
    assert not np.shares_memory(np.array(x), x.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.array(x, dtype="f8", copy=False)
    assert sf.tensor(3).numpy().shape == () and sf.ones(0, 2).numpy().shape == (0, 2)
    assert sf.ones(2, dtype="bfloat16").numpy().dtype == ml_dtypes.bfloat16


def test_force_reaches_the_values_of_a_recorded_tensor() -> None:
    x = sf.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match=r"detach.*test_interop\.py:\d+"):
        x.numpy()
    assert (x * 2).numpy(force=True).tolist() == [2, 2]


def test_as_tensor_shares_where_it_can() -> None:
    a = np.zeros(2, np.float32)
    assert np.shares_memory(sf.as_tensor(a).numpy(), a)
    assert not np.shares_memory(sf.as_tensor(a, dtype="float64").numpy(), a)
    x = sf.ones(2, requires_grad=True)
    assert sf.as_tensor(x) is x and sf.as_tensor(x, sf.float64).grad_fn is not None
    assert sf.as_tensor([1.0, 2.0]).dtype is sf.float32 and sf.as_tensor(3).dtype is sf.int64
    assert sf.as_tensor(np.float64(2)).dtype is sf.float64


def test_asarray() -> None:
    a = np.zeros(2)
    assert np.shares_memory(sf.asarray(a).numpy(), a)
    assert not np.shares_memory(sf.asarray(a, copy=True).numpy(), a)
    assert np.shares_memory(sf.asarray(a, copy=False).numpy(), a)
    assert sf.asarray([1, 2], requires_grad=False).dtype is sf.int64
    assert sf.asarray(a, requires_grad=True).requires_grad
    with pytest.raises(DTypeError, match=r"copy=False forbids.*test_interop\.py:\d+"):
        sf.asarray(a, dtype="float32", copy=False)
    with pytest.raises(DTypeError, match="copy=False"):
        sf.asarray([1.0], copy=False)

    class Rows:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones(3)

    assert sf.asarray(Rows()).tolist() == [1, 1, 1]


def test_read_only_arrays_make_tensors_that_are_not_changed() -> None:
    a = np.ones(2)
    a.flags.writeable = False
    x = sf.from_numpy(a)
    assert (x + 1).tolist() == [2, 2]
    with pytest.raises(AutogradError, match="read-only"):
        x.add_(1)


@pytest.mark.parametrize("name", ["sin", "exp", "sqrt", "tanh", "absolute", "negative", "square"])
def test_functions_of_numpy_are_recorded(name: str) -> None:
    x = sf.tensor([0.5, 2.0], requires_grad=True)
    y = getattr(np, name)(x)
    assert isinstance(y, sf.Tensor) and y.requires_grad
    np.testing.assert_allclose(y.detach().numpy(), getattr(np, name)([0.5, 2.0]), rtol=1e-6)


def test_arrays_beside_tensors() -> None:
    a = np.array([1.0, 4.0], np.float32)
    x = sf.tensor([2.0, 2.0], requires_grad=True)
    for y, wanted in (
        (a + x, [3, 6]), (x - a, [1, -2]), (a - x, [-1, 2]), (a / x, [0.5, 2]), (a**x, [1, 16]),
        (np.float32(3) * x, [6, 6]), (np.add(a, x), [3, 6]), (a @ x, 10),
    ):  # fmt: skip
        assert isinstance(y, sf.Tensor) and y.requires_grad and y.tolist() == wanted
    assert (a < x).tolist() == [True, False] and (a == x).tolist() == [False, False]
    a += x.detach()
    assert type(a) is np.ndarray and a.tolist() == [3, 6]
    with pytest.raises(AutogradError, match="detach"):
        a += x


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x: np.spacing(x * 0 + 1), [2**-23] * 3), (np.add.reduce, 6.0),
        (lambda x: np.maximum.reduce(x[None], axis=1, keepdims=True), [[3.0]]),
        (np.add.accumulate, [1.0, 3.0, 6.0]), (lambda x: np.multiply.outer(x, x)[2], [3.0, 6.0, 9.0]),
        (lambda x: np.divmod(x, 2)[1], [1.0, 0.0, 1.0]), (np.logical_and.reduce, True),
        (lambda x: np.add(x, 1, dtype=np.float64), [2.0, 3.0, 4.0]),
    ],
)  # fmt: skip
def test_what_only_numpy_has_is_computed_by_it(call: Any, wanted: Any) -> None:
    x = sf.tensor([1.0, 2.0, 3.0])
    y = call(x)
    assert isinstance(y, sf.Tensor) and y.tolist() == wanted
    with pytest.raises(AutogradError, match=r"requires a gradient.*detach.*test_interop\.py:\d+"):
        call(x.requires_grad_())
    with pytest.raises(SymbolicError):
        call(sf.placeholder((3,), name="x"))


def test_functions_of_numpy_write_to_arrays_alone() -> None:
    x, mask = sf.ones(2), [True, False]
    out = np.zeros(2, np.float32)
    assert np.sin(x * 0 + np.pi / 2, where=mask, out=out) is out and out.tolist() == [1, 0]
    for call, name in (
        (lambda: np.add(1, 1, out=x), "np.add"), (lambda: np.add.at(x, [0], 1), r"np\.add\.at"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=name + r" cannot write to a tensor.*test_interop"):
            call()


def test_functions_of_numpy_are_traced() -> None:
    x = sf.placeholder((2,), name="x")
    f = sf.compile([x], np.sin(x) + np.ones(2, np.float32))
    np.testing.assert_allclose(f(sf.tensor([0.0, 1.0])).numpy(), np.sin([0, 1]) + 1, rtol=1e-6)
    with pytest.raises(SymbolicError):
        np.ones(2).__iadd__(x)


# -- DLPack ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_shares_both_ways(dtype: str) -> None:
    x = sf.ones(2, 3, dtype=dtype).t()
    a = np.from_dlpack(x)
    assert a.dtype == x.dtype.numpy and np.shares_memory(a, x.numpy()) and a.shape == (3, 2)
    y = sf.from_dlpack(a)
    assert np.shares_memory(y.numpy(), a) and y.dtype is x.dtype
    assert x.__dlpack_device__() == (1, 0)
    assert sf.from_dlpack(x).tolist() == x.tolist()


def test_dlpack_copies_when_asked() -> None:
    a = np.zeros(2)
    x = sf.from_dlpack(a, copy=True)
    a[0] = 1
    assert x.tolist() == [0, 0]
    assert sf.from_dlpack(sf.ones(0, 2)).shape == (0, 2) and sf.from_dlpack(np.ones(())).ndim == 0


def test_dlpack_of_read_only_memory_stays_read_only() -> None:
    a = np.ones(2)
    a.flags.writeable = False
    x = sf.from_dlpack(a)
    with pytest.raises(AutogradError, match="read-only"):
        x.add_(1)
    with pytest.raises(BufferError):
        sf.from_numpy(a).__dlpack__()
    sf.from_numpy(a).__dlpack__(max_version=(1, 0))


def test_what_dlpack_cannot_say_is_refused() -> None:
    with pytest.raises(BufferError, match=r"history.*detach.*test_interop\.py:\d+"):
        np.from_dlpack(sf.ones(2, requires_grad=True))
    with pytest.raises(BufferError, match=r"bfloat16.*float\(\).*test_interop\.py:\d+"):
        np.from_dlpack(sf.ones(2, dtype="bfloat16"))
    with pytest.raises(BufferError, match=r"negative in part.*clone.*test_interop\.py:\d+"):
        np.from_dlpack(sf.from_numpy(np.arange(4)[::-1]))
    assert np.from_dlpack(sf.from_numpy(np.arange(4)[::-1]).clone()).tolist() == [3, 2, 1, 0]
    with pytest.raises(DTypeError, match=r"list does not speak DLPack.*test_interop\.py:\d+"):
        sf.from_dlpack([1.0])
    with pytest.raises(DTypeError, match="complex"):
        sf.from_dlpack(np.ones(2, complex))

    class Elsewhere:
        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("not called")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 10, 0

    class Strange(Elsewhere):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("a dtype of my own")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    with pytest.raises(DeviceError, match="device type 10"):
        sf.from_dlpack(Elsewhere())
    with pytest.raises(DTypeError, match="a dtype of my own"):
        sf.from_dlpack(Strange())


# -- copies and pickles ---------------------------------------------------------------------------


def test_a_shallow_copy_is_another_leaf_on_the_same_memory() -> None:
    x = sf.ones(2, requires_grad=True)
    y = copy.copy(x)
    assert y is not x and y.requires_grad and y.is_leaf and y.grad is None
    assert np.shares_memory(x.detach().numpy(), y.detach().numpy())
    assert type(copy.copy(sf.nn.Parameter([1.0]))) is sf.nn.Parameter


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_keep_values_and_dtypes(dtype: str, protocol: int) -> None:
    for x in (sf.ones(2, 3, dtype=dtype).t(), sf.zeros(0, 2, dtype=dtype), sf.tensor(1).to(dtype)):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert y.dtype is x.dtype and y.shape == x.shape and y.tolist() == x.tolist()
        assert not y.requires_grad and y.is_leaf


def test_pickles_keep_classes_and_whether_gradients_are_wanted() -> None:
    x = sf.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    y, again, p = pickle.loads(pickle.dumps([x, x, sf.nn.Parameter([1.0])]))
    assert y is again and y.requires_grad and y.grad is None and y.is_leaf
    assert type(p) is sf.nn.Parameter and p.requires_grad
    z = pickle.loads(pickle.dumps(x * 2))
    assert z.is_leaf and z.requires_grad and z.tolist() == [2, 2]


def test_a_pickle_names_nothing_but_what_puts_it_together() -> None:
    found = set()

    class Careful(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            found.add(module.split(".")[0])
            return super().find_class(module, name)

    Careful(io.BytesIO(pickle.dumps(sf.ones(2, requires_grad=True)))).load()
    assert found <= {"staticflow", "numpy"}


@pytest.mark.parametrize("fn", [sf.tanh, sf.add, nn.functional.relu, sf.softmax, sf.linalg.det])
def test_functions_are_themselves_in_copies_and_pickles(fn: Any) -> None:
    """Of a module that holds one: another op of the same name would be unknown to every rule."""
    module = nn.ReLU()
    module.fn = fn
    assert copy.deepcopy(module).fn is fn and copy.copy(fn) is fn
    assert pickle.loads(pickle.dumps(module)).fn is fn


def test_a_program_is_not_copied() -> None:
    x = sf.placeholder((2,), name="x")
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(sf.DTypeError, match=r"cannot be copied or pickled.*test_interop\.py"):
            copied(sf.compile([x], x * 2))
