"""Tensors of PyTorch beside ours: taken over on one memory, or refused in a sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

torch = pytest.importorskip("torch", reason='tensors of PyTorch: pip install "staticflow[torch]"')

DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
)


@pytest.mark.parametrize("take", [sf.from_dlpack, sf.as_tensor, sf.asarray])
@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared(take: Callable[[Any], Any], dtype: str) -> None:
    theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype)).t()
    ours = take(theirs)
    assert ours.shape == (3, 2) and ours.dtype == sf.promote_types(dtype, dtype)
    theirs[0, 1] = 0
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensor_copies(dtype: str) -> None:
    theirs = torch.ones(3).to(getattr(torch, dtype))
    ours = sf.tensor(theirs)
    theirs[0] = 0
    assert ours.tolist() == [1, 1, 1] and str(ours.dtype.name) == dtype


def test_a_history_stays_where_it_is() -> None:
    w = torch.ones(3, requires_grad=True)
    assert sf.tensor(w).tolist() == [1.0] * 3 and not sf.tensor(w * 2).requires_grad
    x = sf.placeholder((3,), name="x")
    program = sf.compile([x], x * 2)
    assert program(w.detach()).tolist() == [2.0] * 3
    for take in (sf.from_dlpack, sf.as_tensor, sf.asarray, program):
        with pytest.raises(sf.AutogradError, match=r"requires a gradient.*give its \.detach\(\)"):
            take(w)


def test_what_numpy_does_not_know_is_refused() -> None:
    for theirs in (torch.ones(2, dtype=torch.complex64), torch.ones(2).to_sparse()):
        with pytest.raises(sf.DTypeError):
            sf.from_dlpack(theirs)
        with pytest.raises(sf.DTypeError):
            sf.tensor(theirs)


def test_tensors_of_ours_go_to_pytorch() -> None:
    ours = sf.tensor([1.0, 2.0])
    shared = torch.from_dlpack(ours)
    assert torch.tensor(ours).tolist() == torch.as_tensor(ours).tolist() == [1.0, 2.0]
    shared[0] = 5
    assert ours.tolist() == [5.0, 2.0]
    with pytest.raises(BufferError, match="export its"):
        torch.from_dlpack(sf.ones(2, requires_grad=True))


OURS = {
    "add": lambda t, a: a + t,
    "sf.exp": lambda t, a: sf.exp(t),
    "cat": lambda t, a: sf.cat([a, t]),
    "Linear": lambda t, a: sf.nn.Linear(3, 2)(t),
    "index": lambda t, a: a[t.long()],
    "vjp": lambda t, a: sf.func.grad(lambda v: v.sum())(t),
    "matmul": lambda t, a: a @ t,
    "imported": lambda t, a: sf.torch.from_module(torch.nn.Linear(3, 2), (t,))(t),
}


@pytest.mark.parametrize("name", OURS)
def test_functions_of_ours_say_how_to_take_a_tensor_over(name: str) -> None:
    with pytest.raises(
        sf.StaticflowError, match=r"torch\.Tensor.*sf\.from_dlpack\(\.\.\.\), at .*test_torch"
    ):
        OURS[name](torch.ones(3, 3), sf.ones(3, 3))


THEIRS = {
    "add": lambda t, a: torch.add(t, a),
    "cat": lambda t, a: torch.cat([t, a]),
    "linear": lambda t, a: torch.nn.functional.linear(t, a),
    "add_": lambda t, a: t.add_(a),
    "__setitem__": lambda t, a: t.__setitem__(0, a[0]),
    "exp": lambda t, a: torch.exp(a),
}


@pytest.mark.parametrize("kind", ["tensor", "symbol"])
@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.filterwarnings("error")
def test_functions_of_pytorch_say_so_too(name: str, kind: str) -> None:
    ours = sf.ones(2, 3) if kind == "tensor" else sf.placeholder((2, 3), name="x")
    with pytest.raises(sf.DTypeError, match=rf"torch: {name} takes tensors of PyTorch, and f32"):
        THEIRS[name](torch.ones(2, 3), ours)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_programs_and_jit_take_them_alike(dtype: str) -> None:
    t = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    x = sf.placeholder((None, 3), dtype, name="x")
    program, traced = sf.compile([x], x * 2), sf.jit(lambda x, by: x["rows"] * by)
    for values in (t, t.t().contiguous().t()):
        found = traced({"rows": values}, 2)
        assert found.dtype is program(values).dtype and found.tolist() == program(values).tolist()
    assert traced.trace_count == 1
    with pytest.raises(
        sf.AutogradError, match=r"argument args\[0\]\['rows'\] is a tensor of torch"
    ):
        traced({"rows": torch.ones(2, 3, requires_grad=True)}, 2)
    with pytest.raises(sf.DTypeError, match="cannot be taken over"):
        traced({"rows": torch.ones(2, 3, dtype=torch.float8_e5m2)}, 2)


def test_states_of_any_layout_load() -> None:
    layer = sf.nn.Linear(3, 2)
    weight = torch.nn.Parameter(torch.arange(6.0).reshape(3, 2).t())
    layer.load_state_dict({"weight": weight, "bias": torch.zeros(2).bfloat16()})
    assert layer.weight.tolist() == weight.tolist()
    layer.load_state_dict({"weight": weight, "bias": torch.zeros(2)}, assign=True)
    weight.data[0, 0] = 9
    assert layer.weight[0, 0].item() == 9
    with pytest.raises(sf.CheckpointError, match="weight has shape"):
        layer.load_state_dict({"weight": torch.ones(3, 3), "bias": torch.zeros(2)})


def test_without_pytorch_there_is_one_sentence() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import staticflow as sf\n"
        "try: sf.torch.from_module(None, ())\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == (
        'torch.from_module: PyTorch is not installed; pip install "staticflow[torch]"\n'
    )


def test_arrays_of_numpy_are_as_before() -> None:
    array = np.ones(3, np.float32)
    assert sf.as_tensor(array)._data is array


@pytest.mark.parametrize("take", [sf.tensor, sf.as_tensor, sf.from_dlpack, sf.asarray])
def test_a_tensor_without_memory_is_refused(take: Callable[[Any], Any]) -> None:
    with pytest.raises(sf.DTypeError, match=r"torch\.Tensor cannot be taken over .*meta"):
        take(torch.ones(3, device="meta"))


def test_an_optimiser_refuses_parameters_of_pytorch() -> None:
    with pytest.raises(sf.ArgumentError, match=r"parameter 0 is torch\.Parameter; take its module"):
        sf.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)


def test_values_go_back_into_a_module_of_pytorch() -> None:
    ours, theirs = sf.nn.LSTM(3, 4, 2), torch.nn.LSTM(3, 4, 2)
    state = {n: torch.from_dlpack(v) for n, v in ours.state_dict().items()}
    theirs.load_state_dict(state)
    assert all(v.tolist() == ours.state_dict()[n].tolist() for n, v in theirs.state_dict().items())
