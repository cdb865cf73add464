"""Devices: their names, what is said where there is none, and tensors on a stand-in for a GPU."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_cupy import fake_cupy, install
from fake_cupy.functions import RUNTIME, OutOfMemoryError

import staticflow as sf
from staticflow.autograd.graph import save_on_cpu, saved_tensors_hooks
from staticflow.errors import DeviceError
from staticflow.utils.checkpoint import checkpoint


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    install(monkeypatch)
    return fake_cupy


@pytest.fixture
def two_gpus(gpu: str) -> None:
    if sf.cuda.device_count() < 2:
        pytest.skip("wants a second GPU")


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)


# -- names ----------------------------------------------------------------------------------------


def test_names() -> None:
    assert (
        sf.device("cuda:1")
        == sf.device("cuda", 1)
        == sf.device(1)
        == sf.device(sf.device("cuda:1"))
    )
    assert sf.device("cuda") != sf.device("cuda:0") and sf.device("cpu").index is None
    assert (str(sf.device("cuda", 1)), repr(sf.device("cpu"))) == ("cuda:1", "device(type='cpu')")
    assert repr(sf.device("cuda:1")) == "device(type='cuda', index=1)"
    assert len({sf.device("cpu"), sf.device("cpu"), sf.device("cuda")}) == 2
    for wrong in ("tpu", "cuda:", "cuda:x", "cpu:-1", ""):
        with pytest.raises(DeviceError, match="no device"):
            sf.device(wrong)


def test_the_cpu() -> None:
    x = sf.ones(2, device="cpu")
    assert x.device == sf.device("cpu") and not x.is_cuda
    assert x.cpu() is x and x.to("cpu") is x and x.to(sf.device("cpu"), sf.float32) is x
    y = x.to("cpu", "float64")
    assert y.dtype is sf.float64 and x.to(y).dtype is sf.float64 and x.to(device="cpu") is x
    assert x.to(dtype="int8").dtype is sf.int8 and x.to(None) is x
    z = x.to("cpu", copy=True)
    z.zero_()
    assert x.tolist() == [1, 1]


def test_without_cupy(no_cupy: None) -> None:
    assert not sf.cuda.is_available() and sf.cuda.device_count() == 0
    for wanted in (
        lambda: sf.ones(2).cuda(),
        lambda: sf.ones(2, device="cuda"),
        lambda: sf.ones(2).to("cuda:0"),
        sf.cuda.synchronize,
    ):
        with pytest.raises(DeviceError, match=r"cupy is not installed.*test_devices\.py:\d+"):
            wanted()


def test_seeds_of_all_devices_are_one() -> None:
    for seed in (sf.cuda.manual_seed, sf.cuda.manual_seed_all):
        seed(7)
        first = sf.rand(3)
        sf.manual_seed(7)
        assert sf.rand(3).equal(first)


def test_with_cupy_and_no_driver(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RUNTIME, "count", 0)
    for driver, why in (
        (0, r"cuda: there is no NVIDIA driver; install one, and see with nvidia-smi that it runs"),
        (
            12040,
            r"for CUDA 12\.4 and cupy for 13\.0; install a newer driver, or the cupy of CUDA 12",
        ),
        (13010, r"the NVIDIA driver finds no GPU; nvidia-smi lists those that there are"),
    ):
        monkeypatch.setattr(RUNTIME, "driver", driver)
        assert not sf.cuda.is_available() and sf.cuda.device_count() == 0
        with pytest.raises(DeviceError, match=why + r", at .*test_devices\.py:\d+$"):
            sf.ones(2).cuda()

    def broken() -> bool:
        raise RuntimeError("cudaErrorUnknown: unknown error")

    monkeypatch.setattr(fake_cupy, "is_available", broken)
    monkeypatch.setattr(fake_cupy.cuda.runtime, "driverGetVersion", broken)
    assert not sf.cuda.is_available()
    with pytest.raises(DeviceError, match=r"does not answer \(cudaErrorUnknown: unknown error\)"):
        sf.ones(2).cuda()


def test_with_a_cupy_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "cupy":
                raise ImportError("libcublas.so.13: cannot open\nmore lines")

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert not sf.cuda.is_available()
    with pytest.raises(
        DeviceError, match=r"imported \(libcublas.so.13: cannot open\); pip install"
    ):
        sf.ones(2).cuda()


def test_with_too_little_memory(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any, **__: Any) -> Any:
        raise OutOfMemoryError(4_000_000_000, 2 << 30)

    x = sf.ones(2, device="cuda")
    monkeypatch.setattr(stand_in, "add", no_room)
    monkeypatch.setattr(stand_in, "asarray", no_room)
    for ask in (lambda: x + x, lambda: sf.ones(2).cuda()):
        with pytest.raises(
            MemoryError,
            match=r"^cuda:0: 4,000,000,000 bytes are asked for, and 6,442,450,944 of 8,589,934,592 "
            r"are free; let go .*test_devices\.py:\d+",
        ):
            ask()


# -- on the stand-in ------------------------------------------------------------------------------


def test_there_and_back(two_gpus: None) -> None:
    x = sf.tensor([1.0, 2.0])
    y = x.cuda()
    assert y.device == sf.device("cuda:0") and y.is_cuda and y.cuda() is y and y.to("cuda") is y
    assert y.cpu().tolist() == y.tolist() == [1, 2] and y.cpu().device == sf.device("cpu")
    assert y.to("cuda:1").device == y.cuda(1).device == sf.device("cuda", 1)
    assert y.to(x).device == x.device and x.to(y, copy=True).device == y.device
    assert (y.item if y.numel() == 1 else y[0].item)() == 1
    count = sf.cuda.device_count()
    with pytest.raises(DeviceError, match=f"there are {count} GPUs"):
        x.cuda(count)


def test_what_is_asked_of_the_gpus(stand_in: Any) -> None:
    assert sf.cuda.is_available() and sf.cuda.device_count() == 2
    assert sf.cuda.current_device() == 0 and sf.cuda.get_device_name(1) == "Pretender 1"
    sf.cuda.synchronize()
    assert fake_cupy.synchronized[-1] == 0
    for gpu in (1, "cuda:1", sf.device("cuda", 1)):
        sf.cuda.synchronize(device=gpu)
        assert fake_cupy.synchronized.pop() == 1
        assert sf.cuda.get_device_name(device=gpu) == "Pretender 1"
    assert sf.cuda.get_device_name("cuda") == "Pretender 0"
    with pytest.raises(DeviceError, match=r"cpu is no GPU; give its number, at .*test_devices"):
        sf.cuda.synchronize("cpu")


def test_numpy_is_refused(gpu: str) -> None:
    x = sf.ones(2).cuda()
    for access in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(DeviceError, match=r"cuda:0.*\.cpu\(\).*test_devices\.py:\d+"):
            access()
    assert x.numpy(force=True).tolist() == [1, 1]


def test_it_prints_with_its_device(two_gpus: None) -> None:
    x = sf.tensor([1.0, 2.5]).cuda()
    assert repr(x) == "tensor([1.0000, 2.5000], device='cuda:0')"
    assert repr(x.to("cuda:1").requires_grad_()) == (
        "tensor([1.0000, 2.5000], device='cuda:1', requires_grad=True)"
    )
    assert x.type() == "staticflow.cuda.FloatTensor"
    assert x.long().type() == "staticflow.cuda.LongTensor"
    assert sf.ones(1).type("staticflow.cuda.DoubleTensor").device.type == "cuda"


def test_operations_stay_there(gpu: str) -> None:
    x = sf.tensor([[1.0, -2.0], [3.0, 4.0]], device="cuda")
    for y in (
        x + 1, 2 * x, x @ x, x.relu(), x.exp(), x.sum(), x.sum(0), x.t(), x.reshape(4), x[0], x > 0,
        sf.zeros_like(x), x.new_ones(3), x.double(), sf.cat([x, x]), x.clone(), x.detach(), x.max(),
        x.softmax(1), sf.where(x > 0, x, 0.0),
    ):  # fmt: skip
        assert y.device == x.device, y
    np.testing.assert_array_equal((x @ x).cpu().numpy(), x.cpu().numpy() @ x.cpu().numpy())
    x.add_(1)
    x[0] = 7
    assert x.tolist() == [[7, 7], [4, 5]]


def test_gradients_stay_there_and_cross_over(gpu: str) -> None:
    x = sf.tensor([1.0, 2.0], requires_grad=True)
    w = sf.tensor([3.0, 4.0], device="cuda", requires_grad=True)
    y = x.cuda()
    assert repr(y.grad_fn) == "<ToCopyBackward0>"
    loss = (y * w).relu().sum()
    loss.backward()
    assert x.grad.device.type == "cpu" and x.grad.tolist() == [3, 4]
    assert w.grad.device == w.device and w.grad.tolist() == [1, 2]


def test_devices_do_not_mix(two_gpus: None) -> None:
    x = sf.ones(2)
    for a, b in ((x.cuda(), x), (x, x.cuda()), (x.cuda(), x.cuda(1))):
        with pytest.raises(DeviceError, match=r"add\(.*different devices.*test_devices\.py:\d+"):
            a + b
    assert (x.cuda() * sf.tensor(2.0)).tolist() == [2, 2]  # a 0-d tensor of the CPU is a number


def test_copies_stay_there(two_gpus: None) -> None:
    x = sf.ones(2, device="cuda:1", requires_grad=True)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.device == x.device and y.requires_grad and y.tolist() == [1, 1]


def test_a_model_moves(gpu: str) -> None:
    sf.manual_seed(0)
    model = sf.nn.Linear(3, 2)
    x = sf.randn(4, 3)
    wanted = model(x).detach()
    model.to("cuda")
    out = model(x.cuda())
    assert out.device.type == "cuda"
    np.testing.assert_allclose(out.detach().cpu().numpy(), wanted.numpy(), rtol=1e-5)
    out.sum().backward()
    assert all(p.grad.device.type == "cuda" for p in model.parameters())


def test_dlpack_names_the_device(two_gpus: None) -> None:
    x: Any = sf.ones(2, device="cuda:1")
    assert x.__dlpack_device__() == (2, 1)


def test_memory_is_shared_with_other_libraries(gpu: str) -> None:
    """By DLPack and by ``__cuda_array_interface__``, both ways."""
    cupy = importlib.import_module("cupy")
    theirs = cupy.arange(3, dtype="float32")
    for ours in (sf.from_dlpack(theirs), sf.as_tensor(theirs), sf.as_tensor(Interface(theirs))):
        assert ours.is_cuda and ours.tolist() == theirs.tolist()
        ours.add_(1)
        assert ours.tolist() == theirs.tolist()
    for dtype in (sf.float32, sf.int8, sf.bool):
        x = sf.ones(2, 3, device="cuda", dtype=dtype).t()
        for seen in (cupy.from_dlpack(x), cupy.asarray(x)):
            assert seen.shape == (3, 2) and seen.dtype == dtype.numpy
            seen[0] = 0
            assert not x[0].any() and x[1].all()
            x.fill_(1)
    x = sf.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(sf.AutogradError, match=r"\.detach\(\)"):
        _ = x.__cuda_array_interface__
    assert not hasattr(sf.ones(2), "__cuda_array_interface__")


class Interface:
    """An array of a library that has no DLPack."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = array.__cuda_array_interface__
        self.array = array


