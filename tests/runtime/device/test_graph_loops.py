"""Loops in graphs by cuda-bindings: what it is asked for, by a stand-in with its names."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from fake_nvrtc import FakeNvrtc

from staticflow.errors import DeviceError
from staticflow.runtime.device.cupy_device import CupyDevice
from staticflow.runtime.device.graph_loops import GraphLoops, find_graph_loops

PARAMETERS = {
    "cudaStreamGetCaptureInfo": 1, "cudaGraphConditionalHandleCreate": 3, "cudaGraphAddNode": 5,
    "cudaStreamUpdateCaptureDependencies": 5, "cudaStreamBeginCaptureToGraph": 6,
    "cudaStreamEndCapture": 1,
}  # fmt: skip
"""The functions of ``cuda.bindings.runtime`` that are asked, and how much each takes."""

CONSTANTS = {
    "cudaGraphConditionalHandleFlags": "cudaGraphCondAssignDefault",
    "cudaGraphNodeType": "cudaGraphNodeTypeConditional",
    "cudaGraphConditionalNodeType": "cudaGraphCondTypeWhile",
    "cudaStreamUpdateCaptureDependenciesFlags": "cudaStreamSetCaptureDependencies",
    "cudaStreamCaptureMode": "cudaStreamCaptureModeThreadLocal",
    "cudaError_t": "cudaSuccess",
}


class Runtime:
    """As ``cuda.bindings.runtime``. What is asked is in ``calls``, launches too."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.status = 0
        for kind, name in CONSTANTS.items():
            setattr(self, kind, SimpleNamespace(**{name: 0 if kind == "cudaError_t" else 1}))

    def cudaGraphNodeParams(self) -> Any:
        return SimpleNamespace(type=None, conditional=SimpleNamespace(phGraph_out=["body"]))

    def __getattr__(self, name: str) -> Any:
        def asked(*arguments: Any) -> tuple[Any, ...]:
            assert len(arguments) == PARAMETERS[name]
            self.calls.append((name, *arguments))
            given: dict[str, tuple[Any, ...]] = {
                "cudaStreamGetCaptureInfo": (1, 3, "graph", ["ahead"], ["edge"], 1),
                "cudaGraphConditionalHandleCreate": (5,),
                "cudaGraphAddNode": ("node",),
                "cudaStreamEndCapture": ("body",),
            }
            return self.status, *given.get(name, ())

        return asked


class _Stream:
    def __init__(self, streams: list[Any], ptr: int) -> None:
        self.streams, self.ptr = streams, ptr

    def __enter__(self) -> Any:
        self.streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.streams.pop()


def cupy_over(runtime: Runtime, driver: int = 13010) -> Any:
    streams: list[Any] = []
    streams.append(_Stream(streams, 7))

    def launch(grid: Any, block: Any, arguments: Any) -> None:
        runtime.calls.append(("look", streams[-1].ptr, *map(int, arguments)))

    def link() -> Any:
        return SimpleNamespace(
            add_ptr_data=lambda data, name: runtime.calls.append(("data", data[:3], name)),
            add_ptr_file=lambda path: runtime.calls.append(("file", path)),
            complete=lambda: b"linked",
        )

    module = SimpleNamespace(load=lambda code: None, get_function=lambda name: launch)
    cuda = SimpleNamespace(
        nvrtc=FakeNvrtc(), function=SimpleNamespace(LinkState=link), Module=lambda: module,
        runtime=SimpleNamespace(driverGetVersion=lambda: driver),
        get_current_stream=lambda: streams[-1],
        Stream=lambda non_blocking: _Stream(streams, 8),
    )  # fmt: skip
    return SimpleNamespace(cuda=cuda)


def test_a_loop() -> None:
    runtime = Runtime()
    cupy = cupy_over(runtime)
    loops = GraphLoops(cupy, runtime, "cudadevrt.a", 90)
    assert runtime.calls == [
        ("data", b"PTX", "graph_loops.ptx"), ("file", "cudadevrt.a"), ("look", 7, 0, 0),
    ]  # fmt: skip
    runtime.calls.clear()
    loops.capture(4096, lambda: runtime.calls.append(("work", cupy.cuda.get_current_stream().ptr)))
    node = runtime.calls[4][-1]
    assert (node.type, node.conditional.type, node.conditional.size) == (1, 1, 1)
    assert node.conditional.handle == 5
    assert runtime.calls == [
        ("cudaStreamGetCaptureInfo", 7),
        ("cudaGraphConditionalHandleCreate", "graph", 0, 1),
        ("look", 7, 5, 4096),
        ("cudaStreamGetCaptureInfo", 7),
        ("cudaGraphAddNode", "graph", ["ahead"], ["edge"], 1, node),
        ("cudaStreamUpdateCaptureDependencies", 7, ["node"], None, 1, 1),
        ("cudaStreamBeginCaptureToGraph", 8, "body", None, None, 0, 1),
        ("work", 8),
        ("look", 8, 5, 4096),
        ("cudaStreamEndCapture", 8),
    ]


