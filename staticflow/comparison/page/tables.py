"""Tables that scroll in a box of their own, and can be sorted by their heads where asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from staticflow.comparison.page.markup import Content, Html, tag
from staticflow.data_classes import dataclass

__all__ = ["Cell", "Column", "numbers", "table"]

MOST_ROWS = 1000
"""So many rows of a table are on the page; all are in the JSON."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its head. ``number`` puts its cells to the right."""

    head: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that is sorted by ``key``, and may have a bar of that share of its width behind it."""

    content: Content
    key: float | str | None = None
    share: float | None = None


def numbers(heads: Iterable[str]) -> list[Column | str]:
    """Columns of numbers."""
    return [Column(head, number=True) for head in heads]


def table(
    caption: str,
    columns: Sequence[Column | str],
    rows: Iterable[Sequence[Cell | Content]],
    *,
    sort: bool = False,
    tall: bool = False,
) -> Html:
    """A table whose first column names its rows. ``sort`` makes its heads buttons for the script,
    ``tall`` bounds its height. The first `MOST_ROWS` rows are shown, and it is said how many more
    there are.

    The box around it takes the focus, so that the keyboard scrolls it.
    """
    heads = [c if isinstance(c, Column) else Column(c) for c in columns]
    rows = list(rows)
    left = len(rows) - MOST_ROWS
    more = f", the first {MOST_ROWS} of {len(rows):,}" if left > 0 else ""
    return tag(
        "div",
        tag(
            "table",
            tag("caption", f"{caption}{more}"),
            tag("thead", tag("tr", [head_cell(h, sort) for h in heads])),
            tag("tbody", [tag("tr", row_cells(row, heads)) for row in rows[:MOST_ROWS]]),
            class_="sortable" if sort else None,
        ),
        class_="box tall" if tall else "box",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def head_cell(column: Column, sort: bool) -> Html:
    """The head of a column."""
    content = tag("button", column.head, type="button") if sort else column.head
    return tag("th", content, scope="col", class_="number" if column.number else None)


def row_cells(row: Sequence[Cell | Content], heads: Sequence[Column]) -> Iterable[Html]:
    """The cells of a row, the first of which is its head."""
    for place, (value, column) in enumerate(zip(row, heads, strict=True)):
        cell = value if isinstance(value, Cell) else Cell(value)
        bar = None
        if cell.share is not None:
            bar = tag("i", class_="bar", style=f"width:{100 * min(max(cell.share, 0), 1):.1f}%")
        yield tag(
            "td" if place else "th",
            bar,
            cell.content,
            scope=None if place else "row",
            class_="number" if column.number else None,
            data_key=None if cell.key is None else str(cell.key),
        )