def test_a_copy_is_where_the_data_are(gpu: str) -> None:
    cupy = importlib.import_module("cupy")
    x = sf.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    for data in (x, cupy.asarray(x.detach())):
        y = sf.tensor(data, dtype=sf.float64)
        assert y.is_cuda and y.is_leaf and y.tolist() == [1, 2] and y.dtype is sf.float64
        assert not sf.tensor(data, device="cpu").is_cuda
    y.zero_()
    assert x.tolist() == [1, 2]
    parts = sf.tensor([x[1].detach(), 5.0])  # numbers, whatever they come from
    assert parts.tolist() == [2, 5] and not parts.is_cuda


def test_copies_cross_over(gpu: str) -> None:
    x, y = sf.zeros(2), sf.zeros(2, device="cuda")
    assert y.copy_(sf.tensor([1.0, 2.0])).tolist() == [1, 2] and y.is_cuda
    assert x.copy_(y).tolist() == [1, 2] and not x.is_cuda
    y[:] = sf.tensor([3.0, 4.0])
    y[0] = sf.tensor(5.0)
    assert y.tolist() == [5, 4]
    leaf = sf.ones(2, requires_grad=True)
    z = sf.zeros(2, device="cuda")
    z.copy_(leaf)
    (z * 2).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [2, 2] and not leaf.grad.is_cuda


