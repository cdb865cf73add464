"""The step of a plan that overwrites a tensor, by the native functions run as Python."""

from __future__ import annotations

from typing import Any

import pytest

from staticflow.eager.fast import change
from staticflow.eager.fast.records import Operand, Step
from staticflow.native import cpython
from staticflow.native.cpython import NONE
from staticflow.native.language import Object, Row, drop
from staticflow.runtime.object_layout import WRITEABLE
from tests.native.mocks import Counted, World


class Outside:
    """What the native functions call, in a world in which a call may fail. ``edges`` has the
    tensors that a gradient goes to, ``bumped`` the memories whose changes were counted."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.failed = world, False
        self.edges: list[Any] = []
        self.bumped: list[Any] = []
        self.recording = True
        for name, fn in {
            "current_state": world.get,
            "is_recording": lambda state: self.recording,
            "open_operand": self.open_operand,
            "has_no_edge": lambda operand: operand.object not in self.edges,
            "memory_of": lambda tensor, array: self.held(tensor.memory),
            "is_free": lambda tensor: tensor not in self.edges,
            "run_kernel": lambda step, kernel, arrays, count: kernel(arrays, count),
            "bump": self.bump,
        }.items():
            monkeypatch.setattr(change, name, fn)
        monkeypatch.setattr(cpython, "PyErr_Occurred", lambda: Object() if self.failed else None)

    def held(self, thing: Any) -> Any:
        thing.references += 1
        return thing

    def open_operand(self, operand: Operand) -> bool:
        operand.array = self.held(operand.object.data)
        return True

    def bump(self, memory: Any) -> bool:
        self.bumped.append(memory)
        counted = self.world.get()
        self.failed = counted is None
        drop(counted)
        return not self.failed


def a_tensor(*strides: int, flags: int = WRITEABLE) -> Any:
    array = Counted(ndim=len(strides), strides=Row([*strides]), flags=flags)
    return Counted(data=array, memory=Counted(), vertex=NONE)


@pytest.mark.parametrize("fails", range(-1, 4))
def test_nothing_of_a_change_is_lost(monkeypatch: pytest.MonkeyPatch, fails: int) -> None:
    world = World(fails)
    outside = Outside(world, monkeypatch)
    x, y = a_tensor(8, 4), a_tensor(8, 4)
    given: list[Any] = []

    def kernel(arrays: Row[Any], count: int) -> Any:
        given.extend(arrays[i] for i in range(count))
        return world.get()

    done = change.run_change(Step(compute=kernel), Row([x, y, x]), 3)
    assert (done is x) == (not 0 <= fails < world.calls)
    assert given == ([] if fails == 0 else [x.data, y.data, x.data])
    assert outside.bumped == ([] if fails in (0, 1) else [x.memory])
    drop(done)
    assert world.leaks() == []
    assert [c.references for t in (x, y) for c in (t, t.data, t.memory)] == [1] * 6


@pytest.mark.parametrize("recording", [False, True])
@pytest.mark.parametrize("case", ["target", "beside", "read-only", "expanded", "no kernel"])
def test_what_is_not_the_usual_case_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, case: str, recording: bool
) -> None:
    world = World()
    outside = Outside(world, monkeypatch)
    outside.recording = recording
    x = a_tensor(
        *((0, 4) if case == "expanded" else (8, 4)), flags=WRITEABLE * (case != "read-only")
    )
    y = a_tensor(8, 4)
    outside.edges = {"target": [x], "beside": [y]}.get(case, [])
    ran: list[Any] = []

    def kernel(arrays: Row[Any], count: int) -> Any:
        ran.append(arrays)
        return world.get()

    step = Step(compute=None if case == "no kernel" else kernel)
    done = change.run_change(step, Row([x, y]), 2)
    usual = case in ("target", "beside") and not recording
    assert (done is x) == usual == bool(ran) == bool(outside.bumped)
    drop(done)
    assert [c.references for t in (x, y) for c in (t, t.data, t.memory)] == [1] * 6
