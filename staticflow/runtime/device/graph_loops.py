"""Loops in captured graphs that a GPU goes through by itself: conditional nodes, which CUDA has
since 12.4, by the package cuda-bindings, since cupy does not reach them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow.errors import DeviceError
from staticflow.runtime.device.device_code import compile_text

__all__ = ["GraphLoops", "find_graph_loops"]

_LEAST_DRIVER = 13000
"""The driver of CUDA 13, whose names are used here; CUDA 12 has others for two of them."""

_ENTRY = "go_on_while_zero"

_TEXT = f"""\
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);

extern "C" __global__ void {_ENTRY}(unsigned long long handle, const int* word) {{
  if (word) cudaGraphSetConditional(handle, *word == 0);
}}
"""
"""Where there is no word, as in its first launch, which loads it, the kernel does nothing."""


def find_graph_loops(cupy: Any, capability: int) -> GraphLoops | None:
    """What makes loops in graphs on the current GPU; None where the driver is older, or
    cuda-bindings of CUDA 13 or the library of the device's runtime is not installed."""
    if cupy.cuda.runtime.driverGetVersion() < _LEAST_DRIVER:
        return None
    try:
        bindings = importlib.import_module("cuda.bindings")
        runtime = importlib.import_module("cuda.bindings.runtime")
        pathfinder = importlib.import_module("cuda.pathfinder")
    except ImportError:
        return None
    if int(bindings.__version__.partition(".")[0]) < 13:
        return None
    try:
        library = pathfinder.find_static_lib("cudadevrt")
    except pathfinder.StaticLibNotFoundError:
        return None
    return GraphLoops(cupy, runtime, library, capability)


class GraphLoops:
    """Loops by the ``runtime`` of cuda-bindings, whose kernel is linked with a ``library``, that of
    the device's runtime."""

    def __init__(self, cupy: Any, runtime: Any, library: str, capability: int) -> None:
        self._cupy, self._runtime = cupy, runtime
        link = cupy.cuda.function.LinkState()
        code = compile_text(cupy.cuda.nvrtc, _TEXT, capability, for_linker=True)
        link.add_ptr_data(code, "graph_loops.ptx")
        link.add_ptr_file(library)
        module = cupy.cuda.Module()
        module.load(link.complete())
        self._look = module.get_function(_ENTRY)
        self._launch_look(0, 0)

    def _launch_look(self, handle: int, word: int) -> None:
        self._look((1, 1, 1), (1, 1, 1), (np.uint64(handle), np.uint64(word)))

    def capture(self, word: int, work: Callable[[], None]) -> None:
        """Add a loop to the graph that is captured in cupy's current stream: what ``work`` asks
        for, as long as the int32 at the address ``word`` is 0."""
        r, cuda = self._runtime, self._cupy.cuda
        stream = cuda.get_current_stream().ptr
        graph = self._ask("cudaStreamGetCaptureInfo", stream)[2]
        default = r.cudaGraphConditionalHandleFlags.cudaGraphCondAssignDefault
        (handle,) = self._ask("cudaGraphConditionalHandleCreate", graph, 0, int(default))
        self._launch_look(int(handle), word)
        _, _, _, ahead, edges, count = self._ask("cudaStreamGetCaptureInfo", stream)
        node = r.cudaGraphNodeParams()
        node.type = r.cudaGraphNodeType.cudaGraphNodeTypeConditional
        node.conditional.handle = handle
        node.conditional.type = r.cudaGraphConditionalNodeType.cudaGraphCondTypeWhile
        node.conditional.size = 1
        (made,) = self._ask("cudaGraphAddNode", graph, ahead, edges, count, node)
        replace = r.cudaStreamUpdateCaptureDependenciesFlags.cudaStreamSetCaptureDependencies
        self._ask("cudaStreamUpdateCaptureDependencies", stream, [made], None, 1, int(replace))
        (body,) = node.conditional.phGraph_out
        mode = r.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        with cuda.Stream(non_blocking=True) as inner:
            self._ask("cudaStreamBeginCaptureToGraph", inner.ptr, body, None, None, 0, mode)
            try:
                work()
                self._launch_look(int(handle), word)
            finally:
                self._ask("cudaStreamEndCapture", inner.ptr)

    def _ask(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        """What a function gives behind its status. Raises `DeviceError` if that is not success."""
        status, *found = getattr(self._runtime, name)(*arguments)
        if status != self._runtime.cudaError_t.cudaSuccess:
            raise DeviceError(f"{name} answers with {status}")
        return tuple(found)
