"""Files of models: ``my_model.py:Net(hidden=64)`` and what else such a file says."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from staticflow.comparison.calls import parse_call
from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError, StaticflowError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import PACKAGE, format_locs, is_inside
from staticflow.nn.module import Module

__all__ = [
    "ModelFile",
    "check_peers",
    "explain_failure",
    "import_source",
    "is_of_model",
    "load_file",
]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What a file says: the function that makes the model, and of what else it may name, what is
    there: ``example_inputs``, ``batches``, ``loss``, ``optimizer``, ``evaluate``, ``peers`` and
    ``sweep``."""

    source: str
    name: str
    make: Callable[..., Module]
    names: dict[str, Any]


def load_file(target: str) -> ModelFile:
    """The model that ``target`` names, as ``FILE.py:NAME`` or ``package.module:NAME``, where NAME
    may have literal arguments; a file with a single class of modules needs no name.

    Raises `ArgumentError` where there is no such file or name, or where the file cannot be run.
    """
    place, colon, wanted = target.partition(":")
    module = import_source(target)
    if not colon or not wanted:
        wanted = _only_model(module, place)
    call = parse_call(wanted, "the model")
    found = getattr(module, call.name, None)
    if found is None:
        raise ArgumentError(f"{place} has no {call.name!r}; it has {_known_models(module)}")
    if not callable(found):
        raise ArgumentError(
            f"{target} is {with_article(type(found))}; it must be a class of nn.Module, or a "
            "function that makes one"
        )

    def make(**changed: Any) -> Module:
        if isinstance(found, Module) and not (call.args or call.kwargs):
            from copy import deepcopy

            return deepcopy(found)
        made = found(*call.args, **{**call.kwargs, **changed})
        if not isinstance(made, Module):
            raise ArgumentError(
                f"{target} gives {with_article(type(made))}; it must be a class of nn.Module, or a "
                "function that makes one"
            )
        return made

    make.__dict__["__wrapped__"] = found  # whose arguments a sweep may change
    kept = ("example_inputs", "batches", "loss", "optimizer", "evaluate", "peers", "sweep")
    names = {name: getattr(module, name) for name in kept if hasattr(module, name)}
    return ModelFile(target if colon else f"{place}:{wanted}", call.text, make, names)


def import_source(target: str) -> ModuleType:
    """The module that ``target`` begins with, as ``FILE.py:NAME`` or ``package.module:NAME``.
    Raises `ArgumentError` where there is none, or where it cannot be run."""
    place, _, _ = target.partition(":")
    return _import_file(Path(place)) if place.endswith(".py") else _import_module(place, target)


def check_peers(peers: object) -> dict[str, Callable[..., Any]]:
    """``peers`` of a file, functions by name. Raises `ArgumentError` for anything else.

    >>> check_peers({"JAX": 3})
    Traceback (most recent call last):
    staticflow.errors.ArgumentError: peers['JAX'] is of type int; it must be a function of the initial parameters
    """  # noqa: E501
    if not isinstance(peers, Mapping):
        raise ArgumentError(
            f"peers is of type {type(peers).__name__}; it must be a dict of functions by name"
        )
    for name, make in peers.items():
        if not isinstance(name, str) or not callable(make):
            raise ArgumentError(
                f"peers[{name!r}] is of type {type(make).__name__}; it must be a function of the "
                "initial parameters"
            )
    return dict(peers)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ArgumentError(f"there is no file {str(path)!r}; give FILE.py:NAME")
    name = f"compared_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where pickles and dataclasses look for it
    folder = str(path.resolve().parent)
    if folder not in sys.path and not folder.startswith(PACKAGE):
        sys.path.insert(0, folder)  # as Python does that runs it
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ArgumentError(f"{error.filename}:{error.lineno}: {error.msg}") from None
    except SystemExit:
        raise ArgumentError(
            f'{path} ends the process as it is imported; put what it runs under if __name__ == "'
            '__main__":'
        ) from None
    except Exception as error:
        raise ArgumentError(f"{path} cannot be imported: {explain_failure(error)}") from error
    return module


def _import_module(name: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever its code raises, or importlib of a word like "."
        raise ArgumentError(
            f"{target!r} names neither a file (FILE.py:NAME) nor a module (package.module:NAME): "
            f"{explain_failure(error)}"
        ) from None


def _models_of(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Module) and value is not Module
        if value.__module__ == module.__name__
    ]


def _known_models(module: ModuleType) -> str:
    return ", ".join(_models_of(module)) or "no class of nn.Module"


def _only_model(module: ModuleType, place: str) -> str:
    names = _models_of(module)
    if len(names) != 1:
        raise ArgumentError(
            f"{place} does not say which model; write {place}:NAME, it has {_known_models(module)}"
        )
    return names[0]


def is_of_model(error: BaseException) -> bool:
    """Whether an error comes of a model: it is one that staticflow words, or it went through code
    that is not staticflow's. Any other is a defect of staticflow."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, StaticflowError) or any(not is_inside(f.filename) for f in frames)


def explain_failure(error: BaseException) -> str:
    """An error in one line: its class unless it is ours, which says more, and the innermost line
    that is not staticflow's, of a file in the working directory by its path from there.

    >>> explain_failure(ArgumentError("a and b differ"))
    'a and b differ'
    """
    text = " ".join(str(error).split()).replace(f" {os.getcwd()}{os.sep}", " ")
    for place in (", made at", ", at", " at"):  # of what no line of the user's makes
        text = text.replace(f"{place} {format_locs(())}", "")
    if isinstance(error, StaticflowError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not is_inside(f.filename) and f.filename != __file__]
    where = f", at {own[-1].filename}:{own[-1].lineno}" if own else ""
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"
