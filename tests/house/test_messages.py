"""Messages are sentences: what stands behind *a* or *an* and is not known here gets its article as it
is spoken. The extras that they tell to install are those that there are."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import staticflow
from staticflow.graph.articles import with_article

PACKAGE = Path(staticflow.__file__).parent
# But for a variable of C in generated text, and a matrix A.
ARTICLE = re.compile(r"((?<!return )\ban?|^An?) ['\"`]?$")


def articles_before_names(tree: ast.AST) -> Iterator[int]:
    """The first lines of f-strings in which *a* or *an* is written before a word that is filled in."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for before, after in zip(node.values, node.values[1:], strict=False):
            if not isinstance(before, ast.Constant) or not isinstance(after, ast.FormattedValue):
                continue
            if ARTICLE.search(str(before.value)):
                yield node.lineno


def test_no_message_guesses_an_article() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: use with_article"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in articles_before_names(ast.parse(path.read_text()))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("f'x is a {kind}'", [1]),
        ("f\"x is an '{kind}'\"", [1]),
        ("('x is a '\n f'{kind}')", [1]),
        ("f'x is {with_article(kind)}'", []),
        ("f'return a {sign} b'", []),
        ("f'A {kind}'", [1]),
        ("f'B has 3 dims and A {ndim}'", []),
        ("f'data {kind}'", []),
    ],
)
def test_guesses_are_seen(text: str, lines: list[int]) -> None:
    assert [*articles_before_names(ast.parse(text))] == lines


@pytest.mark.parametrize(
    ("noun", "words"),
    [
        (int, "an int"), (list, "a list"), (object, "an object"), (type(None), "a NoneType"),
        ("uint8", "a uint8"), ("unsigned", "an unsigned"), ("unit", "a unit"), ("User", "a User"),
        ("ndarray", "an ndarray"), ("SGD", "an SGD"), ("LSTM", "an LSTM"), ("Module", "a Module"),
        ("GRU", "a GRU"), ("Adam", "an Adam"), ("Upsample", "an Upsample"), ("Unfold", "an Unfold"),
    ],
)  # fmt: skip
def test_articles_are_as_spoken(noun: str | type, words: str) -> None:
    assert with_article(noun) == words


def test_what_is_to_be_installed_is_an_extra() -> None:
    root = PACKAGE.parent
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].keys()
    pages = [*PACKAGE.rglob("*.py"), *root.glob("docs/*.md"), *root.glob("*/README.md")]
    told = {
        (name.strip(), path.name)
        for path in [*pages, root / "README.md"]
        for names in re.findall(r"staticflow\[([a-z, ]+)\]", path.read_text())
        for name in names.split(",")
    }
    assert {name for name, _ in told} >= {"distributed", "report", "onnx"}
    assert not sorted((name, page) for name, page in told if name not in extras)
