"""The reference of the API: it builds without a warning, has every public name, and no dead link."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest

import staticflow as sf

SCRIPT = Path(__file__).parents[2] / "docs" / "api.py"
pytest.importorskip("pdoc")


class Page(HTMLParser):
    """What can be linked to on a page, and what it links to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids.add(found.get("id") or "")
        if tag == "a" and found.get("href"):
            self.links.append(found["href"] or "")


@pytest.fixture(scope="module")
def api() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    folder = tmp_path_factory.mktemp("api")
    command = [sys.executable, "-W", "error", str(SCRIPT), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "search.js").stat().st_size > 100_000
    return {file.resolve(): Page(file) for file in folder.rglob("*.html")}


def test_every_public_name_is_on_its_page(pages: dict[Path, Page], api: ModuleType) -> None:
    root = min(pages, key=lambda file: len(file.parts)).parent
    for name in api.PAGES:
        page = pages[root / f"{name.replace('.', '/')}.html"]
        public = api.public_names(importlib.import_module(name))
        missing = {n for n in public if n not in page.ids}
        modules = {
            n for n in missing if isinstance(getattr(importlib.import_module(name), n), ModuleType)
        }
        assert not missing - modules, name
        assert len(public) > len(modules) or name == "staticflow.utils"
    assert {"matmul", "Tensor", "jit", "compile"} <= pages[root / "staticflow.html"].ids
    assert {"Linear", "Module"} <= pages[root / "staticflow" / "nn.html"].ids
    assert {n for n in sf.__all__ if isinstance(getattr(sf, n), ModuleType)} <= {
        page.rpartition(".")[2] for page in api.PAGES
    }


def test_no_link_is_dead(pages: dict[Path, Page]) -> None:
    followed = 0
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link == "https://pdoc.dev":
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            assert target in pages, (file, link)
            assert not parts.fragment or unquote(parts.fragment) in pages[target].ids, (file, link)
            followed += 1
    assert followed > 1000
