"""Page-locked memory of the host, and copies between it and a GPU that the host does not wait for."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from fake_cupy import fake_cupy
from gpus import gpu

import staticflow as sf
from staticflow.errors import DeviceError
from staticflow.utils.data import DataLoader, TensorDataset

__all__ = ["gpu"]


def test_a_pinned_tensor_is_a_copy(gpu: str) -> None:
    x = sf.arange(6.0).reshape(2, 3)
    y = x.t().pin_memory()
    assert not x.is_pinned() and y.is_pinned() and y.pin_memory() is y and y[1:].is_pinned()
    assert y.tolist() == x.t().tolist() and y.device == x.device
    y[0, 0] = 7.0
    assert x[0, 0] == 0
    assert not (y + 1).is_pinned() and not y.cuda().is_pinned()
    for shape in ((), (0,), (2, 0)):
        assert sf.zeros(shape).pin_memory().shape == shape


def test_pinned_memory_has_gradients(gpu: str) -> None:
    x = sf.ones(3, requires_grad=True)
    (x.pin_memory().to("cuda", non_blocking=True) * 2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2, 2]


def test_a_copy_to_the_gpu(gpu: str) -> None:
    x = sf.arange(12.0).reshape(3, 4).pin_memory()
    for source in (x, x.t(), x[1:]):
        assert source.cuda(non_blocking=True).tolist() == source.tolist()
        assert source.to("cuda").tolist() == source.tolist()
    ordinary = sf.ones(3)
    there = ordinary.to("cuda", non_blocking=True)
    ordinary[0] = 5.0
    assert there.tolist() == [1, 1, 1]


def test_a_copy_to_the_host_is_there_once_the_gpu_was_waited_for(gpu: str) -> None:
    x = sf.arange(4.0).cuda() * 3
    y = x.to("cpu", non_blocking=True)
    assert y.is_pinned() and y.device.type == "cpu"
    if gpu == "stand-in":
        assert np.isnan(y.numpy()).all()  # it is on its way
    sf.cuda.synchronize()
    assert y.tolist() == [0, 3, 6, 9]
    assert x.to("cpu").tolist() == [0, 3, 6, 9] and not x.to("cpu").is_pinned()


def test_memory_stays_until_a_copy_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another tensor in its place would be written over, or read."""
    from fake_cupy import install

    install(monkeypatch)
    made: list[Any] = []

    def keep(shape: Any, dtype: Any) -> Any:
        array = np.ndarray(shape, dtype, fake_cupy.cuda.PinnedMemoryPointer(64))
        made.append(weakref.ref(array.base))
        return array

    monkeypatch.setattr("cupyx.empty_pinned", keep)
    x = sf.arange(4.0).cuda()
    x.to("cpu", non_blocking=True)
    gc.collect()
    assert made[0]() is not None
    sf.cuda.synchronize()
    x.to("cpu", non_blocking=True)
    gc.collect()
    assert made[0]() is None and made[1]() is not None


def test_batches_in_pinned_memory(gpu: str) -> None:
    data = TensorDataset(sf.arange(6.0), sf.arange(6))
    for xs, ys in DataLoader(data, batch_size=4, pin_memory=True):
        assert xs.is_pinned() and ys.is_pinned()
        assert xs.to("cuda", non_blocking=True).tolist() == ys.tolist()


def test_what_is_saved_waits_in_pinned_memory(gpu: str) -> None:
    x = sf.arange(3.0).cuda().requires_grad_()
    with sf.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).sum()
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [0, 2, 4]


def test_what_is_on_a_gpu_is_not_pinned(gpu: str) -> None:
    with pytest.raises(DeviceError, match=r"the tensor is on cuda:0, and memory of the CPU alone"):
        sf.ones(2).cuda().pin_memory()


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"^cuda: cupy is not installed; .*test_pinned_memory"):
        sf.ones(2).pin_memory()
    assert not sf.ones(2).is_pinned()
    batches = DataLoader(TensorDataset(sf.ones(2)), pin_memory=True)
    assert not any(x.is_pinned() for (x,) in batches)
