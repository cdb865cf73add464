"""What Python reads of a tensor while ``jit`` traces is read anew where it changes; what would act
on a tensor once, as the graph is written, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import SymbolicError

READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda s: s.item(),
    "float": float,
    "int": int,
    "bool": lambda s: 3.0 if s else 4.0,
    "tolist": lambda s: s.tolist(),
    "format": lambda s: float(f"{s:.1f}"),
    "numpy": lambda s: sf.tensor(s.numpy()),
    "asarray": np.asarray,
    "dlpack": lambda s: sf.tensor(np.from_dlpack(s)),
    "from_dlpack": sf.from_dlpack,
}


@pytest.mark.parametrize("name", READS)
def test_a_value_that_python_reads_is_that_of_the_call(name: str) -> None:
    read, s, x = READS[name], sf.tensor(2.0), sf.tensor([1.0, 2.0])
    run = sf.jit(lambda x: x * read(s))
    for value in (2.0, 0.0, 2.0, 5.0):
        s.fill_(value)
        assert run(x).tolist() == (x * read(s)).tolist()
    assert run.compile_count <= 3
    s.data = sf.tensor(7.0)
    assert run(x).tolist() == (x * read(s)).tolist()


def test_of_many_elements_by_their_version() -> None:
    s, x = sf.arange(100.0), sf.ones(100)
    run = sf.jit(lambda x: x + sf.tensor(s.numpy()))
    for _ in range(2):
        assert run(x).tolist() == (x + s).tolist() and run(x)[99] == s[99] + 1
        s.mul_(2)
    assert run.compile_count == 2


def test_too_many_values_are_forgotten_with_a_warning() -> None:
    s = sf.tensor(0.0)
    run = sf.jit(lambda x: x + s.item())
    with pytest.warns(UserWarning, match="more than 16 times.*compute with the tensor itself"):
        for value in range(18):
            s.fill_(value)
            assert run(sf.ones(1)).item() == value + 1
    assert run.compile_count == 16


def parameter() -> Any:
    w = sf.nn.Parameter(sf.ones(3))
    w.grad, w.opt = sf.ones(3), sf.optim.SGD([w], 0.1)
    return w


EFFECTS: dict[str, Callable[[Any], Any]] = {
    "read": lambda w: w.grad,
    "assign": lambda w: setattr(w, "grad", sf.zeros(3)),
    "assign None": lambda w: setattr(w, "grad", None),
    "delete": lambda w: delattr(w, "grad"),
    "in place": lambda w: w.grad.zero_(),
    "optimiser": lambda w: w.opt.zero_grad(),
    "module": lambda w: sf.nn.ParameterList([w]).zero_grad(),
    "hook": lambda w: w.register_hook(lambda g: g * 2),
    "hook after": lambda w: w.register_post_accumulate_grad_hook(print),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_what_acts_on_a_gradient_is_refused_in_a_trace_and_changes_nothing(name: str) -> None:
    w = parameter()

    def run(x: Any) -> Any:
        EFFECTS[name](w)
        return x * w

    loop = sf.jit(lambda x: sf.scan(lambda c, r: (run(c), None), x, x)[0])
    for program in (sf.jit(run), loop):
        with pytest.raises(SymbolicError, match=r"cannot be part of a graph.*test_traced_values"):
            program(sf.ones(3))
    assert w.grad.tolist() == [1, 1, 1] and not w._hooks
    run(sf.ones(3))


def test_memory_that_a_trace_hands_out_is_read_only() -> None:
    s = sf.ones(3)

    def run(x: Any) -> Any:
        np.from_dlpack(s)[0] = 5
        return x + s

    with pytest.raises((ValueError, BufferError), match="read-only"):
        sf.jit(run)(sf.ones(3))
    assert s.tolist() == [1, 1, 1]


def scaled(module: Any, x: Any) -> Any:
    return x * 2 if module.training else x * 3


class Asked(sf.nn.Module):
    def forward(self, x: Any) -> Any:
        return scaled(self, x)


CALLS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "a function": lambda m: lambda x: x * 2 if m.training else x * 3,
    "a function of a function": lambda m: lambda x: scaled(m, x),
    "a module": lambda m: m,
    "a method": lambda m: m.forward,
    "inside a loop": lambda m: lambda x: sf.scan(lambda c, r: (c, scaled(m, r)), (), x)[1],
}


@pytest.mark.parametrize("name", CALLS)
def test_the_mode_of_a_module_that_is_asked_outside_of_its_class(name: str) -> None:
    module, x = Asked(), sf.ones(2)
    run = sf.jit(CALLS[name](module))
    for training in (True, False, True):
        module.train(training)
        assert run(x).tolist() == [2.0 if training else 3.0] * 2
    assert run.compile_count == 2


def test_a_program_of_a_module_whose_forward_asks_through_a_function() -> None:
    module, x = Asked(), sf.placeholder((2,), name="x")
    run = sf.compile([x], module(x))
    module.eval()
    with pytest.raises(SymbolicError, match="Asked is in evaluation mode"):
        run(sf.ones(2))
