"""Markup that is safe by its type: whatever is not markup already is escaped when it is put into markup."""

from __future__ import annotations

from html import escape

__all__ = ["Markup", "joined", "tag"]

VOID = ("br", "hr", "meta")


class Markup(str):
    """Text that is markup: it was made by :func:`tag`, or stands in this package."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element. Children that are not :class:`Markup` are escaped, and so is every attribute.

    An underscore in the name of an attribute stands for a hyphen; one at its end is dropped (``class_``). An attribute
    that is None is left out.

    >>> tag("td", "<script>", class_="key")
    '<td class="key">&lt;script&gt;</td>'
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{said}>" if name in VOID else f"<{name}{said}>{joined(*children)}</{name}>")


def joined(*children: object) -> Markup:
    """Return children one after the other, those that are not markup escaped.

    >>> joined(tag("b", "a"), " & ", 3)
    '<b>a</b> &amp; 3'
    """
    return Markup("".join(child if isinstance(child, Markup) else escape(str(child)) for child in children))
