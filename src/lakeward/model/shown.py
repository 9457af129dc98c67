"""How objects are displayed: the names that completion offers, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

_T = TypeVar("_T")


class Shown:
    """A class whose `dir()` lists only names for users, so that completion offers no internals."""

    __slots__ = ()
    _internal: ClassVar[frozenset[str]] = frozenset()
    """Names without an underscore that are for other layers of Lakeward only."""

    def __dir__(self) -> list[str]:
        names = super().__dir__()
        return [n for n in names if not n.startswith("_") and n not in self._internal]


class ShownList(list[_T]):
    """A list of records that a notebook shows as a table of some of their fields."""

    def __init__(self, records: Iterable[_T], title: str, fields: Sequence[str]) -> None:
        super().__init__(records)
        self._title = title
        self._fields = fields

    def _repr_html_(self) -> str:
        rows = ([getattr(record, name) for name in self._fields] for record in self)
        return html_table(self._title, self._fields, rows)


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a titled HTML table; every text in it is escaped."""
    from html import escape

    head = _row("th", header)
    body = "".join(_row("td", row) for row in rows)
    return (
        f"<div><strong>{escape(title)}</strong>"
        f"<table><thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def _row(tag: str, cells: Sequence[Any]) -> str:
    from html import escape

    texts = ("" if cell is None else str(cell) for cell in cells)
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"
