"""Which programs a jitted function compiles as the sizes of its arguments change."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ShapeError
from staticflow.graph.collector import without_collection
from staticflow.static import sized_programs


def known_sizes(f: Any) -> list[list[int]]:
    """The sizes that each program of a function takes for known."""
    (kinds,) = f._traces.values()
    (kind,) = kinds
    return [[*known.values()] for known, _ in kind.traced.programs.compiled]


def test_sizes_are_opened_as_they_change() -> None:
    f = sf.jit(lambda x, w: (x @ w).sum(0))
    for rows, depth, columns in [(4, 3, 5), (4, 3, 5), (7, 3, 5), (9, 3, 5), (9, 2, 5)]:
        x, w = sf.rand(rows, depth), sf.rand(depth, columns)
        np.testing.assert_allclose(f(x, w).numpy(), (x.numpy() @ w.numpy()).sum(0), rtol=1e-5)
    assert known_sizes(f) == [[4, 3, 3, 5], [3, 3, 5], [5]]
    f(sf.rand(9, 2), sf.rand(2, 6))
    assert known_sizes(f)[3] == [] and f.trace_count == 1
    f(sf.rand(8, 8), sf.rand(8, 8))
    assert len(f.programs) == 4


def test_each_size_goes_to_the_first_program_that_is_for_it() -> None:
    f = sf.jit(lambda x: x.sum())
    for n in (3, 5, 3, 8):
        assert f(sf.ones(n)).item() == f(np.ones(n, np.float32)).item() == n
    first, second = f.programs
    (x,) = first.optimized.params
    assert x.tensor_type.shape == (3,) and not isinstance(
        second.optimized.params[0].tensor_type.shape[0], int
    )
    (programs,) = [k.traced.programs for kinds in f._traces.values() for k in kinds]
    assert programs.program_for([sf.ones(3)]) is first
    assert programs.program_for([sf.ones(4)]) is second


def test_gradients_have_programs_for_sizes_of_their_own() -> None:
    w = sf.rand(3, 2, requires_grad=True)
    f = sf.jit(lambda x: ((x @ w) ** 2).sum())
    for n in (4, 4, 6, 2, 0, 4):
        x = sf.rand(n, 3)
        w.grad = None
        f(x).backward()
        np.testing.assert_allclose(
            w.grad.numpy(), 2 * x.numpy().T @ x.numpy() @ w.detach().numpy(), rtol=1e-5
        )
    (kinds,) = f._traces.values()
    ((derived, _),) = kinds[0].traced.backward.values()  # of so little that nothing is kept
    assert [len(known) for known, _ in derived.programs.compiled] == [2, 1]


def test_sizes_that_do_not_fit_are_an_error_of_the_call() -> None:
    """The message names the arguments, whether or not a program was compiled before."""
    f = sf.jit(lambda x, y: x * 2 + y)
    for _ in range(2):
        with pytest.raises(ShapeError, match=r"arg0_0 is 4 \(dim 0 of arg0\)"):
            f(sf.ones(4, 3), sf.ones(5, 3))
    assert f(sf.ones(4, 3), sf.ones(4, 3)).shape == (4, 3)
    with pytest.raises(ShapeError, match=r"arg0_0 is 4 \(dim 0 of arg0\)"):
        f(sf.ones(4, 3), sf.ones(5, 3))


def test_shapes_that_are_remembered_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sized_programs, "_MOST_MET", 3)
    f = sf.jit(lambda x: x.sum())
    for n in range(2, 9):
        assert f(np.ones(n, np.float32)).item() == n
    (kinds,) = f._traces.values()
    assert len(kinds[0].traced.programs._met) <= 3


def test_a_compilation_that_fails_leaves_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    f = sf.jit(lambda x: x + 1)
    program = sized_programs.Program

    def failing(*_: Any, **__: Any) -> Any:
        raise MemoryError("none")

    monkeypatch.setattr(sized_programs, "Program", failing)
    with pytest.raises(MemoryError):
        f(sf.ones(3))
    assert f.trace_count == 0
    monkeypatch.setattr(sized_programs, "Program", program)
    assert f(sf.ones(3)).tolist() == [2.0, 2.0, 2.0]
    monkeypatch.setattr(sized_programs, "Program", failing)
    with pytest.raises(MemoryError):
        f(sf.ones(4))
    assert f(sf.ones(3)).tolist() == [2.0, 2.0, 2.0] and len(f.programs) == 1


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_put_back(enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(KeyError), without_collection():
            assert not gc.isenabled()
            with without_collection():
                pass
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == enabled
        sf.compile([x := sf.placeholder((3,), name="x")], x + 1)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
