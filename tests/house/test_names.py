"""Names and prose of the package: functions are verbs or say what they give, a docstring stands
alone, and the glossary has each word once.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from test_layers import FILES, PACKAGE, tree_of

DOCS = PACKAGE.parent / "docs"

# Participles that do not end in -ed.
IRREGULAR = {
    "begun", "bought", "broken", "brought", "built", "caught", "chosen", "come", "dealt",
    "done", "drawn", "fed", "felt", "forgotten", "found", "frozen", "given", "gone", "got",
    "grown", "heard", "held", "hidden", "kept", "known", "laid", "led", "left", "lent", "lost",
    "made", "meant", "met", "paid", "proven", "said", "seen", "sent", "shown", "sold", "spent",
    "split_up", "stood", "stuck", "sunk", "taken", "taught", "thought", "thrown", "told",
    "torn", "understood", "won", "wound", "woven", "written",
}  # fmt: skip
VERBS = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "succeed"}
# Names of PyTorch, NumPy or Python, and the mark of functions that are fused.
THEIRS = {
    "__reversed__", "cached", "searchsorted", "fused", "detached", "optimized", "sorted",
}  # fmt: skip

# How a docstring leans on its neighbours.
LEANING = {
    "likewise": re.compile(r"\blikewise\b", re.IGNORECASE),
    "as above": re.compile(r"\bas above\b", re.IGNORECASE),
    "the same way": re.compile(r"\bthe same way\b", re.IGNORECASE),
    "see": re.compile(r"[;:,] see `|\A(See|Cf)\b"),
    "no subject": re.compile(
        r"\A(As|Like|The same|That|So|And|Also|Such|Likewise|Of|By|With|To)\b"
    ),
}


def name_of(path: Path) -> str:
    """``eager/fast/apply.py``."""
    return path.relative_to(PACKAGE).as_posix()


def is_participle(name: str) -> bool:
    """Whether a name is one word that says what was done, and neither what nor whose.

    >>> is_participle("_made"), is_participle("read"), is_participle("saved_values")
    (True, False, False)
    """
    word = name.strip("_")
    if name in THEIRS or word in VERBS:
        return False
    return word in IRREGULAR or re.fullmatch(r"[a-z]{2,}ed", word) is not None


def functions_of(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def docstrings_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The docstrings of a file, each with the name of what it describes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node)
            if text is not None:
                yield getattr(node, "name", "module"), text


def test_no_two_files_of_tests_have_one_name() -> None:
    """Or one of them is not run: they are no packages, so a name is a module."""
    names = Counter(path.name for path in (PACKAGE.parent / "tests").rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]


def test_no_function_is_a_bare_participle() -> None:
    found = [
        f"{path}:{f.lineno}: {f.name}"
        for path in FILES
        for f in functions_of(tree_of(path))
        if is_participle(f.name)
    ]
    assert not found, "say what they do or give:\n" + "\n".join(found)


def test_docstrings_stand_alone() -> None:
    found = [
        f"{path}: {name}: {word}"
        for path in FILES
        for name, text in docstrings_of(tree_of(path))
        for word, rule in LEANING.items()
        if rule.search(text)
    ]
    assert not found, "say it there:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("The shape of the result.", True),
        ("The sum (see `sum_op`), in 32 bits.", True),
        ("Likewise on small arrays.", False),
        ("The mean, as above.", False),
        ("The loss; see `mse_loss`.", False),
        ("See `pull`.", False),
        ("As `conv1d`, of images.", False),
        ("The same for float64.", False),
        ("Sameness of two types.", True),
    ],
)
def test_the_rule_on_docstrings(text: str, stands: bool) -> None:
    assert any(rule.search(text) for rule in LEANING.values()) != stands


def resolves(name: str) -> bool:
    """Whether ``staticflow.eager.tape.backward`` is a module, or can be reached from one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_every_dotted_name_in_prose_exists() -> None:
    texts = {page.name: page.read_text() for page in DOCS.glob("*.md")}
    for path in FILES:
        texts[name_of(path)] = "\n".join(text for _, text in docstrings_of(tree_of(path)))
    names = {
        name: place
        for place, text in texts.items()
        for name in re.findall(r"`(staticflow(?:\.\w+)+)", text)
    }
    assert [f"{place}: {name}" for name, place in names.items() if not resolves(name)] == []


def test_the_glossary_has_forty_terms_in_order() -> None:
    rows = re.findall(r"^\| ([a-z][\w ]*) \| (.*) \|$", (DOCS / "glossary.md").read_text(), re.M)
    terms = [term for term, _ in rows if term != "term"]
    assert terms == sorted(set(terms), key=str.lower) and len(terms) <= 40
    assert all(meaning.endswith(".") for term, meaning in rows if term != "term")


def test_every_word_in_italics_on_the_house_is_in_the_glossary() -> None:
    page = (DOCS / "architecture.md").read_text()
    glossary = (DOCS / "glossary.md").read_text()
    for word in re.findall(r"(?<![\w*])\*([a-z][\w ]*)\*(?![\w*])", page):
        stems = {word, word.removesuffix("s"), word.removesuffix("ies") + "y"}
        assert word == "is" or any(f"| {stem} |" in glossary for stem in stems), word
