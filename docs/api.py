"""The reference of the API: a page for each public module, made of the docstrings by pdoc.

    pip install "staticflow[docs]"
    python docs/api.py build/api

The folder is a site of files, with signatures, a field to search all names in, and links from each
name in a docstring to where it is described. It is not kept in the repository.
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pdoc

from staticflow.ops.declaring import foreign

PAGES = (
    "staticflow", "staticflow.autograd", "staticflow.autograd.functional",
    "staticflow.autograd.graph", "staticflow.backends", "staticflow.eager.accelerator",
    "staticflow.eager.cuda",
    "staticflow.amp", "staticflow.distributed", "staticflow.distributions", "staticflow.errors",
    "staticflow.func", "staticflow.linalg", "staticflow.nn", "staticflow.nn.functional",
    "staticflow.nn.init", "staticflow.nn.utils", "staticflow.nn.utils.rnn", "staticflow.onnx",
    "staticflow.optim", "staticflow.optim.lr_scheduler", "staticflow.optim.swa_utils",
    "staticflow.special", "staticflow.testing", "staticflow.utils", "staticflow.utils.checkpoint",
    "staticflow.utils.data",
)  # fmt: skip
"""What users import."""

_TOOLS = {*foreign.__all__, "gives_back"}
"""What packages import for their own use under public names."""


def public_names(module: ModuleType) -> list[str]:
    """The names that a page describes: those of ``__all__``, else all that do not begin with ``_``
    and are neither modules nor tools of the package."""
    given = getattr(module, "__all__", None)
    if given is not None:
        return list(given)
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and name not in _TOOLS and not isinstance(value, ModuleType)
    ]


def build(folder: Path) -> None:
    """Write all pages into ``folder``."""
    modules = {page: importlib.import_module(page) for page in PAGES}
    for page, module in modules.items():
        below = [p.rpartition(".")[2] for p in PAGES if p.rpartition(".")[0] == page]
        names = dict.fromkeys([*public_names(module), *below])
        module.__all__ = list(names)  # type: ignore[attr-defined] # which pdoc goes by
    apart = [page for page in PAGES if page.startswith("staticflow.eager.")]
    others = "|".join(p.removeprefix("staticflow.").replace(".", r"\.") for p in PAGES)
    # the constructor of a named tuple is made where its annotations mean nothing
    warnings.filterwarnings("ignore", r".*ForwardRef.*PackedSequence\.__init__")
    pdoc.render.configure(docformat="markdown", show_source=False)
    pdoc.pdoc("staticflow", *apart, rf"!staticflow\.(?!({others})$)", output_directory=folder)
    for file in folder.rglob("*.html"):
        file.write_text(_without_dead_links(file.read_text()))


def _without_dead_links(text: str) -> str:
    """A page whose links to what is not on it are plain text: pdoc links a word in the docstring of
    a class to an attribute of that name, also where a base that is not on the page has it."""
    ids = set(re.findall(r'id="([^"]+)"', text))
    return re.sub(r'<a href="#([^"]+)">([^<]*)</a>', lambda m: m[0 if m[1] in ids else 2], text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/api.py FOLDER")
    build(Path(sys.argv[1]))