def test_what_is_made_beside_a_tensor_is_where_it_is(gpu: str) -> None:
    x = sf.ones(3, device="cuda", requires_grad=True)
    for y in (
        sf.rand_like(x), sf.dropout(x, 0.5), x.new_zeros(2), x.new_tensor([1, 2]), sf.ones_like(x),
        sf.rand(2, device="cuda"), sf.arange(3, device="cuda"), sf.eye(2, device="cuda"),
        sf.autograd.functional.jacobian(lambda t: t * t, x), checkpoint(sf.exp, x),
    ):  # fmt: skip
        assert y.is_cuda
    with saved_tensors_hooks(lambda t: t, lambda t: t), save_on_cpu():
        y = (x * x).sum()
    y.backward()
    assert x.grad is not None and x.grad.is_cuda and x.grad.tolist() == [2, 2, 2]


def test_a_program_names_the_device_that_it_was_compiled_for(gpu: str) -> None:
    x = sf.placeholder((2,), name="x")
    with pytest.raises(
        DeviceError, match=r"x is on cuda:0.*for the CPU.*\.to\('cpu'\).*devices\.py:\d"
    ):
        sf.compile([x], x * 2)(sf.ones(2, device="cuda"))


def test_a_script_moves_by_changing_one_name(gpu: str) -> None:
    source = (Path(__file__).parents[2] / "examples" / "weight_sharing.py").read_text()
    losses = []
    for name in ("cpu", "cuda"):
        space: dict[str, Any] = {"__name__": name}
        exec(source.replace('DEVICE = "cpu"', f'DEVICE = "{name}"'), space)
        losses.append(space["main"](10))
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_accelerators_are_gpus(gpu: str) -> None:
    assert sf.accelerator.is_available() and sf.accelerator.device_count() >= 1
    kind = sf.accelerator.current_accelerator()
    assert kind is not None and kind.type == "cuda"