def test_what_is_refused() -> None:
    runtime = Runtime()
    loops = GraphLoops(cupy_over(runtime), runtime, "cudadevrt.a", 90)
    runtime.status = 801
    with pytest.raises(DeviceError, match="cudaStreamGetCaptureInfo answers with 801"):
        loops.capture(4096, lambda: None)


def install(monkeypatch: pytest.MonkeyPatch, runtime: Any, version: str = "13.1.0") -> None:
    """Have cuda-bindings be a stand-in."""
    finder = SimpleNamespace(find_static_lib=lambda name: f"{name}.a")
    bindings = SimpleNamespace(__version__=version)
    modules = {"": SimpleNamespace(), ".bindings": bindings, ".pathfinder": finder}
    for name, module in {**modules, ".bindings.runtime": runtime}.items():
        monkeypatch.setitem(sys.modules, f"cuda{name}", module)


def test_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Runtime(), "12.9.0")
    assert find_graph_loops(cupy_over(Runtime()), 90) is None
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert find_graph_loops(cupy_over(Runtime()), 90) is None


def device_over(monkeypatch: pytest.MonkeyPatch, cupy: Any) -> CupyDevice:
    """A device of a stand-in for cupy."""
    cupy.cuda.Device = lambda index: _Device()
    cupy.cuda.memory = SimpleNamespace(OutOfMemoryError=MemoryError)
    cupy.cuda.driver = SimpleNamespace(CUDADriverError=Refused)
    cupy.cuda.runtime.CUDARuntimeError = Refused
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return CupyDevice(0)


class Refused(Exception):
    """What the stand-in raises in the place of an error of the driver."""

    status = 801


class _Device:
    """As `cupy.cuda.Device`, a context."""

    compute_capability = "90"

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def refuse(*_: Any) -> Any:
    raise Refused("no such thing")


@pytest.mark.parametrize("fault", ["none", "driver", "link", "library", "names"])
def test_one_warning_says_why(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    runtime = Runtime()
    install(monkeypatch, runtime)
    cupy = cupy_over(runtime, driver=12080 if fault == "driver" else 13010)
    if fault == "link":
        cupy.cuda.Module = lambda: SimpleNamespace(load=refuse)
    if fault == "library":
        monkeypatch.setattr(sys.modules["cuda.pathfinder"], "find_static_lib", refuse)
    if fault == "names":
        cupy.cuda.function = SimpleNamespace()
    device = device_over(monkeypatch, cupy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert device.loops_in_graphs == device.loops_in_graphs == (fault == "none")
        device.give_up_loops("a node that is refused")
        device.give_up_loops("again")
        assert not device.loops_in_graphs
    (only,) = caught
    why = {"driver": "of CUDA 12.8, not of 13", "none": "a node", "names": "LinkState"}
    assert why.get(fault, "no such thing") in str(only.message)
    with pytest.raises(DeviceError, match="no loops in graphs"):
        device.capture_while(4096, lambda: None)


def test_the_names_are_those_of_cuda_bindings() -> None:
    runtime = pytest.importorskip("cuda.bindings.runtime")
    if int(sys.modules["cuda.bindings"].__version__.partition(".")[0]) < 13:
        pytest.skip("CUDA 12 has others for two of them")
    for name, count in PARAMETERS.items():
        head = (getattr(runtime, name).__doc__ or "").partition(chr(10))[0]
        depth, parts = 0, 1
        for letter in head.partition("(")[2]:
            depth += (letter in "[(") - (letter in "])")
            parts += letter == "," and depth == 0
        assert head.startswith(name) and parts == count, head
    for kind, name in CONSTANTS.items():
        assert hasattr(getattr(runtime, kind), name)
    node = runtime.cudaGraphNodeParams()
    node.type = runtime.cudaGraphNodeType.cudaGraphNodeTypeConditional
    node.conditional.handle = runtime.cudaGraphConditionalHandle(5)
    node.conditional.type = runtime.cudaGraphConditionalNodeType.cudaGraphCondTypeWhile
    node.conditional.size = 1
    assert len(node.conditional.phGraph_out) == 1 and int(node.conditional.handle) == 5
