"""What compiling asks of kernels that are launched again and again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.kernel import Kernel, Stmt
from staticflow.codegen.llvm import routine
from staticflow.codegen.parts import walk
from staticflow.codegen.program import kernels
from staticflow.codegen.program.routine import Launch, walk_steps


def test_a_kernel_is_looked_through_once_however_often_it_is_launched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    walked = 0
    looks = routine.looks

    def count_looks(kernel: Kernel) -> bool:
        looked.append(kernel.name)
        return looks(kernel)

    def count_walks(block: Iterable[Stmt]) -> Iterator[Stmt]:
        nonlocal walked
        walked += 1
        return walk(tuple(block))

    monkeypatch.setattr(routine, "looks", count_looks)
    monkeypatch.setattr(kernels, "walk", count_walks)
    y = x = sf.placeholder((4, 4), name="x")
    for _ in range(12):
        y = (y @ sf.ones(4, 4)).tanh()
    program = sf.compile([x], y)._executable.program
    launches = sum(isinstance(s, Launch) for s in walk_steps(program.steps))
    assert launches == 12 > len(program.kernels)
    assert sorted(looked) == sorted(k.name for k in program.kernels)
    assert walked == len(program.kernels)


def test_a_run_is_cut_into_blocks_and_not_optimised_without_loops() -> None:
    """What LLVM takes for one block, or to optimise one function, grows faster than its length."""
    weights = [sf.full((3,), float(i)) for i in range(80)]
    x = sf.placeholder((3,), name="x")
    rows = sf.placeholder((1,), "int64", name="rows")
    taken = [w[rows] for w in weights]
    long = sf.compile([x, rows], taken, {w: w * x for w in weights})
    run = long.source("llvm").split("define i64 @run")[1]
    assert "optnone" in run.splitlines()[0]
    launches = [block.count("call i32 @") for block in re.split(r"\n[\w.]+:\n", run)]
    assert sum(launches) > 80 and max(launches) <= routine._STEPS_OF_A_BLOCK
    short = sf.compile([x], sf.sin(x)).source("llvm").split("define i64 @run")[1]
    assert "optnone" in short.splitlines()[0] and "part." not in short
    loop = sf.compile([x], sf.fori_loop(0, x.sum().long(), lambda i, y: sf.sort(y * 2)[0], x))
    assert "optnone" not in loop.source("llvm").split("define i64 @run")[1].splitlines()[0]
    got = long(sf.full((3,), 2.0), sf.tensor([1]))
    assert [g.item() for g in got] == [float(i) for i in range(80)]
    assert [w[0].item() for w in weights] == [2.0 * i for i in range(80)]
    with pytest.raises(sf.errors.IndexRangeError):
        long(sf.full((3,), 2.0), sf.tensor([7]))
    assert [w[0].item() for w in weights] == [2.0 * i for i in range(80)]


def test_a_kernel_that_only_says_what_is_shared_stands_where_it_is_launched() -> None:
    """It is a function where it is launched at two places."""
    x, y = (sf.placeholder((None,), name=name) for name in "xy")
    once, twice = sf.compile([x], x.abs()), sf.compile([x, y], [x.abs(), y.abs()])
    for step, places in ((once, 1), (twice, 2)):
        kernels, run = step.source("llvm").split("define i64 @run")
        assert kernels.count("define internal i32 @map0.0(") == 1
        assert ("define internal i32 @map0(" in kernels) == (places == 2)
        assert ("call i32 @parallel(ptr @map0.0," in run) == (places == 1)
        assert run.count("call i32 @map0(") == (places if places == 2 else 0)
        arrays = [np.linspace(-1, 1, 10 ** (4 * i), dtype=np.float32) for i in range(places)]
        found = step(*arrays)
        for got, a in zip(found if places == 2 else [found], arrays, strict=True):
            np.testing.assert_array_equal(got.numpy(), np.abs(a))
