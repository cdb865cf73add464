"""Loops in captured graphs that a GPU goes through by itself: conditional nodes, which CUDA has
since 12.4, by the package cuda-bindings, since cupy does not reach them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow.errors import DeviceError
from staticflow.graph.locs import warn
from staticflow.runtime.device.device_code import compile_text

__all__ = ["GraphLoops", "find_graph_loops", "warn_without_loops"]

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
    """What makes loops in graphs on the current GPU; None where cuda-bindings of CUDA 13 is not
    installed.

    Where it is, and loops cannot be had, it raises what says why: `DeviceError` of an older driver,
    and whatever the packages and the driver do where the library of the device's runtime is not
    there or the kernel is not linked.
    """
    try:
        bindings = importlib.import_module("cuda.bindings")
        runtime = importlib.import_module("cuda.bindings.runtime")
        pathfinder = importlib.import_module("cuda.pathfinder")
    except ImportError:
        return None
    if int(bindings.__version__.partition(".")[0]) < 13:
        return None
    driver = cupy.cuda.runtime.driverGetVersion()
    if driver < _LEAST_DRIVER:
        raise DeviceError(
            f"the driver is of CUDA {driver // 1000}.{driver % 1000 // 10}, not of 13"
        )
    return GraphLoops(cupy, runtime, pathfinder.find_static_lib("cudadevrt"), capability)


def warn_without_loops(device: str, why: object) -> None:
    """Warn that a device goes through loops without those in graphs."""
    warn(
        f"{device}: the GPU cannot go through loops that end by a value by itself, so the host "
        f"looks every few iterations whether they have ended: {why}"
    )


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
