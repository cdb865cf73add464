"""What compiling asks of kernels that are launched again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

import staticflow as sf
from staticflow.codegen.kernel import Kernel, Stmt, walk
from staticflow.codegen.llvm import routine
from staticflow.codegen.program import assemble
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
    monkeypatch.setattr(assemble, "walk", count_walks)
    y = x = sf.placeholder((4, 4), name="x")
    for _ in range(12):
        y = (y @ sf.ones(4, 4)).tanh()
    program = sf.compile([x], y)._executable.program
    launches = sum(isinstance(s, Launch) for s in walk_steps(program.steps))
    assert launches == 12 > len(program.kernels)
    assert sorted(looked) == sorted(k.name for k in program.kernels)
    assert walked == len(program.kernels)
