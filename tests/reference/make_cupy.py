"""Writes cupy.json: the names of cupy, what they take, and for which dtypes its ufuncs are there,
for the stand-in of `fake_cupy`. Run it where cupy is, with ml_dtypes beside it, no driver needed:
``python tests/reference/make_cupy.py``."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

__all__ = ["TABLE", "describe"]

TABLE = Path(__file__).with_name("cupy.json")

MODULES = (
    "cupy", "cupy.linalg", "cupy.lib.stride_tricks", "cupy.cuda", "cupy.cuda.runtime", "cupyx",
    "cupyx.scipy.special",
)  # fmt: skip
CLASSES = ("cupy.ndarray", "cupy.cuda.Device", "cupy.cuda.MemoryPool", "cupy.cuda.PinnedMemoryPool")
METHODS = ("at", "accumulate", "outer", "reduce", "reduceat")


def parameters(function: Any) -> list[list[Any]] | None:
    """The name, kind and whether there is a default of each parameter; None where cupy does not
    say. Functions of Cython say it in the first line of their docstrings, with types of C."""
    try:
        found = inspect.signature(function)
        own = [p for p in found.parameters.values() if p.name != "self"]
        return [[p.name, int(p.kind), p.default is not p.empty] for p in own]
    except (TypeError, ValueError):
        line = (inspect.getdoc(function) or "").partition("\n")[0]
    match = re.fullmatch(r"[\w.]+\((.*)\)( ->.*)?", line)
    if not match:
        return None
    parts: list[list[Any]] = []
    kind = int(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for part in re.split(r",\s*(?![^(\[]*[)\]])", match[1]):
        name, default, _ = part.partition("=")
        name = name.split(":")[0].split()[-1] if name.strip() else ""
        if name.startswith("**"):
            parts.append([name[2:], int(inspect.Parameter.VAR_KEYWORD), False])
        elif name.startswith("*"):
            kind = int(inspect.Parameter.KEYWORD_ONLY)
            if name != "*":
                parts.append([name[1:], int(inspect.Parameter.VAR_POSITIONAL), False])
        elif name.isidentifier() and name != "self":
            parts.append([name, kind, bool(default)])
    return parts


def methods_of(ufunc: Any) -> list[str]:
    """Which methods are more than a refusal. Without arrays, and without a driver, one that is
    there fails otherwise."""
    found = []
    for name in METHODS:
        try:
            getattr(ufunc, name)(*[None] * (2 if name in ("at", "outer", "reduceat") else 1))
        except NotImplementedError:
            continue
        except Exception:
            pass
        found.append(name)
    return found


def entry(x: Any) -> Any:
    """What is kept of one name."""
    kind = type(x).__name__
    if kind == "ufunc":
        return {"ufunc": x.name, "types": x.types, "methods": methods_of(x)}
    if kind == "_GUFunc":
        return {"call": parameters(x)}
    if inspect.ismodule(x):
        return "module"
    if inspect.isclass(x):
        return "class"
    return {"call": parameters(x)} if callable(x) else "value"


def describe() -> dict[str, Any]:
    """The whole table."""
    cupy = importlib.import_module("cupy")
    names: dict[str, Any] = {}
    for path in MODULES:
        module = importlib.import_module(path)
        own = {n: getattr(module, n) for n in sorted(dir(module)) if n[0] != "_"}
        if path == "cupy.cuda.runtime":  # whose constants are many
            own = {n: x for n, x in own.items() if callable(x)}
        names[path] = {n: entry(x) for n, x in own.items()}
    for path in CLASSES:
        owner, _, name = path.rpartition(".")
        kind = getattr(importlib.import_module(owner), name)
        names[path] = {
            n: entry(getattr(kind, n))
            for n in sorted(dir(kind))
            if n[0] != "_" or (n.endswith("__") and n not in dir(object))
        }
    return {"cupy": cupy.__version__, "names": names}


def main() -> None:
    table = describe()
    rows = [
        f"  {json.dumps(path)}: {{\n"
        + ",\n".join(f"    {json.dumps(n)}: {json.dumps(e)}" for n, e in names.items())
        + "\n  }"
        for path, names in table["names"].items()
    ]
    text = ",\n".join(rows)
    TABLE.write_text(f'{{\n"cupy": {json.dumps(table["cupy"])},\n"names": {{\n{text}\n}}}}\n')


if __name__ == "__main__":
    main()