def test_without_an_accelerator(no_cupy: None) -> None:
    assert not sf.accelerator.is_available() and sf.accelerator.current_accelerator() is None


def test_keys_on_the_cpu_select_there(gpu: str) -> None:
    """As in PyTorch: index tensors, lists and arrays need not be moved by hand."""
    x = sf.arange(12.0, device="cuda").view(3, 4).requires_grad_()
    keys: list[Any] = [
        sf.tensor([2, 0]), [2, 0], np.array([2, 0]), sf.tensor([True, False, True]), (0, [1, 2]),
        sf.tensor([2, 0], device="cuda"), sf.tensor(1),
    ]  # fmt: skip
    for key in keys:
        y = x[key]
        where = key.cpu() if isinstance(key, sf.Tensor) else key
        assert y.is_cuda and y.tolist() == x.detach().cpu()[where].tolist()
        x.grad = None
        y.sum().backward()
        assert x.grad is not None and x.grad.is_cuda and x.grad.sum() == y.numel()
    z = sf.zeros(3, 4, device="cuda")
    z[[0, 2]] = 1.0
    z[sf.tensor([False, True, False])] = sf.tensor(2.0)
    z[sf.tensor([2])] = sf.ones(4, device="cuda") * 3
    assert z.is_cuda and z[:, 0].tolist() == [1, 2, 3]


def test_keys_on_another_gpu_are_refused(two_gpus: None) -> None:
    with pytest.raises(DeviceError, match="different devices"):
        sf.ones(3, device="cuda")[sf.tensor([0], device="cuda:1")]


def test_packed_batches_stay_there(gpu: str) -> None:
    rnn = sf.nn.utils.rnn
    rows = [sf.ones(4, 2, device="cuda"), sf.ones(2, 2, device="cuda")]
    layer = sf.nn.GRU(2, 3).to("cuda")
    packed, last = layer(rnn.pack_sequence(rows))
    padded, lengths = rnn.pad_packed_sequence(packed)
    assert packed.data.is_cuda and padded.is_cuda and last.is_cuda and not lengths.is_cuda
    assert sf.allclose(last[0, 1].cpu(), layer(rows[1])[1][0].cpu(), atol=1e-6)


def test_normal_numbers_are_made_there(gpu: str) -> None:
    x = sf.normal(2.0, 0.0, (3,), device="cuda", dtype=sf.float64, requires_grad=True)
    assert x.is_cuda and x.dtype is sf.float64 and x.requires_grad and x.tolist() == [2, 2, 2]


def test_changes_through_views_are_recorded_there(gpu: str) -> None:
    x = sf.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda", requires_grad=True)
    y = x * 1
    y[0] = x[1] * 5
    y[:, 1].mul_(2)
    y[y > 15] = 0.0
    y.sum().backward()
    assert y.is_cuda and y.tolist() == [[15, 0], [3, 8]]
    assert x.grad is not None and x.grad.is_cuda and x.grad.tolist() == [[0, 0], [6, 2]]
