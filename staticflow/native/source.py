"""The source of native functions, and the error that points into it."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Callable
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import StaticflowError

__all__ = ["NativeError", "Shown", "Source", "source_of"]


class NativeError(StaticflowError):
    """A native function that cannot be translated: the file and the line, what is wrong, and what
    to write."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An expression as it is written, with words around: made when an error shows it, which hardly
    ever happens."""

    node: ast.AST
    words: str = "{}"

    @property
    def line(self) -> int:
        """The line that it stands in."""
        return getattr(self.node, "lineno", 0)

    def __str__(self) -> str:
        return self.words.format(ast.unparse(self.node))


@dataclass(frozen=True, slots=True)
class Source:
    """A native function as it is written."""

    file: str
    tree: ast.FunctionDef

    def error(self, node: ast.AST | int, message: str) -> NativeError:
        """The error at a node, or at a line, with that line."""
        line = node if isinstance(node, int) else getattr(node, "lineno", self.tree.lineno)
        text = linecache.getline(self.file, line).strip()
        return NativeError(f"{self.file}:{line}: {message}\n    {text}")


def source_of(fn: Callable[..., Any]) -> Source:
    """The source of a function, which is defined at the top of a module."""
    code = fn.__code__
    lines = _lines(code.co_filename, fn.__module__, fn.__globals__.get("__loader__"))
    tree = _parse(lines, code.co_firstlineno, code.co_filename)
    if tree is None or tree.name != code.co_name:
        raise NativeError(
            f"{code.co_filename}: the source of {fn.__name__} is not there, from which native code "
            "is translated when it is first used: where an application ships compiled files, ship "
            "the .py files of staticflow, too"
        )
    return Source(code.co_filename, tree)


@functools.lru_cache
def _lines(file: str, module: str, loader: Any) -> list[str]:
    """The lines of a module, whose loader knows the source: there may be another file of that
    name."""
    try:
        text = loader.get_source(module) or ""
    except (AttributeError, ImportError):  # of a module that Python's own loaders did not load
        text = "".join(linecache.getlines(file))
    return text.splitlines()


def _parse(lines: list[str], first: int, file: str) -> ast.FunctionDef | None:
    """The function whose first line, or that of its decorators, is ``first``, alone: most of a
    module is never translated."""
    begin = next((i for i in range(first - 1, len(lines)) if lines[i].startswith("def ")), None)
    if begin is None:
        return None
    behind = (i for i in range(begin + 1, len(lines)) if lines[i] and lines[i][0] not in " )")
    end = next(behind, len(lines))
    text = "\n".join(lines[begin:end])
    (tree,) = ast.parse("\n" * begin + text, file).body
    return tree if isinstance(tree, ast.FunctionDef) else None
