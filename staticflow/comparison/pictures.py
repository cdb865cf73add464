"""Pictures of what a file has: programs, graphs, tapes and models by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from staticflow.comparison.calls import parse_call
from staticflow.comparison.contest import static_contestant
from staticflow.comparison.graphs import sizes_of, tape_of
from staticflow.comparison.job import Request
from staticflow.comparison.requests import job_of
from staticflow.comparison.source import explain_failure, import_source
from staticflow.drawing.picture import Picture, is_drawable, make_picture
from staticflow.errors import ArgumentError, ParseError
from staticflow.graph.articles import with_article
from staticflow.graph.graph import Graph
from staticflow.graph.parser import parse_graph
from staticflow.nn.module import Module
from staticflow.ops import OPS
from staticflow.static.compile import Program
from staticflow.static.jit import Jitted

__all__ = ["load_picture"]


def load_picture(
    target: str,
    after: str = "",
    is_eager: bool = False,
    sizes: Mapping[str, int] | None = None,
    inputs: Sequence[str] = (),
) -> Picture:
    """The picture of what ``target`` names.

    It is a graph as text, ``graph.sf``; or ``FILE.py:NAME`` for a program, a jitted function, a
    graph, a symbol or a tensor of that file, for a function that makes one, or for a model, of
    which the compiled step is drawn, as `staticflow.compare` makes it, or with ``is_eager`` the
    tape of a step; a file with one such thing needs no name. ``after`` is the name of a pass;
    ``sizes`` are values of unknown sizes, by default those of the inputs of a model, which the file
    says, or ``inputs``.

    Raises `ArgumentError` where there is no such thing, or nothing that can be drawn.
    """
    if target.endswith(".sf"):
        _refuse_inputs(inputs, f"{target} is a graph as text")
        return make_picture(_read_graph(Path(target)), after, sizes, target)
    place, _, name = target.partition(":")
    module = import_source(target)
    if not name:
        names = _drawable_names(module)
        if len(names) != 1:
            raise ArgumentError(
                f"{place} does not say what to draw; write {place}:NAME, {_has(module)}"
            )
        (name,) = names
        target = f"{place}:{name}"
    call = parse_call(name, "what is drawn")
    if not hasattr(module, call.name):
        raise ArgumentError(f"{place} has no {call.name!r}; {_has(module)}")
    found = getattr(module, call.name)
    if isinstance(found, type) and issubclass(found, Module):
        return _picture_of_model(Request(target, tuple(inputs)), after, is_eager, sizes)
    if callable(found) and not isinstance(found, Module | Jitted | Program):
        try:
            found = found(*call.args, **call.kwargs)
        except Exception as error:
            raise ArgumentError(f"{target} cannot be called: {explain_failure(error)}") from error
    if isinstance(found, Module):
        return _picture_of_model(Request(target, tuple(inputs)), after, is_eager, sizes)
    _refuse_inputs(inputs, f"{target} is {with_article(type(found))}")
    if is_eager:
        raise ArgumentError(
            f"{target} is {with_article(type(found))}; only a model has an eager step"
        )
    if isinstance(found, Jitted) and not found.programs:
        raise ArgumentError(
            f"{target} was not called yet, so that there is no graph; let the file call it with "
            "the arguments that it is for"
        )
    return make_picture(found, after, sizes, target)


def _refuse_inputs(inputs: Sequence[str], what: str) -> None:
    """Raise `ArgumentError` for inputs of what has its own, or none."""
    if inputs:
        raise ArgumentError(f"{what}; only a model is given inputs")


def _picture_of_model(
    request: Request, after: str, is_eager: bool, sizes: Mapping[str, int] | None
) -> Picture:
    target, job = request.target, job_of(request)
    if is_eager:
        if (tape := tape_of(job)) is None:
            raise ArgumentError(f"{target} has no loss or nothing to train, and so no tape")
        return make_picture(tape, after, title=f"{target}, an eager step")
    try:
        program = static_contestant(job).program
        assert program is not None
    except Exception as error:
        raise ArgumentError(
            f"{target} cannot be a graph, and --eager draws its tape: {explain_failure(error)}"
        ) from error
    return make_picture(program, after, sizes or sizes_of(job, program), target)


def _read_graph(path: Path) -> Graph:
    if not path.is_file():
        raise ArgumentError(f"there is no file {str(path)!r}; give GRAPH.sf or FILE.py:NAME")
    try:
        return parse_graph(path.read_text("utf-8"), OPS)
    except ParseError as error:
        raise ArgumentError(f"{path}: {str(error).splitlines()[0]}") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{path} is no text; a .sf file is what print(graph) shows") from None


def _has(module: ModuleType) -> str:
    """What a module has that can be drawn, in words."""
    names = _drawable_names(module)
    return f"it has {', '.join(names)}" if names else "it has nothing that can be drawn"


def _drawable_names(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if _is_shown(value, module)]


def _is_shown(value: Any, module: ModuleType) -> bool:
    if isinstance(value, type):
        return issubclass(value, Module) and value.__module__ == module.__name__
    return is_drawable(value) or isinstance(value, Module)
