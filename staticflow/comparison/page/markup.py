"""HTML that is escaped where it is made: text comes in as str, markup as `Html`."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

__all__ = ["Content", "Html", "clean", "escape", "json_script", "tag"]

VOID = {"meta", "link", "br", "col"}
# What no text of a page may have: controls, halves of characters, and marks that turn the text
# around them, by which a name could pose as another.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


class Html(str):
    """Markup that is complete and safe to put into a page."""

    __slots__ = ()


Content: TypeAlias = "str | Iterable[Content] | None"


def clean(text: str) -> str:
    """A text in which what cannot be printed is the mark of what cannot be printed.

    >>> clean("tab\\tand bell\\a")
    'tab\\tand bell�'
    """
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def escape(text: str) -> Html:
    """A text as markup; what is markup already stays as it is.

    >>> escape("<b>"), escape(Html("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    return text if isinstance(text, Html) else Html(html.escape(clean(text)))


def join(content: Content) -> str:
    """The markup of texts, elements and sequences of them, in their order."""
    if content is None:
        return ""
    return escape(content) if isinstance(content, str) else "".join(map(join, content))


def tag(name: str, /, *content: Content, **attributes: str | int | bool | None) -> Html:
    """An element. Attributes are written ``class_`` and ``aria_label``; one that is True has no
    value, one that is None or False is left out.

    >>> tag("p", "a < b", class_="note", hidden=True)
    '<p class="note" hidden>a &lt; b</p>'
    """
    written = "".join(map(attribute, attributes, attributes.values()))
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(content)}</{name}>")


def attribute(name: str, value: str | int | bool | None) -> str:
    """An attribute with the space before it, or nothing."""
    if value is None or value is False:
        return ""
    written = " " + name.rstrip("_").replace("_", "-")
    return written if value is True else f'{written}="{escape(str(value))}"'


def json_script(name: str, data: Any) -> Html:
    """Data as an element that a script finds by its name. No text in it ends the element.

    >>> "</" in json_script("d", ["</p>"]).removesuffix("</script>")
    False
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    escaped = Html(text.replace("<", "\\u003c"))
    return tag("script", escaped, type="application/json", id=name)
