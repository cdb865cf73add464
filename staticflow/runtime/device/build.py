"""Programs for GPUs, of recipes."""

from __future__ import annotations

from dataclasses import replace

from staticflow.codegen.target import GPU
from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.loops.budget import budgets_in
from staticflow.passes.order import ON_A_GPU
from staticflow.runtime.device.devices import open_device
from staticflow.runtime.device.executable import DeviceExecutable
from staticflow.runtime.recipe import Recipe

__all__ = ["build_on_device"]


def build_on_device(recipe: Recipe, index: int) -> DeviceExecutable:
    """Compile a program for the GPU of a number. A program with a budget of memory holds none from
    call to call, and so captures nothing.

    Raises `CompileError` for what has no kernel there, and `ArgumentError` where subnormal numbers
    are to be flushed or inputs are donated.
    """
    from staticflow.runtime.drafting import draft_program

    device = open_device(index)
    for asked, name in ((recipe.flushes, "flush_subnormals"), (recipe.donated, "donate")):
        if asked:
            raise ArgumentError(
                f"compile: {name} is for programs on the CPU, not on {device.name}, "
                f"at {format_locs(here())}"
            )
    replaced = (ON_A_GPU.get(p, p) for p in recipe.passes)
    passes = tuple(p for p in replaced if p is not None)
    held = recipe.keeps_arena and not any(budgets_in(recipe.graph))
    draft = draft_program(replace(recipe, passes=passes, target=GPU))
    return DeviceExecutable(draft, device, replay=held)
