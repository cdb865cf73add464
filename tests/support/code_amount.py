"""How much code a program is: counted before LLVM sees it, for one made-up machine, so that the
numbers are the same wherever they are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from staticflow.codegen.llvm.render import render_kernel
from staticflow.codegen.parts import walk
from staticflow.codegen.target import Target
from staticflow.graph import proofs
from staticflow.graph.graph import Graph
from staticflow.runtime.drafting import draft_program
from staticflow.runtime.recipe import Recipe
from staticflow.static import compile as compiling

__all__ = ["TARGET", "Amount", "amount_of", "recipe_of", "recipe_of_graph"]

TARGET = Target(vector_bits=512, fma=True, masks=True, avx512=True, shares=True)
"""The machine that code is counted for."""


@dataclass(frozen=True, slots=True)
class Amount:
    """The statements of all kernels of a program, the lines of their text, and what had to be
    proved of sizes to write them, each proof once."""

    statements: int
    lines: int
    proofs: int

    def times(self, other: Amount) -> float:
        """How many times as much code this is as another: by statements or lines, whichever is
        more. What there is of any program counts as 20 statements and as 40 lines of both."""
        return max(
            (self.statements + 20) / (other.statements + 20), (self.lines + 40) / (other.lines + 40)
        )


def amount_of(recipe: Recipe) -> Amount:
    """The code of the program of a recipe, made for `TARGET`."""
    proofs._prove_once.cache_clear()
    with mock.patch.object(proofs, "_prove", wraps=proofs._prove) as proved:
        kernels = draft_program(replace(recipe, target=TARGET)).routine.kernels
        texts = [render_kernel(kernel, TARGET) for kernel in kernels]
    return Amount(
        sum(1 for kernel in kernels for _ in walk(kernel.body)),
        sum(text.count("\n") for text in texts),
        proved.call_count,
    )


def recipe_of_graph(graph: Graph) -> Recipe:
    """The recipe of a graph that has no variables."""
    return Recipe(graph, tuple(p.attrs["name"] for p in graph.params), ())


class _HasRecipeError(Exception):
    """Carries the recipe of what was about to be compiled."""


def recipe_of(compile_it: Callable[[], Any]) -> Recipe:
    """The recipe of the program that a function compiles with `sf.compile`; nothing is compiled."""

    def hand_over(recipe: Recipe, box: Any) -> Any:
        raise _HasRecipeError(recipe)

    with mock.patch.object(compiling, "build", hand_over):
        try:
            compile_it()
        except _HasRecipeError as found:
            recipe: Recipe = found.args[0]
            return recipe
    raise AssertionError("nothing was compiled")
