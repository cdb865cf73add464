"""Programs of recipes: compiled, or found on disk."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from staticflow.config import config
from staticflow.errors import VerifyError
from staticflow.graph.locs import format_locs, here
from staticflow.runtime.code_cache import code_cache
from staticflow.runtime.executable import Executable
from staticflow.runtime.object_layout import BoxType
from staticflow.runtime.program_cache import find_program, store_program
from staticflow.runtime.program_code import ProgramCode
from staticflow.runtime.recipe import Recipe, identify

if TYPE_CHECKING:
    from staticflow.runtime.ahead import Ahead
    from staticflow.runtime.draft import Draft

__all__ = ["build"]


def build(recipe: Recipe, box: BoxType | None) -> Executable:
    """Compile a program, or find what another process has compiled: then no pass runs and no text
    is made before somebody asks for them. ``box`` describes the class of its variables.

    Raises `CompileError` where subnormal numbers are to be flushed on a machine of which it is not
    known how. With ``STATICFLOW_VERIFY`` what would be found is compiled, too, and it is a
    `VerifyError` if it differs.
    """
    began = time.perf_counter()
    ahead: list[Ahead] = []  # while the program is compiled

    @functools.cache
    def draft() -> Draft:
        from staticflow.runtime.drafting import draft_program

        return draft_program(recipe, *ahead)

    @functools.cache
    def text() -> str:
        from staticflow.runtime.drafting import render_draft

        return render_draft(draft(), recipe.keeps_arena, None, *ahead)

    cache = code_cache()
    key = identify(recipe) if cache is not None and box is not None and _may_keep(recipe) else None
    found = None if cache is None or key is None else find_program(cache, key)
    variables = [p.attrs["source"] for p in recipe.graph.params[len(recipe.names) :]]
    if found is not None and not config.verify:
        return Executable(found, draft, text, variables, box, (began, began))
    from staticflow.runtime.drafting import compiling_ahead, generate

    is_new = cache is None or key is not None  # the code of other programs is found by their text
    with compiling_ahead(recipe, is_new) as begun:
        ahead += begun
        has_entry = box is not None and config.fast_call and not draft().signature.donated
        text()
        generated = time.perf_counter()
        code = generate(draft(), text(), has_entry, False, *ahead)
        ahead.clear()
    if found is not None:
        _verify_found(found, code)
    elif cache is not None and key is not None:
        store_program(cache, key, code)
    return Executable(code, draft, text, variables, box, (draft().optimised, generated))


def _may_keep(recipe: Recipe) -> bool:
    """Whether nothing but the machine code of a program is asked for."""
    wants_stages = config.poison or config.debug or config.dump
    return config.fast_call and not wants_stages and not recipe.donated


def _verify_found(found: ProgramCode, code: ProgramCode) -> None:
    if replace(found, entry=None) != replace(code, entry=None) or (
        found.entry and code.entry and found.entry.object.key != code.entry.object.key
    ):
        raise VerifyError(
            "the cache of machine code has another program for this graph than is compiled of it "
            f"now, at {format_locs(here())}; report this as a fault, please"
        )
