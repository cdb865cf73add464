"""The page on the comparison has every key of the record, and the record is JSON."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from staticflow.comparison import record

PAGE = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text()
CLASSES = [name for name in record.__all__ if name != "SCHEMA"]


def keys_of(title: str) -> list[str]:
    section = PAGE.split(f"### {title}\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.M)
    return [key for row in rows for key in re.findall(r"`(\w+)`", row)]


@pytest.mark.parametrize("name", CLASSES)
def test_every_key_is_on_the_page(name: str) -> None:
    kind = getattr(record, name)
    assert sorted(keys_of(name)) == sorted(f.name for f in dataclasses.fields(kind))


def test_the_page_has_no_other_class_and_the_schema_of_now() -> None:
    assert sorted(re.findall(r"^### (\w+)$", PAGE, re.M)) == sorted(CLASSES)
    assert f'"{record.SCHEMA}"' in PAGE
